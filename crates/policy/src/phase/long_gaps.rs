//! Long gaps that come after so many others: when the next one is, and whether what was said of the last ones was right.

use std::time::Duration;

use super::StepPattern;

/// A gap is long that lasts so many times as long as the gaps of its period do.
const LONG: f64 = 1.5;

/// A foretold gap may be shorter or longer by this part. So many in a row that were right are believed in, and so many that were
/// wrong are not.
const RIGHT: f64 = 0.3;
const BELIEVED: u32 = 2;

/// After the foretold gap the next ones are expected at the same distance, so many times: those that are told look rarely.
const AHEAD: u64 = 4;

/// A long gap that is foretold. Gaps are counted by those who see them end and begin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForetoldGap {
    /// Its number, and after how many gaps the next such one comes.
    pub number: u64,
    /// See `number`.
    pub period: u64,
    /// How long it will be.
    pub length: Duration,
    /// How long it is from one such gap to the next.
    pub every: Duration,
}

impl ForetoldGap {
    /// Where a program is in its rhythm that is in this gap, or works towards the next one. Nothing where the forecast is too old.
    #[must_use]
    pub fn seen_from(&self, gap: u64) -> Option<GapRhythm> {
        let behind = gap.saturating_sub(self.number);
        if self.period == 0 || behind > AHEAD * self.period || self.number.saturating_sub(gap) > AHEAD * self.period {
            return None;
        }
        let next = self.number + behind.div_ceil(self.period) * self.period;
        Some(GapRhythm { gaps: next - gap, period: self.period, length: self.length, every: self.every })
    }

    /// All of it in one number, so that it can be handed over in one step; 0 stands for none.
    #[must_use]
    pub fn packed(&self) -> u64 {
        let units = |duration: Duration, unit: u128, most: u64| {
            u64::try_from((duration.as_nanos() + unit / 2) / unit).map_or(most, |units| units.min(most))
        };
        let period = self.period.min(PERIODS);
        let length = units(self.length, LENGTH_NS, LENGTHS);
        ((self.number & NUMBERS) << 40) | (period << 33) | (length << 16) | units(self.every, EVERY_NS, EVERYS)
    }

    /// From a number, for a program that has got to this gap; nothing for 0.
    #[must_use]
    pub fn unpacked(packed: u64, gap: u64) -> Option<Self> {
        let period = (packed >> 33) & PERIODS;
        // The number is cut off: the nearest one is meant.
        let ahead = (packed >> 40).wrapping_sub(gap) & NUMBERS;
        let number = if ahead <= NUMBERS / 2 { gap + ahead } else { (gap + ahead).checked_sub(NUMBERS + 1)? };
        (period > 0).then(|| Self {
            number,
            period,
            length: Duration::from_nanos(((packed >> 16) & LENGTHS) * LENGTH_NS as u64),
            every: Duration::from_nanos((packed & EVERYS) * EVERY_NS as u64),
        })
    }
}

/// How a forecast is packed: 24 bits of the number, 7 of the period, 17 of the length in quarters of a millisecond, and 16 of the
/// time between in milliseconds.
const NUMBERS: u64 = (1 << 24) - 1;
const PERIODS: u64 = (1 << 7) - 1;
const LENGTHS: u64 = (1 << 17) - 1;
const EVERYS: u64 = (1 << 16) - 1;
const LENGTH_NS: u128 = 250_000;
const EVERY_NS: u128 = 1_000_000;

/// Where a program is in its rhythm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GapRhythm {
    /// Gaps until the next long one; in it, 0.
    pub gaps: u64,
    /// Gaps from one long one to the next.
    pub period: u64,
    /// How long the next long one will be.
    pub length: Duration,
    /// How long it is from one to the next.
    pub every: Duration,
}

impl GapRhythm {
    /// How long it is until the next long gap, as far as the number of gaps tells.
    #[must_use]
    pub fn until(&self) -> Duration {
        self.every.mul_f64(self.gaps as f64 / self.period.max(1) as f64)
    }
}

/// Finds the long gaps of a program, and checks what it has said of them.
#[derive(Clone, Debug, Default)]
pub struct LongGaps {
    steps: StepPattern,
    /// The long gap that is expected next.
    expected: Option<ForetoldGap>,
    /// How many in a row were as expected, or were not; whether they are believed in.
    right: u32,
    wrong: u32,
    believed: bool,
    /// When the last long gap began.
    last: Option<Duration>,
    every: Duration,
}

impl LongGaps {
    /// A gap is over: its number, when it began and how long it lasted.
    pub fn gap(&mut self, number: u64, began: Duration, lasted: Duration) {
        if let Some(expected) = self.expected.filter(|expected| number >= expected.number) {
            self.check(&expected, number, began, lasted);
            self.expected = None;
        }
        self.steps.gap(lasted);
        if self.expected.is_none() {
            self.expected = self.next(number + 1);
        }
    }

    /// Some gaps were not seen: nothing is known of where in its period the program is.
    pub fn lost(&mut self) {
        *self = Self::default();
    }

    /// The next long gap, where the last ones came as expected.
    #[must_use]
    pub fn foretold(&self) -> Option<ForetoldGap> {
        self.expected.filter(|_| self.believed && self.every > Duration::ZERO)
    }

    fn check(&mut self, expected: &ForetoldGap, number: u64, began: Duration, lasted: Duration) {
        let off = lasted.as_secs_f64() / expected.length.as_secs_f64().max(1e-6) - 1.0;
        if number == expected.number && off.abs() <= RIGHT {
            (self.right, self.wrong) = (self.right + 1, 0);
            self.every = self.last.map_or(Duration::ZERO, |last| began.saturating_sub(last));
            self.last = Some(began);
        } else {
            (self.right, self.wrong) = (0, self.wrong + 1);
            self.last = None;
        }
        self.believed = if self.believed { self.wrong < BELIEVED } else { self.right >= BELIEVED };
    }

    /// The longest gap of the period that begins with this one, where it is much longer than the others.
    fn next(&self, number: u64) -> Option<ForetoldGap> {
        let period = self.steps.period().filter(|period| *period > 1)?;
        let (ahead, length) = self.steps.longest_ahead()?;
        let logarithm = |skipped| self.steps.gap_ahead(skipped).map(|gap| gap.as_secs_f64().max(1e-9).ln());
        let usual = (0..period).filter_map(logarithm).sum::<f64>() / period as f64;
        let long = length.as_secs_f64() >= LONG * usual.exp();
        long.then(|| ForetoldGap { number: number + ahead as u64, period: period as u64, length, every: self.every })
    }
}

#[cfg(test)]
mod tests {
    use super::super::chance::Jitter;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Plays gaps in milliseconds from a number on, and gives how many long ones were foretold in time, were not, and how often a
    /// short one was said to be long.
    fn play(gaps: &mut LongGaps, from: u64, lengths: &[f64], long: f64) -> (u32, u32, u32) {
        let mut now = MS * 1_000 * from as u32;
        let (mut right, mut missed, mut wrong) = (0, 0, 0);
        for (number, length) in (from..).zip(lengths) {
            let said = gaps.foretold().and_then(|it| it.seen_from(number)).is_some_and(|it| it.gaps == 0);
            match (said, *length > 0.7 * long) {
                (true, true) => right += 1,
                (false, true) => missed += 1,
                (true, false) => wrong += 1,
                (false, false) => {}
            }
            gaps.gap(number, now, Duration::from_secs_f64(length / 1e3));
            now += Duration::from_secs_f64((length + 2.0) / 1e3);
        }
        (right, missed, wrong)
    }

    fn loops(every: usize, periods: usize, jitter: f64) -> Vec<f64> {
        let mut chance = Jitter(3);
        let length = |index: usize| if index % every == every - 1 { 60.0 } else { 15.0 };
        (0..every * periods).map(|index| length(index) * (1.0 + jitter * (2.0 * chance.share() - 1.0))).collect()
    }

    #[test]
    fn long_gaps_are_foretold_once_two_have_come_as_expected() {
        for (every, jitter) in [(10, 0.0), (10, 0.1), (20, 0.1)] {
            let mut gaps = LongGaps::default();
            play(&mut gaps, 1, &loops(every, 50, jitter), 60.0);
            let (right, missed, wrong) = play(&mut gaps, 1 + 50 * every as u64, &loops(every, 100, jitter), 60.0);
            assert!(right >= 97 && missed <= 3 && wrong <= 1, "{every} {jitter}: {right} {missed} {wrong}");
        }
    }

    #[test]
    fn a_rhythm_that_ends_is_dropped_after_a_few_misses() {
        let mut gaps = LongGaps::default();
        play(&mut gaps, 1, &loops(10, 50, 0.05), 60.0);
        assert!(gaps.foretold().is_some());
        let (.., wrong) = play(&mut gaps, 501, &[15.0; 200], 60.0);
        assert!(wrong <= 3 && gaps.foretold().is_none(), "{wrong}");
    }

    #[test]
    fn what_is_foretold_says_how_far_it_is_and_how_often_it_comes() {
        let mut gaps = LongGaps::default();
        play(&mut gaps, 1, &loops(10, 50, 0.0), 60.0);
        let Some(next) = gaps.foretold() else { panic!("nothing is foretold") };
        assert_eq!((next.number, next.period), (510, 10));
        assert!(next.every.as_millis().abs_diff(9 * 17 + 62) <= 1 && next.length.as_millis().abs_diff(60) <= 1);
        let at = |gap| next.seen_from(gap).map(|it| it.gaps);
        assert_eq!((at(501), at(509), at(510), at(511), at(520)), (Some(9), Some(1), Some(0), Some(9), Some(0)));
        assert_eq!((at(700), at(10)), (None, None), "it is too old, or too new");
        let half = next.seen_from(505).map(|it| it.until()).unwrap_or_default();
        assert_eq!(half, next.every / 2);
        gaps.lost();
        assert_eq!(gaps.foretold(), None);
    }

    #[test]
    fn a_forecast_is_handed_over_in_one_number() {
        let whole = ForetoldGap { number: 510, period: 10, length: MS * 60, every: MS * 215 };
        for gap in [500, 510, 530] {
            assert_eq!(ForetoldGap::unpacked(whole.packed(), gap), Some(whole));
        }
        let far = ForetoldGap { number: (7 << 24) + 3, ..whole };
        for gap in [(7 << 24) - 5, (7 << 24) + 20] {
            assert_eq!(ForetoldGap::unpacked(far.packed(), gap), Some(far));
        }
        assert_eq!(ForetoldGap::unpacked(0, 12), None);
        let long = ForetoldGap { length: MS * 100_000, every: MS * 1_000_000, ..whole };
        assert_eq!(ForetoldGap::unpacked(long.packed(), 510).map(|it| it.every), Some(MS * 65_535));
    }
}
