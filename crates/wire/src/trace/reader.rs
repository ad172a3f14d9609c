//! From bytes back to records, past whatever is damaged.

use std::fmt;

use super::record::Record;
use super::site_block::{SITES_MAGIC, read_sites};
use super::writer::MAX_BLOCK;
use super::{BLOCK_MAGIC, Header, MAGIC, OLDEST_VERSION, VERSION};
use crate::sites::SiteTable;

/// A trace as far as it could be read.
#[derive(Debug)]
pub struct Trace {
    /// What it is about.
    pub header: Header,
    /// Everything readable, in the order of the file.
    pub records: Vec<Record>,
    /// Tables of allocation sites, in the order of the file. Traces before version 4 have none.
    pub sites: Vec<SiteTable>,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

/// A block of a trace.
#[derive(Debug)]
pub enum Block {
    /// What happened in a while.
    Records(Vec<Record>),
    /// Where live memory was allocated, at one moment.
    Sites(Box<SiteTable>),
}

impl Block {
    /// Its records; a table of sites has none.
    #[must_use]
    pub fn records(self) -> Vec<Record> {
        match self {
            Self::Records(records) => records,
            Self::Sites(_) => Vec::new(),
        }
    }
}

/// A part of a file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub offset: usize,
    /// How long it is.
    pub length: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} bytes at offset {}: {}", self.length, self.offset, self.what)
    }
}

/// Why nothing of a file could be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It does not start like a trace.
    #[error("this is not a NeuroGC trace (it does not start with {:?})", "NGCTRACE")]
    NotATrace,
    /// It is from another version.
    #[error(
        "the trace has format version {0}; this build reads versions {OLDEST_VERSION} to {VERSION}. Use the neurogc that \
         wrote it"
    )]
    Version(u16),
    /// It ends within its header, or the header is damaged.
    #[error("the trace's header is cut off or damaged; nothing after it can be trusted")]
    Header,
}

/// Reads a whole trace.
pub fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
    let (mut records, mut sites) = (Vec::new(), Vec::new());
    let (header, damage) = walk(bytes, &mut |block| match block {
        Block::Records(more) => records.extend(more),
        Block::Sites(table) => sites.push(*table),
    })?;
    Ok(Trace { header, records, sites, damage })
}

/// Goes through a trace a block at a time, for those who do not want all of it in memory.
pub fn walk(bytes: &[u8], each: &mut impl FnMut(Block)) -> Result<(Header, Vec<Damage>), TraceError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(TraceError::NotATrace)?;
    let mut rest = rest;
    let version = u16::from_le_bytes(take(&mut rest).ok_or(TraceError::Header)?);
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(TraceError::Version(version));
    }
    let header = read_header(&mut rest).ok_or(TraceError::Header)?;
    let damage = read_blocks(bytes, bytes.len() - rest.len(), each);
    Ok((header, damage))
}

/// How many bytes of a file come before its blocks, by the first 18 of them: a file whose header is known can be read without it.
#[must_use]
pub fn header_length(start: &[u8]) -> Option<u64> {
    let mut rest = start.strip_prefix(MAGIC)?;
    let _version: [u8; 2] = take(&mut rest)?;
    let json = u32::from_le_bytes(take(&mut rest)?);
    Some(18 + u64::from(json))
}

fn read_header(from: &mut &[u8]) -> Option<Header> {
    let length = u32::from_le_bytes(take(from)?) as usize;
    let crc = u32::from_le_bytes(take(from)?);
    let (json, rest) = from.split_at_checked(length)?;
    *from = rest;
    (crc32fast::hash(json) == crc).then(|| serde_json::from_slice(json).ok())?
}

fn read_blocks(bytes: &[u8], mut offset: usize, each: &mut impl FnMut(Block)) -> Vec<Damage> {
    let mut damage = Vec::new();
    while offset < bytes.len() {
        match read_any(&bytes[offset..]) {
            Ok((length, block)) => {
                each(block);
                offset += length;
            }
            Err(what) => {
                let next = find_block(&bytes[offset + 1..]).map_or(bytes.len(), |found| offset + 1 + found);
                damage.push(Damage { offset, length: next - offset, what });
                offset = next;
            }
        }
    }
    damage
}

/// Reads the block of either kind that begins here.
fn read_any(bytes: &[u8]) -> Result<(usize, Block), &'static str> {
    if bytes.starts_with(SITES_MAGIC) {
        return read_sites(bytes).map(|(length, table)| (length, Block::Sites(Box::new(table))));
    }
    read_block(bytes).map(|(length, records)| (length, Block::Records(records)))
}

/// Reads the block that begins here: its length and its records, or what is wrong with it.
pub fn read_block(bytes: &[u8]) -> Result<(usize, Vec<Record>), &'static str> {
    const CUT: &str = "the last block is cut off";
    let mut rest = bytes.strip_prefix(BLOCK_MAGIC).ok_or("no block begins here")?;
    let length = u32::from_le_bytes(take(&mut rest).ok_or(CUT)?) as usize;
    let crc = u32::from_le_bytes(take(&mut rest).ok_or(CUT)?);
    if length > MAX_BLOCK {
        return Err("the block's length is impossible");
    }
    let mut payload = rest.get(..length).ok_or(CUT)?;
    if crc32fast::hash(payload) != crc {
        return Err("the block's checksum is wrong");
    }
    let mut records = Vec::new();
    let mut previous = 0;
    while !payload.is_empty() {
        let record = Record::decode(&mut payload, previous).ok_or("the block holds an unknown record")?;
        previous = record.at();
        records.push(record);
    }
    Ok((bytes.len() - rest.len() + length, records))
}

fn find_block(bytes: &[u8]) -> Option<usize> {
    bytes.windows(BLOCK_MAGIC.len()).position(|window| window == BLOCK_MAGIC || window == SITES_MAGIC)
}

pub(super) fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*head)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::super::{BlockWriter, OrderKind, Place, WaitSource, encode_header, encode_sites};
    use super::*;
    use crate::sites::{AllocationDomain, NO_PARENT, Site, SiteCounts, SiteFrame, SiteNode};
    use crate::status::Cause;
    use crate::stop::StopKind;

    fn of<T: Copy + std::fmt::Debug, const N: usize>(all: [T; N]) -> impl Strategy<Value = T> {
        (0..N).prop_map(move |index| all[index])
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let at = 0..u64::MAX / 2;
        prop_oneof![
            (at.clone(), any::<u64>()).prop_map(|(at, id)| Record::RequestStart { at, id }),
            (at.clone(), any::<u64>(), any::<u64>(), 0_usize..3).prop_map(|(at, id, wait, source)| {
                Record::RequestWait { at, id, wait, source: WaitSource::ALL[source] }
            }),
            (at.clone(), any::<u64>()).prop_map(|(at, id)| Record::RequestEnd { at, id }),
            (at.clone(), any::<[u64; 4]>(), of(StopKind::ALL), of(Place::ALL)).prop_map(
                |(at, numbers, kind, place)| {
                    let [pause, collected, uncollectable, order] = numbers;
                    let order = (order % 2 == 1).then_some(order);
                    Record::Collection { at, pause, kind, place, collected, uncollectable, order }
                }
            ),
            (at.clone(), any::<[u64; 2]>()).prop_map(|(at, [busy, idle])| Record::Gap { at, busy, idle }),
            (at.clone(), any::<[u32; 3]>()).prop_map(|(at, counts)| Record::Counts { at, counts }),
            (at.clone(), any::<[u64; 2]>()).prop_map(|(at, [rss, cpu_us])| Record::Process { at, rss, cpu_us }),
            (at.clone(), any::<u64>(), ".{0,20}").prop_map(|(at, duration, site)| Record::Stall {
                at,
                duration,
                cause: Cause::CpuStarved,
                site
            }),
            (at.clone(), any::<u64>()).prop_map(|(at, count)| Record::Dropped { at, count }),
            (at.clone(), any::<u64>(), any::<bool>(), of(OrderKind::ALL), ".{0,20}")
                .prop_map(|(at, id, guard, what, reason)| Record::Order { at, id, guard, what, reason }),
            (at.clone(), ".{0,20}", ".{0,20}").prop_map(|(at, before, after)| Record::Policy { at, before, after }),
            (at.clone(), any::<[u64; 3]>()).prop_map(|(at, [gathered, tenured, pending])| Record::Heap {
                at,
                gathered,
                tenured,
                pending
            }),
            (at, any::<[u64; 4]>()).prop_map(|(at, [lasted, faults, objects, found])| Record::Flight {
                at,
                lasted,
                faults,
                objects,
                found
            }),
        ]
    }

    fn file(blocks: &[Vec<Record>]) -> Vec<u8> {
        let mut bytes = encode_header(&Header { pid: 7, ..Header::default() });
        let mut writer = BlockWriter::new();
        for block in blocks {
            block.iter().for_each(|record| writer.push(record));
            bytes.extend(writer.take());
        }
        bytes
    }

    fn dropped(count: u64) -> Record {
        Record::Dropped { at: 5, count }
    }

    proptest! {
        #[test]
        fn every_record_survives(records in proptest::collection::vec(any_record(), 0..50)) {
            let trace = read(&file(std::slice::from_ref(&records))).unwrap();
            prop_assert_eq!(trace.header.pid, 7);
            prop_assert_eq!(trace.records, records);
            prop_assert!(trace.damage.is_empty());
        }

        #[test]
        fn a_cut_file_gives_every_whole_block(cut in 0_usize..60) {
            let bytes = file(&[vec![dropped(1)], vec![dropped(2)], vec![dropped(3)]]);
            let kept = &bytes[..bytes.len() - cut.min(45)];
            let trace = read(kept).unwrap();
            prop_assert!(trace.records.len() <= 3);
            prop_assert_eq!(trace.records.len() == 3, cut == 0);
        }

        #[test]
        fn no_bytes_make_the_reader_fail_badly(bytes: Vec<u8>) {
            let _ = read(&bytes);
            let mut with_header = file(&[]);
            with_header.extend_from_slice(&bytes);
            let _ = read(&with_header);
        }
    }

    #[test]
    fn a_damaged_block_is_skipped_and_named() {
        let mut bytes = file(&[vec![dropped(1)], vec![dropped(2)], vec![dropped(3)]]);
        let middle = bytes.len() - 2 * 15 + 13;
        bytes[middle] ^= 0xff;
        let trace = read(&bytes).unwrap();
        assert_eq!(trace.records, [dropped(1), dropped(3)]);
        assert_eq!(trace.damage.len(), 1);
        assert_eq!(trace.damage[0].what, "the block's checksum is wrong");
    }

    #[test]
    fn tables_of_sites_stand_between_the_records() {
        let now = SiteCounts { live_bytes: 9, live_blocks: 1, made_bytes: 20, made_blocks: 2 };
        let table = SiteTable {
            pid: 7,
            taken_unix_ms: 5,
            strings: vec!["app.py".to_owned(), "f".to_owned()],
            frames: vec![SiteFrame { file: 0, function: 1, line: 3, first_line: 2 }],
            nodes: vec![SiteNode { parent: NO_PARENT, frame: 0 }],
            sites: vec![Site { node: 0, domain: AllocationDomain::Object, now, before: SiteCounts::default() }],
            ..SiteTable::default()
        };
        let mut bytes = file(&[vec![dropped(1)]]);
        let block = encode_sites(&table);
        bytes.extend_from_slice(&block);
        let damaged = bytes.len() + block.len() - 1;
        bytes.extend_from_slice(&block);
        let mut writer = BlockWriter::new();
        writer.push(&dropped(2));
        bytes.extend(writer.take());
        bytes.extend_from_slice(&block);
        bytes[damaged] ^= 0xff;
        let trace = read(&bytes).unwrap();
        assert_eq!(trace.records, [dropped(1), dropped(2)]);
        assert_eq!(trace.sites, [table.clone(), table]);
        assert_eq!(trace.damage.len(), 1);
        assert_eq!((trace.damage[0].length, trace.damage[0].what), (block.len(), "the block's checksum is wrong"));
    }

    #[test]
    fn other_files_are_named_for_what_they_are() {
        assert!(matches!(read(b"PK\x03\x04"), Err(TraceError::NotATrace)));
        assert!(matches!(read(b"NGCTRACE\x09\x00"), Err(TraceError::Version(9))));
        assert!(matches!(read(b"NGCTRACE\x00\x00"), Err(TraceError::Version(0))));
        assert!(matches!(read(b"NGCTRACE\x01\x00\xff\xff"), Err(TraceError::Header)));
    }
}
