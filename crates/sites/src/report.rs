//! The report on a table: groups in the order of what they hold, as the command and the hub give it in JSON.

use neurogc_wire::sites::{AllocationDomain, SiteCounts, SiteTable};
use serde::Serialize;

use crate::builder::add;
use crate::group::{GroupBy, SiteFilter, SiteGroup, group};
use crate::head::TableHead;
use crate::measure::{Measure, seconds};
use crate::place::CodeLine;

/// What a report is to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct SiteChoice {
    /// How sites are grouped.
    pub by: GroupBy,
    /// What they are ordered by.
    pub measure: Measure,
    /// Which of them are looked at.
    pub keep: SiteFilter,
    /// How many groups are shown.
    pub top: usize,
}

/// Groups of sites, the largest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteReport<'t> {
    /// What it is a view of.
    #[serde(flatten)]
    pub head: TableHead,
    /// How sites are grouped.
    pub by: GroupBy,
    /// What groups are ordered by.
    pub measure: Measure,
    /// Everything, all groups together.
    pub total: SiteFigures,
    /// How many groups there are.
    pub groups: usize,
    /// The largest ones.
    pub rows: Vec<SiteRow<'t>>,
}

/// The figures of a group. Sizes are bytes, and rates bytes or blocks in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SiteFigures {
    /// Live memory.
    pub live_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Growth since the moment of comparison; `None` without one.
    pub growth_bytes: Option<i64>,
    /// The same in blocks.
    pub growth_blocks: Option<i64>,
    /// Allocated in a second since the moment of comparison, or since sampling began.
    pub rate_bytes_s: f64,
    /// The same in blocks.
    pub rate_blocks_s: f64,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteRow<'t> {
    /// The places, from the innermost on: one by line, function and file, all by stack, none by allocator.
    pub places: Vec<CodeLine<'t>>,
    /// The allocators.
    pub domains: Vec<&'static str>,
    /// What it is ordered by: bytes, or bytes in a second.
    pub value: f64,
    /// Its share of all live memory, of all growth of those that grow, or of all that is allocated.
    pub share: f64,
    /// The figures.
    #[serde(flatten)]
    pub figures: SiteFigures,
}

impl<'t> SiteReport<'t> {
    /// Groups a table and orders the groups.
    #[must_use]
    pub fn of(table: &'t SiteTable, choice: &SiteChoice) -> Self {
        let seconds = seconds(table);
        let compared = table.compared_unix_ms.is_some();
        let groups = group(table, choice.by, choice.keep);
        let none = SiteCounts::default();
        let mut total = SiteGroup { places: Vec::new(), domains: Vec::new(), now: none, before: none };
        for part in &groups {
            add(&mut total.now, &part.now);
            add(&mut total.before, &part.before);
        }
        let mut rows: Vec<SiteRow<'t>> =
            groups.into_iter().map(|part| row(part, choice.measure, seconds, compared)).collect();
        let whole: f64 = rows.iter().map(|row| row.value.max(0.0)).sum();
        for row in &mut rows {
            row.share = if whole > 0.0 { row.value / whole } else { 0.0 };
        }
        // Where two are equal, the one that holds more comes first; the order of places keeps the rest as it is each time.
        let held = |row: &SiteRow<'_>| row.figures.live_bytes;
        rows.sort_by(|one, other| {
            let by_value = other.value.total_cmp(&one.value);
            by_value.then_with(|| held(other).cmp(&held(one))).then_with(|| one.places.cmp(&other.places))
        });
        let groups = rows.len();
        rows.truncate(choice.top);
        Self {
            head: TableHead::of(table),
            by: choice.by,
            measure: choice.measure,
            total: figures(&total, seconds, compared),
            groups,
            rows,
        }
    }
}

fn row(group: SiteGroup<'_>, measure: Measure, seconds: f64, compared: bool) -> SiteRow<'_> {
    let figures = figures(&group, seconds, compared);
    let value = measure.amount(&group.now, &group.before, seconds).bytes;
    let mut domains = group.domains;
    domains.sort_unstable();
    SiteRow {
        places: group.places,
        domains: domains.into_iter().map(AllocationDomain::name).collect(),
        value,
        share: 0.0,
        figures,
    }
}

fn figures(group: &SiteGroup<'_>, seconds: f64, compared: bool) -> SiteFigures {
    let growth = Measure::Growth.amount(&group.now, &group.before, seconds);
    let rate = Measure::Rate.amount(&group.now, &group.before, seconds);
    SiteFigures {
        live_bytes: group.now.live_bytes,
        live_blocks: group.now.live_blocks,
        growth_bytes: compared.then_some(growth.bytes as i64),
        growth_blocks: compared.then_some(growth.blocks as i64),
        rate_bytes_s: rate.bytes,
        rate_blocks_s: rate.blocks,
    }
}
