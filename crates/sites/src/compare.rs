//! Two tables of one program, site by site.

use neurogc_wire::sites::SiteTable;

use crate::builder::{TableBuilder, add};
use crate::place::TableStacks;

/// The later table, compared with the earlier one. Sites belong together if the texts of their stacks are the same: tables
/// number their texts as they like. A site that is in the earlier table only holds nothing now.
#[must_use]
pub fn compare(before: &SiteTable, now: &SiteTable) -> SiteTable {
    let mut builder = TableBuilder::like(now);
    for site in &now.sites {
        let node = carry(&mut builder, now, site.node);
        add(&mut builder.site(node, site.domain).now, &site.now);
    }
    for site in &before.sites {
        let node = carry(&mut builder, before, site.node);
        add(&mut builder.site(node, site.domain).before, &site.now);
    }
    let mut table = builder.finish();
    for site in &mut table.sites {
        // What was made does not become less; a site without live blocks may have been left out.
        site.now.made_bytes = site.now.made_bytes.max(site.before.made_bytes);
        site.now.made_blocks = site.now.made_blocks.max(site.before.made_blocks);
    }
    table.compared_unix_ms = Some(before.taken_unix_ms);
    table
}

/// The same stack in another table.
fn carry(builder: &mut TableBuilder, table: &SiteTable, node: u32) -> u32 {
    let mut stack: Vec<_> = TableStacks(table).stack(node).collect();
    stack.reverse();
    builder.node(stack)
}
