//! What a process remembers of its snapshots, from one to the next.

use std::sync::atomic::Ordering;

use neurogc_policy::Scope;

use super::child::Needless;
use super::flight::Flight;
use super::harvest::Harvest;
use super::{FIRST_COST_NS, Phase, Reaped, State};
use crate::cpython::arenas;

impl State {
    /// The walk in flight has crashed. If that may be because memory was missing, the next ones have it, and this is true.
    pub(super) fn may_have_missed(&mut self) -> bool {
        if let Phase::Flying(flight) = &self.phase
            && flight.without > 0
        {
            let missed = flight.shared.control().missed.load(Ordering::Relaxed);
            if self.old_blocks.missed(missed as usize) {
                return true;
            }
        }
        self.apart.crashed()
    }

    /// Learns from a flight that has landed what later ones can do without.
    pub(super) fn note_needless(&mut self, flight: &Flight) {
        let untouched = flight.shared.untouched();
        self.apart.landed((flight.looks_for == Some(Needless::LargeMemory)).then_some(&untouched));
        if flight.scope == Scope::New {
            self.old_blocks.landed((flight.looks_for == Some(Needless::OldBlocks)).then_some(untouched));
        }
    }

    /// Learns from a slice what the next one will take.
    pub(super) fn note(&mut self, reaped: &Reaped) {
        self.figures.freed += reaped.freed as u64;
        let count = reaped.moved + reaped.dropped;
        if count == 0 {
            // Nothing was small enough. If that is because a slice was held up once, others must have their chance.
            self.cost_ns = (self.cost_ns * 0.8).max(FIRST_COST_NS.min(self.cost_ns));
            return;
        }
        self.figures.reap.add(reaped.pause_ns);
        let cost = reaped.pause_ns as f64 / count as f64;
        // Up quickly and down slowly: a slice that is too long is worse than one that is too short. But one that was
        // only held up because its thread had no CPU must not count for all. Small ones tell little.
        let cost = cost.min(2.0 * self.cost_ns);
        let weight = if cost > self.cost_ns { 1.0 } else { 0.25 } * (count as f64 / 500.0).min(1.0);
        self.cost_ns += (cost - self.cost_ns) * weight;
    }

    /// Everything that was found has been dealt with.
    pub(super) fn finish(&mut self, harvest: Harvest) {
        self.retired = Some(harvest.shared);
        self.phase = Phase::Idle;
        arenas::release();
    }
}
