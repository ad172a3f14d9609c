//! Live memory by the lines of the program's own code, for those who watch it grow.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use neurogc_diagnose::leaks::SiteFacts;
use neurogc_wire::sites::AllocationDomain;

use super::live::SiteKey;
use super::report::live_sites_of;
use super::sampler::{is_active, sampler};
use super::stacks::{ROOT, StackTree};

/// Parts of paths that are not the program's own code.
const LIBRARIES: [&str; 6] =
    ["/site-packages/", "/dist-packages/", "/lib/python3.", "/lib64/python3.", "<frozen ", "/python/neurogc/"];

/// Frames that are looked at for the program's own code, and callers that are named.
const DEEPEST: usize = 64;
const CALLERS: usize = 6;

/// More nodes than this are not remembered.
const REMEMBERED: usize = 16 * 1024;

/// Live memory of one line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LiveLine {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    /// What `malloc` and `mmap` handed out of it.
    native: u64,
    /// The call stack with the most bytes: its innermost node, that of the line, and its bytes.
    most: (u32, u32, u64),
}

/// Which nodes are the program's own code, from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct OwnLines {
    /// The node of the program's own line by the node that allocates, and the key of that line.
    own: HashMap<u32, (u32, u64)>,
    /// Whether a file is a library, by the number of its name.
    libraries: HashMap<u32, bool>,
}

impl OwnLines {
    /// Live memory by line, and what one sample stands for. None where nothing is sampled.
    pub(crate) fn look(&mut self) -> Option<(HashMap<u64, LiveLine>, u64)> {
        let sampler = sampler().filter(|_| is_active())?;
        if self.own.len() > REMEMBERED {
            self.own.clear();
        }
        let stacks = &sampler.tables.stacks;
        let mut lines: HashMap<u64, LiveLine> = HashMap::new();
        for (site, counts) in live_sites_of(sampler.tables) {
            if site.node() == ROOT {
                continue;
            }
            let (own, key) = self.own_line(stacks, site);
            let line = lines.entry(key).or_default();
            line.bytes += counts.live_bytes;
            line.blocks += counts.live_blocks;
            if matches!(site.domain(), AllocationDomain::Malloc | AllocationDomain::Mmap) {
                line.native += counts.live_bytes;
            }
            if counts.live_bytes > line.most.2 {
                line.most = (site.node(), own, counts.live_bytes);
            }
        }
        Some((lines, sampler.interval()))
    }

    fn own_line(&mut self, stacks: &StackTree, site: SiteKey) -> (u32, u64) {
        if let Some(known) = self.own.get(&site.node()) {
            return *known;
        }
        let is_own = |node: &u32| {
            stacks.facts(*node).is_some_and(|facts| {
                !*self.libraries.entry(facts.file).or_insert_with(|| is_library(&stacks.texts.text(facts.file)))
            })
        };
        let own = nodes(stacks, site.node()).find(is_own).unwrap_or(site.node());
        let mut hasher = DefaultHasher::new();
        stacks.facts(own).map(|facts| (facts.file, facts.line)).hash(&mut hasher);
        let found = (own, hasher.finish());
        self.own.insert(site.node(), found);
        found
    }
}

impl LiveLine {
    /// A line that is not known.
    #[cfg(test)]
    pub(crate) fn of(bytes: u64, blocks: u64) -> Self {
        Self { bytes, blocks, ..Self::default() }
    }

    /// What else is known of the line.
    pub(crate) fn facts(&self) -> SiteFacts {
        let Some(sampler) = sampler() else { return SiteFacts::default() };
        let stacks = &sampler.tables.stacks;
        let (inner, own, _) = self.most;
        let text = |node: u32| {
            let Some(facts) = stacks.facts(node) else { return String::new() };
            let (file, function) = (stacks.texts.text(facts.file), stacks.texts.text(facts.function));
            format!("{file}:{} in {function}", facts.line)
        };
        SiteFacts {
            line: text(own),
            inner: text(inner),
            callers: nodes(stacks, own).skip(1).take(CALLERS).map(text).collect(),
            native: self.is_native(),
            blocks: self.blocks,
            ..SiteFacts::default()
        }
    }

    /// Whether most of it came from `malloc` or `mmap`.
    pub(crate) fn is_native(&self) -> bool {
        2 * self.native > self.bytes
    }
}

/// A node and its callers.
fn nodes(stacks: &StackTree, node: u32) -> impl Iterator<Item = u32> + '_ {
    let caller = |node: &u32| stacks.facts(*node).map(|facts| facts.parent).filter(|parent| *parent != ROOT);
    std::iter::successors(Some(node).filter(|node| *node != ROOT), caller).take(DEEPEST)
}

fn is_library(path: &str) -> bool {
    LIBRARIES.iter().any(|part| path.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_libraries_is_told_from_the_programs_own() {
        for path in
            ["/usr/lib/python3.12/json/decoder.py", "/v/lib/python3.12/site-packages/x.py", "<frozen importlib>"]
        {
            assert!(is_library(path), "{path}");
        }
        for path in ["/srv/app.py", "<string>", "app.py", "/opt/lib/python/app.py"] {
            assert!(!is_library(path), "{path}");
        }
    }
}
