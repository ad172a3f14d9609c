//! Columns that `neurogc ps` and `neurogc top` add on request: figures of the status report, by their paths.

use std::str::FromStr;

use neurogc_wire::catalogue::{self, Figure, FigureKind, Unit};
use neurogc_wire::status::Status;
use serde_json::Value;

use crate::figures::{bytes, ms, plain, span};
use crate::table::Alignment;

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column(&'static Figure);

impl FromStr for Column {
    type Err = String;

    fn from_str(path: &str) -> Result<Self, String> {
        let known = || catalogue::figures().filter(|figure| !figure.path.contains("[]"));
        known().find(|figure| figure.path == path).map(Self).ok_or_else(|| {
            let suggestion = neurogc_policy::suggestion(path, known().map(|figure| figure.path));
            format!("no figure of the status report has this path.{suggestion} docs/status.md lists them")
        })
    }
}

impl Column {
    /// What stands above it.
    pub(crate) fn title(self) -> &'static str {
        self.0.path
    }

    /// On which side its cells stand.
    pub(crate) fn side(self) -> Alignment {
        if matches!(self.0.kind, FigureKind::Text | FigureKind::Switch) { Alignment::Left } else { Alignment::Right }
    }
}

/// What a report says in each of these columns.
pub(crate) fn cells(columns: &[Column], status: &Status) -> Vec<String> {
    if columns.is_empty() {
        return Vec::new();
    }
    let report = serde_json::to_value(status).unwrap_or_default();
    columns.iter().map(|Column(figure)| cell(figure, at(&report, figure.path))).collect()
}

fn at<'r>(report: &'r Value, path: &str) -> &'r Value {
    path.split('.').fold(report, |value, name| value.get(name).unwrap_or(&Value::Null))
}

fn cell(figure: &Figure, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        Value::Array(items) => items.len().to_string(),
        Value::Number(number) => {
            let value = number.as_f64().unwrap_or_default();
            match figure.unit {
                Unit::Bytes => bytes(value as u64),
                Unit::Milliseconds => ms(value),
                Unit::Seconds => span(value),
                Unit::Percent => format!("{value:.1} %"),
                _ if number.is_f64() => format!("{value:.2}"),
                _ => number.to_string(),
            }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn figures_are_shown_in_their_units() {
        let paths =
            ["gc.full.max_ms", "memory.rss", "memory.uss", "conduct.acting", "children", "gc.tracked", "uptime_s"];
        let columns: Vec<Column> = paths.iter().map(|path| path.parse().unwrap()).collect();
        let shown = cells(&columns, &samples::service());
        assert_eq!(shown, ["412 ms", "812 MiB", "-", "true", "3", "2310554", "2 m 05 s"]);
    }

    #[test]
    fn every_figure_outside_of_lists_can_be_a_column() {
        let status = samples::service();
        for figure in catalogue::figures().filter(|figure| !figure.path.contains("[]")) {
            let column: Column = figure.path.parse().unwrap();
            assert!(!cells(&[column], &status)[0].is_empty() || figure.kind == FigureKind::Text, "{}", figure.path);
        }
    }

    #[test]
    fn a_wrong_path_gets_a_suggestion() {
        let error = "gc.ful.max_ms".parse::<Column>().unwrap_err();
        assert!(error.contains("Did you mean gc.full.max_ms"), "{error}");
        assert!("children[].rss".parse::<Column>().is_err());
    }
}
