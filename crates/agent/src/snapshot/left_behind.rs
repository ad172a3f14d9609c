//! The walk that another program has left behind, which this one took the place of by `exec`. It ends soon, but it is this
//! process's child now, and no other code in this process would wait for it.

use super::system::{self, Clones};
use super::{SnapshotRunner, child};

/// Looks for it until there is nothing to be found.
#[derive(Debug)]
pub(crate) struct LeftBehind {
    until: u64,
}

/// A walk that hangs is ended by the kernel within this time.
const PATIENCE_NS: u64 = 60_000_000_000;

impl LeftBehind {
    pub(crate) fn new() -> Self {
        Self { until: system::now() + PATIENCE_NS }
    }

    /// Looks once. In a program that has no such children, as good as all, this is the only look.
    pub(crate) fn look(&mut self, snapshots: &SnapshotRunner) {
        if self.until == 0 {
            return;
        }
        match system::clones() {
            Clones::Ended(pid) if snapshots.is_walked_by(pid) => {}
            Clones::Ended(pid) if is_walk(pid) => {
                system::wait(pid);
            }
            Clones::Running if system::now() < self.until => {}
            // A child that the program has not waited for may hide it for ever.
            Clones::Ended(_) | Clones::Running | Clones::None => self.until = 0,
        }
    }
}

fn is_walk(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_ascii_end() == child::NAME.to_bytes())
}
