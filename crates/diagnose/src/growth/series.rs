//! A series of one figure, in memory of a fixed size: fine for the last minutes, and coarse for days.
//!
//! There are six levels. A level divides time into buckets of the same length, keeps the latest of them, and covers four
//! times as long as the level below it. A bucket keeps the lowest value and the mean, so that short peaks do not hide what
//! stays.

/// Levels.
pub const LEVELS: usize = 6;

/// Buckets of a level.
pub const BUCKETS: usize = 48;

/// How long a bucket of the finest level is, in seconds: more frequent values are averaged.
pub const STEP_S: f64 = 5.0;

/// By how much the buckets of a level are longer than those of the level below it.
const FACTOR: f64 = 4.0;

/// One bucket as it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The middle of the bucket, in seconds.
    pub at_s: f64,
    /// The lowest value in it.
    pub low: f64,
    /// The mean of the values in it.
    pub mean: f64,
}

/// The values of one bucket. Single precision is enough: 4 KiB in 64 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bucket {
    low: f32,
    mean: f32,
    count: u16,
}

/// Buckets of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    buckets: [Bucket; BUCKETS],
    /// The number of the latest bucket, counted from second zero.
    newest: u64,
}

/// The history of one figure. It takes 3.5 KB and never more.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureSeries {
    levels: Box<[Level; LEVELS]>,
    /// When the first value came, and the last one.
    span: Option<(f64, f64)>,
    now: f64,
}

impl Default for FigureSeries {
    fn default() -> Self {
        let empty = Level { buckets: [Bucket::default(); BUCKETS], newest: 0 };
        Self { levels: Box::new([empty; LEVELS]), span: None, now: 0.0 }
    }
}

/// How long the buckets of a level are.
#[must_use]
pub fn width_s(level: usize) -> f64 {
    STEP_S * FACTOR.powi(level as i32)
}

impl FigureSeries {
    /// Adds a value. One that is no number, or older than the latest, is left out.
    pub fn push(&mut self, at_s: f64, value: f64) {
        let (first, last) = self.span.unwrap_or((at_s, at_s));
        if !at_s.is_finite() || !value.is_finite() || at_s < last || at_s < 0.0 {
            return;
        }
        self.span = Some((first, at_s));
        self.now = value;
        for (level, kept) in self.levels.iter_mut().enumerate() {
            kept.push((at_s / width_s(level)) as u64, value as f32);
        }
    }

    /// The latest value.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.now
    }

    /// When the first value came and when the last one; none without values.
    #[must_use]
    pub fn span(&self) -> Option<(f64, f64)> {
        self.span
    }

    /// The points of a level that are not older than this, the oldest first. Buckets without values are left out.
    pub fn points(&self, level: usize, from_s: f64) -> impl Iterator<Item = Point> + '_ {
        let (kept, width) = (&self.levels[level.min(LEVELS - 1)], width_s(level));
        kept.all().filter_map(move |(number, bucket)| {
            let at_s = (number as f64 + 0.5) * width;
            let point = Point { at_s, low: f64::from(bucket.low), mean: f64::from(bucket.mean) };
            (bucket.count > 0 && at_s >= from_s).then_some(point)
        })
    }

    /// The mean at a moment, by this level, or by a coarser one that still has it.
    #[must_use]
    pub fn at(&self, level: usize, at_s: f64) -> Option<f64> {
        let of = |level: usize| self.levels[level].of((at_s / width_s(level)) as u64);
        (level..LEVELS).find_map(of).map(|bucket| f64::from(bucket.mean))
    }

    /// Everything that is kept, each time by the finest level that covers it, the oldest first.
    #[must_use]
    pub fn whole(&self) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for level in 0..LEVELS {
            let until = points.first().map_or(f64::INFINITY, |first| first.at_s - width_s(level) / 2.0);
            let older: Vec<_> = self.points(level, 0.0).take_while(|point| point.at_s < until).collect();
            points.splice(0..0, older);
        }
        points
    }
}

impl Level {
    fn push(&mut self, number: u64, value: f32) {
        if number > self.newest {
            // Buckets that nothing came for are empty; the ring holds others at their places.
            let skipped = (number - self.newest).min(BUCKETS as u64);
            for later in number - skipped + 1..=number {
                self.buckets[later as usize % BUCKETS] = Bucket::default();
            }
            self.newest = number;
        }
        let bucket = &mut self.buckets[number as usize % BUCKETS];
        bucket.low = if bucket.count == 0 { value } else { bucket.low.min(value) };
        bucket.count = bucket.count.saturating_add(1);
        bucket.mean += (value - bucket.mean) / f32::from(bucket.count);
    }

    fn of(&self, number: u64) -> Option<Bucket> {
        let kept = number <= self.newest && self.newest - number < BUCKETS as u64;
        Some(self.buckets[number as usize % BUCKETS]).filter(|bucket| kept && bucket.count > 0)
    }

    /// The buckets with their numbers, the oldest first.
    fn all(&self) -> impl Iterator<Item = (u64, Bucket)> + '_ {
        let first = (self.newest + 1).saturating_sub(BUCKETS as u64);
        (first..=self.newest).map(|number| (number, self.buckets[number as usize % BUCKETS]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_minutes_and_days_are_covered_alike() {
        let mut series = FigureSeries::default();
        let mut covered = Vec::new();
        for step in 0..100_000_u32 {
            let at = f64::from(step) * STEP_S;
            series.push(at, at);
            if [36, 720, 17_280].contains(&step) {
                covered.push(series.whole());
            }
        }
        covered.push(series.whole());
        for points in &covered {
            assert!(points.len() >= 36 && points.len() <= LEVELS * BUCKETS, "{}", points.len());
            assert!(points.windows(2).all(|pair| pair[0].at_s < pair[1].at_s));
            assert!(points.iter().all(|point| point.low <= point.mean && (point.mean - point.at_s).abs() < 2600.0));
        }
        assert!(covered[0][0].at_s < STEP_S && covered[2][0].at_s < 2600.0, "the whole day is kept");
        let (oldest, newest) = (covered[3][0].at_s, 500_000.0 - STEP_S);
        assert!(newest - oldest > 2.5 * 86_400.0, "{}", newest - oldest);
        assert_eq!((series.now(), series.span()), (newest, Some((0.0, newest))));
    }

    #[test]
    fn a_bucket_keeps_the_lowest_and_the_mean() {
        let mut series = FigureSeries::default();
        [(0.0, 4.0), (1.0, 2.0), (2.0, 6.0), (30.0, 9.0)].iter().for_each(|(at, value)| series.push(*at, *value));
        let points: Vec<_> = series.points(0, 0.0).collect();
        let expected = [Point { at_s: 2.5, low: 2.0, mean: 4.0 }, Point { at_s: 32.5, low: 9.0, mean: 9.0 }];
        assert_eq!(points, expected);
        assert_eq!((series.at(0, 1.0), series.at(0, 10.0), series.at(0, 90.0)), (Some(4.0), Some(4.0), Some(5.25)));
    }

    #[test]
    fn values_that_make_no_sense_are_left_out() {
        let mut series = FigureSeries::default();
        for (at, value) in [(5.0, f64::NAN), (f64::INFINITY, 1.0), (10.0, 1.0), (4.0, 7.0), (-1.0, 7.0)] {
            series.push(at, value);
        }
        assert_eq!((series.whole().len(), series.now(), series.span()), (1, 1.0, Some((10.0, 10.0))));
    }

    #[test]
    fn a_long_silence_empties_what_it_passes() {
        let mut series = FigureSeries::default();
        series.push(1.0, 1.0);
        series.push(1e7, 2.0);
        assert_eq!(series.points(0, 0.0).count(), 1);
        assert_eq!(series.whole().len(), 1);
    }
}
