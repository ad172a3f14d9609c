//! All stalls so far: counts, the latest, the longest, and where they were met.

use std::collections::VecDeque;

use neurogc_wire::buckets::Distribution;
use neurogc_wire::stacks::StallStack;
use neurogc_wire::status::{Stall, Stalls};
use neurogc_wire::stop::StopKind;

use super::spans::{ms, seconds};
use super::stalls::EndedStall;

/// Stalls that are kept in full: the latest ones, and the longest since the start.
const RECENT: usize = 32;
const LONGEST: usize = 10;

/// Stacks that are told apart.
const STACKS: usize = 16;

/// A longer name of a place is cut.
pub(crate) const LONGEST_SITE: usize = 200;

/// What a stop was that held the program up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StopFacts {
    pub(crate) kind: StopKind,
    /// Objects that it dealt with; 0 where it is not known.
    pub(crate) objects: u64,
}

/// All stalls so far.
#[derive(Debug, Default)]
pub(crate) struct StallLog {
    report: Stalls,
    lengths: Distribution,
    recent: VecDeque<Stall>,
    /// Longest first.
    longest: Vec<Stall>,
    stacks: Vec<StallStack>,
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
        self.add_stack(verdict, lasted);
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

    /// Adds a stall to those at the same stack. What a stack that makes room has lasted is in the sums by cause only.
    fn add_stack(&mut self, verdict: &EndedStall, lasted: f64) {
        if verdict.site.is_empty() {
            return;
        }
        let frames = || std::iter::once(&verdict.site).chain(&verdict.callers).map(|frame| cut(frame));
        let same =
            |stack: &StallStack| stack.cause == verdict.cause && stack.frames.iter().map(String::as_str).eq(frames());
        let place = self.stacks.iter().position(same).or_else(|| {
            let new = StallStack {
                cause: verdict.cause,
                frames: frames().map(str::to_owned).collect(),
                ..StallStack::default()
            };
            if self.stacks.len() < STACKS {
                self.stacks.push(new);
                return Some(self.stacks.len() - 1);
            }
            let least =
                self.stacks.iter().enumerate().min_by(|(_, one), (_, other)| one.total_ms.total_cmp(&other.total_ms));
            let place = least.filter(|(_, least)| least.total_ms < lasted).map(|(place, _)| place)?;
            self.stacks[place] = new;
            Some(place)
        });
        if let Some(stack) = place.map(|place| &mut self.stacks[place]) {
            stack.count += 1;
            stack.total_ms += lasted;
            stack.max_ms = stack.max_ms.max(lasted);
        }
    }

    /// How long they lasted.
    pub(crate) fn distribution(&self) -> Distribution {
        self.lengths.clone()
    }

    pub(crate) fn report(&self) -> Stalls {
        let recent = self.recent.iter().cloned().collect();
        let mut stacks = self.stacks.clone();
        stacks.sort_by(|one, other| other.total_ms.total_cmp(&one.total_ms));
        Stalls { recent, longest: self.longest.clone(), stacks, ..self.report.clone() }
    }
}

/// The end of a place's name, which says most.
pub(crate) fn cut(site: &str) -> &str {
    let start = site.len().saturating_sub(LONGEST_SITE);
    let start = (start..site.len()).find(|start| site.is_char_boundary(*start)).unwrap_or(0);
    &site[start..]
}

#[cfg(test)]
mod tests {
    use neurogc_wire::status::Cause;

    use super::*;

    fn stall(at: u64, ms: u64, cause: Cause, site: &str) -> EndedStall {
        let callers = vec!["main.py:3 in main".to_owned()];
        EndedStall { at, duration: ms * 1_000_000, cause, site: site.to_owned(), callers }
    }

    #[test]
    fn stacks_are_added_up_and_those_that_lasted_longest_stay() {
        let mut stalls = StallLog::default();
        for number in 0..100 {
            stalls.add(&stall(number, 10 + number, Cause::Python, &format!("app.py:{number}")), None, 0);
            stalls.add(&stall(number, 50, Cause::Gc, "app.py:9"), None, 0);
            stalls.add(&stall(number, 900, Cause::Unknown, ""), None, 0);
        }
        let stacks = stalls.report().stacks;
        assert_eq!(stacks.len(), 16);
        assert_eq!(
            (stacks[0].cause, stacks[0].count, stacks[0].total_ms, stacks[0].max_ms),
            (Cause::Gc, 100, 5000.0, 50.0)
        );
        assert_eq!(stacks[0].frames, ["app.py:9", "main.py:3 in main"]);
        assert_eq!((&*stacks[1].frames[0], stacks[1].count, stacks[15].total_ms), ("app.py:99", 1, 95.0));
    }

    #[test]
    fn the_longest_stall_is_kept_however_many_come_after_it() {
        let mut stalls = StallLog::default();
        let stall = |at, ms, cause| stall(at, ms, cause, "app.py:9");
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
