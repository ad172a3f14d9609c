//! What the policy `classic` sees of a program: ten metrics, sampled once a second. One definition for the agent, the
//! simulator and training.

use std::time::Duration;

use crate::bytes::Bytes;
use crate::observation::{Collected, Generation, Observation};

/// How many metrics there are.
pub const METRICS: usize = 10;

/// Their names, with units.
pub const NAMES: [&str; METRICS] = [
    "cpu_share",
    "memory_share",
    "requests_per_s",
    "in_flight",
    "young_objects",
    "young_collections",
    "middle_collections",
    "pending_share",
    "since_full_s",
    "collected",
];

/// What the model makes of them: how urgent a collection is, from 0 to 1.
pub const OUTPUTS: [&str; 1] = ["urgency"];

/// How many samples the model looks at, and how long they are apart.
pub const SAMPLES: usize = 10;
const INTERVAL: Duration = Duration::from_secs(1);

/// Full collections that are further in the past are all the same.
const LONG_AGO: f64 = 60.0;

/// The values of the metrics at a moment.
pub type MetricSample = [f32; METRICS];

/// What has been seen since the last sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    memory: Bytes,
    looked: Option<Duration>,
    sampled: Duration,
    busy: f64,
    requests: u64,
    collected: bool,
    last_full: Duration,
}

impl Metrics {
    /// For a program that can have so much memory, where nothing else limits it further.
    #[must_use]
    pub fn new(memory: Bytes) -> Self {
        Self {
            memory,
            looked: None,
            sampled: Duration::ZERO,
            busy: 0.0,
            requests: 0,
            collected: false,
            last_full: Duration::ZERO,
        }
    }

    /// Takes note of a look, and gives a sample when one is due.
    pub fn look(&mut self, observation: &Observation) -> Option<MetricSample> {
        let now = observation.now;
        let Some(looked) = self.looked.replace(now) else {
            self.sampled = now;
            self.requests = observation.requests;
            return None;
        };
        let passed = now.saturating_sub(looked);
        self.busy += passed.saturating_sub(observation.idle.unwrap_or_default()).as_secs_f64();
        let since = now.saturating_sub(self.sampled);
        if since < INTERVAL {
            return None;
        }
        let sample = self.sample(observation, since.as_secs_f64());
        self.sampled = now;
        self.requests = observation.requests;
        self.busy = 0.0;
        self.collected = false;
        Some(sample)
    }

    fn sample(&self, observation: &Observation, seconds: f64) -> MetricSample {
        let memory = observation.ceiling.unwrap_or(Bytes::MAX).min(self.memory).max(Bytes::new(1));
        let since_full = observation.now.saturating_sub(self.last_full).as_secs_f64();
        let [young_objects, young_collections, middle_collections] = observation.counts.map(f64::from);
        let sample = [
            (self.busy / seconds).min(1.0),
            (observation.rss.as_f64() / memory.as_f64()).min(1.0),
            observation.requests.saturating_sub(self.requests) as f64 / seconds,
            observation.in_flight as f64,
            young_objects,
            young_collections,
            middle_collections,
            observation.pending as f64 / (observation.tenured as f64 + 10_000.0),
            since_full.min(LONG_AGO),
            f64::from(u8::from(self.collected)),
        ];
        sample.map(|value| value as f32)
    }

    /// Takes note of a collection.
    pub fn learn(&mut self, collected: &Collected) {
        self.collected = true;
        if collected.generation == Generation::Full {
            self.last_full = collected.at;
        }
    }
}

/// What the original taught its model: how urgent a collection is, by a formula of the last sample.
#[must_use]
pub fn target(sample: &MetricSample) -> f32 {
    let [cpu, memory, .., collected] = sample;
    (0.4 * memory + 0.3 * cpu + 0.3 * (1.0 - 0.5 * collected)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_becomes_a_sample() {
        let mut metrics = Metrics::new(Bytes::new(1_000));
        let mut samples = Vec::new();
        for at in 0..=250 {
            let now = Duration::from_millis(20 * at);
            // The program runs in every other 20 ms, and a request is served in each of them.
            let idle = at.is_multiple_of(2).then_some(Duration::from_millis(20));
            let observation =
                Observation { now, idle, requests: at / 2, rss: Bytes::new(400), ..Observation::default() };
            samples.extend(metrics.look(&observation));
            if at == 60 {
                let (pause, generation) = (Duration::ZERO, Generation::Full);
                metrics.learn(&Collected {
                    at: now,
                    generation,
                    pause,
                    gathered: 0,
                    freed: 0,
                    rss: Bytes::new(400),
                    objects: None,
                });
            }
        }
        let seen: Vec<_> = samples.iter().map(|it| [it[0], it[1], it[2], it[8], it[9]]).collect();
        let expect = [[0.5, 0.4, 25.0, 1.0, 0.0], [0.5, 0.4, 25.0, 0.8, 1.0], [0.5, 0.4, 25.0, 1.8, 0.0]];
        for (seen, expect) in seen.iter().zip(expect) {
            assert!(seen.iter().zip(expect).all(|(one, other)| (one - other).abs() < 1e-3), "{seen:?} {expect:?}");
        }
        assert_eq!(samples.len(), 5);
    }

    #[test]
    fn memory_is_a_share_of_whatever_is_less() {
        for (ceiling, expect) in [(None, 0.5), (Some(500), 1.0), (Some(u64::MAX), 0.5), (Some(0), 1.0)] {
            let ceiling = ceiling.map(Bytes::new);
            let mut metrics = Metrics::new(Bytes::new(1_000));
            let at = |secs| Observation {
                now: Duration::from_secs(secs),
                rss: Bytes::new(500),
                ceiling,
                ..Observation::default()
            };
            assert_eq!(metrics.look(&at(0)), None);
            assert_eq!(metrics.look(&at(1)).map(|sample| sample[1]), Some(expect));
        }
    }
}
