//! Snapshots of the fake interpreter: flights that land after a while, or come to nothing, as the test has planned.

use std::sync::Mutex;
use std::time::Duration;

use super::{Fake, FakeCollector, FakeObjects};
use crate::snapshot::{HeapReport, Latest, Launched, Reaped, SnapshotFailure, SnapshotProgress, Sortie};
use crate::sys::locks::lock;

/// What freeing an object takes, in nanoseconds.
const COST: u64 = 600;

/// How long the program stands still for a clone.
const CLONE_NS: u64 = 2_000_000;

/// How the next flight goes.
#[derive(Clone, Debug)]
pub(in crate::act) struct FakeFlight {
    /// Why it is refused.
    pub(in crate::act) refused: Option<SnapshotFailure>,
    pub(in crate::act) flight_ns: u64,
    /// Why it comes to nothing.
    pub(in crate::act) fails: Option<SnapshotFailure>,
    /// Of so many candidates, one is something else when it is to be freed.
    pub(in crate::act) changed: u64,
}

impl Default for FakeFlight {
    fn default() -> Self {
        Self { refused: None, flight_ns: 20_000_000, fails: None, changed: u64::MAX }
    }
}

/// The snapshots of one agent.
#[derive(Debug, Default)]
pub(in crate::act) struct FakeSnapshots {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    plan: FakeFlight,
    latest: Latest,
    launches: u64,
    full: u64,
    frozen_changes: u64,
    called_off: bool,
    heap_flights: u64,
    told: Option<(u64, Result<HeapReport, SnapshotFailure>)>,
}

#[derive(Clone, Debug, Default)]
enum Phase {
    #[default]
    Idle,
    Flying {
        began: u64,
        lands: u64,
        full: u64,
        found: u64,
        sortie: Sortie,
    },
    Dumping {
        began: u64,
        lands: u64,
    },
    Landed {
        left: u64,
        full: u64,
    },
    Reaping,
    Failed(SnapshotFailure),
}

impl FakeSnapshots {
    /// How flights go from now on.
    pub(in crate::act) fn plan(&self, plan: FakeFlight) {
        lock(&self.state).plan = plan;
    }

    /// How many were launched.
    pub(in crate::act) fn launches(&self) -> u64 {
        lock(&self.state).launches
    }

    /// A full collection has ended.
    pub(in crate::act) fn full_collection_ended(&self) {
        lock(&self.state).full += 1;
    }

    pub(super) fn launch(&self, collector: &mut FakeCollector, sortie: Sortie) -> Result<Launched, SnapshotFailure> {
        let mut state = lock(&self.state);
        if !matches!(state.phase, Phase::Idle | Phase::Failed(_)) {
            return Err(SnapshotFailure::UnderWay);
        }
        if collector.collecting {
            return Err(SnapshotFailure::Collecting);
        }
        if let Some(failure) = state.plan.refused.clone() {
            state.phase = Phase::Failed(failure.clone());
            return Err(failure);
        }
        collector.now += CLONE_NS;
        let young = collector.young_objects_all_become_old();
        state.phase = Phase::Flying {
            began: collector.now,
            lands: collector.now + state.plan.flight_ns,
            full: state.full,
            found: collector.generations[2].garbage,
            sortie,
        };
        state.frozen_changes = collector.frozen_changes;
        state.launches += 1;
        Ok(Launched { flight: state.launches, scope: sortie.scope, young })
    }

    pub(super) fn launch_heap(&self, collector: &mut FakeCollector) -> Result<u64, SnapshotFailure> {
        let mut state = lock(&self.state);
        if !matches!(state.phase, Phase::Idle | Phase::Failed(_)) {
            return Err(SnapshotFailure::UnderWay);
        }
        if collector.collecting {
            return Err(SnapshotFailure::Collecting);
        }
        if let Some(failure) = state.plan.refused.clone() {
            return Err(failure);
        }
        collector.now += CLONE_NS;
        state.phase = Phase::Dumping { began: collector.now, lands: collector.now + state.plan.flight_ns };
        state.heap_flights += 1;
        Ok(state.heap_flights)
    }

    pub(super) fn heap_told(&self, number: u64) -> Option<Result<HeapReport, SnapshotFailure>> {
        let mut state = lock(&self.state);
        match state.told.take_if(|(told, _)| *told == number) {
            Some((_, outcome)) => Some(outcome),
            None if matches!(state.phase, Phase::Dumping { .. }) && state.heap_flights == number => None,
            None => Some(Err(SnapshotFailure::Vanished)),
        }
    }

    pub(in crate::act) fn look(&self, now: u64) -> SnapshotProgress {
        let mut state = lock(&self.state);
        if let Phase::Dumping { lands, .. } = state.phase
            && now >= lands
        {
            let outcome = state.plan.fails.clone().map_or_else(|| Ok(HeapReport::default()), Err);
            (state.phase, state.told) = (Phase::Idle, Some((state.heap_flights, outcome)));
        }
        if let Phase::Flying { began, lands, full, found, sortie } = state.phase {
            if state.full != full {
                state.phase = Phase::Failed(SnapshotFailure::Collected);
            } else if now >= lands {
                state.phase = match state.plan.fails.clone() {
                    Some(failure) => Phase::Failed(failure),
                    None => {
                        state.latest = Latest {
                            number: state.launches,
                            scope: sortie.scope,
                            clone_ns: CLONE_NS,
                            flight_ns: now - began,
                            tracked: 10 * found + 100_000,
                            candidates: found,
                            older: 9 * found + 100_000,
                            ..Latest::default()
                        };
                        Phase::Landed { left: found, full }
                    }
                };
            }
        }
        match &state.phase {
            Phase::Idle => SnapshotProgress::Idle,
            Phase::Reaping => SnapshotProgress::Busy,
            Phase::Flying { began, .. } => {
                SnapshotProgress::InFlight { flight: state.launches, since_ns: *began, copied: 0 }
            }
            Phase::Dumping { began, .. } => SnapshotProgress::InFlight { flight: 0, since_ns: *began, copied: 0 },
            Phase::Landed { left, .. } => {
                let (flight, left) = (state.launches, *left as usize);
                let (components, largest) = (left / 2, left.min(2));
                SnapshotProgress::Ready { flight, candidates: left, components, largest, piece: None }
            }
            Phase::Failed(failure) => SnapshotProgress::Failed(failure.clone()),
        }
    }

    pub(in crate::act) fn latest(&self) -> Latest {
        lock(&self.state).latest
    }

    pub(super) fn forget_failure(&self) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Failed(_)) {
            state.phase = Phase::Idle;
        }
    }

    pub(super) fn refuse(&self, failure: &SnapshotFailure) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Idle | Phase::Failed(_)) {
            state.phase = Phase::Failed(failure.clone());
        }
    }

    /// Calls it off, for good.
    pub(in crate::act) fn shut_down(&self) {
        let mut state = lock(&self.state);
        match state.phase {
            Phase::Flying { .. } | Phase::Landed { .. } => state.phase = Phase::Failed(SnapshotFailure::Cancelled),
            Phase::Dumping { .. } => {
                let outcome = Err(SnapshotFailure::Cancelled);
                (state.phase, state.told) = (Phase::Idle, Some((state.heap_flights, outcome)));
            }
            Phase::Reaping => state.called_off = true,
            Phase::Idle | Phase::Failed(_) => {}
        }
    }

    pub(super) fn reap(&self, vm: &Fake<'_>, budget: Duration, whole: bool) -> Option<Reaped> {
        let began = vm.collector(|collector| collector.now);
        let (taken, left, full) = self.begin_slice(vm, budget)?;
        let changed = taken / lock(&self.state).plan.changed;
        let moved = taken - changed;
        let (freed, left) = if moved > 0 || whole { (self.judge(vm, moved), left - taken) } else { (0, left) };
        let pause_ns = vm.collector(|collector| {
            collector.now += COST * taken;
            collector.now - began
        });
        let mut state = lock(&self.state);
        state.frozen_changes = vm.collector(|collector| collector.frozen_changes);
        let called_off = std::mem::take(&mut state.called_off);
        state.phase = match left {
            0 => Phase::Idle,
            _ if called_off => Phase::Failed(SnapshotFailure::Cancelled),
            _ => Phase::Landed { left, full },
        };
        let dropped = changed as usize;
        Some(Reaped { freed: freed as usize, moved: moved as usize, dropped, left: left as usize, pause_ns })
    }

    /// Takes candidates out: how many, how many are left, and the full collections at the time.
    fn begin_slice(&self, vm: &Fake<'_>, budget: Duration) -> Option<(u64, u64, u64)> {
        let mut state = lock(&self.state);
        let Phase::Landed { left, full } = state.phase else { return None };
        let (collecting, frozen) = vm.collector(|collector| (collector.collecting, collector.frozen_changes));
        if collecting {
            return None;
        }
        if state.full != full || frozen != state.frozen_changes {
            let failure = if state.full == full { SnapshotFailure::Frozen } else { SnapshotFailure::Collected };
            state.phase = Phase::Failed(failure);
            return None;
        }
        state.phase = Phase::Reaping;
        Some(((budget.as_nanos() as u64 / COST).max(1).min(left), left, full))
    }

    /// Has CPython collect candidates by themselves; young objects are set aside meanwhile.
    fn judge(&self, vm: &Fake<'_>, moved: u64) -> u64 {
        if moved == 0 {
            return 0;
        }
        vm.collector(|collector| {
            // Some may have been freed since by other means.
            let garbage = moved.min(collector.generations[2].garbage);
            collector.generations[2].garbage -= garbage;
            let young = std::mem::replace(&mut collector.generations[0], FakeObjects { live: 0, garbage });
            let counts = [collector.counts[0], collector.counts[1]];
            assert!(collector.aside.is_none(), "objects are set aside already");
            collector.aside = Some((vm.thread, young, counts));
        });
        let freed = vm.gc_collect(0);
        vm.collector(|collector| {
            let aside = collector.aside.take();
            assert!(aside.is_some(), "the objects that were set aside are lost");
            if let Some((_, young, [first, second])) = aside {
                collector.generations[0].add(young);
                collector.counts[0] += first;
                collector.counts[1] = second;
            }
        });
        freed
    }
}
