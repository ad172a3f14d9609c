//! Ranks of a training job that collect together: whether this process is one, and what of its stops falls on steps that
//! they share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use neurogc_policy::Moment;

use super::Actor;
use crate::act::vm::Vm;
use crate::sense::hooks::{Hooks, Ordered};
use crate::snapshot::SnapshotProgress;
use crate::sys::locks::try_lock;

/// How often, and for how long each time, a thread at a step that ranks share waits for the director.
const DIRECTOR_LOOKS: u32 = 20;
const DIRECTOR_WAIT: Duration = Duration::from_micros(200);

/// How this process stands to the other ranks of its job.
#[derive(Debug, Default)]
pub(super) struct RankAlignment {
    /// The policy in force leaves a rank to the plan that ranks share.
    may: AtomicBool,
    /// This process is such a rank.
    is: AtomicBool,
    /// A thread is at a step that ranks share.
    at_shared_step: AtomicBool,
}

impl RankAlignment {
    /// Another policy comes into force.
    pub(super) fn direct(&self, may: bool) {
        self.may.store(may, Ordering::Relaxed);
        self.is.store(false, Ordering::Relaxed);
    }

    /// The director has told whether this process is a rank that collects with others.
    pub(super) fn is_on(&self, is: bool) {
        self.is.store(is, Ordering::Relaxed);
    }

    /// Stops until the answer is dropped fall on a step that ranks share, if this moment is one.
    pub(super) fn at(&self, moment: Moment) -> Option<AtSharedStep<'_>> {
        is_shared(moment).then(|| {
            self.at_shared_step.store(true, Ordering::Relaxed);
            AtSharedStep(self)
        })
    }
}

/// A thread is at a step that ranks share while this lives.
#[derive(Debug)]
pub(super) struct AtSharedStep<'a>(&'a RankAlignment);

impl Drop for AtSharedStep<'_> {
    fn drop(&mut self) {
        self.0.at_shared_step.store(false, Ordering::Relaxed);
    }
}

fn is_shared(moment: Moment) -> bool {
    matches!(moment, Moment::StepEnd | Moment::Boundary)
}

impl Actor {
    /// Whether the policy in force leaves a rank of a training job to the plan that ranks share.
    pub(crate) fn may_align(&self) -> bool {
        self.alignment.may.load(Ordering::Relaxed)
    }

    /// Whether this process collects together with the other ranks of its training job.
    pub(crate) fn is_aligned(&self) -> bool {
        self.alignment.is.load(Ordering::Relaxed) && !self.has_stood_down()
    }

    /// The program was stopped by a collection, a clone or a slice.
    pub(super) fn count_shared(&self, hooks: &Hooks, by: Ordered) {
        if self.is_aligned() {
            let shared = by != Ordered::ByOthers && self.alignment.at_shared_step.load(Ordering::Relaxed);
            hooks.training.stopped(shared);
        }
    }

    /// Waits where a thread of the agent has the director or the snapshot: what is planned for this step cannot be done later.
    pub(super) fn wait_for_director(&self, vm: &impl Vm, moment: Moment) {
        let mut looks = if is_shared(moment) { DIRECTOR_LOOKS } else { 0 };
        let is_busy = || try_lock(&self.director).is_none() || (self.snapshots && vm.look() == SnapshotProgress::Busy);
        while looks > 0 && is_busy() {
            vm.let_others_run(DIRECTOR_WAIT);
            looks -= 1;
        }
    }
}
