//! Figures of whole runs, compared. Requests of one run depend on each other, so no test here looks inside a run.

use neurogc_load::Chance;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The middle value.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut ordered: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    ordered.sort_by(f64::total_cmp);
    let middle = ordered.len() / 2;
    match ordered.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(ordered[middle]),
        _ => Some(f64::midpoint(ordered[middle - 1], ordered[middle])),
    }
}

/// A ratio, with what is known about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    /// The geometric mean of the ratios of all runs.
    pub(crate) mean: f64,
    /// Between these it lies with 95 % confidence; the same as `mean` where there is one run only.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The lowest and the highest run.
    pub(crate) spread: (f64, f64),
    /// Of how many runs.
    pub(crate) runs: usize,
}

impl Ratio {
    /// The ratio of runs of the same number, which met the same arrivals on the same machine within minutes.
    pub(crate) fn paired(ours: &[(u32, f64)], theirs: &[(u32, f64)]) -> Option<Self> {
        let logs: Vec<f64> = ours
            .iter()
            .filter_map(|(run, value)| {
                let (_, base) = theirs.iter().find(|(other, _)| other == run)?;
                (*value > 0.0 && *base > 0.0).then(|| (value / base).ln())
            })
            .collect();
        if logs.is_empty() {
            return None;
        }
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let half = if logs.len() < 2 {
            0.0
        } else {
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
            student(logs.len() - 1) * (variance / count).sqrt()
        };
        let lowest = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self {
            mean: mean.exp(),
            low: (mean - half).exp(),
            high: (mean + half).exp(),
            spread: (lowest.exp(), highest.exp()),
            runs: logs.len(),
        })
    }

    /// Whether one lies outside of its bounds.
    pub(crate) fn is_clear(&self) -> bool {
        self.runs > 1 && (self.low > 1.0 || self.high < 1.0)
    }
}

/// The 97.5th percentile of Student's distribution.
fn student(freedom: usize) -> f64 {
    // Degrees of freedom above zero are always allowed; one is the widest.
    let distribution = StudentsT::new(0.0, 1.0, freedom.max(1) as f64);
    distribution.map_or(f64::INFINITY, |distribution| distribution.inverse_cdf(0.975))
}

/// More ways than this to deal runs to two sides are not tried one by one, but by chance.
const MOST_WAYS: u64 = 50_000;

/// How likely two sets of runs would differ this much if it made no difference which set a run is in: a permutation
/// test on the difference of the means. The smallest answer for five runs against five is 0.008.
pub(crate) fn permutation(left: &[f64], right: &[f64]) -> Option<f64> {
    if left.len() < 2 || right.len() < 2 {
        return None;
    }
    let all: Vec<f64> = left.iter().chain(right).copied().collect();
    let sum: f64 = all.iter().sum();
    let (ours, others) = (left.len() as f64, right.len() as f64);
    let difference = |part: f64| (part / ours - (sum - part) / others).abs();
    // The same sums in another order differ in their last digits.
    let seen = difference(left.iter().sum()) * (1.0 - 1e-9);
    let (mut as_far, mut ways) = (0_u64, 0_u64);
    let mut count = |part: f64| {
        ways += 1;
        as_far += u64::from(difference(part) >= seen);
    };
    if choices(all.len() as u64, left.len() as u64) <= MOST_WAYS {
        choose(&all, left.len(), 0.0, &mut count);
    } else {
        let mut chance = Chance::new(1);
        let mut dealt = all.clone();
        count(left.iter().sum());
        for _ in 0..MOST_WAYS {
            for at in 0..left.len() {
                let other = at + (chance.share() * (dealt.len() - at) as f64) as usize;
                dealt.swap(at, other);
            }
            count(dealt[..left.len()].iter().sum());
        }
    }
    Some(as_far as f64 / ways as f64)
}

/// In how many ways some of all can be chosen.
fn choices(all: u64, some: u64) -> u64 {
    (0..some.min(all - some))
        .try_fold(1_u64, |ways, at| Some(ways.checked_mul(all - at)? / (at + 1)))
        .unwrap_or(u64::MAX)
}

fn choose(from: &[f64], more: usize, sum: f64, take: &mut dyn FnMut(f64)) {
    if more == 0 {
        return take(sum);
    }
    for (at, value) in from.iter().enumerate().take(from.len() + 1 - more.min(from.len() + 1)) {
        choose(&from[at + 1..], more - 1, sum + value, take);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn numbered(values: &[f64]) -> Vec<(u32, f64)> {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn the_middle_is_found() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn ratios_pair_the_runs_that_belong_together() {
        let ratio = Ratio::paired(&numbered(&[2.0, 20.0, 8.0]), &numbered(&[1.0, 10.0, 4.0])).unwrap();
        assert!((ratio.mean - 2.0).abs() < 1e-9 && (ratio.high - ratio.low).abs() < 1e-9, "{ratio:?}");
        assert!(ratio.is_clear());
        // Run 1 is missing on one side, and zeros have no ratio.
        let ours = [(0, 3.0), (1, 1.0), (2, 0.0)];
        let theirs = [(0, 1.0), (2, 1.0)];
        let ratio = Ratio::paired(&ours, &theirs).unwrap();
        assert_eq!((ratio.runs, ratio.is_clear()), (1, false));
        assert_eq!(Ratio::paired(&[], &theirs), None);
    }

    #[test]
    fn bounds_are_those_of_student() {
        // Logs 0 and ln 4: mean ln 2, standard error ln 2, and 12.7 of those to each side.
        let ratio = Ratio::paired(&numbered(&[1.0, 4.0]), &numbered(&[1.0, 1.0])).unwrap();
        assert!((ratio.mean - 2.0).abs() < 1e-9);
        assert!(((ratio.high / ratio.mean).ln() - 12.706 * 2.0_f64.ln()).abs() < 1e-3);
        assert!((ratio.spread.0 - 1.0).abs() < 1e-9 && (ratio.spread.1 - 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_percentiles_of_student_are_those_of_the_tables() {
        for (freedom, expected) in [(1, 12.706), (4, 2.776), (15, 2.131), (16, 2.120), (30, 2.042), (120, 1.980)] {
            assert!((student(freedom) - expected).abs() < 1e-3, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn a_clear_difference_is_as_unlikely_as_can_be() {
        let slow = [10.0, 11.0, 12.0, 10.5, 11.5];
        let fast = [1.0, 2.0, 1.5, 1.2, 1.8];
        let likely = permutation(&slow, &fast).unwrap();
        assert!((likely - 2.0 / 252.0).abs() < 1e-9, "{likely}");
        assert!((permutation(&slow, &slow).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(permutation(&[1.0], &fast), None);
    }

    #[test]
    fn many_runs_are_dealt_by_chance() {
        let left: Vec<f64> = (0..20).map(f64::from).collect();
        let right: Vec<f64> = (0..20).map(|value| f64::from(value) + 30.0).collect();
        assert!(permutation(&left, &right).unwrap() < 0.001);
        let same: Vec<f64> = (0..20).map(|value| f64::from(value) + 0.1).collect();
        assert!(permutation(&left, &same).unwrap() > 0.9);
    }
}
