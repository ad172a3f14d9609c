//! Slopes that a few wild values do not change, with their bounds.

/// How fast something grows, in units per second: the middle estimate, and the bounds that hold with the wanted
/// confidence. Where there are too few values for bounds, those are infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Slope {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

impl Slope {
    /// The same in units of another time.
    #[must_use]
    pub fn times(self, seconds: f64) -> Self {
        Self { low: self.low * seconds, middle: self.middle * seconds, high: self.high * seconds }
    }
}

/// The slope by Theil and Sen: the median of the slopes of all pairs. `z` says how sure the bounds are, in standard
/// deviations. Values that hang together in time tell less than independent ones, which makes the bounds wider.
pub(super) fn slope(points: &[(f64, f64)], z: f64) -> Slope {
    let count = points.len();
    let mut slopes = Vec::with_capacity(count * count.saturating_sub(1) / 2);
    for (index, later) in points.iter().enumerate() {
        slopes.extend(
            points[..index]
                .iter()
                .filter(|earlier| later.0 > earlier.0)
                .map(|earlier| (later.1 - earlier.1) / (later.0 - earlier.0)),
        );
    }
    if slopes.is_empty() {
        return Slope { low: f64::NEG_INFINITY, middle: 0.0, high: f64::INFINITY };
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let pairs = slopes.len();
    let middle = sorted_median(&slopes);
    let number = count as f64;
    let variance = number * (number - 1.0) * (2.0 * number + 5.0) / 18.0 * inflation(points);
    let spread = z * variance.sqrt();
    // Ranks from one, as the books have them.
    let rank =
        |rank: f64| if rank < 1.0 || rank > pairs as f64 { None } else { slopes.get(rank as usize - 1).copied() };
    Slope {
        low: rank(((pairs as f64 - spread) / 2.0).floor()).unwrap_or(f64::NEG_INFINITY),
        middle,
        high: rank(((pairs as f64 + spread) / 2.0).ceil() + 1.0).unwrap_or(f64::INFINITY),
    }
}

/// By how much the variance of a rank statistic is larger because each value resembles the one before it. A bend is no such
/// resemblance, so that values are compared with a parabola.
fn inflation(points: &[(f64, f64)]) -> f64 {
    let residuals = off_parabola(points);
    let total: f64 = residuals.iter().map(|it| it * it).sum();
    if total <= f64::EPSILON * points.iter().map(|it| it.1 * it.1).sum::<f64>() {
        return 1.0;
    }
    let lagged: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = (lagged / total).clamp(0.0, 0.9);
    (1.0 + correlation) / (1.0 - correlation)
}

/// What is left of the values without the parabola that fits them best.
fn off_parabola(points: &[(f64, f64)]) -> Vec<f64> {
    parabola(points).0
}

/// How fast the best parabola through the values grows at its end, as a share of its mean growth; none where a straight line
/// would do as well.
pub(super) fn speed_at_end(points: &[(f64, f64)]) -> Option<f64> {
    let (left, [_, straight, bent], square) = parabola(points);
    let freedom = points.len() as f64 - 3.0;
    if freedom < 3.0 || straight <= 0.0 {
        return None;
    }
    let noise = (left.iter().map(|it| it * it).sum::<f64>() / freedom * inflation(points)).sqrt();
    // Time runs from -1 to 1, where the second column has the slope 2.
    (bent.abs() * square.sqrt() > 3.0 * noise).then(|| (straight + 2.0 * bent) / straight)
}

/// What the best parabola leaves, the parts of its orthogonal columns, and the square of the last of them. Time runs from -1
/// to 1.
fn parabola(points: &[(f64, f64)]) -> (Vec<f64>, [f64; 3], f64) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return (Vec::new(), [0.0; 3], 0.0) };
    let half = ((last.0 - first.0) / 2.0).max(f64::MIN_POSITIVE);
    let times: Vec<_> = points.iter().map(|point| (point.0 - first.0) / half - 1.0).collect();
    let mut left: Vec<_> = points.iter().map(|point| point.1).collect();
    // Each column is made orthogonal to those before it, and then its part is taken away.
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let (mut parts, mut square) = ([0.0; 3], 0.0);
    for (power, part) in parts.iter_mut().enumerate() {
        let mut column: Vec<_> = times.iter().map(|time| time.powi(power as i32)).collect();
        for before in &columns {
            take_away(&mut column, before);
        }
        *part = take_away(&mut left, &column);
        square = column.iter().map(|it| it * it).sum();
        columns.push(column);
    }
    (left, parts, square)
}

fn take_away(from: &mut [f64], column: &[f64]) -> f64 {
    let own: f64 = column.iter().map(|it| it * it).sum();
    if own <= 1e-12 {
        return 0.0;
    }
    let part = from.iter().zip(column).map(|(one, other)| one * other).sum::<f64>() / own;
    from.iter_mut().zip(column).for_each(|(value, of_column)| *value -= part * of_column);
    part
}

/// What is left of the values without a line of this slope through their middle.
pub(super) fn residuals(points: &[(f64, f64)], slope: f64) -> Vec<f64> {
    let mut without: Vec<_> = points.iter().map(|(at, value)| value - slope * at).collect();
    let middle = median(&mut without.clone());
    without.iter_mut().for_each(|value| *value -= middle);
    without
}

/// How far values are from the line, typically: the standard deviation where they are normal.
pub(super) fn noise(points: &[(f64, f64)], slope: f64) -> f64 {
    let mut distances: Vec<_> = residuals(points, slope).into_iter().map(f64::abs).collect();
    1.4826 * median(&mut distances)
}

/// The median; zero of nothing.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    sorted_median(values)
}

fn sorted_median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_found_whatever_a_few_values_are() {
        let mut points: Vec<_> = (0..30).map(|at| (f64::from(at), 3.0 * f64::from(at) + 7.0)).collect();
        let exact = slope(&points, 2.6);
        assert_eq!((exact.low, exact.middle, exact.high), (3.0, 3.0, 3.0));
        [4_usize, 9, 17, 25].iter().for_each(|at| points[*at].1 = 1e6);
        let found = slope(&points, 2.6);
        assert!((found.middle - 3.0).abs() < 1e-9 && found.low > 0.0, "{found:?}");
        assert!(noise(&points, 3.0) < 1e-9);
    }

    #[test]
    fn few_values_have_no_bounds() {
        let found = slope(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)], 2.6);
        assert!(found.low == f64::NEG_INFINITY && found.high == f64::INFINITY && found.middle == 1.0);
        assert_eq!(slope(&[], 2.6).middle, 0.0);
    }

    proptest! {
        #[test]
        fn bounds_are_around_the_middle(values in prop::collection::vec(-1e9..1e9_f64, 0..48)) {
            let points: Vec<_> = values.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect();
            let found = slope(&points, 2.0);
            prop_assert!(found.low <= found.middle && found.middle <= found.high);
        }
    }
}
