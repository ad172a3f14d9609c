//! Files and parts of files that are written from the code, and from the results of measurements: settings, figures, policies,
//! tables of benchmarks.
//!
//! `cargo run -p xtask -- docs` writes them, and `tidy` says which of them are not as they would be written. A part of a
//! page stands between `<!-- generated NAME -->` and `<!-- end NAME -->`; `part` knows every name.

mod alerts;
mod api_types;
mod grafana;
mod results;
mod settings_page;
mod stand_in;
mod tables;
mod typescript;

#[cfg(test)]
pub(crate) use api_types::SOURCES;

use std::fs;
use std::path::Path;

/// What to do when a file is not as it would be written.
pub(crate) const MEND: &str = "it is not as the code would write it: run `cargo run -p xtask -- docs`";

/// Gives the text of a file.
type Text = fn() -> String;

/// Files that are written whole.
const FILES: &[(&str, Text)] = &[
    ("docs/settings.md", settings_page::text),
    ("dashboard/src/generated/status.ts", typescript::types),
    ("dashboard/mock/generated.json", typescript::mock_data),
    ("python/neurogc/_generated.py", stand_in::module),
    ("deploy/grafana/neurogc-overview.json", grafana::overview),
    ("deploy/grafana/neurogc-figures.json", grafana::figures),
    ("deploy/prometheus/neurogc-alerts.yml", alerts::rules),
    // A chart holds what it installs.
    ("deploy/helm/neurogc-hub/files/neurogc-alerts.yml", alerts::rules),
];

/// Pages with generated parts.
const PAGES: &[&str] = &[
    "docs/status.md",
    "docs/api.md",
    "docs/hub.md",
    "docs/policies.md",
    "docs/benchmarks.md",
    "docs/attach.md",
    "docs/memory.md",
];

/// The text of a generated part, given how files read now.
fn part(name: &str, now: &impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let text = match name {
        "series" => Some(tables::series()),
        "prometheus" => Some(tables::prometheus()),
        "otlp" => Some(tables::otlp()),
        "policies" => Some(tables::policies()),
        _ => match name.strip_prefix("results ") {
            Some(result) => return results::table(result, now),
            None => name.strip_prefix("figures ").and_then(tables::figures),
        },
    };
    text.ok_or_else(|| format!("there is no generated part {name:?}"))
}

/// Every generated file as it must read, given how files read now.
pub(crate) fn files(now: impl Fn(&str) -> Option<String>) -> Result<Vec<(&'static str, String)>, String> {
    let mut files: Vec<_> = FILES.iter().map(|(path, text)| (*path, text())).collect();
    files.push(("dashboard/src/generated/hub.ts", api_types::types(&now)?));
    let mut parts = Vec::new();
    for path in PAGES {
        let text = now(path).ok_or_else(|| format!("{path} is not there"))?;
        let (text, names) = with_parts(&text, &now).map_err(|error| format!("{path}: {error}"))?;
        parts.extend(names);
        files.push((path, text));
    }
    let figures = neurogc_wire::catalogue::SECTIONS.iter().map(|section| format!("figures {}", section.name));
    let wanted = ["series", "prometheus", "otlp", "policies"].into_iter().map(str::to_owned).chain(figures);
    match wanted.into_iter().find(|name| !parts.contains(name)) {
        Some(missing) => Err(format!("no page has `<!-- generated {missing} -->`")),
        None => Ok(files),
    }
}

/// Writes every generated file.
pub(crate) fn write(root: &Path) -> Result<String, String> {
    let files = files(|path| fs::read_to_string(root.join(path)).ok())?;
    for (path, text) in &files {
        let to = root.join(path);
        to.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| format!("{path}: {error}"))?;
        fs::write(to, text).map_err(|error| format!("{path} cannot be written: {error}"))?;
    }
    Ok(format!("wrote {}", files.iter().map(|(path, _)| *path).collect::<Vec<_>>().join(", ")))
}

/// A page with its generated parts as they must read, and their names.
fn with_parts(page: &str, now: &impl Fn(&str) -> Option<String>) -> Result<(String, Vec<String>), String> {
    let (mut text, mut names) = (String::new(), Vec::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let Some(name) = line.strip_prefix("<!-- generated ").and_then(|it| it.strip_suffix(" -->")) else { continue };
        let end = format!("<!-- end {name} -->");
        if !lines.any(|line| line == end) {
            return Err(format!("`{end}` is missing"));
        }
        text.push_str(&part(name, now)?);
        text.push_str(&end);
        text.push('\n');
        names.push(name.to_owned());
    }
    Ok((text, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_and_the_rest_stays() {
        let with_parts = |page: &str| with_parts(page, &|_: &str| None);
        let page = "a\n<!-- generated policies -->\nwhat was here\n<!-- end policies -->\nb\n";
        let (text, names) = with_parts(page).unwrap_or_default();
        assert!(text.starts_with("a\n<!-- generated policies -->\n| policy |") && text.ends_with("-->\nb\n"), "{text}");
        assert!(!text.contains("what was here") && names == ["policies"]);
        assert_eq!(with_parts(&text).unwrap_or_default().0, text);
        assert!(with_parts("<!-- generated policies -->\n").is_err());
        assert!(with_parts("<!-- generated what -->\n<!-- end what -->\n").is_err());
    }
}
