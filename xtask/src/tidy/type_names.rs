//! A type name means one thing: no two types that other modules can use have the same name.

use std::collections::BTreeMap;

use super::Finding;
use super::rust_text::code_only;
use super::tree::Tree;

/// Names that several types may have, each with its reason.
const ALLOWED: &[(&str, &str)] = &[("Arguments", "clap's arguments of one verb, always used as `verb::Arguments`")];

const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut known: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for file in tree.rust() {
        for (index, line) in code_only(&file.text).lines().enumerate() {
            if let Some(name) = defined(line) {
                known.entry(name.to_owned()).or_default().push((&file.path, index + 1));
            }
        }
    }
    known.retain(|name, _| ALLOWED.iter().all(|(allowed, _)| allowed != name));
    let repeated = known.iter().flat_map(|(name, places)| {
        let (first, others) = places.split_first().map_or((("", 0), &[][..]), |(first, others)| (*first, others));
        others.iter().map(move |(path, line)| {
            let message =
                format!("`{name}` is also a type in {}:{}: give each a name that says what it is", first.0, first.1);
            Finding::new(path, *line, message)
        })
    });
    repeated.collect()
}

/// The name of the type that a line defines for other modules.
fn defined(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    let rest = rest.strip_prefix(' ')?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, rest) = rest.split_once(' ')?;
    let name = rest.split(|it: char| !it.is_alphanumeric() && it != '_').next()?;
    (KEYWORDS.contains(&keyword) && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_files(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_second_type_of_the_same_name_is_found_with_the_place_of_the_first() {
        let found = check_files(&[
            ("crates/a/src/lib.rs", "pub struct Plan<'a> {\n"),
            ("crates/b/src/lib.rs", "//! B.\n    pub(in crate::act) enum Plan {\n"),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/b/src/lib.rs:2: `Plan`"), "{found:?}");
        assert!(found[0].contains("crates/a/src/lib.rs:1"), "{found:?}");
    }

    #[test]
    fn every_kind_of_type_counts() {
        for line in [
            "pub type X = u8;",
            "pub(crate) trait X {",
            "pub unsafe trait X {",
            "pub union X {",
            "pub(super) struct X(u8);",
        ] {
            assert_eq!(defined(line), Some("X"), "{line}");
        }
    }

    #[test]
    fn private_types_functions_comments_and_allowed_names_are_left_alone() {
        assert!(check_files(&[("a.rs", "struct State;\n"), ("b.rs", "pub struct State;\n")]).is_empty());
        assert!(
            check_files(&[("a.rs", "pub fn plan() {}\n// pub struct Plan;\n"), ("b.rs", "pub struct Plan;\n")])
                .is_empty()
        );
        let verb = "pub(crate) struct Arguments {\n";
        assert!(check_files(&[("a.rs", verb), ("b.rs", verb)]).is_empty());
    }
}
