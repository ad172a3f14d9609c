//! Made-up workloads: arrivals of several shapes, with requests that vary.

use std::str::FromStr;

use neurogc_load::Chance;
use serde::Serialize;

use crate::machine::SECOND;
use crate::workload::{Pace, Request, Start, Workload};

/// How requests come. Rates are requests in a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum TrafficShape {
    /// Independent clients.
    Poisson {
        /// How many.
        rate: f64,
    },
    /// Independent clients who come in crowds: twice the rate for a while, nearly none for a while, for times that
    /// vary (a Markov-modulated Poisson process).
    Bursty {
        /// How many on average.
        rate: f64,
    },
    /// A rate that swells and ebbs as in a day, which lasts a minute here.
    Diurnal {
        /// How many on average.
        rate: f64,
    },
    /// Users who wait for each answer and then think for a second on average.
    Closed {
        /// How many users.
        users: u32,
    },
}

/// A shape that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is no workload: write poisson:RATE, bursty:RATE, diurnal:RATE or closed:USERS, for instance poisson:200"
)]
pub struct ShapeError {
    given: String,
}

impl FromStr for TrafficShape {
    type Err = ShapeError;

    fn from_str(given: &str) -> Result<Self, ShapeError> {
        let wrong = || ShapeError { given: given.to_owned() };
        let (kind, number) = given.split_once(':').ok_or_else(wrong)?;
        let rate = number.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0).ok_or_else(wrong)?;
        match kind {
            "poisson" => Ok(Self::Poisson { rate }),
            "bursty" => Ok(Self::Bursty { rate }),
            "diurnal" => Ok(Self::Diurnal { rate }),
            "closed" => number.parse().map(|users| Self::Closed { users }).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// How long a crowd, and the time without one, last on average, in seconds.
const CROWD: f64 = 1.0;
/// The rate between crowds, and in them, as shares of the average.
const CROWDS: [f64; 2] = [0.1, 1.9];
/// How long a day lasts, in seconds, and how much of the rate swells and ebbs.
const DAY: f64 = 60.0;
const TIDE: f64 = 0.8;
/// How long users think on average, in seconds.
const THINKING: f64 = 1.0;

impl TrafficShape {
    /// So many requests that come in this shape. What each takes is drawn from `like`, requests of a recorded or an
    /// imagined program.
    #[must_use]
    pub fn requests(self, count: usize, like: &[Request], start: Start, seed: u64) -> Workload {
        let mut chance = Chance::new(seed);
        let mut workload = Workload::new(start);
        let mut clock = Clock { at: 0.0, crowd: false, turns: 0.0 };
        if let Self::Closed { users } = self {
            workload.pace = Pace::Closed(users.max(1));
        }
        workload.requests = (0..count)
            .map(|_| {
                let template = like.get(chance.number() as usize % like.len().max(1)).copied().unwrap_or_default();
                let at = match self {
                    Self::Closed { .. } => (chance.exponential(1.0 / THINKING) * SECOND) as u64,
                    _ => start.at + (clock.next(self, &mut chance) * SECOND) as u64,
                };
                Request { at, ..template }
            })
            .collect();
        workload
    }

    /// The rate at a moment.
    fn rate(self, at: f64, crowd: bool) -> f64 {
        match self {
            Self::Poisson { rate } => rate,
            Self::Bursty { rate } => rate * CROWDS[usize::from(crowd)],
            Self::Diurnal { rate } => rate * (1.0 + TIDE * (at / DAY * std::f64::consts::TAU).sin()),
            Self::Closed { .. } => 0.0,
        }
    }

    fn highest(self) -> f64 {
        match self {
            Self::Poisson { rate } => rate,
            Self::Bursty { rate } => rate * CROWDS[1],
            Self::Diurnal { rate } => rate * (1.0 + TIDE),
            Self::Closed { .. } => 0.0,
        }
    }
}

/// Where the arrivals are, in seconds.
struct Clock {
    at: f64,
    crowd: bool,
    /// When the crowd comes or goes next.
    turns: f64,
}

impl Clock {
    /// The next arrival: drawn from the highest rate, and thinned.
    fn next(&mut self, shape: TrafficShape, chance: &mut Chance) -> f64 {
        loop {
            self.at += chance.exponential(shape.highest());
            while self.at >= self.turns {
                self.turns += chance.exponential(1.0 / CROWD);
                self.crowd = !self.crowd;
            }
            if chance.share() * shape.highest() < shape.rate(self.at, self.crowd) {
                return self.at;
            }
        }
    }
}

/// Requests of a made-up service: two milliseconds on average, more work making more objects.
#[must_use]
pub fn imagined(count: usize, objects: f64, seed: u64) -> Vec<Request> {
    let mut chance = Chance::new(seed);
    let request = |chance: &mut Chance| {
        let share = 0.5 + chance.share();
        Request { service: (share * 2e6) as u64, objects: share * objects, ..Request::default() }
    };
    (0..count).map(|_| request(&mut chance)).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn moments(shape: &str, count: usize) -> Vec<f64> {
        let workload =
            shape.parse::<TrafficShape>().unwrap().requests(count, &imagined(10, 100.0, 1), Start::default(), 7);
        workload.requests.iter().map(|request| request.at as f64 / SECOND).collect()
    }

    /// How much the counts of seconds vary, against their mean: one for independent clients.
    fn spread(moments: &[f64]) -> f64 {
        let last = moments.last().copied().unwrap();
        let mut counts = vec![0.0; last as usize];
        for at in moments {
            if let Some(count) = counts.get_mut(*at as usize) {
                *count += 1.0;
            }
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64 / mean
    }

    #[test]
    fn rates_are_as_asked_and_shapes_differ() {
        for shape in ["poisson:200", "bursty:200", "diurnal:200"] {
            let moments = moments(shape, 120_000);
            let rate = 120_000.0 / moments.last().unwrap();
            assert!((185.0..215.0).contains(&rate), "{shape}: {rate}");
            assert!(moments.is_sorted());
        }
        assert!((0.7..1.3).contains(&spread(&moments("poisson:200", 60_000))));
        assert!(spread(&moments("bursty:200", 60_000)) > 20.0);
        assert!(spread(&moments("diurnal:200", 60_000)) > 20.0);
    }

    #[test]
    fn a_seed_repeats_itself() {
        let shape = TrafficShape::Bursty { rate: 50.0 };
        let make = |seed| shape.requests(100, &imagined(10, 100.0, 1), Start::default(), seed);
        assert_eq!(make(3), make(3));
        assert_ne!(make(3), make(4));
    }

    #[test]
    fn what_is_no_shape_says_what_would_be() {
        for given in ["poisson", "poisson:-1", "poisson:x", "sine:5", "closed:1.5"] {
            assert!(given.parse::<TrafficShape>().unwrap_err().to_string().contains("for instance"), "{given}");
        }
    }
}
