//! Tables for tests: some by hand, and any that chance makes.

use neurogc_wire::sites::{
    AllocationDomain, AllocationMode, NO_PARENT, Site, SiteCounts, SiteFrame, SiteNode, SiteTable,
};
use proptest::prelude::*;

use crate::builder::{TableBuilder, add};
use crate::place::CodeLine;

/// A line of a made-up program.
pub(crate) fn place(function: &'static str, line: u32) -> CodeLine<'static> {
    CodeLine { file: "/srv/shop/app.py", function, line, first_line: line / 10 * 10 }
}

/// Counts of which nothing was freed.
pub(crate) fn kept(bytes: u64) -> SiteCounts {
    SiteCounts { live_bytes: bytes, live_blocks: bytes / 64, made_bytes: bytes, made_blocks: bytes / 64 }
}

/// A table with these stacks, the outermost frame first.
pub(crate) fn table(sites: &[(&[CodeLine<'static>], AllocationDomain, SiteCounts)]) -> SiteTable {
    let head = SiteTable {
        pid: 42,
        taken_unix_ms: 1_790_000_060_000,
        since_unix_ms: 1_790_000_000_000,
        mode: AllocationMode::Native,
        sample_bytes: 32 << 10,
        ..SiteTable::default()
    };
    let mut builder = TableBuilder::like(&head);
    for (stack, domain, counts) in sites {
        let node = builder.node(stack.iter().copied());
        add(&mut builder.site(node, *domain).now, counts);
    }
    builder.finish()
}

pub(crate) fn any_counts() -> impl Strategy<Value = SiteCounts> {
    (0..1_u64 << 40, 0..1_u64 << 30, 0..1_u64 << 40, 0..1_u64 << 30).prop_map(|(live, blocks, freed, gone)| {
        SiteCounts { live_bytes: live, live_blocks: blocks, made_bytes: live + freed, made_blocks: blocks + gone }
    })
}

pub(crate) fn any_domain() -> impl Strategy<Value = AllocationDomain> {
    (0_usize..4).prop_map(|index| AllocationDomain::ALL[index])
}

/// A table as an agent makes it, with few names, so that stacks and lines meet.
pub(crate) fn any_table() -> impl Strategy<Value = SiteTable> {
    const NAMES: [&str; 5] = ["load", "parse", "</script>", "<module>", "ä;b\n"];
    let frame = (0_usize..5, 0_u32..4).prop_map(|(name, line)| place(NAMES[name], line));
    let stack = proptest::collection::vec(frame, 0..6);
    proptest::collection::vec((stack, any_domain(), any_counts()), 0..30).prop_map(|sites| {
        let sites: Vec<_> = sites.iter().map(|(stack, domain, counts)| (stack.as_slice(), *domain, *counts)).collect();
        table(&sites)
    })
}

/// A table in which no index need fit.
pub(crate) fn any_nonsense() -> impl Strategy<Value = SiteTable> {
    let index = prop_oneof![0_u32..8, Just(NO_PARENT), any::<u32>()];
    let frame = (index.clone(), index.clone(), any::<[u32; 2]>())
        .prop_map(|(file, function, [line, first_line])| SiteFrame { file, function, line, first_line });
    let node = (index.clone(), index.clone()).prop_map(|(parent, frame)| SiteNode { parent, frame });
    let counts = any::<[u64; 4]>().prop_map(|[live_bytes, live_blocks, made_bytes, made_blocks]| SiteCounts {
        live_bytes,
        live_blocks,
        made_bytes,
        made_blocks,
    });
    let site = (index, any_domain(), counts.clone(), counts).prop_map(|(node, domain, now, before)| Site {
        node,
        domain,
        now,
        before,
    });
    let lists = (
        proptest::collection::vec(".{0,6}", 0..6),
        proptest::collection::vec(frame, 0..6),
        proptest::collection::vec(node, 0..9),
        proptest::collection::vec(site, 0..9),
    );
    (lists, any::<[u64; 4]>(), any::<Option<u64>>()).prop_map(|((strings, frames, nodes, sites), numbers, compared)| {
        let [taken_unix_ms, since_unix_ms, sample_bytes, lost] = numbers;
        let mode = AllocationMode::Python;
        let compared_unix_ms = compared;
        SiteTable {
            pid: 1,
            taken_unix_ms,
            since_unix_ms,
            compared_unix_ms,
            mode,
            sample_bytes,
            lost,
            strings,
            frames,
            nodes,
            sites,
        }
    })
}
