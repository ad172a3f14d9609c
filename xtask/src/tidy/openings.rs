//! Every Rust file opens with a sentence that says what lives there.

use super::Finding;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|file| !file.text.lines().next().is_some_and(|line| line.starts_with("//! ")))
        .map(|file| Finding::new(&file.path, 1, "the file must open with a `//!` sentence: what lives here?"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    #[test]
    fn a_file_without_a_sentence_is_found() {
        assert_eq!(check_one(check, "crates/a/src/lib.rs", "//! What it is.\n").len(), 0);
        assert_eq!(check_one(check, "crates/a/src/lib.rs", "use std::io;\n//! Late.\n").len(), 1);
        assert_eq!(check_one(check, "crates/a/src/lib.rs", "").len(), 1);
        assert_eq!(check_one(check, "tools/a.py", "import os\n").len(), 0);
    }
}
