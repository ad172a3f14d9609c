//! Pages that people start from name the commands that work, and generated pages are as the code would write them.

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
    findings
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
}
