//! What the uplink does for memory: it reads where it is when that is due, and gives free memory back when that is ordered.

use std::time::Duration;

use neurogc_wire::breakdown::MallocKind;

use crate::book::status::ReportSources;
use crate::sys::locks::lock;
use crate::sys::native::monotonic_ns;
use crate::threads::ThreadControl;

/// Reads where the memory is, if that is due, and carries out an order to give free memory back. Where figures go nowhere and
/// no memory may be given back, it is read for a client that has `asked`, and now and then for the verdict on memory.
pub(super) fn attend(
    sources: ReportSources<'_>,
    threads: &ThreadControl,
    now: u64,
    limit: Option<u64>,
    is_heard: bool,
    asked: bool,
) {
    let ReportSources { host, sensors, acting, books } = sources;
    let may_trim = host.settings.trim && acting.policy.in_force().acts() && lock(&acting.trimming).is_possible();
    let (is_due, is_due_when_asked) = {
        let reader = lock(&sensors.breakdown);
        let is_used = is_heard || may_trim;
        (if is_used { reader.is_due(now) } else { reader.is_long_due(now) }, reader.is_due_when_asked(now))
    };
    let since_install = |now: u64| Duration::from_nanos(now.saturating_sub(host.installed));
    if (is_due || asked && is_due_when_asked)
        && let Some(report) = sensors.read_memory(|| threads.stopping())
    {
        if report.breakdown.malloc == MallocKind::Unknown {
            let reason = "malloc is not that of glibc: what it has in use and what it keeps free is not known, and is in \
                          memory.breakdown.other";
            books.ledger().trouble(reason.to_owned());
        }
        // A client that asks often must not make free memory look lasting.
        if is_due {
            lock(&sensors.breakdown).put_off(now);
            lock(&acting.trimming).read(&report, since_install(now), limit);
        }
    }
    lock(&acting.trimming).attend(|| threads.stopping());
    if may_trim {
        trim(sources, threads, since_install(now));
    }
}

fn trim(sources: ReportSources<'_>, threads: &ThreadControl, now: Duration) {
    let ReportSources { sensors, acting, books, .. } = sources;
    let mut trimming = lock(&acting.trimming);
    let Some(order) = trimming.decide(now, sensors.hooks.in_flight() > 0) else { return };
    let began = monotonic_ns();
    let outcome = trimming.carry_out(|| threads.stopping());
    let gives_up = !trimming.is_possible();
    drop(trimming);
    match outcome {
        Ok(_) => books.ledger().order(began, acting.actor.numbered(order)),
        Err(reason) if gives_up => {
            books.ledger().trouble(format!("free memory of malloc is not given back: {reason}"));
        }
        Err(_) => {}
    }
}
