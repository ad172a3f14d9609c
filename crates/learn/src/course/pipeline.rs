//! A training from programs to judged models: what `neurogc train` does, and what made the model that comes with NeuroGC.

use neurogc_neural::Family;
use neurogc_policy::Name;

use super::judge::{Judgement, judge};
use super::school::{Audience, SchoolError, TrainedModel, school};
use super::{Course, RecordedProgram, TEST};
use crate::models::{Options, Split};

/// What to train.
#[derive(Clone, Debug)]
pub struct TrainingPlan {
    /// What is learned from.
    pub programs: Vec<RecordedProgram>,
    /// The price of memory.
    pub lambda: f64,
    /// How many lessons are drawn at most.
    pub lessons: usize,
    /// A model of each of these.
    pub families: Vec<Family>,
    /// How; who made it is filled in.
    pub options: Options,
}

/// What came of it.
#[derive(Debug)]
pub struct Training {
    /// What was learned from.
    pub course: Course,
    /// The lessons.
    pub split: Split,
    /// The models, the best first, by what decisions cost on the validation part.
    pub candidates: Vec<TrainedModel>,
}

impl TrainingPlan {
    /// Trains.
    ///
    /// # Errors
    ///
    /// When there is too little to learn from, or a family cannot be trained.
    pub fn carry_out(self, audience: &mut dyn Audience) -> Result<Training, SchoolError> {
        let course = Course::new(self.programs, self.lambda);
        let split = course.data(self.lessons)?;
        let options = Options { created: format!("neurogc {}", env!("CARGO_PKG_VERSION")), ..self.options };
        let candidates = school(&course, &split, &self.families, &options, audience)?;
        Ok(Training { course, split, candidates })
    }
}

impl Training {
    /// What these policies and the models cost on the part that nothing was learned from.
    #[must_use]
    pub fn judgements(&self, rules: &[Name]) -> Vec<Judgement> {
        let models: Vec<_> = self.candidates.iter().map(|it| (it.family.name().to_owned(), it.bytes.clone())).collect();
        judge(&self.course, &self.course.excerpts(TEST), rules, &models)
    }
}
