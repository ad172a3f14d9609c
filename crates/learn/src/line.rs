//! Straight lines through measured points.

use serde::Serialize;

/// What something costs: a part that is always there, and a part for each unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// What it costs at zero.
    pub base: f64,
    /// What each unit adds.
    pub each: f64,
}

impl Line {
    /// The value at a number of units.
    #[must_use]
    pub fn at(self, units: f64) -> f64 {
        self.base + self.each * units
    }

    /// The least-squares line through points, or the one through the origin where it would fall or begin below zero.
    /// Nothing where the points say nothing.
    #[must_use]
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
        let (x, y) = (sum(|point| point.0), sum(|point| point.1));
        if x <= 0.0 {
            return None;
        }
        let (xx, xy) = (sum(|point| point.0 * point.0), sum(|point| point.0 * point.1));
        let spread = count * xx - x * x;
        let each = (count * xy - x * y) / spread;
        let base = (y - each * x) / count;
        // Points that hardly differ say nothing about the slope.
        let sound = spread > 1e-3 * count * xx && each > 0.0 && base >= 0.0;
        Some(if sound { Self { base, each } } else { Self { base: 0.0, each: y / x } })
    }
}

/// The value in the middle; zero of nothing.
#[must_use]
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<_> = (1..50).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))).collect();
        let line = Line::through(&points).unwrap();
        assert!((line.base - 3.0).abs() < 1e-9 && (line.each - 2.0).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn no_cost_falls_or_begins_below_zero() {
        for points in [vec![(10.0, 5.0), (10.0, 7.0)], vec![(1.0, 9.0), (9.0, 1.0)], vec![(5.0, 0.0), (9.0, 40.0)]] {
            let line = Line::through(&points).unwrap();
            assert!(line.base == 0.0 && line.each > 0.0, "{line:?}");
        }
        assert_eq!(Line::through(&[]), None);
        assert_eq!(Line::through(&[(0.0, 3.0)]), None);
    }

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0]), 2.5);
        assert_eq!(median([]), 0.0);
    }
}
