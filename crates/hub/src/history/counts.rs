//! Latencies from the buckets of a Prometheus histogram.

use std::collections::BTreeMap;

use neurogc_wire::buckets::Buckets;

use super::answer::LabelledValues;

/// Durations of one bucket are spread over it evenly, over so many places at most.
const PLACES: u64 = 32;

/// More requests than end in any step.
const MOST: f64 = 1e12;

/// How many requests ended within each bound in each step. Lines are those of one process; their values, times `share`, are
/// how much each bound has grown.
pub(super) fn latencies<'l>(lines: impl Iterator<Item = &'l LabelledValues>, share: f64) -> BTreeMap<u64, Buckets> {
    let mut steps: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
    for line in lines {
        let Ok(bound) = line.label("le").parse::<f64>() else { continue };
        for (t, value) in &line.values {
            steps.entry(*t).or_default().push((bound, value * share));
        }
    }
    // Growth is estimated, so it is rarely a whole number. What is left over counts in the next step.
    let mut left_over: BTreeMap<u64, f64> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for (t, mut bounds) in steps {
        bounds.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut buckets, mut from, mut below) = (Buckets::default(), 0.0, 0.0);
        for (bound, within) in bounds {
            let rest = left_over.entry(bound.to_bits()).or_default();
            let here = (within - below).max(0.0) + *rest;
            let count = (here + 0.5).floor().clamp(0.0, MOST);
            *rest = here - count;
            spread(&mut buckets, from, if bound.is_finite() { bound } else { from }, count as u64);
            (from, below) = (bound, within.max(below));
        }
        found.insert(t, buckets);
    }
    found
}

fn spread(to: &mut Buckets, from_s: f64, until_s: f64, count: u64) {
    let places = count.min(PLACES);
    for place in 0..places {
        let here = count * (place + 1) / places - count * place / places;
        let at = from_s + (until_s - from_s) * (place as f64 + 0.5) / places as f64;
        to.add((at * 1e9) as u64, here);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bound: &str, values: &[f64]) -> LabelledValues {
        let labels = BTreeMap::from([("le".to_owned(), bound.to_owned())]);
        LabelledValues {
            labels,
            values: values.iter().enumerate().map(|(step, value)| (step as u64, *value)).collect(),
        }
    }

    #[test]
    fn percentiles_lie_within_their_bounds() {
        let lines = [line("0.01", &[90.0]), line("0.1", &[99.0]), line("+Inf", &[100.0])];
        let found = latencies(lines.iter(), 1.0);
        let quantile = |share| found[&0].quantile_ms(share).unwrap_or_default();
        assert_eq!(found[&0].count(), 100);
        assert!((4.0..6.0).contains(&quantile(0.45)), "{}", quantile(0.45));
        assert!((10.0..100.0).contains(&quantile(0.95)));
        assert!((95.0..106.0).contains(&quantile(1.0)));
    }

    #[test]
    fn parts_of_requests_are_not_lost() {
        let lines = [line("0.01", &[0.4; 10]), line("+Inf", &[0.4; 10])];
        let found = latencies(lines.iter(), 0.5);
        assert_eq!(found.values().map(Buckets::count).sum::<u64>(), 2);
    }

    #[test]
    fn what_no_server_says_does_no_harm() {
        let lines = [line("x", &[1.0]), line("0.1", &[-5.0]), line("0.2", &[3.0]), line("+Inf", &[2.0])];
        assert_eq!(latencies(lines.iter(), 1.0)[&0].count(), 3);
        assert!(latencies([].iter(), 1.0).is_empty());
    }
}
