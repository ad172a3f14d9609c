//! The catalogue of figures: everything that is said about a figure of the status report is said here, once.
//!
//! From it follow the series that a hub keeps, the metrics for Prometheus and OpenTelemetry, the tables in `docs/`, the
//! columns of `neurogc ps`, and the files that `cargo run -p xtask -- docs` writes for the dashboard and for the
//! stand-in in Python. A new figure is a field of [`Status`](crate::status::Status), the code that measures it, and an
//! entry here.

mod distributions;
mod figure;
pub mod metrics;
pub mod promql;
mod sections;
pub mod series;
mod shape;

pub use distributions::{HISTOGRAMS, Histogram, Parts, REQUESTS};
pub use figure::{Across, Attribute, Figure, FigureKind, FoundIn, Metric, Otlp, ReadEach, Sink, Unit};
pub use shape::FieldType;

/// Figures that stand in one table.
#[derive(Debug)]
pub struct Section {
    /// The name by which pages ask for it.
    pub name: &'static str,
    /// The figures.
    pub figures: &'static [Figure],
}

/// All figures, in the order of docs/status.md.
pub const SECTIONS: &[Section] = &[
    Section { name: "identity", figures: sections::process::IDENTITY },
    Section { name: "findings", figures: sections::lately::FINDINGS },
    Section { name: "window", figures: sections::lately::WINDOW },
    Section { name: "gc", figures: sections::gc::FIGURES },
    Section { name: "conduct", figures: sections::conduct::CONDUCT },
    Section { name: "bound", figures: sections::conduct::BOUND },
    Section { name: "gil", figures: sections::program::GIL },
    Section { name: "requests", figures: sections::program::REQUESTS },
    Section { name: "stalls", figures: sections::program::STALLED },
    Section { name: "process", figures: sections::process::PROCESS },
    Section { name: "memory", figures: sections::memory::MEMORY },
    Section { name: "gpu", figures: sections::gpu::GPU },
    Section { name: "allocations", figures: sections::process::ALLOCATIONS },
    Section { name: "census", figures: sections::process::CENSUS },
    Section { name: "agent", figures: sections::process::AGENT },
];

/// Every figure.
pub fn figures() -> impl Iterator<Item = &'static Figure> {
    SECTIONS.iter().flat_map(|section| section.figures)
}

/// The figure at a path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Figure> {
    figures().find(|figure| figure.path == path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::status::Status;

    #[test]
    fn every_field_of_the_report_is_in_the_catalogue_and_nothing_else_is() {
        let shape = FieldType::of::<Status>();
        let fields: BTreeSet<_> = shape.paths().into_iter().map(|(path, _)| path).collect();
        let entries: BTreeSet<_> = figures().map(|figure| figure.path.to_owned()).collect();
        assert_eq!(fields.difference(&entries).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the catalogue");
        assert_eq!(entries.difference(&fields).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the report");
        assert_eq!(figures().count(), entries.len(), "a figure has two entries");
    }

    #[test]
    fn the_shape_has_every_field_that_a_report_is_written_with() {
        fn gather(path: &str, value: &serde_json::Value, to: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(fields) => {
                    let dot = if path.is_empty() { "" } else { "." };
                    fields.iter().for_each(|(name, value)| gather(&format!("{path}{dot}{name}"), value, to));
                }
                _ => to.push(path.to_owned()),
            }
        }
        let mut written = Vec::new();
        gather("", &serde_json::to_value(Status::default()).unwrap_or_default(), &mut written);
        let shape = FieldType::of::<Status>();
        let fields: Vec<_> = shape.paths().into_iter().map(|(path, _)| path).collect();
        for path in &written {
            // A part that is null has its fields below it.
            let below = format!("{path}.");
            assert!(fields.iter().any(|field| field == path || field.starts_with(&below)), "{path}");
        }
        assert!(written.len() > 100);
    }

    #[test]
    fn kinds_fit_the_types_of_the_fields() {
        let shape = FieldType::of::<Status>();
        for (path, shape) in shape.paths() {
            let inner = if let FieldType::Optional(inner) = shape { inner } else { shape };
            let kind = find(&path).map(|figure| figure.kind);
            let fits = match inner {
                FieldType::Integer | FieldType::Number => {
                    !matches!(kind, Some(FigureKind::Text | FigureKind::Switch | FigureKind::List))
                }
                FieldType::Text | FieldType::Choice { .. } => kind == Some(FigureKind::Text),
                FieldType::Switch => kind == Some(FigureKind::Switch),
                FieldType::List(_) => kind == Some(FigureKind::List),
                _ => false,
            };
            assert!(fits, "{path} is {shape:?} and {kind:?}");
        }
    }

    #[test]
    fn every_figure_says_what_it_is_and_units_are_those_of_the_names() {
        for Figure { path, help, unit, .. } in figures() {
            assert!(!help.is_empty() && !help.ends_with('.'), "{path}: {help:?}");
            for (end, wanted) in [("_ms", Unit::Milliseconds), ("_s", Unit::Seconds), ("_bytes", Unit::Bytes)] {
                let list = find(path).is_some_and(|figure| figure.kind == FigureKind::List);
                let rate = path.ends_with("_bytes_s");
                assert!(!path.ends_with(end) || *unit == wanted || list || rate, "{path} is in {unit:?}");
            }
        }
    }

    #[test]
    fn metrics_are_named_by_their_kind_and_unit() {
        for figure in figures() {
            let Some(metric) = figure.prometheus else { continue };
            let counter = figure.kind == FigureKind::Counter;
            assert_eq!(metric.name.ends_with("_total"), counter, "{}", metric.name);
            let unit = match figure.unit {
                Unit::Milliseconds | Unit::Seconds => "_seconds",
                Unit::Bytes => "_bytes",
                Unit::Percent => "_ratio",
                _ => "",
            };
            assert!(metric.name.trim_end_matches("_total").ends_with(unit), "{}", metric.name);
        }
    }
}
