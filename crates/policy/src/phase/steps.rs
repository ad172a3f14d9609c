//! Gaps that repeat after a number of gaps: nine short ones, then a long one.

use std::time::Duration;

/// The most gaps after which they may repeat.
const MOST: usize = 64;

/// As many gaps are kept as are needed to look back three times.
const KEPT: usize = 4 * MOST;

/// A new gap counts for this part, so that the last fifty or so decide.
const NEW: f32 = 1.0 / 48.0;

/// Fewer gaps than this many times a number do not show that they repeat after it.
const LEAST_SEEN: usize = 3;

/// Gaps repeat if they differ from those a period before by less than this part of how much gaps differ altogether, in squares, so that
/// a few long ones count for more than what all differ by; and of several such periods the shortest is taken that is nearly as
/// good as the best.
const ALIKE: f32 = 0.35;
const NEARLY_AS_GOOD: f32 = 0.1;

/// Gaps that do not repeat and differ by less, in squares of powers of two, are all alike: then the last ones say what the next
/// will be.
const ALL_ALIKE: f32 = 0.1;

/// Shorter gaps are all the same to anything that could be done in them.
const SHORTEST: f32 = 0.05e-3;

/// The gaps of a program, one after the other.
#[derive(Clone, Debug)]
pub struct StepPattern {
    /// The last gaps, as logarithms, and how many there have been.
    lengths: [f32; KEPT],
    seen: usize,
    /// How much a gap differs from the one so many before it: the mean of the squares.
    differences: [f32; MOST],
}

impl Default for StepPattern {
    fn default() -> Self {
        Self { lengths: [0.0; KEPT], seen: 0, differences: [0.0; MOST] }
    }
}

impl StepPattern {
    /// A gap has ended that lasted so long.
    pub fn gap(&mut self, lasted: Duration) {
        let length = lasted.as_secs_f32().max(SHORTEST).log2();
        for (index, difference) in self.differences.iter_mut().enumerate() {
            let lag = index + 1;
            if self.seen < lag {
                break;
            }
            let apart = (length - self.lengths[(self.seen - lag) % KEPT]).powi(2);
            // The first ones are a plain mean.
            let part = NEW.max(1.0 / (self.seen - lag + 1) as f32);
            *difference += part * (apart - *difference);
        }
        self.lengths[self.seen % KEPT] = length;
        self.seen += 1;
    }

    /// After how many gaps they repeat; nothing where they do not.
    #[must_use]
    pub fn period(&self) -> Option<usize> {
        let known = (self.seen / LEAST_SEEN).min(MOST);
        let differences = self.differences.get(..known).filter(|known| !known.is_empty())?;
        let usual = differences.iter().sum::<f32>() / known as f32;
        let least = differences.iter().copied().fold(f32::INFINITY, f32::min);
        if least < ALIKE * usual {
            let enough = least + NEARLY_AS_GOOD * usual;
            return differences.iter().position(|difference| *difference <= enough).map(|index| index + 1);
        }
        (usual < ALL_ALIKE).then_some(1)
    }

    /// How long the next gap will be, or the one that has begun: the middle one of the gaps at its place in the periods
    /// before. Nothing where gaps do not repeat.
    #[must_use]
    pub fn next_gap(&self) -> Option<Duration> {
        self.gap_ahead(0)
    }

    /// The same for the gap that comes after so many more, within one period.
    #[must_use]
    pub fn gap_ahead(&self, skipped: usize) -> Option<Duration> {
        let period = self.period()?;
        let back = |periods: usize| (periods * period).checked_sub(skipped).filter(|&lag| lag > 0 && lag <= self.seen);
        let length = |lag: usize| self.lengths[(self.seen - lag) % KEPT];
        let [one, two, three] = [1, 2, 3].map(|periods| back(periods).map(length));
        let middle = match (one?, two, three) {
            (one, Some(two), Some(three)) => one.max(two).min(one.min(two).max(three)),
            (one, _, _) => one,
        };
        Some(Duration::from_secs_f32(middle.exp2().min(3600.0)))
    }

    /// How many gaps come before the longest of a period, and how long that will be.
    #[must_use]
    pub fn longest_ahead(&self) -> Option<(usize, Duration)> {
        let period = self.period()?;
        let ahead = (0..period).filter_map(|skipped| Some((skipped, self.gap_ahead(skipped)?)));
        ahead.max_by(|(a, first), (b, second)| first.cmp(second).then(b.cmp(a)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::chance::Jitter;
    use super::*;

    /// Waits of a millisecond, and a long one at each so many; each up to so much longer or shorter.
    fn waits(every: usize, jitter: f64, count: usize) -> Vec<(bool, Duration)> {
        waits_of((1e-3, 60e-3), every, jitter, count)
    }

    /// The same with other waits.
    fn waits_of((short, longer): (f64, f64), every: usize, jitter: f64, count: usize) -> Vec<(bool, Duration)> {
        let mut chance = Jitter(7);
        let wait = |index: usize| {
            let long = index % every == every - 1;
            let factor = 1.0 + jitter * (2.0 * chance.share() - 1.0);
            (long, Duration::from_secs_f64(if long { longer } else { short } * factor))
        };
        (0..count).map(wait).collect()
    }

    /// The share of long gaps that were foretold within a fifth, after so many periods, and of short ones that were said to be
    /// long.
    fn foretold(every: usize, jitter: f64, after: usize) -> (f64, f64) {
        foretold_of((1e-3, 60e-3), every, jitter, after)
    }

    /// The same with other waits.
    fn foretold_of(lengths: (f64, f64), every: usize, jitter: f64, after: usize) -> (f64, f64) {
        let mut steps = StepPattern::default();
        let (mut long, mut right, mut short, mut wrong) = (0.0, 0.0, 0.0, 0.0);
        for (index, (is_long, wait)) in waits_of(lengths, every, jitter, (after + 200) * every).into_iter().enumerate()
        {
            if index >= after * every {
                let said = steps.next_gap().unwrap_or_default().as_secs_f64();
                let off = (said / wait.as_secs_f64() - 1.0).abs();
                if is_long {
                    long += 1.0;
                    right += f64::from(u8::from(off <= 0.2));
                } else {
                    short += 1.0;
                    wrong += f64::from(u8::from(said > (lengths.0 * lengths.1).sqrt()));
                }
            }
            steps.gap(wait);
        }
        (right / long, wrong / f64::max(short, 1.0))
    }

    #[test]
    fn a_long_gap_every_tenth_step_is_foretold() {
        for (every, jitter) in [(10, 0.0), (10, 0.15), (3, 0.1), (50, 0.15)] {
            let (right, wrong) = foretold(every, jitter, 50);
            assert!(right >= 0.9 && wrong <= 0.01, "every {every}, {jitter}: {right} {wrong}");
        }
    }

    #[test]
    fn a_long_gap_among_others_that_are_not_short_is_foretold() {
        for (lengths, every) in [((15e-3, 60e-3), 10), ((15e-3, 60e-3), 20), ((15e-3, 30e-3), 10)] {
            for jitter in [0.0, 0.05, 0.15] {
                let (right, wrong) = foretold_of(lengths, every, jitter, 50);
                assert!(right >= 0.9 && wrong <= 0.01, "{lengths:?} every {every}, {jitter}: {right} {wrong}");
            }
        }
    }

    #[test]
    fn the_longest_gap_of_a_period_is_known_before_it_comes() {
        let mut steps = StepPattern::default();
        for (_, wait) in waits(10, 0.1, 503) {
            steps.gap(wait);
        }
        assert_eq!(steps.period(), Some(10));
        let (before, length) = steps.longest_ahead().unwrap_or_default();
        assert_eq!(before, 6);
        assert!((0.048..0.072).contains(&length.as_secs_f64()), "{length:?}");
    }

    #[test]
    fn a_gap_that_comes_in_between_is_forgotten_within_a_few_periods() {
        let mut steps = StepPattern::default();
        for (_, wait) in waits(10, 0.1, 500) {
            steps.gap(wait);
        }
        steps.gap(Duration::from_millis(3));
        let mut right = 0;
        for (is_long, wait) in waits(10, 0.1, 100) {
            let said = steps.next_gap().unwrap_or_default();
            right += u32::from(is_long && (said.as_secs_f64() / wait.as_secs_f64() - 1.0).abs() <= 0.25);
            steps.gap(wait);
        }
        assert!(right >= 7, "{right} of 10");
    }

    #[test]
    fn gaps_that_are_all_alike_are_foretold_by_the_last_ones() {
        let mut steps = StepPattern::default();
        let mut chance = Jitter(3);
        for _ in 0..100 {
            steps.gap(Duration::from_secs_f64(15e-3 * (0.95 + 0.1 * chance.share())));
        }
        assert_eq!(steps.period(), Some(1));
        let said = steps.next_gap().unwrap_or_default().as_secs_f64();
        assert!((0.014..0.016).contains(&said), "{said}");
    }

    #[test]
    fn independent_gaps_do_not_repeat() {
        let mut chance = Jitter(11);
        let mut steps = StepPattern::default();
        let mut said = 0;
        for index in 0..20_000 {
            steps.gap(Duration::from_secs_f64(chance.exponential(200.0)));
            said += u32::from(index > 100 && steps.period().is_some());
        }
        assert!(said < 20, "{said}");
        assert_eq!(StepPattern::default().next_gap(), None);
    }
}
