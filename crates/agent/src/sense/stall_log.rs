//! All stalls so far: counts, the latest and the longest.

use std::collections::VecDeque;

use neurogc_wire::buckets::Distribution;
use neurogc_wire::status::{Stall, Stalls};

use super::spans::{ms, seconds};
use super::stalls::EndedStall;
use crate::book::recent::StopFacts;

/// Stalls that are kept in full: the latest ones, and the longest since the start.
const RECENT: usize = 32;
const LONGEST: usize = 10;

/// All stalls so far.
#[derive(Debug, Default)]
pub(crate) struct StallLog {
    report: Stalls,
    lengths: Distribution,
    recent: VecDeque<Stall>,
    /// Longest first.
    longest: Vec<Stall>,
}

impl StallLog {
    pub(crate) fn add(&mut self, verdict: &EndedStall, stop: Option<StopFacts>, installed: u64) {
        let lasted = ms(verdict.duration);
        self.report.count += 1;
        self.report.max_ms = self.report.max_ms.max(lasted);
        *self.report.by_cause.of(verdict.cause) += 1;
        let time = &mut self.report.time_ms_by_cause;
        time.set(verdict.cause, time.of(verdict.cause) + lasted);
        self.lengths.buckets.add(verdict.duration, 1);
        self.lengths.total_ms += lasted;
        let stall = Stall {
            at_s: seconds(verdict.at.saturating_sub(installed)),
            ms: lasted,
            cause: verdict.cause,
            site: verdict.site.clone(),
            stop: stop.map(|stop| stop.kind.name().to_owned()).unwrap_or_default(),
            objects: stop.map_or(0, |stop| stop.objects),
        };
        let place = self.longest.partition_point(|longer| longer.ms >= lasted);
        if place < LONGEST {
            self.longest.truncate(LONGEST - 1);
            self.longest.insert(place, stall.clone());
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(stall);
    }

    /// How long they lasted.
    pub(crate) fn distribution(&self) -> Distribution {
        self.lengths.clone()
    }

    pub(crate) fn report(&self) -> Stalls {
        let recent = self.recent.iter().cloned().collect();
        Stalls { recent, longest: self.longest.clone(), ..self.report.clone() }
    }
}

#[cfg(test)]
mod tests {
    use neurogc_wire::status::Cause;

    use super::*;

    #[test]
    fn the_longest_stall_is_kept_however_many_come_after_it() {
        let mut stalls = StallLog::default();
        let stall =
            |at, ms: u64, cause| EndedStall { at, duration: ms * 1_000_000, cause, site: "app.py:9".to_owned() };
        stalls.add(&stall(1, 6466, Cause::Gc), None, 0);
        (0..500).for_each(|number| stalls.add(&stall(number, 15 + number % 40, Cause::CpuStarved), None, 0));
        let report = stalls.report();
        assert_eq!((report.longest.len(), report.longest[0].ms, report.longest[0].cause), (10, 6466.0, Cause::Gc));
        assert!(report.longest.is_sorted_by(|one, other| one.ms >= other.ms));
        assert_eq!((report.longest[1].ms, report.recent.len()), (54.0, 32));
        assert_eq!(report.time_ms_by_cause.gc, 6466.0);
        assert!((report.time_ms_by_cause.total() - stalls.distribution().total_ms).abs() < 1e-6);
    }
}
