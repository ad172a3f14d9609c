//! A file that cannot be read in one sitting is refused.

use super::Finding;
use super::tree::Tree;

const MOST_LINES: usize = 600;

/// Files that may be longer. A name added here needs its reason beside it.
const ALLOWED: &[&str] = &[
    // It is generated, one type after the other; people read docs/status.md.
    "dashboard/src/generated/status.ts",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter(|file| file.has_extension(&["rs", "py", "pyi", "c", "h", "sh", "ts", "tsx", "js"]))
        .filter(|file| !ALLOWED.contains(&file.path.as_str()))
        .filter_map(|file| {
            let lines = file.text.lines().count();
            let message = || format!("{lines} lines; over {MOST_LINES} a file is asking to be two");
            (lines > MOST_LINES).then(|| Finding::new(&file.path, MOST_LINES + 1, message()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    #[test]
    fn a_long_file_is_found() {
        assert!(check_one(check, "a.rs", &"x\n".repeat(600)).is_empty());
        assert_eq!(check_one(check, "a.rs", &"x\n".repeat(601)).len(), 1);
        assert!(check_one(check, "Cargo.lock", &"x\n".repeat(9000)).is_empty());
    }
}
