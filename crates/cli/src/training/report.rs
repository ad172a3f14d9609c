//! What came of a training.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use neurogc_learn::course::Judgement;
use neurogc_learn::models::Split;
use neurogc_neural::Family;
use serde::Serialize;

use super::TrainingOptions;
use crate::figures::{bytes, count, ms, span};
use crate::simulation::regret;
use crate::table::{Alignment, Table};

/// A model that costs less than this share of what rules cost is worth the change.
const BETTER: f64 = 0.97;

/// One policy or model.
#[derive(Debug, Serialize)]
pub(super) struct ReportedPolicy {
    name: String,
    cost: f64,
    over_gap: f64,
    regret: Option<f64>,
    p999_ms: f64,
    peak_mb: f64,
    #[serde(flatten)]
    quality: Option<Quality>,
}

/// How good a model's forecasts are.
#[derive(Debug, Serialize)]
pub(super) struct Quality {
    /// The loss of the quantiles of gaps.
    pub(super) gap_loss: Option<f64>,
    /// How far the worst quantile is from what it says, as a share.
    pub(super) worst_calibration: Option<f64>,
    /// How long a forecast takes.
    pub(super) microseconds: f64,
}

impl ReportedPolicy {
    pub(super) fn new(judgement: &Judgement, quality: Option<Quality>) -> Self {
        Self {
            name: judgement.name.clone(),
            cost: judgement.cost,
            over_gap: judgement.over_rules,
            regret: judgement.regret,
            p999_ms: judgement.p999_ms,
            peak_mb: judgement.peak_mb,
            quality,
        }
    }
}

/// Everything that there is to say.
#[derive(Debug, Serialize)]
pub(crate) struct TrainingReport {
    file: PathBuf,
    calibration_plot: PathBuf,
    card: PathBuf,
    best: &'static str,
    samples: usize,
    seconds: f64,
    took_s: f64,
    lambda: f64,
    entries: Vec<ReportedPolicy>,
}

impl TrainingReport {
    pub(super) fn new(
        order: &TrainingOptions,
        best: Family,
        entries: Vec<ReportedPolicy>,
        split: &Split,
        (calibration_plot, card): (PathBuf, PathBuf),
        took: Duration,
    ) -> Self {
        Self {
            file: order.to.clone(),
            calibration_plot,
            card,
            best: best.name(),
            samples: split.train.len() + split.validation.len() + split.test.len(),
            seconds: split.train.seconds() + split.validation.seconds() + split.test.seconds(),
            took_s: took.as_secs_f64(),
            lambda: order.lambda,
            entries,
        }
    }

    /// The figures of all policies as a table in Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = "| | cost | ÷ `gap` | regret | p99.9 | peak |\n|---|---|---|---|---|---|\n".to_owned();
        for entry in &self.entries {
            let regret = entry.regret.map_or_else(|| "–".to_owned(), regret);
            let (p999, peak) = (ms(entry.p999_ms), bytes((entry.peak_mb * 1e6) as u64));
            let _ = writeln!(
                text,
                "| {} | {:.3} | {:.2} | {regret} | {p999} | {peak} |",
                entry.name, entry.cost, entry.over_gap
            );
        }
        let _ = writeln!(
            text,
            "\nCost: mean delay by collections in ms + {} × mean garbage and copies in MB, on the last fifth of each trace.",
            self.lambda
        );
        text
    }

    /// The table, and what follows from it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{} moments of {}, trained on in {}; figures are of the last fifth, which was not used for training\n",
            count(self.samples as u64),
            span(self.seconds),
            span(self.took_s)
        );
        let right = Alignment::Right;
        let mut table = Table::new(&[
            ("MODEL", Alignment::Left),
            ("COST", right),
            ("÷ GAP", right),
            ("REGRET", right),
            ("P99.9", right),
            ("PEAK", right),
            ("LOSS OF GAPS", right),
            ("CALIBRATION", right),
            ("A FORECAST", right),
        ]);
        for entry in &self.entries {
            let quality = entry.quality.as_ref();
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
            table.row([
                entry.name.clone(),
                format!("{:.3}", entry.cost),
                format!("{:.2}", entry.over_gap),
                or_dash(entry.regret.map(regret)),
                ms(entry.p999_ms),
                bytes((entry.peak_mb * 1e6) as u64),
                or_dash(quality.and_then(|it| it.gap_loss).map(|it| format!("{it:.4}"))),
                or_dash(quality.and_then(|it| it.worst_calibration).map(|it| format!("±{:.0} %", it * 100.0))),
                or_dash(quality.map(|it| format!("{:.1} µs", it.microseconds))),
            ]);
        }
        text.push_str(&table.render(2));
        let _ = writeln!(
            text,
            "  cost: mean delay by collections in ms + {} × mean garbage and copies in MB; ÷ gap: geometric mean over excerpts",
            self.lambda
        );
        let _ = writeln!(text, "\n{} is written to {}", self.best, self.file.display());
        let _ = writeln!(text, "its calibration: {}", self.calibration_plot.display());
        let _ = writeln!(text, "its card: {}", self.card.display());
        match self.entries.iter().find(|entry| entry.name == self.best) {
            Some(best) if best.over_gap < BETTER => {
                let _ = writeln!(text, "use it: neurogc run --policy neural:{} -- CMD", self.file.display());
            }
            _ => text.push_str("it is no better than the rules of `gap` on these traces: use `gap`\n"),
        }
        text
    }
}
