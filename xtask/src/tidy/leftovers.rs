//! Nothing is left for later in the code: later is written in an issue.

use super::Finding;
use super::tree::Tree;

// Written in two pieces, so that this file does not find itself.
const LEFTOVERS: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!("), concat!("unimple", "mented!(")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let read = tree.files.iter().filter(|file| !file.path.ends_with(".lock"));
    read.flat_map(|file| {
        file.lines().filter_map(|(number, line)| {
            let left = LEFTOVERS.iter().find(|word| line.contains(*word))?;
            Some(Finding::new(&file.path, number, format!("`{left}` is left open: mend it, or write an issue")))
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    #[test]
    fn what_is_left_open_is_found_with_its_line() {
        let text = format!("//! A.\nfn f() {{ {}) }}\n// {}: x\n", LEFTOVERS[2], LEFTOVERS[0]);
        let found = check_one(check, "crates/a/src/lib.rs", &text);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("crates/a/src/lib.rs:2:"), "{found:?}");
    }
}
