//! A training from start to end: a model of every family, weights for its decisions, and which of them is best.

use std::io;

use neurogc_neural::{Contents, Family, Model, ModelError};
use neurogc_policy::Weights;

use super::{Course, Effort, Excerpt, TRAINING, VALIDATION, reinforce, reweighted};
use crate::models::{Options, Split, TrainError, evaluate, train};

/// How hard weights are looked for: for every family, and for the one that is kept.
const QUICK: Effort = Effort { population: 12, rounds: 3, threads: 2, seed: 1 };
const THOROUGH: Effort = Effort { population: 24, rounds: 8, threads: 2, seed: 2 };

/// Who looks on, and keeps what an interrupted training can go on from.
pub trait Audience {
    /// Something goes on.
    fn begin(&mut self, what: &str);

    /// So many steps, of two for each family and one at the end, are over.
    fn done(&mut self, steps: f64, what: &str);

    /// Something else to know.
    fn say(&mut self, what: &str);

    /// The state after the last epoch of a family, if there is one.
    fn state(&self, family: Family) -> Option<Vec<u8>>;

    /// Keeps such a state.
    ///
    /// # Errors
    ///
    /// When that fails; the training goes on.
    fn keep(&mut self, family: Family, state: &[u8]) -> io::Result<()>;
}

/// A model that was trained, with its weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainedModel {
    /// What it is.
    pub family: Family,
    /// Its file.
    pub bytes: Vec<u8>,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum SchoolError {
    /// A family could not be trained.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A file that was just made cannot be read.
    #[error(transparent)]
    Load(#[from] ModelError),
}

/// Trains a model of each family. The best comes first, by what decisions cost on the validation part.
pub(super) fn school(
    course: &Course,
    split: &Split,
    families: &[Family],
    options: &Options,
    audience: &mut dyn Audience,
) -> Result<Vec<TrainedModel>, SchoolError> {
    School { course, split, options, audience, excerpts: course.excerpts(TRAINING) }.run(families)
}

struct School<'s> {
    course: &'s Course,
    split: &'s Split,
    options: &'s Options,
    audience: &'s mut dyn Audience,
    excerpts: Vec<Excerpt<'s>>,
}

impl School<'_> {
    fn run(&mut self, families: &[Family]) -> Result<Vec<TrainedModel>, SchoolError> {
        let mut candidates = Vec::new();
        let mut linear = None;
        for family in families.iter().copied() {
            let bytes = if family == Family::Rl {
                let linear = match linear.take() {
                    Some(bytes) => bytes,
                    None => self.candidate(Family::Linear)?,
                };
                self.reinforced(&linear)?
            } else {
                self.candidate(family)?
            };
            if family == Family::Linear {
                linear = Some(bytes.clone());
            }
            candidates.push(TrainedModel { family, bytes });
        }
        self.best_first(candidates)
    }

    fn candidate(&mut self, family: Family) -> Result<Vec<u8>, SchoolError> {
        let bytes = self.trained(family)?;
        self.audience.begin(&format!("{family}: what its decisions cost"));
        let (weights, score) = self.course.weights(&self.excerpts, &bytes, Weights::default(), QUICK, &mut |_, _| {});
        self.audience.done(
            1.0,
            &format!("{family}: decisions score {:.2} on the training part, where gap scores 1", score.exp()),
        );
        Ok(reweighted(&bytes, weights)?)
    }

    fn trained(&mut self, family: Family) -> Result<Vec<u8>, SchoolError> {
        let options = Options { checkpoint: self.audience.state(family), ..self.options.clone() };
        let audience = &mut self.audience;
        let mut trouble = None;
        let mut trained = train(family, self.split, &options, &mut |epoch| {
            audience.begin(&format!(
                "{family}: epoch {}, loss {:.4}, on the validation part {:.4}, best {:.4}",
                epoch.epoch, epoch.train_loss, epoch.validation_loss, epoch.best_loss
            ));
            trouble = audience.keep(family, &epoch.checkpoint).err();
        })?;
        if let Some(trouble) = trouble {
            self.audience.say(&format!("an interrupted training could not go on: {trouble}"));
        }
        let metrics = evaluate(&mut Model::load(&trained.to_bytes()?)?, &self.split.test);
        trained.set_metrics(&metrics);
        let loss = metrics.mean_pinball().unwrap_or(f64::NAN);
        self.audience.done(1.0, &format!("{family}: trained, loss of gaps {loss:.4} on the test part"));
        Ok(trained.to_bytes()?)
    }

    fn reinforced(&mut self, linear: &[u8]) -> Result<Vec<u8>, SchoolError> {
        let audience = &mut self.audience;
        let (bytes, score) = reinforce(self.course, &self.excerpts, linear, THOROUGH, &mut |round, score| {
            audience.begin(&format!("rl: round {round}, decisions score {:.2}", score.exp()));
        })?;
        self.audience
            .done(2.0, &format!("rl: decisions score {:.2} on the training part, where gap scores 1", score.exp()));
        Ok(bytes)
    }

    /// The best gets weights that are looked for more thoroughly.
    fn best_first(&mut self, candidates: Vec<TrainedModel>) -> Result<Vec<TrainedModel>, SchoolError> {
        let excerpts = self.course.excerpts(VALIDATION);
        let mut scored = Vec::new();
        for candidate in candidates {
            let weights = weights_of(&candidate.bytes)?;
            scored.push((self.course.score_of(&excerpts, &candidate.bytes, weights), candidate));
        }
        scored.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut candidates: Vec<TrainedModel> = scored.into_iter().map(|(_, candidate)| candidate).collect();
        if let Some(first) = candidates.first_mut().filter(|first| first.family != Family::Rl) {
            self.audience.begin(&format!("{}: better weights", first.family));
            let start = weights_of(&first.bytes)?;
            let (weights, _) = self.course.weights(&self.excerpts, &first.bytes, start, THOROUGH, &mut |_, _| {});
            first.bytes = reweighted(&first.bytes, weights)?;
        }
        self.audience.done(1.0, "chosen by what decisions cost on the validation part");
        Ok(candidates)
    }
}

fn weights_of(bytes: &[u8]) -> Result<Weights, ModelError> {
    Ok(Weights::named(&Contents::read(bytes)?.metadata().weights))
}
