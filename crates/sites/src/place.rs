//! Places in the code, and the stacks that lead to them.

use neurogc_wire::sites::{NO_PARENT, SiteTable};
use serde::Serialize;

/// What stands for the place of memory that was allocated outside of any Python frame.
pub const NO_FRAME: &str = "[no Python frame]";

/// Frames of a stack that are looked at, from the innermost on. Agents keep fewer; a made-up table may have any number.
pub(crate) const DEEPEST: usize = 256;

/// A line of code, as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CodeLine<'t> {
    /// The file.
    pub file: &'t str,
    /// The function.
    pub function: &'t str,
    /// The line, or 0 where it is not known.
    pub line: u32,
    /// The line at which the function begins.
    pub first_line: u32,
}

impl CodeLine<'_> {
    /// `add (app/cache.py:41)`, or the function alone where the file is not known.
    #[must_use]
    pub fn text(&self) -> String {
        match (self.file, self.line) {
            ("", _) => self.function.to_owned(),
            (file, 0) => format!("{} ({})", self.function, short_path(file)),
            (file, line) => format!("{} ({}:{line})", self.function, short_path(file)),
        }
    }
}

/// Reads the stacks of one table.
#[derive(Clone, Copy, Debug)]
pub struct TableStacks<'t>(pub &'t SiteTable);

impl<'t> TableStacks<'t> {
    /// The place of a node; `NO_FRAME` where there is none.
    #[must_use]
    pub fn place(&self, node: u32) -> CodeLine<'t> {
        let missing = CodeLine { function: NO_FRAME, ..CodeLine::default() };
        let Some(node) = self.0.nodes.get(node as usize) else { return missing };
        let Some(frame) = self.0.frames.get(node.frame as usize) else { return missing };
        let text = |index: u32| self.0.strings.get(index as usize).map_or("", String::as_str);
        CodeLine {
            file: text(frame.file),
            function: text(frame.function),
            line: frame.line,
            first_line: frame.first_line,
        }
    }

    /// The parent of a node, if it has one. A parent comes before its children; another one is none.
    #[must_use]
    pub fn parent(&self, node: u32) -> Option<u32> {
        let parent = self.0.nodes.get(node as usize)?.parent;
        (parent < node).then_some(parent)
    }

    /// The places from the innermost on; none where there was no Python frame.
    pub fn stack(self, node: u32) -> impl Iterator<Item = CodeLine<'t>> {
        let first = (node != NO_PARENT && (node as usize) < self.0.nodes.len()).then_some(node);
        let nodes = std::iter::successors(first, move |node| self.parent(*node));
        nodes.take(DEEPEST).map(move |node| self.place(node))
    }
}

/// The end of a path that tells files apart: what follows `site-packages`, or the folder of the standard library, or the
/// last three parts.
#[must_use]
pub fn short_path(path: &str) -> &str {
    const PARTS: usize = 3;
    for folder in ["/site-packages/", "/dist-packages/"] {
        if let Some(at) = path.rfind(folder) {
            return &path[at + folder.len()..];
        }
    }
    if let Some(at) = path.rfind("/lib/python3.")
        && let Some((_, rest)) = path[at + "/lib/".len()..].split_once('/')
    {
        return rest;
    }
    let slashes = path.rmatch_indices('/').nth(PARTS - 1);
    slashes.filter(|(at, _)| *at > 0).map_or(path, |(at, _)| &path[at + 1..])
}

#[cfg(test)]
mod tests {
    use neurogc_wire::sites::{SiteFrame, SiteNode};

    use super::*;

    #[test]
    fn paths_keep_what_tells_files_apart() {
        let cases = [
            ("/usr/lib/python3.12/json/decoder.py", "json/decoder.py"),
            ("/opt/venv/lib/python3.12/site-packages/numpy/core/numeric.py", "numpy/core/numeric.py"),
            ("/srv/shop/web/app/views/cart.py", "app/views/cart.py"),
            ("/srv/app.py", "/srv/app.py"),
            ("app.py", "app.py"),
            ("<string>", "<string>"),
        ];
        for (path, expect) in cases {
            assert_eq!(short_path(path), expect);
        }
    }

    #[test]
    fn a_parent_that_does_not_come_before_is_none() {
        let node = |parent| SiteNode { parent, frame: 0 };
        let table = SiteTable {
            strings: vec!["f".to_owned()],
            frames: vec![SiteFrame::default()],
            nodes: vec![node(1), node(0), node(7)],
            ..SiteTable::default()
        };
        let lengths = [0, 1, 2, 3, NO_PARENT].map(|node| TableStacks(&table).stack(node).count());
        assert_eq!(lengths, [1, 2, 1, 0, 0]);
    }
}
