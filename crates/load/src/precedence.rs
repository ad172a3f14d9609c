//! The generator goes first: where the kernel lets it, its thread is served before the service's on its core.

use std::num::NonZeroU64;

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Where real time is refused: high, and not the highest.
const NICE: i32 = -15;

/// Gives the calling thread precedence over all others on the last core that it may use. A send that is late because
/// the service's own threads had the core would be charged to the service. Tells whether the kernel agreed to all of it.
///
/// Call it in a thread of its own: programs that this thread starts would inherit it.
pub fn go_first() -> bool {
    let prompt = set_current_timer_slack(NonZeroU64::new(1)).is_ok();
    // On Linux this is the calling thread and not the whole process.
    let preferred = in_real_time() || setpriority_process(None, NICE).is_ok();
    prompt && preferred && on_last_core().is_ok()
}

/// A thread that is only nicer has to wait until the running one has used its share up, which takes milliseconds.
fn in_real_time() -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    ThreadPriorityValue::try_from(1).is_ok_and(|lowest| {
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(lowest), policy).is_ok()
    })
}

fn on_last_core() -> rustix::io::Result<()> {
    let usable = sched_getaffinity(None)?;
    if usable.count() < 2 {
        return Ok(());
    }
    let mut last = CpuSet::new();
    if let Some(core) = (0..CpuSet::MAX_CPU).rev().find(|core| usable.is_set(*core)) {
        last.set(core);
        sched_setaffinity(None, &last)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_asks_is_moved() {
        let before = sched_getaffinity(None).map(|cores| cores.count());
        let inside = std::thread::spawn(|| {
            go_first();
            sched_getaffinity(None).map(|cores| cores.count())
        });
        assert_eq!(inside.join().ok(), Some(Ok(1)));
        assert_eq!(sched_getaffinity(None).map(|cores| cores.count()), before);
    }
}
