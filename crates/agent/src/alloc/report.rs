//! What is known of the sites, as a table for those who ask and in short for the status report. It runs in threads of
//! our own, and reads tables that the program goes on writing to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering::Relaxed;

use neurogc_wire::allocations::{AllocationSite, Allocations};
use neurogc_wire::sites::{NO_PARENT, Site, SiteCounts, SiteFrame, SiteNode, SiteTable};

use super::history::SiteHistory;
use super::live::SiteKey;
use super::sampler::{is_active, sampler};
use super::stacks::{NodeFacts, ROOT, StackTree};
use super::tables::Tables;
use crate::alloc::Sampling;
use crate::sys::native::unix_ns;
use crate::sys::page::page_size;

/// Sites in a table; the smallest are left out. A table must fit into an answer.
const MOST_SITES: usize = 6000;

/// Sites in the status report.
const TOP: usize = 10;

/// Rates and growth are over times of at least these lengths, as far as moments are kept.
const RATE_NS: u64 = 5_000_000_000;
const GROWTH_NS: u64 = 600_000_000_000;

/// All sites.
pub(super) fn sites_of(tables: &Tables) -> HashMap<SiteKey, SiteCounts> {
    let mut sites = live_sites_of(tables);
    for (site, bytes, blocks) in tables.stacks.made() {
        let counts = sites.entry(site).or_default();
        (counts.made_bytes, counts.made_blocks) = (bytes, blocks);
    }
    sites
}

/// The sites that hold memory, without what they have ever made: that table is large.
pub(super) fn live_sites_of(tables: &Tables) -> HashMap<SiteKey, SiteCounts> {
    let mut sites: HashMap<SiteKey, SiteCounts> = HashMap::new();
    for sample in tables.live.iter().chain(tables.mappings.iter()) {
        let counts = sites.entry(sample.site).or_default();
        counts.live_bytes += sample.weight;
        counts.live_blocks += sample.blocks();
    }
    sites
}

impl SiteHistory {
    /// Keeps a moment, where one is due.
    pub(super) fn attend(&mut self, now: u64) {
        if let Some(sampler) = sampler()
            && self.is_due(now)
        {
            let made = sampler.tables.made.load(Relaxed);
            self.keep(now, unix_ns() / 1_000_000, made, &sites_of(sampler.tables));
        }
    }
}

/// The table of sites, compared with so many nanoseconds ago if that is wanted. None where nothing was sampled.
pub(super) fn site_table(history: &SiteHistory, since_unix_ms: u64, now: u64, ago: Option<u64>) -> Option<SiteTable> {
    let sampler = sampler()?;
    let compared = ago.and_then(|ago| history.nearest(now, ago));
    let mut before = compared.map(super::history::SiteMoment::sites).unwrap_or_default();
    let mut sites: Vec<_> = sites_of(sampler.tables).into_iter().collect();
    sites.sort_unstable_by_key(|(site, counts)| {
        let was = before.get(site).map_or(0, |before| before.live_bytes);
        std::cmp::Reverse((counts.live_bytes.max(was), counts.made_bytes))
    });
    sites.truncate(MOST_SITES);
    let mut table = SiteTable {
        pid: std::process::id(),
        taken_unix_ms: unix_ns() / 1_000_000,
        since_unix_ms,
        compared_unix_ms: compared.map(|moment| moment.unix_ms),
        mode: sampler.mode,
        sample_bytes: sampler.interval(),
        lost: sampler.tables.live.lost(),
        ..SiteTable::default()
    };
    let mut tree = Tree::new(&sampler.tables.stacks);
    for (site, now) in sites {
        let node = tree.node(site.node());
        let before = before.remove(&site).unwrap_or_default();
        table.sites.push(Site { node, domain: site.domain(), now, before });
    }
    (table.strings, table.frames, table.nodes) = (tree.strings, tree.frames, tree.nodes);
    Some(table)
}

/// The parts of a table that sites refer to, as they are needed.
struct Tree<'a> {
    stacks: &'a StackTree,
    strings: Vec<String>,
    frames: Vec<SiteFrame>,
    nodes: Vec<SiteNode>,
    string_of: HashMap<u32, u32>,
    frame_of: HashMap<SiteFrame, u32>,
    node_of: HashMap<u32, u32>,
}

impl<'a> Tree<'a> {
    fn new(stacks: &'a StackTree) -> Self {
        let (strings, frames, nodes) = Default::default();
        let (string_of, frame_of, node_of) = Default::default();
        Self { stacks, strings, frames, nodes, string_of, frame_of, node_of }
    }

    /// The number of a node in the table; its callers come before it.
    fn node(&mut self, node: u32) -> u32 {
        let mut path = Vec::new();
        let (mut at, mut number) = (node, NO_PARENT);
        while at != ROOT {
            if let Some(known) = self.node_of.get(&at) {
                number = *known;
                break;
            }
            let Some(facts) = self.stacks.facts(at) else { break };
            path.push((at, facts));
            at = facts.parent;
        }
        for (at, facts) in path.into_iter().rev() {
            let frame = self.frame(facts);
            self.nodes.push(SiteNode { parent: number, frame });
            number = self.nodes.len() as u32 - 1;
            self.node_of.insert(at, number);
        }
        number
    }

    fn frame(&mut self, facts: NodeFacts) -> u32 {
        let (file, function) = (self.string(facts.file), self.string(facts.function));
        let frame = SiteFrame { file, function, line: facts.line, first_line: facts.first_line };
        let next = self.frames.len() as u32;
        match self.frame_of.entry(frame) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                new.insert(next);
                self.frames.push(frame);
                next
            }
        }
    }

    fn string(&mut self, text: u32) -> u32 {
        let next = self.strings.len() as u32;
        match self.string_of.entry(text) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                new.insert(next);
                self.strings.push(self.stacks.texts.text(text));
                next
            }
        }
    }
}

/// A line of code, by the numbers of its texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Line {
    file: u32,
    function: u32,
    line: u32,
}

/// The part of the status report.
pub(super) fn summary(sampling: &Sampling, history: &SiteHistory, installed: u64, now: u64) -> Allocations {
    let mut report = Allocations {
        mode: sampling.mode,
        reason: sampling.reason.clone().unwrap_or_default(),
        ..Allocations::default()
    };
    let Some(sampler) = sampler().filter(|_| is_active()) else { return report };
    let stacks = &sampler.tables.stacks;
    if stacks.is_full() && report.reason.is_empty() {
        report.reason = "the table of call stacks is full: new places are shown without their callers".to_owned();
    }
    let made = sampler.tables.made.load(Relaxed);
    let (then, made_then) =
        history.latest_before(now, RATE_NS).map_or((installed, 0), |moment| (moment.at, moment.made));
    report.rate_bytes_s = per_second(made.saturating_sub(made_then) as f64, now.saturating_sub(then));
    let compared = history.nearest(now, GROWTH_NS);
    let mut lines: HashMap<Option<Line>, (SiteCounts, u64)> = HashMap::new();
    let line_of = |site: SiteKey| {
        let facts = stacks.facts(site.node())?;
        Some(Line { file: facts.file, function: facts.function, line: facts.line })
    };
    for (site, counts) in sites_of(sampler.tables) {
        let (sum, _) = lines.entry(line_of(site)).or_default();
        sum.live_bytes += counts.live_bytes;
        sum.live_blocks += counts.live_blocks;
    }
    for (site, counts) in compared.map(super::history::SiteMoment::sites).unwrap_or_default() {
        lines.entry(line_of(site)).or_default().1 += counts.live_bytes;
    }
    let total: u64 = lines.values().map(|(sum, _)| sum.live_bytes).sum();
    let unknown = lines.remove(&None).map_or(0, |(sum, _)| sum.live_bytes);
    report.live_bytes = total;
    report.attributed = if total == 0 { 0.0 } else { (total - unknown) as f64 / total as f64 };
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_unstable_by_key(|(_, (sum, _))| std::cmp::Reverse(sum.live_bytes));
    lines.truncate(TOP);
    report.top = lines
        .into_iter()
        .filter_map(|(line, (sum, before))| {
            let Line { file, function, line } = line?;
            let growth = sum.live_bytes as f64 - before as f64;
            Some(AllocationSite {
                site: format!("{}:{line} in {}", stacks.texts.text(file), stacks.texts.text(function)),
                bytes: sum.live_bytes,
                blocks: sum.live_blocks,
                growth_bytes_s: compared.map_or(0.0, |then| per_second(growth, now.saturating_sub(then.at))),
            })
        })
        .collect();
    report
}

/// Large blocks that were sampled and that a mapping of their own may begin with, in the order of their addresses.
pub(crate) fn large_blocks() -> Vec<usize> {
    const LEAST: u32 = 128 << 10;
    const HEAD: usize = 16;
    let Some(sampler) = sampler() else { return Vec::new() };
    let mut found: Vec<usize> =
        sampler.tables.live.addresses(LEAST).filter(|block| block % page_size() == HEAD).collect();
    found.sort_unstable();
    found
}

/// Where the block or the mapping at an address was allocated, as far as that is known.
pub(crate) fn site_at(address: usize) -> Option<String> {
    let tables = sampler()?.tables;
    let node =
        tables.live.get(address).map(|sample| sample.site.node()).or_else(|| tables.mappings.node_at(address))?;
    let facts = tables.stacks.facts(node)?;
    let text = |number| tables.stacks.texts.text(number);
    Some(format!("{}:{} in {}", text(facts.file), facts.line, text(facts.function)))
}

/// The bytes that a live sampled block stands for.
pub(crate) fn weight_at(address: usize) -> Option<u64> {
    sampler()?.tables.live.get(address).map(|sample| sample.weight)
}

fn per_second(amount: f64, nanoseconds: u64) -> f64 {
    // Over less than a second a rate says nothing.
    amount / (nanoseconds as f64 / 1e9).max(1.0)
}
