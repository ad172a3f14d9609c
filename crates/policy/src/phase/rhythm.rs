//! What comes by the clock: an autocorrelation of arrivals over 0.05 to 60 seconds.
//!
//! Arrivals are counted in bins of three widths. When a bin is full, its product with each earlier bin at most a hundred back
//! is averaged, old ones counting ever less: about twenty thousand additions for a second, whatever the program does.

use std::time::Duration;

/// The widths of bins, in nanoseconds. Each finds periods of 10 to 100 bins: up to 0.5, 5 and 60 seconds.
const WIDTHS: [u64; 3] = [5_000_000, 50_000_000, 600_000_000];
const SHORTEST: usize = 10;
const LONGEST: usize = 100;

/// Bins that are kept: as many as it takes to look back over three periods.
const KEPT: usize = 512;

/// A new bin counts for one part in so many.
const MEMORY: f32 = 400.0;

/// Arrivals repeat if they correlate at least so well; the shortest period is taken that is nearly as good as the best.
const REPEATS: f32 = 0.3;
const NEARLY_AS_GOOD: f32 = 0.8;

/// A period must have been seen so many times, with so many arrivals; and where there are few bins, they must correlate by so
/// many times more than chance makes them.
const TIMES: usize = 4;
const ARRIVALS: f32 = 60.0;
const CHANCE: f32 = 6.0;

/// How many periods back a forecast looks.
const BACK: usize = 3;

/// Arrivals of one width.
#[derive(Clone, Debug)]
struct Bins {
    width: u64,
    counts: [f32; KEPT],
    /// The number of the bin that is being filled, and how many arrivals it has; whether there has been one.
    current: u64,
    filling: f32,
    begun: bool,
    full: usize,
    mean: f32,
    variance: f32,
    products: [f32; LONGEST],
}

impl Bins {
    fn new(width: u64) -> Self {
        Self {
            width,
            counts: [0.0; KEPT],
            current: 0,
            filling: 0.0,
            begun: false,
            full: 0,
            mean: 0.0,
            variance: 0.0,
            products: [0.0; LONGEST],
        }
    }

    /// Time has gone by.
    fn advance(&mut self, now: u64) {
        let bin = now / self.width;
        if !self.begun {
            (self.current, self.begun) = (bin, true);
        }
        if bin.saturating_sub(self.current) > KEPT as u64 {
            // After so long without a look nothing is known.
            *self = Self { current: bin, begun: true, ..Self::new(self.width) };
        }
        while self.current < bin {
            let count = std::mem::take(&mut self.filling);
            self.complete(count);
            self.current += 1;
        }
    }

    fn complete(&mut self, count: f32) {
        let part = (1.0 / MEMORY).max(1.0 / (self.full + 1) as f32);
        self.mean += part * (count - self.mean);
        let mean = self.mean;
        self.variance += part * ((count - mean) * (count - mean) - self.variance);
        for (index, product) in self.products.iter_mut().enumerate() {
            let lag = index + 1;
            if self.full < lag {
                break;
            }
            let part = (1.0 / MEMORY).max(1.0 / (self.full - lag + 1) as f32);
            let before = self.counts[(self.full - lag) % KEPT];
            *product += part * ((count - mean) * (before - mean) - *product);
        }
        self.counts[self.full % KEPT] = count;
        self.full += 1;
    }

    /// How well arrivals correlate with those so many bins before.
    fn correlation(&self, lag: usize) -> f32 {
        let product = self.products.get(lag - 1).copied().unwrap_or(0.0);
        if self.variance > 1e-6 { product / self.variance } else { 0.0 }
    }

    /// The period in bins, and how well it correlates.
    fn period(&self) -> Option<(usize, f32)> {
        let known = LONGEST.min(self.full / TIMES);
        let remembered = (self.full as f32).min(MEMORY);
        if self.mean * remembered < ARRIVALS {
            return None;
        }
        let scores = (SHORTEST..=known).map(|lag| self.correlation(lag).max(self.pair(lag)));
        let scores: [f32; LONGEST + 1] = scores.enumerate().fold([0.0; LONGEST + 1], |mut all, (index, score)| {
            all[index + SHORTEST] = score;
            all
        });
        let best = scores.iter().copied().fold(0.0, f32::max);
        if best < REPEATS.max(CHANCE / remembered.sqrt()) {
            return None;
        }
        let first = scores.iter().position(|score| *score >= NEARLY_AS_GOOD * best)?;
        // The top of the hill that begins there.
        let top = (first..=known).take_while(|&lag| lag == first || scores[lag] >= scores[lag - 1]).last()?;
        Some((top, scores[top]))
    }

    /// Between two numbers of bins, half of what repeats falls on either.
    fn pair(&self, lag: usize) -> f32 {
        self.correlation(lag) + if lag < LONGEST { self.correlation(lag + 1) } else { 0.0 }
    }
}

/// Arrivals by the clock.
#[derive(Clone, Debug)]
pub struct Rhythm {
    widths: [Bins; 3],
}

impl Default for Rhythm {
    fn default() -> Self {
        Self { widths: WIDTHS.map(Bins::new) }
    }
}

impl Rhythm {
    /// A request, or a step, has come. Times do not go back.
    pub fn arrived(&mut self, now: Duration) {
        self.look(now);
        for bins in &mut self.widths {
            bins.filling += 1.0;
        }
    }

    /// Time has gone by.
    pub fn look(&mut self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        for bins in &mut self.widths {
            bins.advance(now);
        }
    }

    /// After how long arrivals repeat; nothing where they do not.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        let (bins, lag) = self.best()?;
        Some(Duration::from_nanos(bins.width * lag as u64))
    }

    fn best(&self) -> Option<(&Bins, usize)> {
        // Short periods are known first, and best.
        self.widths.iter().find_map(|bins| bins.period().map(|(lag, _)| (bins, lag)))
    }

    /// Where in its period the program is, from 0 to 1, counted from the most crowded moment of the last one.
    #[must_use]
    pub fn position(&self) -> Option<f64> {
        let (bins, lag) = self.best()?;
        let back =
            (1..=lag).max_by(|&a, &b| self.expected_back(bins, lag, a).total_cmp(&self.expected_back(bins, lag, b)))?;
        Some((back - 1) as f64 / lag as f64)
    }

    /// Arrivals so many bins before the one that is being filled, averaged over the periods before.
    fn expected_back(&self, bins: &Bins, lag: usize, back: usize) -> f32 {
        let lags = (0..BACK).map(|periods| back + periods * lag).filter(|lag| *lag <= bins.full.min(KEPT));
        let (sum, count) =
            lags.fold((0.0, 0.0), |(sum, count), lag| (sum + bins.counts[(bins.full - lag) % KEPT], count + 1.0));
        sum / f32::max(count, 1.0)
    }

    /// How many times as many arrivals as on average are to be expected at a time ahead, within one period. Nothing where they
    /// do not repeat.
    #[must_use]
    pub fn crowd_in(&self, ahead: Duration) -> Option<f64> {
        let (bins, lag) = self.best()?;
        let ahead = usize::try_from(ahead.as_nanos() / u128::from(bins.width)).ok().filter(|ahead| *ahead < lag)?;
        Some(f64::from(self.expected_back(bins, lag, lag - ahead) / bins.mean.max(1e-6)))
    }

    /// How long it is until the most crowded moment of the period comes again.
    #[must_use]
    pub fn next_crowd(&self) -> Option<Duration> {
        let (bins, lag) = self.best()?;
        let crowd = |ahead: usize| self.expected_back(bins, lag, lag - ahead);
        let ahead = (0..lag).max_by(|&a, &b| crowd(a).total_cmp(&crowd(b)).then(b.cmp(&a)))?;
        Some(Duration::from_nanos(bins.width * ahead as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::super::chance::Jitter;
    use super::*;

    /// Moments of independent arrivals at a rate, and of `crowd` at once every `period` seconds.
    fn arrivals(rate: f64, period: f64, crowd: usize, seconds: f64) -> Vec<f64> {
        let mut chance = Jitter(5);
        let mut times = Vec::new();
        let mut at = 0.0;
        while at < seconds {
            at += chance.exponential(rate);
            times.push(at);
        }
        let mut at = 0.013;
        while crowd > 0 && at < seconds {
            times.extend((0..crowd).map(|index| at + 0.2e-3 * index as f64));
            at += period;
        }
        times.sort_unstable_by(f64::total_cmp);
        times
    }

    fn play(times: &[f64]) -> Rhythm {
        let mut rhythm = Rhythm::default();
        for at in times {
            rhythm.arrived(Duration::from_secs_f64(*at));
        }
        rhythm
    }

    #[test]
    fn a_job_by_the_clock_is_heard_through_other_requests() {
        for (period, crowd) in [(0.1, 10), (0.35, 30), (2.0, 150), (30.0, 600)] {
            let rhythm = play(&arrivals(40.0, period, crowd, 60.0 + 12.0 * period));
            let found = rhythm.period().unwrap_or_default().as_secs_f64();
            assert!((found / period - 1.0).abs() <= 0.1, "{period}: {found}");
        }
    }

    #[test]
    fn the_next_crowd_is_foretold() {
        let times = arrivals(40.0, 2.0, 150, 200.0);
        let (mut rhythm, mut asked, mut right) = (Rhythm::default(), 0, 0);
        let mut look = 100.7;
        for at in times {
            while look < at {
                rhythm.look(Duration::from_secs_f64(look));
                let said = look + rhythm.next_crowd().unwrap_or_default().as_secs_f64();
                // Crowds come at 0.013 and last 30 milliseconds.
                let off = (said - 0.013) / 2.0;
                right += u32::from((off - off.round()).abs() * 2.0 <= 0.1);
                asked += 1;
                look += 2.0;
            }
            rhythm.arrived(Duration::from_secs_f64(at));
        }
        assert!(asked > 40 && f64::from(right) >= 0.9 * f64::from(asked), "{right} of {asked}");
        let crowd = rhythm.next_crowd().and_then(|ahead| rhythm.crowd_in(ahead)).unwrap_or_default();
        assert!(crowd > 5.0, "{crowd}");
    }

    #[test]
    fn independent_arrivals_have_no_period() {
        for rate in [2.0, 40.0, 1_000.0] {
            let times = arrivals(rate, 1.0, 0, 120.0);
            let (mut rhythm, mut said, mut asked) = (Rhythm::default(), 0, 0);
            for at in times {
                rhythm.arrived(Duration::from_secs_f64(at));
                asked += 1;
                said += u32::from(asked > 100 && rhythm.period().is_some());
            }
            assert!(f64::from(said) <= 0.01 * f64::from(asked), "{rate}: {said} of {asked}");
        }
    }

    #[test]
    fn a_long_silence_is_a_new_beginning() {
        let mut rhythm = play(&arrivals(40.0, 2.0, 150, 60.0));
        rhythm.look(Duration::from_secs(100_000));
        assert_eq!(rhythm.period(), None);
        assert!(size_of::<Rhythm>() < 16 * 1024);
    }
}
