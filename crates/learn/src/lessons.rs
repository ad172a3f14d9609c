//! What a simulated run teaches: moments as a model sees them, and what became of them.
//!
//! The features are those of the agent, computed by the same code at the same looks. What became of a moment is known
//! because the simulator knows the future: when the gap really ended, and what the next collections freed and cost.

use neurogc_neural::OUTPUTS;
use neurogc_policy::features::{FeatureWindow, GapFinder, Senses};
use neurogc_policy::{Collected, Flown, Generation, Observation};

/// A moment, and what became of it. What never came is not a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// When it was, in seconds.
    pub at: f64,
    /// What a model sees.
    pub window: Vec<f32>,
    /// What it should have predicted, in the order of the model's outputs. The quantiles of a gap all stand for the gap.
    pub targets: [f32; OUTPUTS],
}

/// Where the targets of yields and costs begin.
const YOUNG_YIELD: usize = 5;
const OLD_YIELD: usize = 6;
const YOUNG_COST: usize = 7;
const FULL_COST: usize = 8;

/// Takes notes while a run is played.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    gaps: GapFinder,
    senses: Senses,
    window: FeatureWindow,
    lessons: Vec<Lesson>,
    /// One look in so many becomes a lesson.
    every: usize,
    looks: usize,
    /// From which lesson on it is not known yet how the gap goes on, and what comes of young and old.
    open: usize,
    open_targets: [usize; OUTPUTS],
}

impl Notes {
    pub(crate) fn new(every: usize) -> Self {
        Self { every: every.max(1), ..Self::default() }
    }

    pub(crate) fn look(&mut self, observation: &Observation) {
        let observation = &self.gaps.look(observation);
        self.senses.look(observation);
        let row = self.senses.row(observation, observation.idle);
        let window = self.window.at(observation.now, &row);
        self.looks += 1;
        if self.looks.is_multiple_of(self.every) {
            let lesson =
                Lesson { at: observation.now.as_secs_f64(), window: window.to_vec(), targets: [f32::NAN; OUTPUTS] };
            self.lessons.push(lesson);
        }
    }

    /// A gap was from then to then, in seconds.
    pub(crate) fn gap(&mut self, from: f64, to: f64) {
        for lesson in &mut self.lessons[self.open..] {
            // Before the gap the question was how long the next one would be.
            let remained = ((to - lesson.at.max(from)) * 1e3).max(0.0).ln_1p() as f32;
            lesson.targets[..YOUNG_YIELD].fill(remained);
        }
        self.open = self.lessons.len();
    }

    pub(crate) fn learn(&mut self, collected: &Collected) {
        let shown = self.senses.learn(collected);
        let (share, cost) = match collected.generation {
            Generation::Young => (YOUNG_YIELD, YOUNG_COST),
            Generation::Middle => return,
            Generation::Full => (OLD_YIELD, FULL_COST),
        };
        if let Some(value) = shown.share {
            self.tell(share, value);
        }
        if let Some(value) = shown.cost {
            self.tell(cost, value.ln());
        }
    }

    pub(crate) fn landed(&mut self, flown: &Flown) {
        let share = self.senses.landed(flown);
        if let Some(share) = share {
            self.tell(OLD_YIELD, share);
        }
    }

    fn tell(&mut self, which: usize, value: f64) {
        let open = std::mem::replace(&mut self.open_targets[which], self.lessons.len());
        self.lessons[open..].iter_mut().for_each(|lesson| lesson.targets[which] = value as f32);
    }

    /// The lessons whose gap has ended.
    pub(crate) fn lessons(mut self) -> Vec<Lesson> {
        self.lessons.truncate(self.open);
        self.lessons
    }
}
