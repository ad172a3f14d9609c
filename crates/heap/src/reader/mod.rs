//! Reading a dump: tables at once, objects in parallel, and the references and values of single objects when they are
//! asked for.
//!
//! A dump that is cut off or damaged is read as far as it goes. What is missing is told, and objects that cannot be read
//! have the type `(unreadable)`.

mod load;
mod lookup;
mod source;
mod tables;

use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use neurogc_ngch::{
    BlockHead, DumpBlock, DumpHead, DumpSection, Foot, FormatError, Sections, Tag, Totals, foot_offset,
};
use thiserror::Error;

pub use load::Loaded;
use lookup::BlockIndex;
use source::DumpBytes;
pub use tables::{DumpTables, HeapFrame, HeapImage, HeapTask, HeapThread, HeapType};

/// The most references that an analysis takes: their places are numbers of 32 bits.
const MOST_REFERENCES: u64 = u32::MAX as u64 - 1;

/// Each object takes a byte at least in each of five columns, so that no file has more objects than this share of it.
const LEAST_BYTES: u64 = 5;

/// What an object, a reference and a byte of a table take in memory at most while a dump is analysed.
const BYTES_AN_OBJECT: u64 = 68;
const BYTES_A_REFERENCE: u64 = 16;
const BYTES_OF_TABLES: u64 = 8;

/// Why a dump cannot be read at all.
#[derive(Debug, Error)]
pub enum DumpError {
    /// The file cannot be opened, or there is no memory for it.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is no dump, or of a later version.
    #[error("{0}")]
    Format(#[from] FormatError),
    /// It has no objects that can be read.
    #[error("the heap dump has no objects that can be read: {0}")]
    Empty(String),
    /// It has more references than 32-bit numbers can count.
    #[error("the heap dump has {0} references, more than this program can take")]
    TooLarge(u64),
}

/// A part of a dump that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HeapDamage {
    /// Where it begins in the file.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

/// Where a block is, and its head.
#[derive(Debug)]
struct BlockPlace {
    section: u64,
    head: BlockHead,
    /// The first object that this block describes and the one before does not.
    first: u32,
    index: OnceLock<Option<BlockIndex>>,
}

/// A dump that is open.
#[derive(Debug)]
pub struct Dump {
    source: DumpBytes,
    /// What its head says.
    pub head: DumpHead,
    /// Types, frames, roots and the like.
    pub tables: DumpTables,
    /// What its foot says; none if it is cut off.
    pub totals: Option<Totals>,
    /// What could not be read. Blocks are added when they are loaded.
    pub damage: Vec<HeapDamage>,
    blocks: Vec<BlockPlace>,
    objects: u32,
    table_bytes: u64,
}

impl Dump {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// If nothing in it can be read.
    pub fn open(path: &Path) -> Result<Self, DumpError> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Err(FormatError::NotADump.into());
        }
        Self::read(DumpBytes::map(&file)?)
    }

    /// Takes a dump from memory.
    ///
    /// # Errors
    ///
    /// If nothing in it can be read.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, DumpError> {
        Self::read(DumpBytes::Buffer(bytes))
    }

    fn read(source: DumpBytes) -> Result<Self, DumpError> {
        let head = DumpHead::decode(&source)?;
        let mut damage = Vec::new();
        let (sections, totals) = sections(&source, &mut damage);
        let mut tables = DumpTables::default();
        let mut blocks: Vec<BlockPlace> = Vec::new();
        let mut table_bytes = 0;
        let most = head.objects.min(source.len() as u64 / LEAST_BYTES).min(u64::from(u32::MAX) - 2);
        for section in &sections {
            let read = match section.tag {
                Some(Tag::Block) => DumpBlock::decode(section.unverified())
                    .and_then(|block| place(block.head, section.offset, &blocks, most))
                    .map(|place| blocks.push(place)),
                Some(Tag::Foot) | None => Ok(()),
                Some(tag) => {
                    table_bytes += section.unverified().len() as u64;
                    section.verified().and_then(|bytes| tables.read(tag, bytes))
                }
            };
            if let Err(error) = read {
                damage.push(HeapDamage { offset: section.offset, reason: error.to_string() });
            }
        }
        let objects = blocks.last().map_or(0, |place| place.head.first + place.head.objects);
        if objects == 0 {
            let reason = damage.first().map_or_else(|| "it is empty".to_owned(), |it| it.reason.clone());
            return Err(DumpError::Empty(reason));
        }
        let references = blocks.iter().map(|place| place.head.references).sum::<u64>();
        if references > MOST_REFERENCES {
            return Err(DumpError::TooLarge(references));
        }
        // A section whose tag is damaged looks like one of a later version.
        let described: u64 = blocks.iter().map(|it| u64::from(it.head.first + it.head.objects - it.first)).sum();
        if tables.types.is_empty() {
            damage.push(HeapDamage { offset: 0, reason: "the table of types is missing".to_owned() });
        }
        if damage.is_empty() && totals.is_some() && described < head.objects {
            let reason = format!("{} objects are missing", head.objects - described);
            damage.push(HeapDamage { offset: 0, reason });
        }
        tables.finish(objects);
        Ok(Self { source, head, tables, totals, damage, blocks, objects, table_bytes })
    }

    /// How many objects it has.
    #[must_use]
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// The memory that an analysis takes at most, paths and places included: 100 bytes for an object with two references.
    #[must_use]
    pub fn analysis_bytes(&self) -> u64 {
        let references: u64 = self.blocks.iter().map(|place| place.head.references).sum();
        let graph = BYTES_AN_OBJECT * u64::from(self.objects) + BYTES_A_REFERENCE * references;
        graph.saturating_add(BYTES_OF_TABLES * self.table_bytes)
    }

    /// The size of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.source.len() as u64
    }

    /// What is missing, in a sentence; none if the dump is complete.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let left = self.head.objects.saturating_sub(self.objects.into());
        let first = self.damage.first();
        match (self.totals, first) {
            (Some(_), None) => None,
            (None, None) => Some(format!(
                "the heap dump is cut off: {left} of {} objects are missing. The process ended, or the disk was full",
                self.head.objects
            )),
            (whole, Some(first)) => Some(format!(
                "{} parts of the heap dump cannot be read (the first at byte {}: {}){}",
                self.damage.len(),
                first.offset,
                first.reason,
                if whole.is_none() { format!("; {left} objects are cut off") } else { String::new() }
            )),
        }
    }

    /// A block's columns.
    fn block(&self, place: &BlockPlace) -> Result<DumpBlock<'_>, FormatError> {
        DumpBlock::decode(DumpSection::at(&self.source, place.section)?.unverified())
    }
}

/// All sections that can be found. With a foot each is found by itself; without, one after the other.
fn sections<'a>(dump: &'a [u8], damage: &mut Vec<HeapDamage>) -> (Vec<DumpSection<'a>>, Option<Totals>) {
    let foot = foot_offset(dump).and_then(|offset| {
        let bytes = DumpSection::at(dump, offset).and_then(|section| section.verified()).ok()?;
        Foot::decode(bytes).ok()
    });
    let mut found = Vec::new();
    let mut take = |section: Result<DumpSection<'a>, FormatError>, offset: u64| match section {
        Ok(section) => found.push(section),
        // The end of what was written before the cut is no damage.
        Err(FormatError::Cut) if foot.is_none() => {}
        Err(error) => damage.push(HeapDamage { offset, reason: error.to_string() }),
    };
    match &foot {
        Some(foot) => {
            let mut last = None;
            for offset in foot.offsets().map_while(Result::ok) {
                // A foot that names a section twice is damaged.
                if last.is_none_or(|last| last < offset) {
                    take(DumpSection::at(dump, offset), offset);
                }
                last = Some(offset);
            }
        }
        None => {
            let mut offset = neurogc_ngch::HEAD as u64;
            for section in Sections::of(dump) {
                let next = section.as_ref().map_or(offset, DumpSection::end);
                take(section, offset);
                offset = next;
            }
        }
    }
    (found, foot.map(|foot| foot.totals))
}

/// Checks that a block follows the ones before.
fn place(head: BlockHead, section: u64, before: &[BlockPlace], most: u64) -> Result<BlockPlace, FormatError> {
    let end = before.last().map_or(0, |last| last.head.first + last.head.objects);
    let first = if head.continues { head.first + 1 } else { head.first };
    if u64::from(head.first) + u64::from(head.objects) > most || first < end {
        return Err(FormatError::Damaged("a block has objects that are not in the dump, or in another block"));
    }
    Ok(BlockPlace { section, head, first, index: OnceLock::new() })
}
