//! The card of a model: where it comes from, what it predicts and how good it is, as a page beside its file.

use std::fmt::Write;
use std::path::Path;

use neurogc_learn::models::ForecastQuality;
use neurogc_neural::{GAP_LEVELS, Metadata};

use super::report::TrainingReport;
use crate::figures::{count, span};

/// The page as Markdown.
pub(super) fn card(file: &Path, metadata: &Metadata, quality: &ForecastQuality, report: &TrainingReport) -> String {
    let trained = &metadata.trained_on;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!(
        "# {name}\n\nA model for the policy `neural:FILE` of NeuroGC. Family `{}`, made by {}.\n\n## Data\n\n",
        metadata.model, metadata.created
    );
    let _ = writeln!(
        text,
        "{} moments in {} of program time: the first 60 % of each trace for training, 20 % for the choice of the model, 20 % for the \
         figures below. Traces:\n",
        count(trained.samples as u64),
        span(trained.seconds)
    );
    for source in &trained.sources {
        let _ = writeln!(text, "- `{source}`");
    }
    let _ = writeln!(
        text,
        "\nInputs: {} rows of {} features: {}.\n\n## Targets\n",
        metadata.window,
        metadata.features.len(),
        written(&metadata.features)
    );
    let _ = writeln!(text, "{}. Weights of decisions: {}.\n", written(&metadata.outputs), weights(metadata));
    add_calibration(&mut text, quality);
    let _ = writeln!(text, "\n## In the simulator\n\n{}", report.markdown());
    text.push_str("## In real runs\n\nNot measured. `neurogc bench --policies default,gap,neural:FILE` does that.\n");
    text
}

fn written(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn weights(metadata: &Metadata) -> String {
    let weights = metadata.weights.iter().map(|(name, weight)| format!("`{name}` {weight:.3}"));
    weights.collect::<Vec<_>>().join(", ")
}

fn add_calibration(text: &mut String, quality: &ForecastQuality) {
    let _ =
        writeln!(text, "## Calibration\n\n| quantile of gaps | gaps that had ended by then | loss |\n|---|---|---|");
    let percent = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    for ((level, coverage), loss) in GAP_LEVELS.iter().zip(quality.coverage).zip(quality.pinball) {
        let loss = loss.map_or_else(|| "–".to_owned(), |loss| format!("{loss:.4}"));
        let _ = writeln!(text, "| {:.0} % | {} | {loss} |", 100.0 * level, percent(coverage));
    }
    let errors = [
        ("the share that a young collection frees", quality.young_yield_mae),
        ("the share of old objects that a full collection frees", quality.old_yield_mae),
        ("the logarithm of a young collection's time for an object", quality.young_pause_rmse),
        ("the logarithm of a full collection's time for an object", quality.full_pause_rmse),
    ];
    for (what, error) in errors {
        let error = error.map_or_else(|| "not shown by the traces".to_owned(), |error| format!("{error:.3}"));
        let _ = writeln!(text, "\nError of {what}: {error}.");
    }
}
