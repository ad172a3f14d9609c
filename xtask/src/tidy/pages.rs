//! Pages that people start from name the commands that work, links lead somewhere, and generated pages are as the
//! code would write them.

use super::Finding;
use super::tree::Tree;
use crate::generated;

const COMMANDS: [&str; 2] = ["make demo", "make test"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let readme = tree.file("README.md").map_or("", |file| file.text.as_str());
    for command in COMMANDS.iter().filter(|command| !readme.contains(*command)) {
        findings.push(Finding::new("README.md", 1, format!("it does not show `{command}`")));
    }
    findings.extend(stale(tree));
    findings.extend(broken_links(tree));
    findings
}

/// Generated files that are not as the code would write them.
fn stale(tree: &Tree) -> Vec<Finding> {
    let text = |path: &str| tree.file(path).map(|file| file.text.as_str());
    match generated::files(|path| text(path).map(str::to_owned)) {
        Ok(files) => {
            let stale = files.iter().filter(|(path, wanted)| text(path) != Some(wanted));
            stale.map(|(path, _)| Finding::new(path, 1, generated::MEND)).collect()
        }
        Err(message) => vec![Finding::new("docs", 1, message)],
    }
}

/// Links from one page of the repository to another that is not there.
fn broken_links(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.has_extension(&["md"]));
    pages
        .flat_map(|page| page.lines().map(move |(number, line)| (page, number, line)))
        .flat_map(|(page, number, line)| {
            line.split("](").skip(1).filter_map(move |rest| {
                let target = rest.split([')', '#']).next().unwrap_or_default();
                let inside = !target.is_empty() && !target.contains(':');
                let path = from_root(&page.path, target);
                let broken = inside && !tree.paths.iter().any(|it| *it == path || it.starts_with(&format!("{path}/")));
                broken.then(|| Finding::new(&page.path, number, format!("the link to {target} leads nowhere")))
            })
        })
        .collect()
}

/// A link's target as a path from the root of the repository.
fn from_root(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|it| !matches!(*it, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str) -> Option<String> {
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).ok()
    }

    /// Every generated file, from pages that have nothing but the generated parts.
    fn fresh() -> Vec<(&'static str, String)> {
        let sections = neurogc_wire::catalogue::SECTIONS.iter().map(|section| format!("figures {}", section.name));
        let parts = ["series", "prometheus", "otlp", "policies"].map(str::to_owned).into_iter().chain(sections);
        let page: String = parts.map(|name| format!("<!-- generated {name} -->\n<!-- end {name} -->\n")).collect();
        let read = |path: &str| if path.ends_with(".rs") { source(path) } else { Some(page.clone()) };
        generated::files(read).unwrap_or_default()
    }

    #[test]
    fn a_generated_file_that_lags_behind_is_found() {
        let files = fresh();
        let mut right: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        right.push(("README.md", "`make demo`, `make test`"));
        let sources: Vec<_> = generated::SOURCES.iter().map(|path| (*path, source(path).unwrap_or_default())).collect();
        right.extend(sources.iter().map(|(path, text)| (*path, text.as_str())));
        assert!(!files.is_empty() && stale(&Tree::of(&right)).is_empty());
        for place in 0..files.len() {
            let mut wrong = right.clone();
            let old = wrong[place].1.replacen("| `", "| `x", 1).replacen(": ", ":  ", 1);
            wrong[place].1 = &old;
            assert_eq!(stale(&Tree::of(&wrong)), [Finding::new(wrong[place].0, 1, generated::MEND)]);
        }
        assert_eq!(stale(&Tree::of(&right[1..])).len(), 1);
    }

    #[test]
    fn a_readme_without_its_commands_is_found() {
        let found = check(&Tree::of(&[("README.md", "`make demo`")]));
        assert!(found.iter().any(|finding| finding.message.contains("make test")), "{found:?}");
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let page = "[a](../README.md#x) [b](gone.md) [c](https://example.org/x) [d](#here) [e](../docs)";
        let found = broken_links(&Tree::of(&[("README.md", ""), ("docs/page.md", page)]));
        assert_eq!(found, [Finding::new("docs/page.md", 1, "the link to gone.md leads nowhere")]);
    }
}
