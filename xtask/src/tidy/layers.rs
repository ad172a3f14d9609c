//! Which folders of the agent may name which others. All that a folder may use stands above it in one table, so there is no cycle.

use super::Finding;
use super::rust_text::code_only;
use super::tree::{File, Tree};

/// The folders of the agent, from the lowest one up, and those that each may use, also in tests. A new folder needs its line here.
const MAY_USE: &[(&str, &[&str])] = &[
    ("sys", &[]),
    ("cpython", &["sys"]),
    ("host", &["cpython", "sys"]),
    ("alloc", &["cpython", "sys"]),
    ("threads", &["alloc", "sys"]),
    ("sense", &["alloc", "cpython", "sys"]),
    ("snapshot", &["cpython", "sense", "sys"]),
    ("decide", &["sense", "snapshot", "sys"]),
    ("act", &["alloc", "cpython", "decide", "sense", "snapshot", "sys"]),
    ("book", &["act", "alloc", "decide", "host", "sense", "snapshot", "sys"]),
    ("sampler", &["act", "alloc", "book", "cpython", "decide", "host", "sense", "snapshot", "sys", "threads"]),
    ("uplink", &["act", "book", "cpython", "host", "sampler", "sense", "snapshot", "sys", "threads"]),
    ("lifecycle", &["act", "alloc", "book", "host", "sampler", "sense", "sys", "threads", "uplink"]),
    ("python", &["act", "alloc", "book", "cpython", "host", "lifecycle", "sense", "snapshot", "sys", "uplink"]),
];

const SOURCES: &str = "crates/agent/src/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter_map(|file| Some((file, place(file)?)))
        .flat_map(|(file, at)| wrong_uses(tree, file, &at))
        .collect()
}

/// Where a file of the agent stands: in which folder, and how many modules deep.
struct Place<'f> {
    folder: &'f str,
    depth: usize,
}

/// The place of a file of the agent; nothing for the root, which only names the folders.
fn place(file: &File) -> Option<Place<'_>> {
    let path = file.path.strip_prefix(SOURCES)?.strip_suffix(".rs").filter(|path| *path != "lib")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    Some(Place { folder: path.split('/').next().unwrap_or(path), depth: path.split('/').count() })
}

fn wrong_uses(tree: &Tree, file: &File, Place { folder, depth }: &Place<'_>) -> Vec<Finding> {
    let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| name == folder) else {
        let message = format!("`{folder}` has no line in xtask/src/tidy/layers.rs: what may it use?");
        return vec![Finding::new(&file.path, 1, message)];
    };
    let code = code_only(&file.text);
    let has = |name: &str| {
        [".rs", "/mod.rs"].iter().any(|end| tree.file(&format!("{SOURCES}{folder}/{name}{end}")).is_some())
    };
    // A module within the file needs one `super` more, and then a name may be that of a file of the same folder.
    let through_parents = named(&code, &"super::".repeat(*depth)).into_iter().filter(|(_, name)| !has(name));
    let is_wrong =
        |name: &str| name != *folder && MAY_USE.iter().any(|(known, _)| *known == name) && !allowed.contains(&name);
    let wrong = named(&code, "crate::").into_iter().chain(through_parents).filter(|(_, name)| is_wrong(name));
    wrong
        .map(|(at, used)| {
            let line = code[..at].matches('\n').count() + 1;
            Finding::new(&file.path, line, format!("`{folder}` may not use `{used}` (see ARCHITECTURE.md)"))
        })
        .collect()
}

/// The first names of paths behind this prefix, and where they are.
fn named<'c>(code: &'c str, prefix: &str) -> Vec<(usize, &'c str)> {
    let paths = code.match_indices(prefix).filter(|(at, _)| !ends_in_a_name(&code[..*at]));
    let names = paths.flat_map(|(at, _)| {
        let path = code[at + prefix.len()..].trim_start_matches("super::");
        first_names(path).into_iter().map(move |name| (at, name))
    });
    names.collect()
}

fn ends_in_a_name(code: &str) -> bool {
    code.chars().next_back().is_some_and(|it| it.is_alphanumeric() || it == '_' || it == ':')
}

/// The first name of a path, or of each path in braces.
fn first_names(rest: &str) -> Vec<&str> {
    let Some(group) = rest.strip_prefix('{') else { return first_name(rest).into_iter().collect() };
    let mut depth = 0_usize;
    let mut begun = 0;
    let mut names = Vec::new();
    for (at, it) in group.char_indices() {
        match it {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(first_name(&group[begun..at]));
                begun = at + 1;
                if it == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn first_name(path: &str) -> Option<&str> {
    let path = path.trim_start();
    let end = path.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(path.len());
    (end > 0).then(|| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    fn found(path: &str, code: &str) -> Vec<String> {
        let path = format!("{SOURCES}{path}");
        let found = check_one(check, &path, &format!("//! X.\n{code}"));
        found.into_iter().map(|it| it.replace(&path, "")).collect()
    }

    #[test]
    fn every_folder_stands_above_what_it_uses() {
        for (at, (name, allowed)) in MAY_USE.iter().enumerate() {
            let below: Vec<_> = MAY_USE[..at].iter().map(|(name, _)| name).collect();
            assert!(allowed.iter().all(|used| below.contains(&used)), "{name} is above something that it uses");
            assert!(allowed.is_sorted(), "{name}");
        }
    }

    #[test]
    fn a_lower_folder_that_names_a_higher_one_is_found() {
        let wrong = [":3: `book` may not use `lifecycle` (see ARCHITECTURE.md)"];
        assert_eq!(
            found("book/status.rs", "use crate::act::actor::Actor;\nuse crate::lifecycle::agent::Agent;\n"),
            wrong
        );
        assert_eq!(found("book/growth/since.rs", "\nfn f() { crate::lifecycle::f() }\n"), wrong);
        assert_eq!(
            found("book/mod.rs", "use crate::{\n sys::{uplink, lock},\n lifecycle};\n"),
            [wrong[0].replace('3', "2")]
        );
    }

    #[test]
    fn the_root_is_found_through_parents_too() {
        let wrong = [":2: `sys` may not use `sense` (see ARCHITECTURE.md)"];
        assert_eq!(found("sys/maps.rs", "use super::super::sense::hooks;\n"), wrong);
        assert_eq!(found("sys/mod.rs", "use super::sense::hooks;\n"), wrong);
        assert_eq!(found("sys/maps.rs", "use super::sense;\n"), [""; 0]);
        assert_eq!(found("sys/maps.rs", "mod tests { use super::super::super::sense; }\n"), wrong);
        let [user, used] = [("fast.rs", "//! X.\nmod a { use super::super::python; }\n"), ("python.rs", "//! X.\n")]
            .map(|(name, code)| (format!("{SOURCES}alloc/{name}"), code));
        assert_eq!(check(&Tree::of(&[(&user.0, user.1), (&used.0, used.1)])), []);
    }

    #[test]
    fn other_words_are_no_uses() {
        let code = "// crate::lifecycle\nconst A: &str = \"crate::lifecycle\";\nuse my_crate::lifecycle;\nuse a::{crate_lifecycle};\n";
        assert_eq!(found("sys/maps.rs", code), [""; 0]);
        assert_eq!(found("lib.rs", "use crate::python;\n"), [""; 0]);
        assert!(check_one(check, "crates/hub/src/sys/a.rs", "use crate::lifecycle;").is_empty());
    }

    #[test]
    fn a_new_folder_needs_its_line() {
        assert!(found("weather/rain.rs", "")[0].starts_with(":1: `weather` has no line in"));
    }
}
