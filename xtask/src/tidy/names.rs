//! No bags: a folder or file whose name says nothing collects everything.

use super::Finding;
use super::tree::Tree;

const BAGS: [&str; 7] = ["util", "utils", "common", "shared", "helper", "helpers", "misc"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.paths
        .iter()
        .filter_map(|path| {
            let stem = |part: &str| part.split('.').next().unwrap_or(part).to_ascii_lowercase();
            let bag = path.split('/').map(stem).find(|part| BAGS.contains(&part.as_str()))?;
            Some(Finding::new(path, 1, format!("`{bag}` says nothing: name what is in it")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    #[test]
    fn bags_are_found_as_folders_and_as_files() {
        assert_eq!(check_one(check, "crates/cli/src/util/x.rs", "").len(), 1);
        assert_eq!(check_one(check, "tests/helpers.py", "").len(), 1);
        assert!(check_one(check, "crates/cli/src/commonwealth.rs", "").is_empty());
    }
}
