//! `unsafe` stays where CPython's memory is read, where allocations are sampled, where snapshots are walked, where a
//! heap dump is mapped and where another process is traced.

use super::Finding;
use super::rust_text::{code_only, has_word};
use super::tree::Tree;

const ALLOWED: [&str; 7] = [
    "crates/agent/src/alloc/",
    "crates/agent/src/cpython/",
    "crates/agent/src/snapshot/",
    "crates/agent/src/sys/",
    "crates/cli/src/attach/",
    "crates/heap/src/reader/source.rs",
    "crates/preload/src/",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let outside = tree.rust().filter(|file| !ALLOWED.iter().any(|folder| file.path.starts_with(folder)));
    outside
        .flat_map(|file| {
            let code = code_only(&file.text);
            let lines: Vec<_> =
                code.lines().enumerate().filter(|(_, line)| has_word(line, "unsafe")).map(|(at, _)| at + 1).collect();
            lines.into_iter().map(|line| {
                Finding::new(&file.path, line, format!("`unsafe` is allowed only under {}", ALLOWED.join(" and ")))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    #[test]
    fn unsafe_code_is_found_outside_its_place() {
        let code = "//! X.\nfn f() { unsafe { g() } }\n";
        let found = check_one(check, "crates/agent/src/sense/gc.rs", code);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/agent/src/sense/gc.rs:2: `unsafe` is allowed only"), "{found:?}");
        assert!(check_one(check, "crates/agent/src/cpython/gil.rs", code).is_empty());
    }

    #[test]
    fn the_word_in_prose_or_in_a_lint_is_no_unsafe_code() {
        let code = "//! It is unsafe.\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe\";\n";
        assert!(check_one(check, "crates/wire/src/lib.rs", code).is_empty());
    }
}
