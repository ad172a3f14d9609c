//! Sites that have something in common, added up.

use std::collections::HashMap;

use neurogc_wire::sites::{AllocationDomain, NO_PARENT, Site, SiteCounts, SiteTable};
use serde::{Deserialize, Serialize};

use crate::builder::add;
use crate::place::{CodeLine, TableStacks};

/// What sites of one group have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// The line that allocates.
    #[default]
    Line,
    /// The function that allocates.
    Function,
    /// The file of that function.
    File,
    /// The whole call stack.
    Stack,
    /// The allocator.
    Domain,
}

impl GroupBy {
    /// All of them, with the names they are written by.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Line, "line"),
        (Self::Function, "function"),
        (Self::File, "file"),
        (Self::Stack, "stack"),
        (Self::Domain, "domain"),
    ];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Which sites are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SiteFilter {
    /// All.
    #[default]
    All,
    /// Those of `malloc` and `mmap`.
    Native,
}

impl SiteFilter {
    /// Whether a site is looked at.
    #[must_use]
    pub fn takes(self, site: &Site) -> bool {
        self == Self::All || matches!(site.domain, AllocationDomain::Malloc | AllocationDomain::Mmap)
    }
}

/// Sites that have something in common.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteGroup<'t> {
    /// The places, from the innermost on: one by line, function and file, all by stack, none by allocator. What differs
    /// within the group is empty or 0.
    pub places: Vec<CodeLine<'t>>,
    /// The allocators, each once.
    pub domains: Vec<AllocationDomain>,
    /// The sum now.
    pub now: SiteCounts,
    /// The sum at the moment of comparison.
    pub before: SiteCounts,
}

/// Adds the sites of a table up, in no particular order.
#[must_use]
pub fn group(table: &SiteTable, by: GroupBy, keep: SiteFilter) -> Vec<SiteGroup<'_>> {
    let stacks = TableStacks(table);
    let mut places: HashMap<Vec<CodeLine<'_>>, usize> = HashMap::new();
    let mut domains: HashMap<AllocationDomain, usize> = HashMap::new();
    let mut groups: Vec<SiteGroup<'_>> = Vec::new();
    for site in table.sites.iter().filter(|site| keep.takes(site)) {
        let next = groups.len();
        let key = key(stacks, site.node, by);
        let index = match by {
            GroupBy::Domain => *domains.entry(site.domain).or_insert(next),
            _ => *places.entry(key.clone()).or_insert(next),
        };
        if index == next {
            let none = SiteCounts::default();
            groups.push(SiteGroup { places: key, domains: Vec::new(), now: none, before: none });
        }
        let group = &mut groups[index];
        if !group.domains.contains(&site.domain) {
            group.domains.push(site.domain);
        }
        add(&mut group.now, &site.now);
        add(&mut group.before, &site.before);
    }
    groups
}

fn key<'t>(stacks: TableStacks<'t>, node: u32, by: GroupBy) -> Vec<CodeLine<'t>> {
    let inner = stacks.place(node);
    match by {
        GroupBy::Domain => Vec::new(),
        GroupBy::Stack if node == NO_PARENT => vec![inner],
        GroupBy::Stack => stacks.stack(node).collect(),
        GroupBy::Line => vec![CodeLine { first_line: 0, ..inner }],
        GroupBy::Function => vec![CodeLine { line: 0, ..inner }],
        // Without a file, the function says what it is.
        GroupBy::File if inner.file.is_empty() => vec![CodeLine { line: 0, first_line: 0, ..inner }],
        GroupBy::File => vec![CodeLine { file: inner.file, ..CodeLine::default() }],
    }
}
