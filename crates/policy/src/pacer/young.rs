//! How many young objects may gather before CPython collects them, and how many survivors before it looks at those.
//!
//! It begins at CPython's own threshold. Fewer collections cost less time, but what they would have freed stays: so the
//! limit grows only while that is known to be little, in time and in bytes, and never again beyond a limit at which
//! memory was seen to grow by garbage that an earlier collection would have freed.

use std::time::Duration;

use crate::bytes::Bytes;
use crate::observation::{Collected, Generation};
use crate::policies::Thresholds;

/// How far the limit may go beyond CPython's own.
const MOST: f64 = 20_000.0;

/// The steps in which it grows, and the time in which it may grow by CPython's own limit once.
const STEP: f64 = 1.25;
const SHOWN: Duration = Duration::from_secs(1);

/// Growth of memory between two collections that counts as nothing: this share of it, or so many bytes.
const LITTLE_SHARE: f64 = 0.005;
const LITTLE: f64 = 1_000_000.0;

/// Growth beyond that which counts as nothing if the collections after it see none, because memory grows by one or two
/// huge pages at a time: this share of it, and at most so many bytes.
const GRAIN_SHARE: f64 = 0.025;
const GRAIN: f64 = 5_000_000.0;

/// How many pause budgets a middle collection may take.
const MIDDLE_BUDGETS: f64 = 4.0;

/// What a collection is taken to cost for each object before one has been measured, in nanoseconds.
const FIRST_COST: f64 = 100.0;

/// Survivors until a middle collection is due, at the least.
const FEWEST_SURVIVORS: f64 = 5_000.0;

/// The limit of young objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Young {
    /// CPython's own thresholds for young and middle collections.
    own: f64,
    middle: u32,
    budget: Duration,
    limit: f64,
    /// No limit beyond this one: memory has grown there.
    highest: f64,
    /// Resident memory after the last collection.
    resident: Option<Bytes>,
    /// Survivors of young collections since the last middle one.
    survivors: f64,
    /// What a collection costs for each object that it looks at, in nanoseconds.
    cost: f64,
    /// By how much memory grows for each young object, in bytes.
    weight: f64,
    /// Growth beyond what counts as nothing, less what later collections might have used of that and did not.
    excess: f64,
    /// Objects that collections of few have looked at and freed since memory was last judged: they are judged together.
    few: (f64, f64),
}

impl Young {
    pub(super) fn new(own: Thresholds, budget: Duration) -> Self {
        let [young, middle, _] = own;
        let own = f64::from(young.max(1));
        Self {
            own,
            middle,
            budget,
            limit: own,
            highest: f64::MAX,
            resident: None,
            survivors: 0.0,
            cost: FIRST_COST,
            weight: 0.0,
            excess: 0.0,
            few: (0.0, 0.0),
        }
    }

    /// Resident memory before anything has gathered.
    pub(super) fn begin(&mut self, resident: Bytes) {
        self.resident.get_or_insert(resident);
    }

    /// CPython's own threshold.
    pub(super) fn own(&self) -> f64 {
        self.own
    }

    /// Young objects that may gather.
    pub(super) fn limit(&self) -> f64 {
        self.limit
    }

    /// By how much memory grows for each of them, in bytes.
    pub(super) fn weight(&self) -> f64 {
        self.weight
    }

    /// Survivors that wait for a middle collection.
    pub(super) fn survivors(&self) -> f64 {
        self.survivors
    }

    /// How many survivors may gather.
    pub(super) fn survivors_limit(&self) -> f64 {
        (MIDDLE_BUDGETS * self.budget.as_nanos() as f64 / self.cost - self.limit).max(FEWEST_SURVIVORS)
    }

    /// The threshold for middle collections, after so many young ones since the last: CPython's own, and where enough
    /// have survived the next young collection becomes a middle one.
    pub(super) fn middle_threshold(&self, young_since: u32) -> u32 {
        if self.survivors >= self.survivors_limit() {
            young_since.saturating_sub(1).min(self.middle)
        } else {
            self.middle
        }
    }

    /// A collection has ended; `before` is resident memory when it began.
    pub(super) fn collected(&mut self, collected: &Collected, before: Bytes) {
        let gathered = f64::from(collected.gathered);
        let freed = collected.freed as f64;
        let mut judged = true;
        match collected.generation {
            Generation::Young => {
                self.learn_cost(gathered, collected.pause);
                self.survivors += (gathered - freed).max(0.0);
                judged = self.adapt(collected.at, gathered, freed, before);
            }
            Generation::Middle => {
                self.learn_cost(gathered + self.survivors, collected.pause);
                self.survivors = 0.0;
            }
            Generation::Full => self.survivors = 0.0,
        }
        if judged {
            self.resident = Some(collected.rss);
            self.few = (0.0, 0.0);
        } else {
            self.resident = Some(self.resident.map_or(collected.rss, |resident| resident.min(collected.rss)));
        }
    }

    /// A snapshot has made everything old.
    pub(super) fn all_made_old(&mut self) {
        self.survivors = 0.0;
    }

    fn learn_cost(&mut self, looked_at: f64, pause: Duration) {
        // Tiny collections say nothing about the cost of an object.
        if looked_at >= 500.0 {
            let cost = (pause.as_nanos() as f64 / looked_at).clamp(10.0, 5_000.0);
            self.cost = 0.7 * self.cost + 0.3 * cost;
        }
    }

    /// False where too few objects have been looked at to judge memory by them.
    fn adapt(&mut self, now: Duration, gathered: f64, freed: f64, before: Bytes) -> bool {
        self.few = (self.few.0 + gathered, self.few.1 + freed);
        let (gathered, freed) = self.few;
        if gathered < 0.5 * self.own {
            return false;
        }
        if let Some(after) = self.resident {
            self.weight = (before.saturating_sub(after).as_f64() / gathered).max(0.7 * self.weight);
            // Of what has come since the last collection, the part that an earlier one would have freed.
            let grown = before.saturating_sub(after).as_f64() * (freed / gathered).min(1.0);
            let little = (after.as_f64() * LITTLE_SHARE).max(LITTLE);
            self.excess = (self.excess + grown - little).max(0.0);
            if self.excess > (after.as_f64() * GRAIN_SHARE).min(GRAIN) {
                self.excess = 0.0;
                // Beyond CPython's own limit only as many as weigh little together.
                self.highest = self.highest.min(self.own + little * freed / grown);
            }
        }
        let affordable = self.budget.as_nanos() as f64 / self.cost;
        // A program shows what its objects weigh in time, not in its first collections.
        let shown = self.own * (1.0 + now.as_secs_f64() / SHOWN.as_secs_f64());
        let most = affordable.min(MOST).min(shown).min(self.highest);
        self.limit = (self.limit * STEP).min(most.max(self.own));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: Bytes = Bytes::mebibytes(1);

    /// A program whose young garbage weighs so much each, for so many collections; memory once taken is kept.
    fn play(young: &mut Young, weight: f64, yield_: f64, rounds: usize, resident: &mut f64) -> f64 {
        let base = *resident;
        for _ in 0..rounds {
            let gathered = young.limit();
            *resident = resident.max(base.min(40e6) + gathered * yield_ * weight);
            let before = Bytes::new(*resident as u64);
            young.collected(
                &Collected {
                    at: Duration::from_secs(100),
                    generation: Generation::Young,
                    pause: Duration::from_nanos((gathered * 40.0) as u64),
                    gathered: gathered as u32,
                    freed: (gathered * yield_) as u64,
                    rss: before,
                    objects: None,
                },
                before,
            );
        }
        *resident
    }

    #[test]
    fn light_objects_may_gather_until_a_collection_takes_the_budget() {
        let mut young = Young::new([700, 10, 10], Duration::from_millis(1));
        play(&mut young, 100.0, 1.0, 60, &mut 100e6);
        assert!(young.limit() > 15_000.0, "{}", young.limit());
    }

    #[test]
    fn heavy_garbage_keeps_the_limit_where_cpython_has_it() {
        let mut young = Young::new([700, 10, 10], Duration::from_millis(1));
        let mut resident = 20e6;
        young.begin(Bytes::new(resident as u64));
        let peak = play(&mut young, 100_000.0, 1.0, 500, &mut resident);
        let own = 20e6 + 700.0 * 100_000.0;
        assert!(peak <= 1.02 * own, "{peak} of {own}, limit {}", young.limit());
    }

    #[test]
    fn heavy_garbage_is_noticed_in_collections_of_few_objects_too() {
        let mut young = Young::new([700, 10, 10], Duration::from_millis(1));
        let base = 20e6;
        young.begin(Bytes::new(base as u64));
        let mut resident: f64 = base;
        // As where growth in bytes has CPython collect early: each time somewhat more, until there are as many as at the threshold.
        for gathered in (50..=700).step_by(10).chain([700; 200]) {
            let gathered = f64::from(gathered).max(if gathered == 700 { young.limit() } else { 0.0 });
            resident = resident.max(base + gathered * 100_000.0);
            let collected = Collected {
                at: Duration::from_secs(100),
                generation: Generation::Young,
                pause: Duration::from_nanos((gathered * 40.0) as u64),
                gathered: gathered as u32,
                freed: gathered as u64,
                rss: Bytes::new(resident as u64),
                objects: None,
            };
            young.collected(&collected, collected.rss);
        }
        let own = base + 700.0 * 100_000.0;
        assert!(resident <= 1.06 * own, "{resident} of {own}, limit {}", young.limit());
    }

    #[test]
    fn a_huge_page_now_and_then_says_nothing() {
        let mut young = Young::new([700, 10, 10], Duration::from_millis(1));
        let mut resident = MB * 150;
        for round in 0..600 {
            let gathered = young.limit() as u32;
            let before = if round % 30 == 0 { resident + MB * 2 } else { resident };
            let collected = Collected {
                at: Duration::from_secs(100),
                generation: Generation::Young,
                pause: Duration::from_micros(20),
                gathered,
                freed: u64::from(gathered),
                rss: before,
                objects: None,
            };
            young.collected(&collected, before);
            resident = before;
        }
        assert!(young.limit() > 10_000.0, "{}", young.limit());
    }

    #[test]
    fn growth_by_what_stays_alive_says_nothing() {
        let mut young = Young::new([700, 10, 10], Duration::from_millis(1));
        let mut resident = MB * 20;
        for _ in 0..60 {
            resident += MB * 2;
            let gathered = young.limit() as u32;
            let collected = Collected {
                at: Duration::from_secs(100),
                generation: Generation::Young,
                pause: Duration::from_micros(20),
                gathered,
                freed: 0,
                rss: resident,
                objects: None,
            };
            young.collected(&collected, resident + MB * 2);
        }
        assert!(young.limit() > 10_000.0, "{}", young.limit());
    }

    #[test]
    fn survivors_are_looked_at_before_that_takes_long() {
        let mut young = Young::new([2_000, 10, 10], Duration::from_millis(1));
        let mut gathered = 0.0;
        while young.middle_threshold(5) > 4 {
            gathered += 2_000.0;
            let collected = Collected {
                at: Duration::ZERO,
                generation: Generation::Young,
                pause: Duration::from_micros(200),
                gathered: 2_000,
                freed: 0,
                rss: MB,
                objects: None,
            };
            young.collected(&collected, MB);
        }
        assert!(gathered <= 42_000.0, "{gathered}");
    }
}
