//! Making a table from texts: stacks that begin alike share their nodes.

use std::collections::HashMap;

use neurogc_wire::sites::{AllocationDomain, NO_PARENT, Site, SiteCounts, SiteFrame, SiteNode, SiteTable};

use crate::place::CodeLine;

/// Gathers sites into a table.
#[derive(Debug, Default)]
pub struct TableBuilder {
    table: SiteTable,
    strings: HashMap<String, u32>,
    frames: HashMap<SiteFrame, u32>,
    nodes: HashMap<(u32, u32), u32>,
    sites: HashMap<(u32, AllocationDomain), usize>,
}

impl TableBuilder {
    /// A table with the facts of another one and no sites.
    #[must_use]
    pub fn like(table: &SiteTable) -> Self {
        let table = SiteTable {
            pid: table.pid,
            taken_unix_ms: table.taken_unix_ms,
            since_unix_ms: table.since_unix_ms,
            compared_unix_ms: table.compared_unix_ms,
            mode: table.mode,
            sample_bytes: table.sample_bytes,
            lost: table.lost,
            ..SiteTable::default()
        };
        Self { table, ..Self::default() }
    }

    /// The node of a stack whose places are given from the outermost on; `NO_PARENT` for none.
    pub fn node<'p>(&mut self, outermost_first: impl IntoIterator<Item = CodeLine<'p>>) -> u32 {
        outermost_first.into_iter().fold(NO_PARENT, |parent, place| {
            let frame = SiteFrame {
                file: self.string(place.file),
                function: self.string(place.function),
                line: place.line,
                first_line: place.first_line,
            };
            let frames = &mut self.table.frames;
            let frame = *self.frames.entry(frame).or_insert_with(|| push(frames, frame));
            let nodes = &mut self.table.nodes;
            *self.nodes.entry((parent, frame)).or_insert_with(|| push(nodes, SiteNode { parent, frame }))
        })
    }

    /// The counts of a site, zero at first.
    pub fn site(&mut self, node: u32, domain: AllocationDomain) -> &mut Site {
        let sites = &mut self.table.sites;
        let index = *self.sites.entry((node, domain)).or_insert_with(|| {
            let none = SiteCounts::default();
            sites.push(Site { node, domain, now: none, before: none });
            sites.len() - 1
        });
        &mut self.table.sites[index]
    }

    /// The table.
    #[must_use]
    pub fn finish(self) -> SiteTable {
        self.table
    }

    fn string(&mut self, text: &str) -> u32 {
        if let Some(index) = self.strings.get(text) {
            return *index;
        }
        let index = push(&mut self.table.strings, text.to_owned());
        self.strings.insert(text.to_owned(), index);
        index
    }
}

fn push<T>(list: &mut Vec<T>, value: T) -> u32 {
    list.push(value);
    list.len() as u32 - 1
}

/// Adds counts up, each as far as its number goes.
pub(crate) fn add(sum: &mut SiteCounts, counts: &SiteCounts) {
    sum.live_bytes = sum.live_bytes.saturating_add(counts.live_bytes);
    sum.live_blocks = sum.live_blocks.saturating_add(counts.live_blocks);
    sum.made_bytes = sum.made_bytes.saturating_add(counts.made_bytes);
    sum.made_blocks = sum.made_blocks.saturating_add(counts.made_blocks);
}
