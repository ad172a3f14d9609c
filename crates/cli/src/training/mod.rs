//! Training from start to end: traces to programs, programs to lessons, families to models, and the best of them to a
//! file.

mod recording;
mod report;
mod store;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use neurogc_learn::course::{
    Course, Effort, Excerpt, Program, TEST, TRAINING, VALIDATION, judge, reinforce, reweighted,
};
use neurogc_learn::fit;
use neurogc_learn::models::{Options, Split, Trained, evaluate, train as train_family};
use neurogc_neural::{Contents, Family, Model};
use neurogc_policy::{Name, Weights};
use neurogc_wire::trace::Trace;

pub(crate) use self::recording::Recording;
use self::report::{Entry, Report};
use self::store::Store;
use crate::bench::progress::Progress;
use crate::bench::report::plots::{Curve, calibration};
use crate::failure::Failure;

/// What is needed at least: less says nothing about what comes next.
const REQUESTS: usize = 1_000;
const SECONDS: f64 = 30.0;

/// How many lessons are drawn from the traces.
const LESSONS: usize = 60_000;

/// How hard weights are looked for: for every family, and for the one that is kept.
const QUICK: Effort = Effort { population: 12, rounds: 3, threads: 2, seed: 1 };
const THOROUGH: Effort = Effort { population: 24, rounds: 6, threads: 2, seed: 2 };

/// How many times a model predicts while its speed is measured.
const PREDICTIONS: u32 = 2_000;

/// What to do.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) families: Vec<Family>,
    pub(crate) to: PathBuf,
    pub(crate) lambda: f64,
    pub(crate) epochs: usize,
    pub(crate) seed: u64,
    pub(crate) fresh: bool,
}

/// A model that was trained, with its weights.
struct Candidate {
    family: Family,
    bytes: Vec<u8>,
}

/// Trains all that was asked for and writes the best.
pub(crate) fn train(order: &Order, traces: &[(String, Trace)]) -> Result<Report, Failure> {
    let began = Instant::now();
    let course = Course::new(programs(traces, order.seed)?, order.lambda);
    let split = course.data(LESSONS).map_err(|error| Failure::failed(error.to_string()))?;
    let sources: Vec<String> = traces.iter().map(|(name, _)| name.clone()).collect();
    let mut work = Work {
        order,
        store: Store::open(&order.to, &about(order, traces), order.fresh)?,
        progress: Progress::new(2.0 * order.families.len() as f64 + 2.0),
        excerpts: course.excerpts(TRAINING),
        course: &course,
        split: &split,
        sources,
    };
    let candidates = work.candidates()?;
    let best = work.best(candidates)?;
    let report = work.report(best, began)?;
    work.store.remove();
    Ok(report)
}

/// What there is to learn from; what is missing is said for all traces at once.
fn programs(traces: &[(String, Trace)], seed: u64) -> Result<Vec<Program>, Failure> {
    let mut programs = Vec::new();
    let mut wrong = Vec::new();
    for (name, trace) in traces {
        match fit(trace, 0, seed) {
            Ok(fit) => {
                programs.push(Program { name: name.clone(), model: fit.model, workload: fit.workload });
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    if !wrong.is_empty() {
        return Err(Failure::failed(wrong.join("\n")));
    }
    let requests: usize = programs.iter().map(|program| program.workload.requests.len()).sum();
    let seconds: f64 = programs.iter().map(|program| program.workload.seconds()).sum();
    if requests < REQUESTS || seconds < SECONDS {
        return Err(Failure::failed(format!(
            "there is too little to learn from: {requests} requests in {seconds:.0} s, and at least {REQUESTS} in \
             {SECONDS:.0} s are needed. Record for longer, best for ten minutes of usual load: \
             neurogc run --policy gap --trace FILE -- CMD"
        )));
    }
    Ok(programs)
}

/// What a state belongs to: the data and everything that was asked for.
fn about(order: &Order, traces: &[(String, Trace)]) -> String {
    let traces: Vec<_> = traces.iter().map(|(name, trace)| (name, trace.records.len(), trace.header.clone())).collect();
    format!("{traces:?} {} {} {}", order.lambda, order.epochs, order.seed)
}

struct Work<'w> {
    order: &'w Order,
    store: Store,
    progress: Progress,
    course: &'w Course,
    excerpts: Vec<Excerpt<'w>>,
    split: &'w Split,
    sources: Vec<String>,
}

impl Work<'_> {
    /// A model of each family, with weights that suit it.
    fn candidates(&mut self) -> Result<Vec<Candidate>, Failure> {
        let mut candidates = Vec::new();
        let mut linear = None;
        for family in self.order.families.clone() {
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
            candidates.push(Candidate { family, bytes });
        }
        Ok(candidates)
    }

    fn candidate(&mut self, family: Family) -> Result<Vec<u8>, Failure> {
        let trained = self.trained(family)?;
        let bytes = trained.to_bytes()?;
        self.progress.begin(&format!("{family}: what its decisions cost"));
        let (weights, score) = self.course.weights(&self.excerpts, &bytes, Weights::default(), QUICK, &mut |_, _| {});
        self.progress.done(1.0, &format!("{family}: decisions cost {:.2} × gap's on the training part", score.exp()));
        Ok(reweighted(&bytes, weights)?)
    }

    fn trained(&mut self, family: Family) -> Result<Trained, Failure> {
        let options = Options {
            seed: self.order.seed,
            most_epochs: self.order.epochs,
            checkpoint: self.store.state(family),
            sources: self.sources.clone(),
            created: format!("neurogc {}", env!("CARGO_PKG_VERSION")),
            ..Options::default()
        };
        let (store, progress) = (&self.store, &self.progress);
        let mut trouble = None;
        let trained = train_family(family, self.split, &options, &mut |epoch| {
            progress.begin(&format!(
                "{family}: epoch {}, loss {:.4}, on the validation part {:.4}, best {:.4}",
                epoch.epoch, epoch.train_loss, epoch.validation_loss, epoch.best_loss
            ));
            trouble = store.keep(family, &epoch.checkpoint).err();
        });
        let mut trained = trained.map_err(|error| Failure::failed(error.to_string()))?;
        let metrics = evaluate(&mut Model::load(&trained.to_bytes()?)?, &self.split.test);
        trained.set_metrics(&metrics);
        if let Some(trouble) = trouble {
            self.progress.say(&format!("an interrupted training could not go on: {trouble}"));
        }
        let loss = metrics.mean_pinball().unwrap_or(f64::NAN);
        self.progress.done(1.0, &format!("{family}: trained, loss of gaps {loss:.4} on the test part"));
        Ok(trained)
    }

    fn reinforced(&mut self, linear: &[u8]) -> Result<Vec<u8>, Failure> {
        let progress = &self.progress;
        let (bytes, score) = reinforce(self.course, &self.excerpts, linear, THOROUGH, &mut |round, score| {
            progress.begin(&format!("rl: round {round}, decisions cost {:.2} × gap's", score.exp()));
        })?;
        self.progress.done(2.0, &format!("rl: decisions cost {:.2} × gap's on the training part", score.exp()));
        Ok(bytes)
    }

    /// The candidates, the best of them on the validation part first, with weights that were looked for more thoroughly.
    fn best(&mut self, mut candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Failure> {
        let excerpts = self.course.excerpts(VALIDATION);
        let score = |candidate: &Candidate| -> Result<f64, Failure> {
            Ok(self.course.score_of(&excerpts, &candidate.bytes, weights_of(&candidate.bytes)?))
        };
        let mut scored = Vec::new();
        for candidate in candidates.drain(..) {
            scored.push((score(&candidate)?, candidate));
        }
        scored.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut candidates: Vec<Candidate> = scored.into_iter().map(|(_, candidate)| candidate).collect();
        if let Some(first) = candidates.first_mut().filter(|first| first.family != Family::Rl) {
            self.progress.begin(&format!("{}: better weights", first.family));
            let start = weights_of(&first.bytes)?;
            let (weights, _) = self.course.weights(&self.excerpts, &first.bytes, start, THOROUGH, &mut |_, _| {});
            first.bytes = reweighted(&first.bytes, weights)?;
        }
        self.progress.done(1.0, "chosen by what decisions cost on the validation part");
        Ok(candidates)
    }

    fn report(&mut self, candidates: Vec<Candidate>, began: Instant) -> Result<Report, Failure> {
        self.progress.begin("what decisions cost on the test part");
        let excerpts = self.course.excerpts(TEST);
        let models: Vec<_> = candidates.iter().map(|it| (it.family.name().to_owned(), it.bytes.clone())).collect();
        let judged = judge(self.course, &excerpts, &[Name::Gap], &models);
        let mut entries = Vec::new();
        for judgement in judged {
            let model = candidates.iter().find(|candidate| candidate.family.name() == judgement.name);
            let quality = match model {
                Some(candidate) => Some(self.quality(&candidate.bytes)?),
                None => None,
            };
            entries.push(Entry::new(&judgement, quality));
        }
        let best = candidates.first().ok_or_else(|| Failure::failed("nothing was trained"))?;
        fs::write(&self.order.to, &best.bytes)?;
        let plot = self.order.to.with_extension("calibration.svg");
        let coverage = evaluate(&mut Model::load(&best.bytes)?, &self.split.test).coverage;
        let curve = coverage.iter().zip(neurogc_neural::GAP_LEVELS);
        let points = curve.filter_map(|(seen, level)| Some((f64::from(level), (*seen)?))).collect();
        fs::write(&plot, calibration(&[Curve { name: best.family.name().to_owned(), points }]))?;
        self.progress.done(1.0, "judged on the test part");
        self.progress.end();
        Ok(Report::new(self.order, best.family, entries, self.split, plot, began.elapsed()))
    }

    fn quality(&self, bytes: &[u8]) -> Result<report::Quality, Failure> {
        let mut model = Model::load(bytes)?;
        let metrics = evaluate(&mut model, &self.split.test);
        let mut forecast = [0.0; neurogc_neural::OUTPUTS];
        let window = self.split.test.samples().next().map(|sample| sample.window.to_vec()).unwrap_or_default();
        let began = Instant::now();
        for _ in 0..PREDICTIONS {
            model.predict(&window, &mut forecast);
        }
        let microseconds = began.elapsed().as_secs_f64() * 1e6 / f64::from(PREDICTIONS);
        Ok(report::Quality {
            gap_loss: metrics.mean_pinball(),
            worst_calibration: metrics.worst_calibration(),
            microseconds,
        })
    }
}

fn weights_of(bytes: &[u8]) -> Result<Weights, Failure> {
    Ok(Weights::named(&Contents::read(bytes)?.metadata().weights))
}
