//! When requests come, as times since the start: known before the first one is sent, whatever the service does.

use std::time::Duration;

use crate::chance::Chance;

/// A stretch with one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// How long it lasts.
    pub lasts: Duration,
    /// Requests in a second.
    pub per_second: f64,
}

/// A process of arrivals.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Independent clients: a Poisson process.
    Poisson {
        /// Requests in a second.
        per_second: f64,
    },
    /// A Poisson process, and every so often many at once.
    Bursts {
        /// Requests in a second between the bursts.
        per_second: f64,
        /// Requests of a burst, all at one moment.
        size: u32,
        /// From one burst to the next.
        every: Duration,
    },
    /// A Poisson process whose rate climbs or falls evenly, and then stays.
    Ramp {
        /// Requests in a second at the start.
        from: f64,
        /// Requests in a second at the end.
        to: f64,
        /// How long the change takes.
        over: Duration,
    },
    /// Poisson processes one after the other; the last one stays.
    Phases(Vec<Phase>),
    /// Recorded moments, sent again.
    Replay(Vec<Duration>),
}

impl Arrivals {
    /// The moments before `until`, in order. The same seed gives the same ones.
    #[must_use]
    pub fn schedule(&self, until: Duration, seed: u64) -> ArrivalTimes {
        let mut replay = match self {
            Self::Replay(moments) => moments.clone(),
            _ => Vec::new(),
        };
        replay.sort_unstable();
        replay.reverse();
        ArrivalTimes {
            highest: self.highest_rate(),
            arrivals: self.clone(),
            until,
            chance: Chance::new(seed),
            random_at: 0.0,
            drawn: None,
            burst: 0,
            burst_left: self.burst_size(),
            replay,
        }
    }

    fn burst_size(&self) -> u32 {
        if let Self::Bursts { size, .. } = self { *size } else { 0 }
    }

    fn highest_rate(&self) -> f64 {
        match self {
            Self::Poisson { per_second } | Self::Bursts { per_second, .. } => *per_second,
            Self::Ramp { from, to, .. } => from.max(*to),
            Self::Phases(phases) => phases.iter().map(|phase| phase.per_second).fold(0.0, f64::max),
            Self::Replay(_) => 0.0,
        }
    }

    /// The rate of the random part at a moment.
    fn rate_at(&self, seconds: f64) -> f64 {
        match self {
            Self::Poisson { per_second } | Self::Bursts { per_second, .. } => *per_second,
            Self::Ramp { from, to, over } => {
                let share = if over.is_zero() { 1.0 } else { (seconds / over.as_secs_f64()).min(1.0) };
                from + (to - from) * share
            }
            Self::Phases(phases) => {
                let mut end = 0.0;
                for phase in phases {
                    end += phase.lasts.as_secs_f64();
                    if seconds < end {
                        return phase.per_second;
                    }
                }
                phases.last().map_or(0.0, |last| last.per_second)
            }
            Self::Replay(_) => 0.0,
        }
    }
}

/// The moments of one process of arrivals, in order.
#[derive(Clone, Debug)]
pub struct ArrivalTimes {
    arrivals: Arrivals,
    highest: f64,
    until: Duration,
    chance: Chance,
    random_at: f64,
    drawn: Option<Duration>,
    burst: u32,
    burst_left: u32,
    replay: Vec<Duration>,
}

impl ArrivalTimes {
    /// The next moment of the random part. A rate that changes is drawn from the highest one, and thinned.
    fn random(&mut self) -> Option<Duration> {
        if self.highest <= 0.0 {
            return None;
        }
        while self.random_at < self.until.as_secs_f64() {
            self.random_at += self.chance.exponential(self.highest);
            let kept = self.chance.share() * self.highest < self.arrivals.rate_at(self.random_at);
            if kept && self.random_at < self.until.as_secs_f64() {
                return Some(Duration::from_secs_f64(self.random_at));
            }
        }
        None
    }

    fn burst_at(&self) -> Option<Duration> {
        match &self.arrivals {
            Arrivals::Bursts { every, .. } if self.burst_left > 0 && !every.is_zero() => {
                Some(every.saturating_mul(self.burst + 1)).filter(|at| *at < self.until)
            }
            _ => None,
        }
    }
}

impl Iterator for ArrivalTimes {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if let Arrivals::Replay(_) = self.arrivals {
            return self.replay.pop().filter(|at| *at < self.until);
        }
        if self.drawn.is_none() {
            self.drawn = self.random();
        }
        match (self.drawn, self.burst_at()) {
            (Some(random), burst) if burst.is_none_or(|burst| random <= burst) => self.drawn.take(),
            (_, None) => None,
            (_, Some(burst)) => {
                self.burst_left -= 1;
                if self.burst_left == 0 {
                    self.burst += 1;
                    self.burst_left = self.arrivals.burst_size();
                }
                Some(burst)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn between(moments: &[Duration], from: u64, to: u64) -> usize {
        moments.iter().filter(|at| (seconds(from)..seconds(to)).contains(*at)).count()
    }

    #[test]
    fn poisson_has_its_rate_and_its_spread() {
        let moments: Vec<_> = Arrivals::Poisson { per_second: 200.0 }.schedule(seconds(200), 3).collect();
        assert!((39_200..40_800).contains(&moments.len()), "{}", moments.len());
        // In a Poisson process the counts of equal stretches vary as much as their mean.
        let counts: Vec<f64> = (0..200).map(|at| between(&moments, at, at + 1) as f64).collect();
        let mean = counts.iter().sum::<f64>() / 200.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 199.0;
        assert!((0.7..1.4).contains(&(variance / mean)), "{}", variance / mean);
    }

    #[test]
    fn a_burst_comes_at_one_moment() {
        let bursts = Arrivals::Bursts { per_second: 10.0, size: 50, every: seconds(2) };
        let moments: Vec<_> = bursts.schedule(seconds(7), 1).collect();
        for at in [2, 4, 6] {
            assert_eq!(moments.iter().filter(|moment| **moment == seconds(at)).count(), 50);
        }
        assert!((150 + 40..150 + 110).contains(&moments.len()), "{}", moments.len());
    }

    #[test]
    fn a_ramp_climbs_and_stays() {
        let ramp = Arrivals::Ramp { from: 0.0, to: 1000.0, over: seconds(10) };
        let moments: Vec<_> = ramp.schedule(seconds(20), 5).collect();
        assert!((800..1200).contains(&between(&moments, 0, 10).abs_diff(4000)));
        assert!(between(&moments, 0, 1) < 100);
        assert!((9_600..10_400).contains(&between(&moments, 10, 20)));
    }

    #[test]
    fn phases_follow_each_other() {
        let phase = |lasts, per_second| Phase { lasts: seconds(lasts), per_second };
        let moments: Vec<_> =
            Arrivals::Phases(vec![phase(5, 2000.0), phase(5, 100.0)]).schedule(seconds(12), 9).collect();
        assert!((9_600..10_400).contains(&between(&moments, 0, 5)));
        assert!((600..800).contains(&between(&moments, 5, 12)), "the last one stays");
    }

    #[test]
    fn recorded_moments_come_again_in_order() {
        let moments = vec![seconds(3), seconds(1), seconds(9)];
        let replayed: Vec<_> = Arrivals::Replay(moments).schedule(seconds(5), 0).collect();
        assert_eq!(replayed, [seconds(1), seconds(3)]);
    }

    proptest! {
        #[test]
        fn moments_are_in_order_before_the_end_and_repeat(
            rate in 0.0_f64..500.0, size in 0_u32..20, every_ms in 0_u64..900, until_ms in 0_u64..3000, seed: u64
        ) {
            let until = Duration::from_millis(until_ms);
            let all = [
                Arrivals::Poisson { per_second: rate },
                Arrivals::Bursts { per_second: rate, size, every: Duration::from_millis(every_ms) },
                Arrivals::Ramp { from: rate, to: rate / 3.0, over: Duration::from_millis(every_ms) },
                Arrivals::Phases(vec![Phase { lasts: Duration::from_millis(every_ms), per_second: rate }]),
            ];
            for arrivals in all {
                let moments: Vec<_> = arrivals.schedule(until, seed).collect();
                prop_assert!(moments.is_sorted());
                prop_assert!(moments.iter().all(|at| *at < until));
                prop_assert_eq!(&moments, &arrivals.schedule(until, seed).collect::<Vec<_>>());
            }
        }
    }
}
