//! How much memory must be left for a snapshot, as a share of what the program has.

use std::sync::atomic::{AtomicU32, Ordering};

use neurogc_policy::Scope;

/// Before a snapshot has been measured: of everything, of new objects.
const AT_FIRST: (f64, f64) = (0.25, 0.2);

/// At least, where the program is not held up: for a count or a dump, and where no policy acts.
pub(super) const NOT_HELD_UP: f64 = 0.3;

/// How many times what the last walk took for itself.
const OWN_CAUTION: f64 = 1.3;

/// For the pages that a program copies although the pacer holds it up where there is no room for more.
const FOR_COPIES: f64 = 0.12;

/// What the next snapshots need, in thousandths.
#[derive(Debug)]
pub(super) struct RoomShares {
    all: AtomicU32,
    new: AtomicU32,
}

impl Default for RoomShares {
    fn default() -> Self {
        Self { all: thousandths(AT_FIRST.0).into(), new: thousandths(AT_FIRST.1).into() }
    }
}

impl RoomShares {
    /// For a snapshot that looks at this.
    pub(super) fn for_one_of(&self, scope: Scope) -> f64 {
        f64::from(self.of(scope).load(Ordering::Relaxed)) / 1e3
    }

    /// A walk took so many bytes for itself. What the program has copied meanwhile does not count: it is held up where there is
    /// no room for so much.
    pub(super) fn landed(&self, scope: Scope, own: u64, resident: u64) {
        let share = (own as f64 / resident.max(1) as f64 * OWN_CAUTION + FOR_COPIES).min(1.0);
        self.of(scope).store(thousandths(share), Ordering::Relaxed);
    }

    fn of(&self, scope: Scope) -> &AtomicU32 {
        match scope {
            Scope::All => &self.all,
            Scope::New => &self.new,
        }
    }
}

fn thousandths(share: f64) -> u32 {
    (share * 1e3).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_last_walk_took_and_some_for_copies() {
        let shares = RoomShares::default();
        let check = |own, resident, expected: f64| {
            shares.landed(Scope::All, own, resident);
            assert_eq!(shares.for_one_of(Scope::All), expected);
        };
        check(10, 100, 0.25);
        check(0, 100, 0.12);
        check(500, 100, 1.0);
        check(0, 0, 0.12);
        assert_eq!(shares.for_one_of(Scope::New), AT_FIRST.1, "each has its own");
    }
}
