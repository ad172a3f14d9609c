//! What the uplink does for memory: it reads where it is when that is due, and gives free memory back when that is ordered.

use std::time::Duration;

use neurogc_wire::breakdown::MallocKind;

use crate::lifecycle::agent::Agent;
use crate::sys::locks::lock;
use crate::sys::native::monotonic_ns;

/// Reads where the memory is, if that is due, and carries out an order to give free memory back. Where figures go nowhere and
/// no memory may be given back, it is read for a client that has `asked`, and now and then for the verdict on memory.
pub(super) fn attend(agent: &Agent, now: u64, limit: Option<u64>, is_heard: bool, asked: bool) {
    let may_trim = agent.host.settings.trim && agent.policy().acts() && lock(&agent.trimming).is_possible();
    let (is_due, is_due_when_asked) = {
        let reader = lock(&agent.breakdown);
        let is_used = is_heard || may_trim;
        (if is_used { reader.is_due(now) } else { reader.is_long_due(now) }, reader.is_due_when_asked(now))
    };
    let since_install = |now: u64| Duration::from_nanos(now.saturating_sub(agent.host.installed));
    if (is_due || asked && is_due_when_asked)
        && let Some(report) = agent.read_memory(|| agent.control.stopping())
    {
        if report.breakdown.malloc == MallocKind::Unknown {
            let reason = "malloc is not that of glibc: what it has in use and what it keeps free is not known, and is in \
                          memory.breakdown.other";
            agent.ledger().trouble(reason.to_owned());
        }
        // A client that asks often must not make free memory look lasting.
        if is_due {
            lock(&agent.breakdown).put_off(now);
            lock(&agent.trimming).read(&report, since_install(now), limit);
        }
    }
    lock(&agent.trimming).attend(|| agent.control.stopping());
    if may_trim {
        trim(agent, since_install(now));
    }
}

fn trim(agent: &Agent, now: Duration) {
    let mut trimming = lock(&agent.trimming);
    let Some(order) = trimming.decide(now, agent.hooks.in_flight() > 0) else { return };
    let began = monotonic_ns();
    let outcome = trimming.carry_out(|| agent.control.stopping());
    let gives_up = !trimming.is_possible();
    drop(trimming);
    match outcome {
        Ok(_) => agent.ledger().order(began, agent.actor.numbered(order)),
        Err(reason) if gives_up => {
            agent.ledger().trouble(format!("free memory of malloc is not given back: {reason}"));
        }
        Err(_) => {}
    }
}
