//! Training from start to end: traces to programs, programs to lessons, families to models, and the best of them to a
//! file.

mod card;
mod fetch;
mod recording;
mod report;
mod store;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use neurogc_learn::course::{Audience, RecordedProgram, Training, TrainingPlan};
use neurogc_learn::fit;
use neurogc_learn::models::{Options, Split, evaluate};
use neurogc_neural::{Family, Model};
use neurogc_policy::Name;
use neurogc_wire::trace::Trace;

pub(crate) use self::fetch::WantedTraces;
pub(crate) use self::recording::RecordingPlan;
use self::report::{ReportedPolicy, TrainingReport};
use self::store::TrainingFolder;
use crate::bench::progress::BenchProgress;
use crate::bench::report::plots::{Curve, calibration};
use crate::failure::Failure;

/// What is needed at least: less says nothing about what comes next.
const REQUESTS: usize = 1_000;
const SECONDS: f64 = 30.0;

/// How many lessons are drawn from the traces.
const LESSONS: usize = 60_000;

/// How many times a model predicts while its speed is measured.
const PREDICTIONS: u32 = 2_000;

/// What to do.
#[derive(Debug)]
pub(crate) struct TrainingOptions {
    pub(crate) families: Vec<Family>,
    pub(crate) to: PathBuf,
    pub(crate) lambda: f64,
    pub(crate) epochs: usize,
    pub(crate) seed: u64,
    pub(crate) fresh: bool,
}

/// Trains all that was asked for and writes the best.
pub(crate) fn train(order: &TrainingOptions, traces: &[(String, Trace)]) -> Result<TrainingReport, Failure> {
    let began = Instant::now();
    let options = Options {
        seed: order.seed,
        most_epochs: order.epochs,
        sources: traces.iter().map(|(name, _)| name.clone()).collect(),
        ..Options::default()
    };
    let programs = programs(traces, order.seed)?;
    let plan =
        TrainingPlan { programs, lambda: order.lambda, lessons: LESSONS, families: order.families.clone(), options };
    let mut witness = Witness {
        store: TrainingFolder::open(&order.to, &about(order, traces), order.fresh)?,
        progress: BenchProgress::new(2.0 * order.families.len() as f64 + 2.0),
    };
    let training = plan.carry_out(&mut witness).map_err(|error| Failure::failed(error.to_string()))?;
    witness.progress.begin("what decisions cost on the test part");
    let report = report(order, &training, began)?;
    witness.progress.done(1.0, "judged on the test part");
    witness.progress.end();
    witness.store.remove();
    Ok(report)
}

/// What there is to learn from; what is missing is said for all traces at once.
fn programs(traces: &[(String, Trace)], seed: u64) -> Result<Vec<RecordedProgram>, Failure> {
    let mut programs = Vec::new();
    let mut wrong = Vec::new();
    for (name, trace) in traces {
        match fit(trace, 0, seed) {
            Ok(fit) => {
                programs.push(RecordedProgram { name: name.clone(), model: fit.model, workload: fit.workload });
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
fn about(order: &TrainingOptions, traces: &[(String, Trace)]) -> String {
    let traces: Vec<_> = traces.iter().map(|(name, trace)| (name, trace.records.len(), trace.header.clone())).collect();
    format!("{traces:?} {} {} {}", order.lambda, order.epochs, order.seed)
}

/// Shows how far it is, and keeps what an interrupted training can go on from.
struct Witness {
    store: TrainingFolder,
    progress: BenchProgress,
}

impl Audience for Witness {
    fn begin(&mut self, what: &str) {
        self.progress.begin(what);
    }

    fn done(&mut self, steps: f64, what: &str) {
        self.progress.done(steps, what);
    }

    fn say(&mut self, what: &str) {
        self.progress.say(what);
    }

    fn state(&self, family: Family) -> Option<Vec<u8>> {
        self.store.state(family)
    }

    fn keep(&mut self, family: Family, state: &[u8]) -> io::Result<()> {
        self.store.keep(family, state)
    }
}

/// Judges all of them on the part that no model was trained on, and writes the best.
fn report(order: &TrainingOptions, training: &Training, began: Instant) -> Result<TrainingReport, Failure> {
    let Training { split, candidates, .. } = training;
    let mut entries = Vec::new();
    for judgement in training.judgements(&[Name::Gap]) {
        let model = candidates.iter().find(|candidate| candidate.family.name() == judgement.name);
        let quality = model.map(|candidate| quality(&candidate.bytes, split)).transpose()?;
        entries.push(ReportedPolicy::new(&judgement, quality));
    }
    let best = candidates.first().ok_or_else(|| Failure::failed("nothing was trained"))?;
    fs::write(&order.to, &best.bytes)?;
    let plot = order.to.with_extension("calibration.svg");
    let mut model = Model::load(&best.bytes)?;
    let quality = evaluate(&mut model, &split.test);
    let curve = quality.coverage.iter().zip(neurogc_neural::GAP_LEVELS);
    let points = curve.filter_map(|(seen, level)| Some((f64::from(level), (*seen)?))).collect();
    fs::write(&plot, calibration(&[Curve { name: best.family.name().to_owned(), points }]))?;
    let page = order.to.with_extension("card.md");
    let report = TrainingReport::new(order, best.family, entries, split, (plot, page.clone()), began.elapsed());
    fs::write(&page, card::card(&order.to, model.metadata(), &quality, &report))?;
    Ok(report)
}

fn quality(bytes: &[u8], split: &Split) -> Result<report::Quality, Failure> {
    let mut model = Model::load(bytes)?;
    let metrics = evaluate(&mut model, &split.test);
    let mut forecast = [0.0; neurogc_neural::OUTPUTS];
    let window = split.test.samples().next().map(|sample| sample.window.to_vec()).unwrap_or_default();
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
