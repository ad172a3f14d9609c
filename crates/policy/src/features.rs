//! What a model sees of a program: one definition for the agent, the simulator and training.
//!
//! Everything follows from what the conductor looks at anyway, at a fixed cost for each look and without memory of its
//! own growing: counts and rates at several time scales, how long gaps have been, what collections cost and freed.

use std::time::Duration;

use neurogc_neural::WINDOW;

use crate::bytes::Bytes;
use crate::observation::{Collected, Flown, Generation, Observation, Snapshot};

/// Time scales of rates, in seconds.
const SCALES: [f64; 4] = [0.02, 0.1, 1.0, 10.0];

/// How fast estimates of costs and yields follow what is measured.
const FOLLOWS: f64 = 0.2;

/// How many features there are.
pub const FEATURES: usize = 30;

/// Their names, with units; `ln` is the natural logarithm of one more than it.
pub const NAMES: [&str; FEATURES] = [
    "idle_ln_ms",
    "in_flight_ln",
    "busy_20ms",
    "busy_100ms",
    "busy_1s",
    "busy_10s",
    "requests_20ms_ln_per_s",
    "requests_100ms_ln_per_s",
    "requests_1s_ln_per_s",
    "requests_10s_ln_per_s",
    "objects_100ms_ln_per_s",
    "objects_1s_ln_per_s",
    "objects_10s_ln_per_s",
    "requests_100ms_over_1s_ln",
    "requests_1s_over_10s_ln",
    "since_request_ln_ms",
    "last_gap_ln_ms",
    "gap_mean_ln_ms",
    "gap_spread_ln_ms",
    "longest_gap_ln_ms",
    "young_ln",
    "pending_share",
    "since_young_ln_ms",
    "since_full_ln_s",
    "memory_pressure",
    "young_yield",
    "old_yield",
    "young_pause_ln_ns_per_object",
    "full_pause_ln_ns_per_object",
    "snapshot_out",
];

/// The values of the features at a moment.
pub type FeatureRow = [f32; FEATURES];

/// Collections of fewer objects say nothing about the cost of one.
const TELLING: f64 = 500.0;

/// What a collection has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// Objects that it looked at.
    pub looked: f64,
    /// The share that it freed: of young objects, or of what was new among the old. A middle one shows neither.
    pub share: Option<f64>,
    /// Nanoseconds for an object.
    pub cost: Option<f64>,
}

/// What has been seen so far, in a few dozen numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Senses {
    now: f64,
    began: Option<f64>,
    requests: u64,
    young: u32,
    gap: Option<f64>,
    busy: [f64; 4],
    rate: [f64; 4],
    objects: [f64; 4],
    last_gap: f64,
    gap_mean: f64,
    gap_spread: f64,
    longest_gap: f64,
    last_request: f64,
    last_young: f64,
    last_whole: f64,
    /// Objects that young collections have left since the last middle one.
    survivors: f64,
    /// Objects, and new ones among the old, when everything was last there to be collected.
    all: f64,
    new: f64,
    /// The share of what young collections look at that they free, and of what has become old since the last time that
    /// a collection of everything frees.
    pub young_yield: f64,
    /// See `young_yield`.
    pub old_yield: f64,
    /// What collections take for an object, in nanoseconds.
    pub young_cost: f64,
    /// See `young_cost`.
    pub full_cost: f64,
}

impl Default for Senses {
    fn default() -> Self {
        Self {
            now: 0.0,
            began: None,
            requests: 0,
            young: 0,
            gap: None,
            busy: [0.0; 4],
            rate: [0.0; 4],
            objects: [0.0; 4],
            last_gap: 0.0,
            gap_mean: 0.0,
            gap_spread: 0.0,
            longest_gap: 0.0,
            last_request: 0.0,
            last_young: 0.0,
            last_whole: 0.0,
            survivors: 0.0,
            all: 0.0,
            new: 0.0,
            young_yield: 0.5,
            old_yield: 0.3,
            young_cost: 80.0,
            full_cost: 120.0,
        }
    }
}

impl Senses {
    /// Takes note of a look.
    pub fn look(&mut self, observation: &Observation) {
        let now = observation.now.as_secs_f64();
        let passed = (now - self.now).max(0.0);
        if self.began.is_none() {
            self.began = Some(now);
            self.requests = observation.requests;
        } else if passed > 0.0 {
            self.pass(observation, passed);
        }
        self.now = now;
        let served = observation.requests.saturating_sub(self.requests);
        if served > 0 || observation.in_flight > 0 {
            self.last_request = now;
        }
        self.requests = observation.requests;
        self.young = observation.counts[0];
        if matches!(observation.snapshot, Snapshot::Idle | Snapshot::Unavailable) {
            self.all = observation.objects() as f64;
            self.new = observation.pending as f64 + self.survivors;
        }
        match (observation.idle, self.gap) {
            (Some(idle), _) => self.gap = Some(idle.as_secs_f64()),
            (None, Some(lasted)) => self.end_gap(lasted),
            (None, None) => {}
        }
    }

    fn pass(&mut self, observation: &Observation, passed: f64) {
        // Where the program marks no requests, the end of a gap counts as one.
        let ended = u64::from(self.gap.is_some() && observation.idle.is_none());
        let served = observation.requests.saturating_sub(self.requests).max(ended) as f64 / passed;
        // After a collection the count begins anew.
        let allocated = f64::from(observation.counts[0].saturating_sub(self.young)) / passed;
        let idle = observation.idle.map_or(0.0, |idle| (idle.as_secs_f64() / passed).min(1.0));
        for (index, scale) in SCALES.iter().enumerate() {
            let weight = 1.0 - (-passed / scale).exp();
            self.busy[index] += weight * (1.0 - idle - self.busy[index]);
            self.rate[index] += weight * (served - self.rate[index]);
            self.objects[index] += weight * (allocated - self.objects[index]);
        }
        self.longest_gap *= (-passed / SCALES[3]).exp();
    }

    fn end_gap(&mut self, lasted: f64) {
        let length = ln_ms(lasted);
        let weight = 0.1;
        self.gap_spread += weight * ((length - self.gap_mean).abs() - self.gap_spread);
        self.gap_mean += weight * (length - self.gap_mean);
        self.last_gap = lasted;
        self.longest_gap = self.longest_gap.max(lasted);
        self.gap = None;
    }

    /// Takes note of a collection, and says what it has shown.
    pub fn learn(&mut self, collected: &Collected) -> Shown {
        let at = collected.at.as_secs_f64();
        let young = f64::from(collected.gathered);
        let (looked, new) = match collected.generation {
            Generation::Young => (young, young),
            Generation::Middle => (young + self.survivors, f64::INFINITY),
            Generation::Full => (self.all, self.new + young),
        };
        let telling = looked >= TELLING && new.is_finite();
        let shown = Shown {
            looked,
            share: telling.then(|| (collected.freed as f64 / new.max(1.0)).min(1.0)),
            cost: (looked >= TELLING).then(|| (collected.pause.as_nanos() as f64 / looked).max(1.0)),
        };
        self.last_young = at;
        match collected.generation {
            Generation::Young => {
                self.survivors += (young - collected.freed as f64).max(0.0);
                follow(&mut self.young_yield, shown.share);
                follow(&mut self.young_cost, shown.cost);
            }
            Generation::Middle => self.survivors = 0.0,
            Generation::Full => {
                self.survivors = 0.0;
                self.last_whole = at;
                follow(&mut self.old_yield, shown.share);
                follow(&mut self.full_cost, shown.cost);
            }
        }
        shown
    }

    /// Takes note of a snapshot that has been walked, and gives the share of what was new that it found to be garbage,
    /// where enough was new to tell.
    pub fn landed(&mut self, flown: &Flown) -> Option<f64> {
        self.last_whole = flown.at.as_secs_f64();
        let share = (self.new >= TELLING).then(|| (flown.found as f64 / self.new).min(1.0));
        follow(&mut self.old_yield, share);
        share
    }

    /// Objects that young collections have left since the last middle one.
    #[must_use]
    pub fn survivors(&self) -> f64 {
        self.survivors
    }

    /// Requests in a second over about the last tenth of a second, second, and ten.
    #[must_use]
    pub fn rates(&self) -> [f64; 3] {
        [self.rate[1], self.rate[2], self.rate[3]]
    }

    /// The share of the last second, about, in which a thread ran.
    #[must_use]
    pub fn busy(&self) -> f64 {
        self.busy[2]
    }

    /// The features at a moment at which the program has been idle for so long.
    #[must_use]
    pub fn row(&self, observation: &Observation, idle: Option<Duration>) -> FeatureRow {
        let ln = |value: f64| value.max(0.0).ln_1p();
        let ratio = |one: f64, other: f64| ((one + 1.0) / (other + 1.0)).ln();
        let ceiling = observation.ceiling.map_or(0.0, Bytes::as_f64);
        let row = [
            idle.map_or(-1.0, |idle| ln_ms(idle.as_secs_f64())),
            ln(observation.in_flight as f64),
            self.busy[0],
            self.busy[1],
            self.busy[2],
            self.busy[3],
            ln(self.rate[0]),
            ln(self.rate[1]),
            ln(self.rate[2]),
            ln(self.rate[3]),
            ln(self.objects[1]),
            ln(self.objects[2]),
            ln(self.objects[3]),
            ratio(self.rate[1], self.rate[2]),
            ratio(self.rate[2], self.rate[3]),
            ln_ms(self.now - self.last_request),
            ln_ms(self.last_gap),
            self.gap_mean,
            self.gap_spread,
            ln_ms(self.longest_gap),
            ln(f64::from(observation.counts[0])),
            observation.pending as f64 / (observation.tenured as f64 + 10_000.0),
            ln_ms(self.now - self.last_young),
            ln(self.now - self.last_whole),
            if ceiling > 0.0 { (observation.rss.as_f64() / ceiling).min(1.0) } else { 0.0 },
            self.young_yield,
            self.old_yield,
            self.young_cost.max(1.0).ln(),
            self.full_cost.max(1.0).ln(),
            f64::from(u8::from(!matches!(observation.snapshot, Snapshot::Idle | Snapshot::Unavailable))),
        ];
        row.map(|value| value as f32)
    }
}

/// Finds the gaps that looks alone do not see the end of: a request that is served between two looks has ended one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GapFinder {
    looked: Duration,
    requests: u64,
    /// When the latest request was over, as far as is known.
    served: Duration,
}

impl GapFinder {
    /// The same observation, idle for no longer than nothing was served.
    pub fn look(&mut self, observation: &Observation) -> Observation {
        if observation.requests != self.requests {
            self.served = self.looked + observation.now.saturating_sub(self.looked) / 2;
        }
        (self.looked, self.requests) = (observation.now, observation.requests);
        let quiet = observation.now.saturating_sub(self.served);
        Observation { idle: observation.idle.map(|idle| idle.min(quiet)), ..*observation }
    }
}

/// How long apart the rows of a window are.
const TICK: Duration = Duration::from_millis(50);

/// The features of the last moments: a row for each tick, and the last one for now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeatureWindow {
    rows: [f32; WINDOW * FEATURES],
    next_tick: Option<Duration>,
}

impl Default for FeatureWindow {
    fn default() -> Self {
        Self { rows: [0.0; WINDOW * FEATURES], next_tick: None }
    }
}

impl FeatureWindow {
    /// The window that ends with this row.
    pub fn at(&mut self, now: Duration, row: &FeatureRow) -> &[f32; WINDOW * FEATURES] {
        let last = (WINDOW - 1) * FEATURES;
        if self.next_tick.is_none() {
            self.rows.chunks_exact_mut(FEATURES).for_each(|it| it.copy_from_slice(row));
        }
        if self.next_tick.is_none_or(|tick| now >= tick) {
            self.rows.copy_within(FEATURES.., 0);
            self.next_tick = Some(now + TICK);
        }
        self.rows[last..].copy_from_slice(row);
        &self.rows
    }
}

/// Moves an estimate towards what was measured, where anything was.
pub(crate) fn follow(estimate: &mut f64, measured: Option<f64>) {
    *estimate += FOLLOWS * (measured.unwrap_or(*estimate) - *estimate);
}

/// A time as models see it.
fn ln_ms(seconds: f64) -> f64 {
    (seconds.max(0.0) * 1e3).ln_1p()
}
