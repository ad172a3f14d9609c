//! Ranks of a training job collect at the same steps: the others wait for a rank that collects, so the job pays for every
//! pause that the ranks do not share.
//!
//! What is planned for a step depends on the number of the step and on the setting alone, which are the same on all ranks.
//! No clock and no memory decides, and ranks send each other nothing.

use crate::observation::Moment;

/// A middle collection at every so many shared steps. The others are young ones.
const MIDDLE: u64 = 5;

/// Cycles that memory asks for, and slices of what snapshots found, begin at every so many shared steps: what ranks measure
/// differs a little, and a wide grid makes the same step of it. At the first of these steps start-up is over: what a rank has
/// begun before it knew of the others has come to its end by then.
const WIDE: u64 = 10;

/// At most one end of an epoch or evaluation within so many shared steps is used for a collection of everything.
const BOUNDARY: u64 = 100;

/// Everything is collected at every so many shared steps in any case.
const EVERYTHING: u64 = 1_000;

/// Where a process is in a training job with several ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankStep {
    /// How many ranks there are.
    pub ranks: u32,
    /// Steps that have ended since the ranks know of each other.
    pub step: u64,
}

/// Whether the plan has to be asked at the end of a step: ranks share every `every`-th one. At the first, CPython's own
/// trigger is raised.
#[must_use]
pub fn is_shared_step(every: u32, step: u64) -> bool {
    every > 0 && (step == 1 || step.is_multiple_of(u64::from(every)))
}

/// Whether what may wait for long is done at the end of this step.
#[must_use]
pub fn is_wide_step(every: u32, step: u64) -> bool {
    every > 0 && step > 0 && step.is_multiple_of(u64::from(every) * WIDE)
}

/// The next step at whose end ranks collect.
#[must_use]
pub fn next_shared_step(every: u32, step: u64) -> u64 {
    let every = u64::from(every.max(1));
    (step / every + 1) * every
}

/// What the plan has for the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlannedStop {
    Young,
    Middle,
    /// Everything, for this reason.
    Everything(&'static str),
}

/// The plan of one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankPlan {
    every: u32,
    step: u64,
    /// In which span the last end of an epoch was used.
    boundary: u64,
}

impl RankPlan {
    /// The plan where ranks share every so many steps; none where they share none.
    pub(crate) fn new(every: u32) -> Option<Self> {
        (every > 0).then_some(Self { every, step: 0, boundary: 0 })
    }

    /// What is collected now; nothing but at the ends of steps and epochs that ranks share.
    pub(crate) fn planned(&mut self, moment: Moment, step: u64) -> Option<PlannedStop> {
        let every = u64::from(self.every);
        if step < self.step {
            // Another job of the same process has begun.
            self.boundary = 0;
        }
        self.step = step;
        match moment {
            Moment::Boundary => {
                let span = step / (every * BOUNDARY);
                let is_first = span > self.boundary;
                self.boundary = span;
                is_first.then_some(PlannedStop::Everything("an epoch or an evaluation has ended"))
            }
            Moment::StepEnd if step == 0 || !step.is_multiple_of(every) => None,
            Moment::StepEnd => Some(match step / every {
                WIDE => PlannedStop::Everything("start-up is over"),
                shared if shared.is_multiple_of(EVERYTHING) => PlannedStop::Everything("many steps have ended"),
                shared if shared.is_multiple_of(MIDDLE) => PlannedStop::Middle,
                _ => PlannedStop::Young,
            }),
            _ => None,
        }
    }

    /// Whether this is a step at whose end cycles and slices begin.
    pub(crate) fn is_wide(&self, step: u64) -> bool {
        is_wide_step(self.every, step)
    }

    /// Whether the job starts up: a snapshot that is out was taken before this rank knew of the others.
    pub(crate) fn starts_up(&self, step: u64) -> bool {
        step < u64::from(self.every) * WIDE
    }
}

#[cfg(test)]
mod tests;
