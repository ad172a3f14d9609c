//! Blocks with a table of allocation sites: cut to what matters, and their bytes.

use super::reader::take;
use crate::sites::{AllocationDomain, AllocationMode, NO_PARENT, Site, SiteCounts, SiteFrame, SiteNode, SiteTable};
use crate::varint;

/// The first bytes of a block with a table.
pub const SITES_MAGIC: &[u8; 4] = b"NGCS";

/// Such a block is not longer than this, whatever the table.
pub const MAX_SITES_BLOCK: usize = 64 * 1024;

/// The function of the frame under which a cut table counts what it leaves out.
pub const SMALLER_SITES: &str = "[smaller sites]";

/// Magic, length and checksum.
const HEAD: usize = 12;

/// Sites that a block holds at most.
const MOST_SITES: usize = 512;

/// What the sites that are kept hold of all live bytes, and of all bytes made.
const KEPT: f64 = 0.99;

/// The block of a table. What does not fit is counted under `SMALLER_SITES`.
#[must_use]
pub fn encode_sites(table: &SiteTable) -> Vec<u8> {
    let payload = encode(&cut_sites(table, MAX_SITES_BLOCK - HEAD));
    let mut block = SITES_MAGIC.to_vec();
    block.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    block.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    block.extend_from_slice(&payload);
    block
}

/// A table with the sites that matter, and not longer than so many bytes in a block. What is left out is counted under
/// `SMALLER_SITES`.
#[must_use]
pub fn cut_sites(table: &SiteTable, longest: usize) -> SiteTable {
    let order = by_weight(table);
    let mut most = enough(table, &order).min(MOST_SITES);
    loop {
        let small = cut(table, &order[..most]);
        // Without a site of its own a table is some dozens of bytes long.
        if most == 0 || encode(&small).len() <= longest {
            return small;
        }
        most /= 2;
    }
}

/// Reads the block that begins here: its length and its table, or what is wrong with it.
pub(super) fn read_sites(bytes: &[u8]) -> Result<(usize, SiteTable), &'static str> {
    const CUT: &str = "the last block is cut off";
    let mut rest = bytes.strip_prefix(SITES_MAGIC).ok_or("no block begins here")?;
    let length = u32::from_le_bytes(take(&mut rest).ok_or(CUT)?) as usize;
    let crc = u32::from_le_bytes(take(&mut rest).ok_or(CUT)?);
    if length > MAX_SITES_BLOCK {
        return Err("the block's length is impossible");
    }
    let mut payload = rest.get(..length).ok_or(CUT)?;
    if crc32fast::hash(payload) != crc {
        return Err("the block's checksum is wrong");
    }
    let table = decode(&mut payload).filter(|_| payload.is_empty()).ok_or("the block holds no table of sites")?;
    Ok((bytes.len() - rest.len() + length, table))
}

/// The places of the sites, those first that hold or made most.
fn by_weight(table: &SiteTable) -> Vec<usize> {
    let (live, made) = sums(table);
    let weight = |site: &Site| {
        let live = site.now.live_bytes as f64 / live.max(1.0);
        live.max(site.now.made_bytes as f64 / made.max(1.0))
    };
    let mut order: Vec<usize> = (0..table.sites.len()).collect();
    order.sort_by(|one, other| weight(&table.sites[*other]).total_cmp(&weight(&table.sites[*one])));
    order
}

fn sums(table: &SiteTable) -> (f64, f64) {
    let sum = |of: fn(&Site) -> u64| table.sites.iter().map(|site| of(site) as f64).sum();
    (sum(|site| site.now.live_bytes), sum(|site| site.now.made_bytes))
}

/// How many sites in this order hold enough.
fn enough(table: &SiteTable, order: &[usize]) -> usize {
    let (live, made) = sums(table);
    let (mut live_left, mut made_left) = (live * KEPT, made * KEPT);
    for (count, index) in order.iter().enumerate() {
        if live_left <= 0.0 && made_left <= 0.0 {
            return count;
        }
        live_left -= table.sites[*index].now.live_bytes as f64;
        made_left -= table.sites[*index].now.made_bytes as f64;
    }
    order.len()
}

/// A table with these sites only, and with the nodes, frames and texts that they need.
fn cut(table: &SiteTable, kept: &[usize]) -> SiteTable {
    let mut small =
        SiteTable { strings: Vec::new(), frames: Vec::new(), nodes: Vec::new(), sites: Vec::new(), ..table.clone() };
    let mut nodes = needed(table, kept);
    let mut frames = vec![None; table.frames.len()];
    let mut strings = vec![None; table.strings.len()];
    for index in 0..nodes.len() {
        if nodes[index].is_none() {
            continue;
        }
        let SiteNode { parent, frame } = table.nodes[index];
        let above = if (parent as usize) < index { nodes[parent as usize].unwrap_or(NO_PARENT) } else { NO_PARENT };
        let frame = table.frames.get(frame as usize).map_or(NO_PARENT, |place| {
            *frames[frame as usize].get_or_insert_with(|| {
                let mut text = |index: u32| {
                    let text = table.strings.get(index as usize)?;
                    Some(*strings[index as usize].get_or_insert_with(|| push(&mut small.strings, text.clone())))
                };
                let [file, function] = [place.file, place.function].map(|it| text(it).unwrap_or(NO_PARENT));
                push(&mut small.frames, SiteFrame { file, function, ..*place })
            })
        });
        nodes[index] = Some(push(&mut small.nodes, SiteNode { parent: above, frame }));
    }
    let mut is_kept = vec![false; table.sites.len()];
    for &index in kept {
        is_kept[index] = true;
        let site = table.sites[index];
        let node = nodes.get(site.node as usize).copied().flatten().unwrap_or(NO_PARENT);
        small.sites.push(Site { node, ..site });
    }
    let mut rest: [Option<Site>; AllocationDomain::ALL.len()] = [None; AllocationDomain::ALL.len()];
    for (site, _) in table.sites.iter().zip(is_kept).filter(|(_, is_kept)| !is_kept) {
        let none = SiteCounts::default();
        let sum =
            rest[site.domain as usize].get_or_insert(Site { node: 0, domain: site.domain, now: none, before: none });
        add(&mut sum.now, &site.now);
        add(&mut sum.before, &site.before);
    }
    if rest.iter().all(Option::is_none) {
        return small;
    }
    let (file, function) =
        (push(&mut small.strings, String::new()), push(&mut small.strings, SMALLER_SITES.to_owned()));
    let frame = push(&mut small.frames, SiteFrame { file, function, line: 0, first_line: 0 });
    let node = push(&mut small.nodes, SiteNode { parent: NO_PARENT, frame });
    small.sites.extend(rest.into_iter().flatten().map(|site| Site { node, ..site }));
    small
}

/// Which nodes lead to these sites: 0 for each that does.
fn needed(table: &SiteTable, kept: &[usize]) -> Vec<Option<u32>> {
    let mut nodes = vec![None; table.nodes.len()];
    for &index in kept {
        let mut node = table.sites[index].node as usize;
        while node < nodes.len() && nodes[node].is_none() {
            nodes[node] = Some(0);
            // A parent comes before its children.
            let parent = table.nodes[node].parent as usize;
            node = if parent < node { parent } else { usize::MAX };
        }
    }
    nodes
}

fn push<T>(list: &mut Vec<T>, value: T) -> u32 {
    list.push(value);
    list.len() as u32 - 1
}

fn add(sum: &mut SiteCounts, counts: &SiteCounts) {
    sum.live_bytes = sum.live_bytes.saturating_add(counts.live_bytes);
    sum.live_blocks = sum.live_blocks.saturating_add(counts.live_blocks);
    sum.made_bytes = sum.made_bytes.saturating_add(counts.made_bytes);
    sum.made_blocks = sum.made_blocks.saturating_add(counts.made_blocks);
}

fn encode(table: &SiteTable) -> Vec<u8> {
    let mut to = Vec::new();
    let compared = table.compared_unix_ms.map_or(0, |moment| moment.wrapping_add(1));
    for number in [table.pid.into(), table.taken_unix_ms, table.since_unix_ms, compared, table.sample_bytes, table.lost]
    {
        varint::put(&mut to, number);
    }
    to.push(table.mode as u8);
    varint::put(&mut to, table.strings.len() as u64);
    for text in &table.strings {
        varint::put(&mut to, text.len() as u64);
        to.extend_from_slice(text.as_bytes());
    }
    varint::put(&mut to, table.frames.len() as u64);
    for SiteFrame { file, function, line, first_line } in &table.frames {
        [file, function, line, first_line].into_iter().for_each(|number| put_index(&mut to, *number));
    }
    varint::put(&mut to, table.nodes.len() as u64);
    for SiteNode { parent, frame } in &table.nodes {
        put_index(&mut to, *parent);
        put_index(&mut to, *frame);
    }
    varint::put(&mut to, table.sites.len() as u64);
    for site in &table.sites {
        put_index(&mut to, site.node);
        to.push(site.domain as u8);
        put_counts(&mut to, &site.now);
        if compared != 0 {
            put_counts(&mut to, &site.before);
        }
    }
    to
}

/// Numbers that say "none" by their largest value are short, too.
fn put_index(to: &mut Vec<u8>, index: u32) {
    varint::put(to, index.wrapping_add(1).into());
}

fn put_counts(to: &mut Vec<u8>, counts: &SiteCounts) {
    let SiteCounts { live_bytes, live_blocks, made_bytes, made_blocks } = counts;
    [live_bytes, live_blocks, made_bytes, made_blocks].into_iter().for_each(|number| varint::put(to, *number));
}

fn decode(from: &mut &[u8]) -> Option<SiteTable> {
    let pid = u32::try_from(varint::take(from)?).ok()?;
    let [taken_unix_ms, since_unix_ms, compared, sample_bytes, lost] =
        [(); 5].map(|()| varint::take(from)).into_iter().collect::<Option<Vec<_>>>()?.try_into().ok()?;
    let mode = *AllocationMode::ALL.get(usize::from(take::<1>(from)?[0]))?;
    let compared_unix_ms = (compared > 0).then(|| compared - 1);
    let strings = list(from, |from| {
        let length = usize::try_from(varint::take(from)?).ok()?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        String::from_utf8(text.to_vec()).ok()
    })?;
    let frames = list(from, |from| {
        let [file, function, line, first_line] = [index(from)?, index(from)?, index(from)?, index(from)?];
        Some(SiteFrame { file, function, line, first_line })
    })?;
    let nodes = list(from, |from| Some(SiteNode { parent: index(from)?, frame: index(from)? }))?;
    let sites = list(from, |from| {
        let node = index(from)?;
        let domain = *AllocationDomain::ALL.get(usize::from(take::<1>(from)?[0]))?;
        let now = counts(from)?;
        let before = if compared_unix_ms.is_some() { counts(from)? } else { SiteCounts::default() };
        Some(Site { node, domain, now, before })
    })?;
    Some(SiteTable {
        pid,
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
    })
}

/// A list with its length before it. It grows as it is read: a length may be a lie.
fn list<T>(from: &mut &[u8], mut one: impl FnMut(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let length = varint::take(from)?;
    (0..length).map(|_| one(from)).collect()
}

fn index(from: &mut &[u8]) -> Option<u32> {
    let number = varint::take(from)?;
    (number <= u64::from(u32::MAX)).then(|| (number as u32).wrapping_sub(1))
}

fn counts(from: &mut &[u8]) -> Option<SiteCounts> {
    let mut number = || varint::take(from);
    Some(SiteCounts { live_bytes: number()?, live_blocks: number()?, made_bytes: number()?, made_blocks: number()? })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table whose site `n` is at line `n` and holds as many bytes.
    fn table(sites: u32, name: &str) -> SiteTable {
        let counts =
            |bytes: u64| SiteCounts { live_bytes: bytes, live_blocks: 1, made_bytes: 2 * bytes, made_blocks: 2 };
        let site = |node: u32| Site {
            node,
            domain: AllocationDomain::ALL[node as usize % 2],
            now: counts(u64::from(node)),
            before: SiteCounts::default(),
        };
        SiteTable {
            pid: 7,
            taken_unix_ms: 1_790_000_000_000,
            since_unix_ms: 1_789_000_000_000,
            mode: AllocationMode::Native,
            sample_bytes: 32_768,
            strings: (0..sites).map(|number| format!("{name}{number}")).collect(),
            frames: (0..sites).map(|line| SiteFrame { file: 0, function: line, line, first_line: 1 }).collect(),
            nodes: (0..sites)
                .map(|frame| SiteNode { parent: frame.checked_sub(1).unwrap_or(NO_PARENT), frame })
                .collect(),
            sites: (0..sites).map(site).collect(),
            ..SiteTable::default()
        }
    }

    fn total(table: &SiteTable) -> SiteCounts {
        let mut sum = SiteCounts::default();
        table.sites.iter().for_each(|site| add(&mut sum, &site.now));
        sum
    }

    #[test]
    fn a_small_table_survives_whole() {
        for table in [SiteTable::default(), table(1, "f"), SiteTable { compared_unix_ms: Some(0), ..table(5, "") }] {
            let block = encode_sites(&table);
            let (length, back) = read_sites(&block).unwrap();
            assert_eq!(length, block.len());
            assert_eq!(total(&back), total(&table));
            assert_eq!((back.pid, back.compared_unix_ms, back.mode), (table.pid, table.compared_unix_ms, table.mode));
        }
    }

    #[test]
    fn a_large_table_is_cut_and_keeps_its_sum() {
        for (sites, name) in [(3000, "f"), (500, &*"long".repeat(500))] {
            let table = table(sites, name);
            let block = encode_sites(&table);
            assert!(block.len() <= MAX_SITES_BLOCK, "{}", block.len());
            let (_, back) = read_sites(&block).unwrap();
            assert_eq!(total(&back), total(&table));
            assert!(back.sites.len() <= MOST_SITES + 2);
            assert_eq!(back.strings.last().map(String::as_str), Some(SMALLER_SITES));
            // The largest is there with its name and its line.
            let largest =
                back.sites.iter().max_by_key(|site| (site.node as usize + 1 < back.nodes.len(), site.now.live_bytes));
            if let Some(largest) = largest.filter(|it| it.node as usize + 1 < back.nodes.len()) {
                let frame = back.frames[back.nodes[largest.node as usize].frame as usize];
                assert_eq!(u64::from(frame.line), largest.now.live_bytes);
                assert_eq!(back.strings[frame.function as usize], format!("{name}{}", frame.line));
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_fail_badly(payload: Vec<u8>) {
            let mut block = SITES_MAGIC.to_vec();
            block.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            block.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
            block.extend_from_slice(&payload);
            if let Ok((length, table)) = read_sites(&block) {
                prop_assert_eq!(length, block.len());
                let again = encode_sites(&table);
                prop_assert_eq!(total(&read_sites(&again).unwrap().1), total(&table));
            }
        }
    }
}
