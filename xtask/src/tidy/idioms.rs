//! Plain words: a sentence names the thread, process or person that acts.

use super::Finding;
use super::tree::{File, Tree};

// Written in two pieces, so that this file does not find itself.
const IDIOMS: [&str; 9] = [
    concat!("some", "body"),
    concat!("no", "body"),
    concat!("every", "body"),
    concat!("any", "body"),
    concat!("who", "ever"),
    concat!("whom", "ever"),
    concat!("no-", "one"),
    concat!("needs no", " word"),
    concat!("without a", " word"),
];

const EXTENSIONS: &[&str] = &["rs", "py", "pyi", "ts", "tsx", "js", "mjs", "md", "sh", "html"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter(|file| is_written_by_hand(file))
        .flat_map(|file| {
            file.lines().filter_map(|(number, line)| {
                let idiom = found(line)?;
                Some(Finding::new(&file.path, number, format!("`{idiom}`: say which thread, process or person it is")))
            })
        })
        .collect()
}

fn is_written_by_hand(file: &File) -> bool {
    (file.has_extension(EXTENSIONS) || file.path.starts_with("tools/")) && !file.path.starts_with("dashboard/dist/")
}

/// The first idiom that stands in a line by itself, also as a part of a name such as `a_b` or `A::B`.
fn found(line: &str) -> Option<&'static str> {
    let line = line.to_ascii_lowercase();
    let is_letter = |it: char| it.is_alphanumeric();
    IDIOMS.into_iter().find(|idiom| {
        line.match_indices(idiom).any(|(at, _)| {
            !line[..at].chars().next_back().is_some_and(is_letter)
                && !line[at + idiom.len()..].chars().next().is_some_and(is_letter)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    #[test]
    fn an_idiom_is_found_in_text_and_in_names() {
        let text = format!("//! A.\n\n/// {} waits.\nfn f_{}() {{}}\n", IDIOMS[0].to_ascii_uppercase(), IDIOMS[1]);
        let found = check_one(check, "crates/a/src/lib.rs", &text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("crates/a/src/lib.rs:3:") && found[1].starts_with("crates/a/src/lib.rs:4:"),
            "{found:?}"
        );
    }

    #[test]
    fn every_idiom_is_found_in_every_language() {
        for idiom in IDIOMS {
            for path in ["a.rs", "a.py", "a.ts", "a.md", "tools/a"] {
                assert_eq!(check_one(check, path, &format!("It {idiom}.\n")).len(), 1, "{idiom} in {path}");
            }
        }
    }

    #[test]
    fn longer_words_and_the_built_bundle_are_left_alone() {
        assert!(check_one(check, "a.md", &format!("{}s x{}\n", IDIOMS[0], IDIOMS[1])).is_empty());
        assert!(check_one(check, "dashboard/dist/app.js", IDIOMS[0]).is_empty());
    }
}
