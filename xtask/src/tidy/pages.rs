//! Pages that people start from name the commands that work, links lead somewhere, and generated pages are as the
//! code would write them.

use super::Finding;
use super::tree::Tree;
use crate::settings_page;

const COMMANDS: [&str; 2] = ["make demo", "make test"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let readme = tree.file("README.md").map_or("", |file| file.text.as_str());
    for command in COMMANDS.iter().filter(|command| !readme.contains(*command)) {
        findings.push(Finding::new("README.md", 1, format!("it does not show `{command}`")));
    }
    if tree.file(settings_page::PATH).is_none_or(|file| file.text != settings_page::text()) {
        let message = "it differs from crates/settings: run `cargo run -p xtask -- docs`";
        findings.push(Finding::new(settings_page::PATH, 1, message));
    }
    findings.extend(broken_links(tree));
    findings
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

    #[test]
    fn a_page_that_lags_behind_is_found() {
        let settings = settings_page::text();
        let right = [("README.md", "`make demo`, `make test`"), (settings_page::PATH, settings.as_str())];
        assert!(check(&Tree::of(&right)).is_empty());
        let wrong = [("README.md", "`make demo`"), (settings_page::PATH, "old")];
        assert_eq!(check(&Tree::of(&wrong)).len(), 2);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let page = "[a](../README.md#x) [b](gone.md) [c](https://example.org/x) [d](#here) [e](../docs)";
        let found = broken_links(&Tree::of(&[("README.md", ""), ("docs/page.md", page)]));
        assert_eq!(found, [Finding::new("docs/page.md", 1, "the link to gone.md leads nowhere")]);
    }
}
