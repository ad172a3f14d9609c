//! Whether memory follows the load: more requests, more memory, and less again when they are over.

use super::trend::{median, slope};

/// A load that varies by less than this share of its middle explains nothing.
const VARIES: f64 = 0.2;

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
    let load = smooth(load);
    let mut sorted = load.clone();
    let middle = median(&mut sorted).abs();
    let (Some(least), Some(most)) = (sorted.get(sorted.len() / 10), sorted.get(sorted.len() * 9 / 10)) else {
        return false;
    };
    if most - least <= VARIES * middle || points.len() < 6 {
        return false;
    }
    let values: Vec<_> = points.iter().map(|point| point.1).collect();
    let times: Vec<_> = points.iter().map(|point| point.0).collect();
    let highest = running(&load, 0.0, f64::max);
    let sum = running(&load, 0.0, |sum, value| sum + value);
    let variation = error(&values, &[]);
    let by_load = error(&values, &load).min(error(&values, &highest));
    let by_sum = error(&values, &sum);
    let by_time = error(&values, &times).min(by_sum);
    if by_load > (1.0 - MOST) * variation || correlates_down(&values, &load) {
        return false;
    }
    if by_load <= AS_GOOD * by_time {
        return by_sum > CLEARLY * by_load;
    }
    // Both rise, and the load is the noisier measure of the two. It is believed where it has risen by as much.
    let rise = |values: &[f64]| {
        let points: Vec<_> = times.iter().copied().zip(values.iter().copied()).collect();
        let rate = slope(&points, 2.6);
        let span = times.last().unwrap_or(&0.0) - times.first().unwrap_or(&0.0);
        let start = values.iter().copied().fold(f64::INFINITY, f64::min).abs().max(1e-9);
        if rate.low > 0.0 { rate.middle * span / start } else { 0.0 }
    };
    rise(&load) >= rise(&values) && by_sum > CLEARLY * by_load
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
