//! The status report as types for the dashboard, and what its mock starts from.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use neurogc_policy::POLICIES;
use neurogc_wire::catalogue::{FieldType, find, series};
use neurogc_wire::status::Status;
use serde_json::json;

/// The types.
pub(super) fn types() -> String {
    let mut interfaces = Interfaces::default();
    let shape = FieldType::of::<Status>();
    interfaces.add(&shape, "");
    let mut text = "// Written by `cargo run -p xtask -- docs` from crates/wire: the status report of a process. Change it there.\n"
        .to_owned();
    for (name, interface) in &interfaces.known {
        // What is said of a field is said of a place in the report, and a type that stands in several has no one place.
        let once = interface.paths.len() == 1;
        let _ = writeln!(text, "\nexport {}", interface.text(name, once.then(|| interface.paths[0].as_str())));
    }
    let names: Vec<_> = series::all().iter().map(|series| format!("  | \"{}\"", series.name)).collect();
    let _ = writeln!(text, "\n/** The series of the hub. */\nexport type SeriesName =\n{};", names.join("\n"));
    text
}

/// A type, and where it stands in the report.
struct Interface<'s> {
    shape: &'s FieldType,
    paths: Vec<String>,
}

impl Interface<'_> {
    fn text(&self, name: &str, path: Option<&str>) -> String {
        match self.shape {
            FieldType::Object { fields, .. } => {
                let mut text = format!("interface {name} {{\n");
                for (field, shape) in fields {
                    let figure = path.and_then(|path| {
                        let dot = if path.is_empty() { "" } else { "." };
                        find(&format!("{path}{dot}{field}"))
                    });
                    if let Some(figure) = figure {
                        let _ = writeln!(text, "  /** {}. */", figure.help);
                    }
                    let _ = writeln!(text, "  {field}: {};", written(shape));
                }
                text + "}"
            }
            FieldType::Choice { variants, .. } => {
                let variants: Vec<_> = variants.iter().map(|variant| format!("\"{variant}\"")).collect();
                format!("type {name} = {};", variants.join(" | "))
            }
            _ => String::new(),
        }
    }
}

/// The types with names, each once.
#[derive(Default)]
struct Interfaces<'s> {
    known: BTreeMap<&'static str, Interface<'s>>,
}

impl<'s> Interfaces<'s> {
    fn add(&mut self, shape: &'s FieldType, path: &str) {
        match shape {
            FieldType::Object { name, fields } => {
                self.known.entry(name).or_insert(Interface { shape, paths: Vec::new() }).paths.push(path.to_owned());
                let dot = if path.is_empty() { "" } else { "." };
                fields.iter().for_each(|(field, shape)| self.add(shape, &format!("{path}{dot}{field}")));
            }
            FieldType::Choice { name, .. } => {
                self.known.entry(name).or_insert(Interface { shape, paths: Vec::new() }).paths.push(path.to_owned());
            }
            FieldType::Optional(inner) => self.add(inner, path),
            FieldType::List(inner) => self.add(inner, &format!("{path}[]")),
            _ => {}
        }
    }
}

fn written(shape: &FieldType) -> String {
    match shape {
        FieldType::Integer | FieldType::Number => "number".to_owned(),
        FieldType::Text => "string".to_owned(),
        FieldType::Switch => "boolean".to_owned(),
        FieldType::Optional(inner) => format!("{} | null", written(inner)),
        FieldType::List(inner) => format!("{}[]", written(inner)),
        FieldType::Object { name, .. } | FieldType::Choice { name, .. } => (*name).to_owned(),
        FieldType::Unknown => "unknown".to_owned(),
    }
}

/// What the mock starts from: an empty report, the series and the policies.
pub(super) fn mock_data() -> String {
    let policies = POLICIES.iter().map(|entry| {
        json!({"name": entry.name, "written": entry.written, "example": entry.example, "help": entry.help,
               "acts": entry.acts, "snapshots": entry.snapshots})
    });
    let data = json!({
        "note": "Written by `cargo run -p xtask -- docs` from crates/wire and crates/policy. Change it there.",
        "series": series::all(),
        "policies": policies.collect::<Vec<_>>(),
        "status": Status::default(),
    });
    serde_json::to_string_pretty(&data).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_the_report() {
        let text = types();
        for line in [
            "export interface Status {",
            "export type Cause = \"gc\" | \"gil_native\" | \"python\" | \"cpu_starved\" | \"unknown\";",
            "  pss: number | null;",
            "  model: Forecasts | null;",
            "  recent: Stall[];",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(!text.contains("unknown;\n  /**") && !text.contains(": unknown;"), "{text}");
    }
}
