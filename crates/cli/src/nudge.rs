//! Having the main thread of a process come by, where it only waits and its agent has been asked for something.

/// Visits to one process, on x86-64. Elsewhere none: the program comes by itself when it runs Python code.
#[derive(Debug)]
pub(crate) struct Nudge {
    #[cfg(target_arch = "x86_64")]
    visits: visits::Visits,
}

impl Nudge {
    /// For a process that has just been asked for something.
    pub(crate) fn new(pid: u32) -> Self {
        #[cfg(not(target_arch = "x86_64"))]
        let _ = pid;
        Self {
            #[cfg(target_arch = "x86_64")]
            visits: visits::Visits::new(pid),
        }
    }

    /// Has the main thread do what is due, if it is time.
    pub(crate) fn try_now(&mut self) {
        #[cfg(target_arch = "x86_64")]
        self.visits.try_now();
    }
}

#[cfg(target_arch = "x86_64")]
mod visits {
    use std::time::{Duration, Instant};

    use crate::attach::Attachable;

    /// How long the program may take to come by itself: one that runs Python code does within milliseconds.
    const BEFORE: Duration = Duration::from_millis(250);
    /// The pause between two visits, and after one that did not succeed.
    const BETWEEN: Duration = Duration::from_millis(20);
    const AFTER_FAILURE: Duration = Duration::from_secs(2);
    /// How long the main thread may take to run the text.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// Does what is due for a few milliseconds, then lets the thread wait on: it may be woken for work of its own. It is like
    /// a signal handler of Python's, which also runs in the main thread in the middle of a wait.
    const CODE: &str = "\
import sys
from time import monotonic, sleep
answer = ''
package = sys.modules.get('neurogc')
if package is not None:
    agent = package._native.agent
    until = monotonic() + 0.01
    agent.passing()
    while agent.is_due() and monotonic() < until:
        sleep(0.0005)
        agent.passing()
";

    /// Visits to one process.
    #[derive(Debug)]
    pub(crate) struct Visits {
        pid: u32,
        /// Nothing before the first visit; nothing inside where the process cannot be visited.
        target: Option<Option<Attachable>>,
        next: Instant,
    }

    impl Visits {
        /// For a process that has just been asked for something.
        pub(crate) fn new(pid: u32) -> Self {
            Self { pid, target: None, next: Instant::now() + BEFORE }
        }

        /// Has the main thread do what is due, if it is time. Where this user may not do that, the program comes by itself
        /// when it runs Python code.
        pub(crate) fn try_now(&mut self) {
            if Instant::now() < self.next {
                return;
            }
            let target = self.target.get_or_insert_with(|| Attachable::look_at(self.pid).ok());
            let succeeded = target.as_ref().is_some_and(|target| target.execute(CODE, PATIENCE).is_ok());
            self.next = Instant::now() + if succeeded { BETWEEN } else { AFTER_FAILURE };
        }
    }
}
