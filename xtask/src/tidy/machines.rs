//! Committed files work on every machine: no home folders, no private package indexes.

use super::Finding;
use super::tree::Tree;

// All of these are written in two pieces, so that this file does not find itself.

/// Folders of one machine.
const FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Folders of which each person has one.
const HOMES: [&str; 2] = [concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Words that come with a private package index.
const INDEXES: [&str; 4] =
    [concat!("arti", "factory"), concat!("index", "-url"), concat!("find", "-links"), concat!("replace", "-with")];

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
                Some(Finding::new(&file.path, number, machine_in(line)?))
            })
        })
        .collect()
}

fn machine_in(line: &str) -> Option<String> {
    if let Some(index) = INDEXES.iter().find(|it| line.contains(*it)) {
        return Some(format!("`{index}` speaks of a private package index"));
    }
    let is_name = |it: char| it.is_alphanumeric() || "_-.".contains(it);
    let starts = |at: usize| !line[..at].chars().next_back().is_some_and(is_name);
    let named = |rest: &str| rest.trim_start_matches(is_name).starts_with('/') && rest.starts_with(is_name);
    let folder = |it: &&&str| line.match_indices(**it).any(|(at, _)| starts(at));
    let home = |it: &&&str| line.match_indices(**it).any(|(at, _)| starts(at) && named(&line[at + it.len()..]));
    let found = FOLDERS.iter().find(folder).or_else(|| HOMES.iter().find(home))?;
    Some(format!("`{found}` is a path of one machine"))
}

#[cfg(test)]
mod tests {
    use super::super::check_one;
    use super::*;

    #[test]
    fn paths_of_a_machine_are_found() {
        let text = format!("see {}ada/x\n", concat!("/ho", "me/"));
        assert_eq!(check_one(check, "docs/a.md", &text).len(), 1);
        let text = format!("see {}x\n", FOLDERS[0]);
        assert_eq!(check_one(check, "docs/a.md", &text).len(), 1);
        let harmless = format!("see /proc/1{}x, /tmp/x and {}inject:/b\n", FOLDERS[1], HOMES[0]);
        assert_eq!(check_one(check, "docs/a.md", &harmless), [""; 0]);
    }

    #[test]
    fn a_lock_file_names_the_public_index_only() {
        let public = format!("source = \"{PUBLIC_INDEX}\"\n");
        assert!(check_one(check, "Cargo.lock", &public).is_empty());
        assert_eq!(check_one(check, "Cargo.lock", "source = \"registry+https://crates.example/index\"\n").len(), 1);
    }
}
