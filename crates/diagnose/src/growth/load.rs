//! Whether memory follows the load: more requests, more memory, and less again when they are over.

use super::trend::{median, slope};

/// A load that varies by less than this share of its middle explains nothing.
const VARIES: f64 = 0.2;

/// A load that has risen by this share has risen, and it must have risen by this part of what the memory has.
const RISEN: f64 = 0.05;
const AS_MUCH: f64 = 0.7;

/// How much worse than time the load may explain the memory, as a ratio of squared errors.
const AS_GOOD: f64 = 1.6;

/// How much better a sum over time must be than the load itself, where both only rise.
const CLEARLY: f64 = 0.5;

/// The share of the variation that the load must explain.
const MOST: f64 = 0.5;

/// Whether the values, at their times, are explained by this load as well as by the passing of time.
///
/// A leak grows with the number of all requests so far, and so also where the load is steady. Memory that follows the load
/// is a function of the load now, or of the highest load so far, because allocators keep what they had.
pub(super) fn follows(points: &[(f64, f64)], load: &[f64]) -> bool {
    if points.len() < 6 {
        return false;
    }
    let values: Vec<_> = points.iter().map(|point| point.1).collect();
    let times: Vec<_> = points.iter().map(|point| point.0).collect();
    let smoothed = smooth(load);
    let sum = running(&smoothed, 0.0, |sum, value| sum + value);
    // Allocators keep what the highest load needed.
    let highest = [load, &smoothed].map(|load| running(load, 0.0, f64::max));
    let causes = [load, &smoothed, &highest[0], &highest[1]];
    let better = |one: &&&[f64], other: &&&[f64]| error(&values, one).total_cmp(&error(&values, other));
    let Some(cause) = causes.iter().min_by(better) else { return false };
    let (by_load, by_sum, by_time) = (error(&values, cause), error(&values, &sum), error(&values, &times));
    if correlates_down(&values, cause) {
        return false;
    }
    let explains = by_load <= (1.0 - MOST) * error(&values, &[]) && by_load <= AS_GOOD * by_time.min(by_sum);
    if explains && varies(&smoothed) {
        return by_sum > CLEARLY * by_load;
    }
    // Both rise, and the load is the noisier measure of the two. It is believed where it has risen by as much, and where
    // the sum of all requests is no better an explanation.
    let of_load = risen(&times.iter().copied().zip(load.iter().copied()).collect::<Vec<_>>());
    of_load >= RISEN && of_load >= AS_MUCH * risen(points) && (by_sum > CLEARLY * by_load || by_time <= by_sum)
}

/// Whether a load varies by a good part of itself.
fn varies(load: &[f64]) -> bool {
    let mut sorted = load.to_vec();
    let middle = median(&mut sorted).abs();
    let share = |tenths: usize| sorted[(sorted.len() * tenths / 10).min(sorted.len() - 1)];
    share(9) - share(1) > VARIES * middle
}

/// The same for values that are too few for that: whether the load, of which more is known, has risen by about as much meanwhile.
pub(super) fn few_follow(points: &[(f64, f64)], load: &[(f64, f64)]) -> bool {
    let of_load = risen(load);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return false };
    of_load >= RISEN && of_load >= AS_MUCH * (last.1 - first.1) / first.1.abs().max(1e-9)
}

/// By which share values have risen; nothing where they may just vary.
fn risen(points: &[(f64, f64)]) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let rate = slope(points, 2.6);
    let start = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min).abs().max(1e-9);
    if rate.low > 0.0 { rate.middle * (last.0 - first.0) / start } else { 0.0 }
}

/// Means of five neighbours: a rate that is counted over a second jumps about.
fn smooth(values: &[f64]) -> Vec<f64> {
    (0..values.len())
        .map(|at| {
            let near = &values[at.saturating_sub(2)..values.len().min(at + 3)];
            near.iter().sum::<f64>() / near.len() as f64
        })
        .collect()
}

fn running(values: &[f64], start: f64, fold: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    values
        .iter()
        .scan(start, |state, value| {
            *state = fold(*state, *value);
            Some(*state)
        })
        .collect()
}

/// The squared error of the best straight line through values by this cause; without a cause that of their mean.
fn error(values: &[f64], cause: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = |of: &[f64]| of.iter().sum::<f64>() / count;
    let middle = mean(values);
    let total: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    if cause.len() != values.len() {
        return total;
    }
    let (together, own) = products(values, middle, cause, mean(cause));
    if own > 0.0 { (total - together * together / own).max(total * 1e-9) } else { total }
}

fn correlates_down(values: &[f64], cause: &[f64]) -> bool {
    let count = values.len() as f64;
    let (middle, of_cause) = (values.iter().sum::<f64>() / count, cause.iter().sum::<f64>() / count);
    products(values, middle, cause, of_cause).0 <= 0.0
}

fn products(values: &[f64], middle: f64, cause: &[f64], of_cause: f64) -> (f64, f64) {
    values.iter().zip(cause).fold((0.0, 0.0), |(together, own), (value, cause)| {
        (together + (value - middle) * (cause - of_cause), own + (cause - of_cause).powi(2))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(load: impl Fn(f64) -> f64, memory: impl Fn(f64, f64) -> f64, expected: bool) {
        let (mut sum, mut highest) = (0.0, 0.0_f64);
        let (mut points, mut loads) = (Vec::new(), Vec::new());
        for step in 0..40 {
            let at = f64::from(step);
            let now = load(at);
            sum += now;
            highest = highest.max(now);
            loads.push(now);
            points.push((at, memory(sum, highest)));
        }
        assert_eq!(follows(&points, &loads), expected);
    }

    #[test]
    fn memory_of_the_load_is_told_from_memory_of_all_requests() {
        let ramp = |at: f64| 50.0 + 4.0 * at + (at * 1.7).sin();
        check(ramp, |_, highest| 300.0 + highest, true);
        check(ramp, |sum, _| 300.0 + 0.1 * sum, false);
        check(|at| 100.0 + at.sin(), |sum, _| 300.0 + 0.1 * sum, false);
        let day = |at: f64| 100.0 + 80.0 * (at / 8.0).sin();
        check(day, |_, highest| highest, true);
        check(day, |sum, _| 0.1 * sum, false);
    }
}
