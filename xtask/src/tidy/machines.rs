//! Committed files work on every machine: no home folders, no private package indexes.

use super::Finding;
use super::tree::Tree;

// Written in two pieces, so that this file does not find itself.
const TRACES: [(&str, &str); 8] = [
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("arti", "factory"), "a private package index"),
    (concat!("index", "-url"), "a private package index"),
    (concat!("find", "-links"), "a private package index"),
    (concat!("replace", "-with"), "a private package index"),
];

const PUBLIC_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .flat_map(|file| {
            let is_lock = file.path.ends_with("Cargo.lock");
            file.lines().filter_map(move |(number, line)| {
                if is_lock && line.starts_with("source = ") && !line.contains(PUBLIC_INDEX) {
                    return Some(Finding::new(&file.path, number, "a crate that does not come from crates.io"));
                }
                let (trace, what) = TRACES.iter().find(|(trace, _)| line.contains(trace))?;
                Some(Finding::new(&file.path, number, format!("`{trace}` is {what}")))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    #[test]
    fn paths_of_a_machine_are_found() {
        let text = format!("see {}ada/x\n", concat!("/ho", "me/"));
        assert_eq!(check_one(check, "docs/a.md", &text).len(), 1);
        assert!(check_one(check, "docs/a.md", "see /proc/self/status and /tmp/x\n").is_empty());
    }

    #[test]
    fn a_lock_file_names_the_public_index_only() {
        let public = format!("source = \"{PUBLIC_INDEX}\"\n");
        assert!(check_one(check, "Cargo.lock", &public).is_empty());
        assert_eq!(check_one(check, "Cargo.lock", "source = \"registry+https://crates.example/index\"\n").len(), 1);
    }
}
