//! What is kept of a run: every trial's figures, and the machine they were taken on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::course::Courses;
use super::machine::MachineFacts;

/// The version of the file.
const FORMAT: u32 = 1;
/// The file's name in the folder of a run.
pub(crate) const FILE: &str = "run.json";

/// Figures by the names of `metrics::CATALOGUE`.
pub(crate) type FiguresByName = BTreeMap<String, f64>;

/// One run of one contender in one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// Which repetition: trials of the same number are compared with each other.
    pub(crate) run: u32,
    pub(crate) figures: FiguresByName,
    /// Times of the programs of a scenario that has several, in milliseconds.
    #[serde(default, skip_serializing_if = "FiguresByName::is_empty")]
    pub(crate) programs: FiguresByName,
    /// Share of requests and the latency that they do not exceed, in milliseconds.
    #[serde(default)]
    pub(crate) curve: Vec<(f64, f64)>,
    /// Memory over time.
    #[serde(default, skip_serializing_if = "Courses::is_empty")]
    pub(crate) courses: Courses,
    /// Why it ended before its time, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_early: Option<String>,
    /// What makes it less than trustworthy.
    #[serde(default)]
    pub(crate) doubts: Vec<String>,
}

/// All trials of one contender in one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContenderTrials {
    pub(crate) contender: String,
    pub(crate) title: String,
    pub(crate) trials: Vec<Trial>,
    /// Why there is none, where there is none.
    #[serde(default)]
    pub(crate) failed: Option<String>,
}

/// One scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) scenario: String,
    pub(crate) about: String,
    /// Why it was left out.
    #[serde(default)]
    pub(crate) skipped: Option<String>,
    /// What its service can do in a second with the collector off.
    #[serde(default)]
    pub(crate) capacity: Option<f64>,
    /// The memory limit of its cgroup, in bytes.
    #[serde(default)]
    pub(crate) limit: Option<u64>,
    pub(crate) entries: Vec<ContenderTrials>,
}

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) format: u32,
    pub(crate) neurogc: String,
    pub(crate) machine: MachineFacts,
    /// How often each contender ran.
    pub(crate) runs: u32,
    /// A look that proves nothing.
    pub(crate) quick: bool,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
    pub(crate) scenarios: Vec<Measured>,
}

impl Run {
    /// A run that has nothing yet.
    pub(crate) fn new(machine: MachineFacts, runs: u32, quick: bool) -> Self {
        let neurogc = env!("CARGO_PKG_VERSION").to_owned();
        Self { format: FORMAT, neurogc, machine, runs, quick, ..Self::default() }
    }

    /// Reads a kept run: its file, or the folder that it is in.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let file = if path.is_dir() { path.join(FILE) } else { PathBuf::from(path) };
        let shown = file.display();
        let text = fs::read_to_string(&file)
            .map_err(|error| format!("cannot read {shown}: {error}. Name the folder that `neurogc bench` wrote"))?;
        let run: Self = serde_json::from_str(&text).map_err(|error| format!("{shown} is no kept run: {error}"))?;
        if run.format == FORMAT {
            Ok(run)
        } else {
            Err(format!("{shown} has format {}, and this version reads format {FORMAT}", run.format))
        }
    }
}

impl Measured {
    /// The entry of a contender.
    pub(crate) fn entry(&self, contender: &str) -> Option<&ContenderTrials> {
        self.entries.iter().find(|entry| entry.contender == contender)
    }
}

impl ContenderTrials {
    /// A figure of every trial, with the trial's number.
    pub(crate) fn values(&self, metric: &str) -> Vec<(u32, f64)> {
        self.trials.iter().filter_map(|trial| Some((trial.run, *trial.figures.get(metric)?))).collect()
    }

    /// The time of a program in every trial, with the trial's number.
    pub(crate) fn program(&self, name: &str) -> Vec<(u32, f64)> {
        self.trials.iter().filter_map(|trial| Some((trial.run, *trial.programs.get(name)?))).collect()
    }

    /// The middle one of a figure's values.
    pub(crate) fn median(&self, metric: &str) -> Option<f64> {
        super::statistics::median(self.values(metric).into_iter().map(|(_, value)| value))
    }
}
