//! One row of history: the values of all series over a while, and the latencies that percentiles are taken from.

use neurogc_wire::buckets::Buckets;
use neurogc_wire::report::Sample;
use serde::{Serialize, Serializer};

use crate::series::{CATALOGUE, Fold, Interval, Series};
use crate::weight::weight;

/// Values by the order of the catalogue; one that is not a number was not measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FigureRow {
    /// The end of the while, in milliseconds since 1970.
    pub(crate) t: u64,
    values: Vec<f32>,
    latency: Buckets,
}

impl FigureRow {
    /// What lies between two samples of one agent, `seconds` apart.
    #[must_use]
    pub(crate) fn between(before: &Sample, after: &Sample, seconds: f64, t: u64) -> Self {
        let mut pauses = Buckets::default();
        for (after, before) in after.pauses.values().zip(before.pauses.values()) {
            pauses.merge(&after.buckets.since(&before.buckets));
        }
        let latency = after.latency.buckets.since(&before.latency.buckets);
        let stalls = after.stalls.buckets.since(&before.stalls.buckets);
        let interval =
            Interval { before, after, seconds: seconds.max(1e-3), latency: &latency, pauses: &pauses, stalls: &stalls };
        let read = |series: &Series| series.read(&interval).map_or(f32::NAN, |value| value as f32);
        Self { t, values: CATALOGUE.iter().map(read).collect(), latency }
    }

    /// Values at places of the catalogue, and latencies.
    #[must_use]
    pub(crate) fn of(t: u64, given: &[(usize, f64)], latency: Buckets) -> Self {
        let mut values = vec![f32::NAN; CATALOGUE.len()];
        for (place, value) in given {
            values[*place] = *value as f32;
        }
        Self { t, values, latency }
    }

    /// A row that was kept; `None` where its bytes are something else. `order` says where each value belongs now.
    #[must_use]
    pub(crate) fn from_bytes(t: u64, figures: &[u8], latency: &[u8], order: &[Option<usize>]) -> Option<Self> {
        let mut values = vec![f32::NAN; CATALOGUE.len()];
        let (figures, rest) = figures.as_chunks::<4>();
        if figures.len() != order.len() || !rest.is_empty() {
            return None;
        }
        for (bytes, place) in figures.iter().zip(order) {
            if let Some(place) = place {
                values[*place] = f32::from_le_bytes(*bytes);
            }
        }
        Some(Self { t, values, latency: Buckets::from_bytes(latency)? })
    }

    /// The bytes that are kept: values in the order of the catalogue, and latencies.
    #[must_use]
    pub(crate) fn to_bytes(&self) -> (Vec<u8>, Vec<u8>) {
        (self.values.iter().flat_map(|value| value.to_le_bytes()).collect(), self.latency.to_bytes())
    }

    /// The value of the series at a place of the catalogue.
    #[must_use]
    pub(crate) fn value(&self, place: usize) -> Option<f32> {
        match CATALOGUE[place].fold {
            Fold::Quantile(share) => self.latency.quantile_ms(share).map(|ms| ms as f32),
            _ => Some(self.values[place]).filter(|value| value.is_finite()),
        }
    }

    /// How long its requests took.
    #[must_use]
    pub(crate) fn latency(&self) -> &Buckets {
        &self.latency
    }

    /// What it takes of memory.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        (std::mem::size_of::<Self>() + 4 * self.values.len() + weight(&self.latency)) as u64
    }

    /// Forgets the values of all series but some.
    pub(crate) fn keep_only(&mut self, wanted: impl Fn(&str) -> bool) {
        for (series, value) in CATALOGUE.iter().zip(&mut self.values) {
            if !wanted(series.name) {
                *value = f32::NAN;
            }
        }
    }
}

/// All values by name.
impl Serialize for FigureRow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(CATALOGUE.iter().enumerate().map(|(place, series)| (series.name, self.value(place))))
    }
}

/// Several rows on their way to become one.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    sums: Vec<(f64, u32)>,
    latency: Buckets,
}

impl Folder {
    /// Adds the next row; rows come in the order of time.
    pub(crate) fn add(&mut self, row: &FigureRow) {
        self.sums.resize(CATALOGUE.len(), (0.0, 0));
        for ((sum, count), (series, value)) in self.sums.iter_mut().zip(CATALOGUE.iter().zip(&row.values)) {
            let value = f64::from(*value);
            if !value.is_finite() {
                continue;
            }
            *sum = match series.fold {
                Fold::Mean => *sum + value,
                Fold::Max if *count > 0 => sum.max(value),
                Fold::Max | Fold::Last | Fold::Quantile(_) => value,
            };
            *count += 1;
        }
        self.latency.merge(&row.latency);
    }

    /// The row that they become, `None` where there was none.
    #[must_use]
    pub(crate) fn fold(self, t: u64) -> Option<FigureRow> {
        if self.sums.is_empty() {
            return None;
        }
        let value = |((sum, count), series): (&(f64, u32), &Series)| match (count, series.fold) {
            (0, _) => f32::NAN,
            (count, Fold::Mean) => (sum / f64::from(*count)) as f32,
            _ => *sum as f32,
        };
        Some(FigureRow {
            t,
            values: self.sums.iter().zip(CATALOGUE.iter()).map(value).collect(),
            latency: self.latency,
        })
    }
}

/// Folds rows into steps, as they come. A row belongs to the step that ends at its `t` or next after it.
#[derive(Debug)]
pub(crate) struct Steps {
    step_ms: u64,
    end: u64,
    folder: Folder,
    folded: Vec<FigureRow>,
}

impl Steps {
    pub(crate) fn new(step_ms: u64) -> Self {
        Self { step_ms, end: 0, folder: Folder::default(), folded: Vec::new() }
    }

    /// Adds the next row; rows come in the order of time.
    pub(crate) fn add(&mut self, row: &FigureRow) {
        let its_end = row.t.div_ceil(self.step_ms).saturating_mul(self.step_ms);
        if its_end != self.end {
            self.folded.extend(std::mem::take(&mut self.folder).fold(self.end));
            self.end = its_end;
        }
        self.folder.add(row);
    }

    /// All steps.
    #[must_use]
    pub(crate) fn finish(mut self) -> Vec<FigureRow> {
        self.folded.extend(self.folder.fold(self.end));
        self.folded
    }
}

/// Folds rows into steps.
pub(crate) fn fold_into_steps(rows: impl IntoIterator<Item = FigureRow>, step_ms: u64) -> Vec<FigureRow> {
    let mut steps = Steps::new(step_ms);
    rows.into_iter().for_each(|row| steps.add(&row));
    steps.finish()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_wire::status::{Compared, Forecasts};

    use super::*;
    use crate::series::position;

    /// A sample with this many requests so far, each of so many milliseconds.
    fn sample(requests: u64, ms: u64, rss: u64) -> Sample {
        let mut sample = Sample::default();
        sample.status.requests.count = requests;
        sample.status.requests.max_ms = ms as f64;
        sample.status.memory.rss = rss;
        sample.latency.buckets.add(ms * 1_000_000, requests);
        sample
    }

    fn value(row: &FigureRow, name: &str) -> Option<f32> {
        row.value(position(name).unwrap())
    }

    fn second(t: u64, requests: u64, ms: u64, rss: u64) -> FigureRow {
        FigureRow::between(&Sample::default(), &sample(requests, ms, rss), 1.0, t)
    }

    #[test]
    fn a_row_tells_of_the_time_between_two_samples() {
        let row = FigureRow::between(&sample(10, 5, 100), &sample(30, 5, 200), 2.0, 7);
        assert_eq!((value(&row, "requests.rps"), value(&row, "memory.rss")), (Some(10.0), Some(200.0)));
        assert!((value(&row, "requests.p50_ms").unwrap() - 5.0).abs() < 0.2);
        assert_eq!(value(&row, "memory.pss"), None);
    }

    #[test]
    fn a_quiet_second_has_no_percentile() {
        let row = FigureRow::between(&sample(10, 5, 100), &sample(10, 5, 100), 1.0, 7);
        assert_eq!((value(&row, "requests.rps"), value(&row, "requests.p99_ms")), (Some(0.0), None));
    }

    #[test]
    fn a_gap_that_was_foreseen_is_told_once() {
        let foreseen = |gaps| {
            let latest = Some(Compared { lasted_ms: 3.0, expected_ms: vec![1.0, 2.0, 4.0, 8.0, 16.0] });
            let mut sample = Sample::default();
            sample.status.conduct.model = Some(Forecasts { gaps, latest, ..Forecasts::default() });
            sample
        };
        let row = FigureRow::between(&Sample::default(), &foreseen(1), 1.0, 7);
        let names = ["conduct.gap_ms", "conduct.gap_p10_ms", "conduct.gap_p50_ms", "conduct.gap_p90_ms"];
        assert_eq!(names.map(|name| value(&row, name)), [Some(3.0), Some(1.0), Some(4.0), Some(16.0)]);
        let row = FigureRow::between(&foreseen(1), &foreseen(1), 1.0, 8);
        assert_eq!(names.map(|name| value(&row, name)), [None; 4]);
    }

    #[test]
    fn percentiles_of_a_while_are_those_of_all_its_requests() {
        let rows = [second(1000, 990, 1, 5), second(2000, 10, 500, 9)];
        let folded = fold_into_steps(rows, 10_000);
        assert_eq!((folded.len(), folded[0].t), (1, 10_000));
        assert!(value(&folded[0], "requests.p50_ms").unwrap() < 1.1);
        assert!(value(&folded[0], "requests.p999_ms").unwrap() > 450.0);
        assert_eq!((value(&folded[0], "requests.rps"), value(&folded[0], "memory.rss")), (Some(500.0), Some(9.0)));
    }

    #[test]
    fn holes_stay_holes() {
        let folded = fold_into_steps([second(1000, 1, 1, 1), second(50_000, 1, 1, 1)], 10_000);
        assert_eq!(folded.iter().map(|row| row.t).collect::<Vec<_>>(), [10_000, 50_000]);
    }

    #[test]
    fn a_kept_row_comes_back_by_names() {
        let row = second(1000, 3, 4, 5);
        let (figures, latency) = row.to_bytes();
        let order: Vec<_> = (0..CATALOGUE.len()).map(Some).collect();
        let back = FigureRow::from_bytes(1000, &figures, &latency, &order).unwrap();
        assert_eq!(serde_json::to_value(&back).unwrap(), serde_json::to_value(&row).unwrap());
        assert_eq!(FigureRow::from_bytes(1000, &figures[1..], &latency, &order), None);
        let forgotten = vec![None; CATALOGUE.len()];
        let back = FigureRow::from_bytes(1000, &figures, &latency, &forgotten).unwrap();
        assert_eq!(value(&back, "memory.rss"), None);
    }
}
