//! What a model expects, corrected by what really happened, and whether it can be relied on at all.
//!
//! Each time a gap ends, the quantiles that were expected of it are moved a little: up where it was longer, down where
//! it was shorter, so that in the long run each is passed as often as it says (online conformal prediction). Pauses and
//! yields are corrected by the mean of their latest errors. Where the gaps of a while fall outside of what was expected
//! far more often than they should, the program is not what the model knows: others decide until that is over.

use std::time::Duration;

use neurogc_neural::{GAP_LEVELS, Model, OUTPUTS};

use crate::features::{FeatureWindow, Senses, Shown};
use crate::observation::{Generation, Observation};

/// How far an outcome moves a quantile, on the scale of ln(1 + ms), and how far quantiles may be moved in all.
const STEP: f64 = 0.05;
const FARTHEST: f64 = 2.5;

/// Times that differ by less are the same, in seconds.
const SAME: f64 = 1e-4;

/// How much of an error of a pause or a yield is corrected at once.
const FOLLOWS: f64 = 0.2;

/// Over how many gaps one looks for drift. Of those that are as expected a fifth falls outside of the outer quantiles.
const GAPS: f64 = 20.0;
const ASTRAY: f64 = 0.7;
const CALM: f64 = 0.35;

/// How long it must be calm before the model is trusted again.
const TRUSTED_AGAIN: Duration = Duration::from_secs(3);

/// What is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// Quantiles of what remains of the gap, or of the next one where there is none, in milliseconds.
    pub gap: [f64; 5],
    /// The share of young objects that a collection frees, and of what has become old since everything was collected.
    pub young_yield: f64,
    /// See `young_yield`.
    pub old_yield: f64,
    /// What a collection takes for an object, in nanoseconds.
    pub young_cost: f64,
    /// See `young_cost`.
    pub full_cost: f64,
}

/// How far the model can be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trust {
    /// The family of the model.
    pub family: &'static str,
    /// What it expects of the gap, or of the next one: 10, 25, 50, 75 and 90 % are over by then, in milliseconds.
    pub gap_ms: [f64; 5],
    /// The latest gap that is over.
    pub latest: Option<ComparedGap>,
    /// Gaps whose end was compared with what was expected.
    pub gaps: u64,
    /// How often a gap was over before each quantile, lately; 10, 25, 50, 75, 90 % where it is calibrated.
    pub covered: [f64; 5],
    /// The share of the latest gaps that fell outside of the outer quantiles; 20 % where nothing is wrong.
    pub astray: f64,
    /// Whether others decide at present.
    pub drifted: bool,
    /// How often that has begun.
    pub drifts: u64,
}

/// A gap that is over, and what was expected when it was first seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ComparedGap {
    /// How long it lasted from then on, in milliseconds.
    pub lasted_ms: f64,
    /// By then 10, 25, 50, 75 and 90 % were to be over, in milliseconds.
    pub expected_ms: [f64; 5],
}

/// A model at work.
#[derive(Debug)]
pub(super) struct Foresight {
    model: Model,
    window: FeatureWindow,
    trust: Trust,
    /// What is added to the quantiles.
    moved: [f64; 5],
    /// What is added to yields and pauses, in the model's units.
    errors: [f64; 4],
    outputs: [f32; OUTPUTS],
    /// What was expected when the present gap was first seen, and when that was.
    open: Option<(f64, [f64; 5])>,
    seen_idle: f64,
    calm_since: Option<Duration>,
}

impl Foresight {
    pub(super) fn new(model: Model) -> Self {
        let covered = GAP_LEVELS.map(f64::from);
        Self {
            window: FeatureWindow::default(),
            trust: Trust { family: model.family().name(), covered, astray: 0.2, ..Trust::default() },
            model,
            moved: [0.0; 5],
            errors: [0.0; 4],
            outputs: [0.0; OUTPUTS],
            open: None,
            seen_idle: 0.0,
            calm_since: None,
        }
    }

    pub(super) fn trust(&self) -> Trust {
        self.trust
    }

    /// The program has not been looked at for a while: how the present gap goes on is not seen.
    pub(super) fn lose_sight(&mut self) {
        self.open = None;
    }

    /// What is expected now; where there is no gap, of the gap that begins next.
    pub(super) fn look(&mut self, observation: &Observation, senses: &Senses) -> Expected {
        let now = observation.now.as_secs_f64();
        let row = senses.row(observation, observation.idle);
        let window = self.window.at(observation.now, &row);
        self.model.predict(window, &mut self.outputs);
        let gap = self.quantiles(observation.is_gap());
        // The present gap began then; where there is none, it begins now at the earliest.
        let began = now - observation.idle.map_or(0.0, |idle| idle.as_secs_f64());
        let is_another = |since: f64| observation.idle.is_none() || began > since + SAME;
        if let Some((since, expected)) = self.open.filter(|(since, _)| is_another(*since)) {
            // That one ended at some moment since the look before.
            let lasted = f64::midpoint(self.seen_idle, began) - since;
            self.compare((lasted * 1e3).ln_1p(), &expected, observation.now);
            self.open = None;
        }
        if observation.is_gap() {
            self.open.get_or_insert((now, gap));
            self.seen_idle = now;
        }
        let [young_yield, old_yield, young_cost, full_cost] = self.corrected();
        self.trust.gap_ms = gap.map(f64::exp_m1);
        Expected {
            gap: self.trust.gap_ms,
            young_yield: young_yield.clamp(0.0, 1.0),
            old_yield: old_yield.clamp(0.0, 1.0),
            young_cost: young_cost.clamp(0.0, 12.0).exp(),
            full_cost: full_cost.clamp(0.0, 12.0).exp(),
        }
    }

    /// The quantiles, corrected. Gaps that are over before the next look are never compared, so that of a gap to come
    /// nothing longer is expected than the model says.
    fn quantiles(&self, is_gap: bool) -> [f64; 5] {
        let mut gap = [0.0; 5];
        let mut least = 0.0_f64;
        for ((gap, output), moved) in gap.iter_mut().zip(&self.outputs).zip(self.moved) {
            // Corrections must not make them cross.
            let moved = if is_gap { moved } else { moved.min(0.0) };
            least = least.max(f64::from(*output) + moved);
            *gap = least.min(20.0);
        }
        gap
    }

    fn corrected(&self) -> [f64; 4] {
        let mut values = self.errors;
        values.iter_mut().zip(&self.outputs[5..]).for_each(|(value, output)| *value += f64::from(*output));
        values
    }

    /// A gap is over: the quantiles are moved, and what they are worth is noted.
    fn compare(&mut self, lasted: f64, expected: &[f64; 5], now: Duration) {
        self.trust.gaps += 1;
        self.trust.latest = Some(ComparedGap { lasted_ms: lasted.exp_m1(), expected_ms: expected.map(f64::exp_m1) });
        let weight = (1.0 / self.trust.gaps as f64).max(1.0 / GAPS);
        for (index, level) in GAP_LEVELS.iter().map(|level| f64::from(*level)).enumerate() {
            let over = f64::from(u8::from(lasted <= expected[index]));
            self.moved[index] = (self.moved[index] + STEP * (level - over)).clamp(-FARTHEST, FARTHEST);
            self.trust.covered[index] += 0.02 * (over - self.trust.covered[index]);
        }
        let outside = lasted < expected[0] || lasted > expected[4];
        self.trust.astray += weight.min(1.0 / GAPS) * (f64::from(u8::from(outside)) - self.trust.astray);
        self.judge(now);
    }

    fn judge(&mut self, now: Duration) {
        if self.trust.astray > ASTRAY && !self.trust.drifted {
            self.trust.drifted = true;
            self.trust.drifts += 1;
        }
        if self.trust.astray > CALM {
            self.calm_since = None;
            return;
        }
        let since = *self.calm_since.get_or_insert(now);
        if now.saturating_sub(since) >= TRUSTED_AGAIN {
            self.trust.drifted = false;
        }
    }

    /// A collection has shown what it costs and frees.
    pub(super) fn learn(&mut self, generation: Generation, shown: Shown) {
        let (yields, cost) = match generation {
            Generation::Young => (0, 2),
            Generation::Middle => return,
            Generation::Full => (1, 3),
        };
        if let Some(share) = shown.share {
            self.correct(yields, share);
        }
        if let Some(nanoseconds) = shown.cost {
            self.correct(cost, nanoseconds.ln());
        }
    }

    /// A snapshot has shown what it frees.
    pub(super) fn landed(&mut self, share: f64) {
        self.correct(1, share);
    }

    fn correct(&mut self, which: usize, measured: f64) {
        let expected = self.corrected()[which];
        self.errors[which] += FOLLOWS * (measured - expected);
    }
}
