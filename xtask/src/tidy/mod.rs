//! The walls of this repository that the compiler does not see, each in a file of its own.
//!
//! A check takes the tree and gives its findings. To add one: a file here and a line in `CHECKS`.

mod directions;
mod idioms;
mod layers;
mod leftovers;
mod length;
mod machines;
mod names;
mod openings;
mod pages;
mod rust_text;
mod tree;
mod type_names;
mod unsafety;

use std::fmt;
use std::path::Path;

use tree::Tree;

/// One thing that is wrong, and where.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}: {}", self.path, self.line, self.message)
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    openings::check,
    unsafety::check,
    length::check,
    names::check,
    type_names::check,
    idioms::check,
    leftovers::check,
    machines::check,
    directions::check,
    layers::check,
    pages::check,
];

/// Runs every check; the error is the list of findings.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let tree = Tree::load(root)?;
    let mut findings: Vec<_> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    if findings.is_empty() {
        return Ok(format!("{} files, {} checks, nothing to mend", tree.files.len(), CHECKS.len()));
    }
    let mut report: Vec<_> = findings.iter().map(Finding::to_string).collect();
    report.push(format!("tidy: {} to mend", findings.len()));
    Err(report.join("\n"))
}

#[cfg(test)]
fn check_one(check: Check, path: &str, text: &str) -> Vec<String> {
    check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
}
