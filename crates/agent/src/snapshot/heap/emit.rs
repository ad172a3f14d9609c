//! The second walk of a dump: every object with its type, size, count, references and value, block by block.

use neurogc_ngch::{
    BLOCK_OBJECTS, BlockHead, COLUMNS, DumpColumn, DumpHead, Foot, Kind, ObjectRow, PASSES, Predicted, RunKind, TEXTS,
    Tag, Totals, hash, put_integer, put_tail, put_text_head, put_varint, put_withheld,
};

use super::super::control::WalkTrouble;
use super::super::system;
use super::classes::Class;
use super::names::Units;
use super::output::{Destination, Output};
use super::raw::{Array, bytes, int, signed, word};
use super::seen::Region;
use super::{HeapWalk, Regions, prefetch};
use crate::sys::memory;

/// So many references of one object are written at a time.
pub(super) const PART: usize = 1 << 18;

/// A block ends when a column is so long.
const FULL: usize = 2 << 20;

/// So many code units of a string are kept, and of one that is a name.
const TEXT: usize = 64;
const NAME: usize = 256;

/// The block that is being made, and where it goes.
pub(super) struct DumpWriter {
    columns: [Array<u8>; COLUMNS],
    block: BlockHead,
    /// The current object, and the address of the one before.
    row: ObjectRow,
    before: u64,
    predicted: Predicted,
    pub(super) output: Output,
    totals: Totals,
}

impl DumpWriter {
    fn new(output: Output) -> Option<Self> {
        let column = |bytes| Array::new(bytes);
        Some(Self {
            columns: [
                column(1 << 18)?,
                column(1 << 18)?,
                column(1 << 18)?,
                column(1 << 18)?,
                column(FULL * 2)?,
                column(FULL * 2)?,
            ],
            block: BlockHead::default(),
            row: ObjectRow { number: 0, address: 0, class: 0, tracked: false, size: 0, count: 0 },
            before: 0,
            predicted: Predicted::start(0),
            output,
            totals: Totals::default(),
        })
    }

    #[inline(always)]
    pub(super) fn references(&mut self) -> &mut Array<u8> {
        &mut self.columns[DumpColumn::References as usize]
    }

    /// Begins an object, or goes on with one in a new block.
    fn begin(&mut self) {
        if self.block.objects == 0 {
            (self.block.first, self.block.address) = (self.row.number, self.row.address);
            self.before = self.row.address;
        }
        self.row.encode(self.before, &mut self.columns);
        self.before = self.row.address;
        self.block.objects += 1;
        self.block.bytes += self.row.size;
        self.predicted = Predicted::start(self.row.number);
    }

    fn is_full(&self) -> bool {
        self.block.objects == BLOCK_OBJECTS || self.columns.iter().any(|column| column.len() >= FULL)
    }
}

impl HeapWalk<'_> {
    /// Writes the whole dump.
    ///
    /// # Safety
    /// All objects must have been found, and have numbers.
    pub(super) unsafe fn write(&mut self, to: Destination, ended: &mut [u64; PASSES + 1]) -> Result<(), WalkTrouble> {
        let facts = self.facts;
        let mut output = Output::new(to).ok_or(WalkTrouble::NoMemory)?;
        let head = DumpHead {
            python: facts.python,
            flags: if facts.texts { TEXTS } else { 0 },
            text_limit: TEXT as u32,
            pid: facts.pid,
            started_ns: facts.started_ns,
            taken_ns: facts.taken_ns,
            objects: self.seen.count(),
        };
        output.write(&head.encode(), &mut self.watch)?;
        // SAFETY: the caller's promise.
        unsafe {
            self.write_tables(&mut output)?;
            ended[4] = system::now();
            self.writer = Some(DumpWriter::new(output).ok_or(WalkTrouble::NoMemory)?);
            self.write_objects()?;
        }
        self.flush()?;
        ended[5] = system::now();
        self.write_foot(ended)
    }

    unsafe fn write_objects(&mut self) -> Result<(), WalkTrouble> {
        let mut regions = Regions::default();
        let mut number = 0;
        while let Some(region) = regions.next(&self.seen) {
            for word in 0..Region::WORDS {
                // SAFETY: the region is one of the table's, and does not change any more.
                let (mut bits, tracked) = unsafe { ((&(*region).all)[word], (&(*region).tracked)[word]) };
                while bits != 0 {
                    let bit = bits.trailing_zeros();
                    bits &= bits - 1;
                    self.watch.step()?;
                    // SAFETY: as above: this is an object's address.
                    unsafe {
                        let object = (*region).address(word, bit);
                        prefetch(object + 256);
                        self.write_object(object, number, tracked >> bit & 1 != 0)?;
                    }
                    number += 1;
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    unsafe fn write_object(&mut self, object: usize, number: u32, tracked: bool) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: it is an object.
        unsafe {
            let index = self.classes.of(word(object + self.layout.object_type))?;
            let class = *self.classes.get(index);
            let size = (self.size(object, &class) + self.shared_size(object, &class)?) as u64;
            let count = self.reference_count(object);
            let Some(writer) = &mut self.writer else { return Err(WalkTrouble::NoMemory) };
            if writer.is_full() {
                self.flush()?;
            }
            let Some(writer) = &mut self.writer else { return Err(WalkTrouble::NoMemory) };
            writer.row = ObjectRow { number, address: object as u64, class: class.number, tracked, size, count };
            writer.begin();
            if class.way != super::WalkKind::Nothing {
                self.walk::<true>(object, &class)?;
            }
            if let Some(writer) = &mut self.writer {
                Predicted::end(writer.references());
            }
            self.write_value(object, &class)?;
        }
        match self.trouble {
            None => Ok(()),
            Some(trouble) => Err(trouble),
        }
    }

    /// An object's reference count, zero where it is immortal.
    unsafe fn reference_count(&self, object: usize) -> u64 {
        // SAFETY: the caller's promise; the count is an object's first word.
        unsafe {
            if self.layout.object_refcount_bits == 32 {
                u64::try_from(int(object)).unwrap_or(0)
            } else {
                u64::try_from(signed(object)).unwrap_or(0)
            }
        }
    }

    unsafe fn write_value(&mut self, object: usize, class: &Class) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe {
            match class.kind {
                Kind::Str => {
                    let is_name = self.is_name(object);
                    let units = self.units(object);
                    let texts = self.facts.texts;
                    let Some(writer) = &mut self.writer else { return Err(WalkTrouble::NoMemory) };
                    let to = &mut writer.columns[DumpColumn::Values as usize];
                    let Some(Units { at, length, width }) = units.filter(|_| texts || is_name) else {
                        put_withheld(to, units.map_or(0, |units| units.length as u64));
                        return Ok(());
                    };
                    let kept = length.min(if is_name { NAME } else { TEXT });
                    if !to.reserve(kept * width + 64) {
                        return Err(WalkTrouble::NoMemory);
                    }
                    let whole = if kept < length { whole_hash(at, length * width) } else { 0 };
                    put_text_head(to, kept as u64, length as u64, width as u8, whole);
                    neurogc_ngch::ByteSink::put_bytes(to, bytes(at, kept * width));
                }
                Kind::Int => {
                    let value = if self.facts.texts { self.integer(object) } else { None };
                    let Some(writer) = &mut self.writer else { return Err(WalkTrouble::NoMemory) };
                    put_integer(&mut writer.columns[DumpColumn::Values as usize], value);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The value of an integer of at most two digits, which are of 30 bits.
    pub(super) unsafe fn integer(&self, object: usize) -> Option<i64> {
        // SAFETY: the caller's promise: it is an int.
        unsafe {
            let tag = signed(object + self.layout.var_object_size);
            let (digits, negative) =
                if self.heap.minor >= 12 { (tag as usize >> 3, tag & 3 == 2) } else { (tag.unsigned_abs(), tag < 0) };
            let digit = |at: usize| i64::from(int(object + self.heap.long_digits + 4 * at));
            let value = match digits {
                0 => 0,
                1 => digit(0),
                2 => digit(1) << 30 | digit(0),
                _ => return None,
            };
            Some(if negative { -value } else { value })
        }
    }

    /// Ends the current block.
    pub(super) fn flush(&mut self) -> Result<(), WalkTrouble> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if writer.block.objects == 0 {
            return Ok(());
        }
        let columns = &writer.columns;
        writer.block.lengths = std::array::from_fn(|at| columns[at].len() as u64);
        let head = writer.block.encode();
        let parts = [
            &head[..],
            columns[0].all(),
            columns[1].all(),
            columns[2].all(),
            columns[3].all(),
            columns[4].all(),
            columns[5].all(),
        ];
        writer.output.section(Tag::Block, parts, &mut self.watch)?;
        writer.totals.references += writer.block.references;
        writer.totals.bytes += writer.block.bytes;
        writer.block = BlockHead::default();
        writer.columns.iter_mut().for_each(|column| column.truncate(0));
        Ok(())
    }

    /// Goes on with the current object in a block of its own.
    pub(super) fn go_on(&mut self) -> Result<(), WalkTrouble> {
        if let Some(writer) = &mut self.writer {
            Predicted::end(writer.references());
        }
        self.flush()?;
        if let Some(writer) = &mut self.writer {
            writer.block.continues = true;
            writer.row.size = 0;
            writer.begin();
        }
        Ok(())
    }

    /// Begins a run of references.
    #[inline(always)]
    pub(super) fn begin_run(&mut self, kind: RunKind, entries: usize) -> Result<(), WalkTrouble> {
        let Some(writer) = &mut self.writer else { return Err(WalkTrouble::NoMemory) };
        // A key and a value take five bytes each at most, a field a few more.
        if !writer.references().reserve(entries * 12 + 64) {
            return Err(WalkTrouble::NoMemory);
        }
        if entries > 0 {
            kind.put(writer.references(), entries as u64);
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn put_reference(&mut self, object: usize) {
        if let Some(writer) = &mut self.writer {
            let number = self.seen.number(object).unwrap_or(writer.row.number);
            writer.block.references += 1;
            let DumpWriter { columns, predicted, .. } = writer;
            predicted.put(&mut columns[DumpColumn::References as usize], number);
        }
    }

    #[inline(always)]
    pub(super) fn put_key(&mut self, object: usize) {
        if let Some(writer) = &mut self.writer {
            let number = self.seen.number(object).unwrap_or(writer.row.number);
            writer.block.references += 1;
            let DumpWriter { columns, predicted, .. } = writer;
            predicted.put_key(&mut columns[DumpColumn::References as usize], number);
        }
    }

    #[inline(always)]
    pub(super) fn put_slot(&mut self, object: usize) {
        if let Some(writer) = &mut self.writer {
            let number = if object == 0 { None } else { self.seen.number(object) };
            writer.block.references += u64::from(number.is_some());
            let DumpWriter { columns, predicted, .. } = writer;
            predicted.put_slot(&mut columns[DumpColumn::References as usize], number);
        }
    }

    #[inline(always)]
    pub(super) fn put_field(&mut self, word: u64, object: usize) {
        if let Some(writer) = &mut self.writer {
            put_varint(writer.references(), word);
        }
        self.put_reference(object);
    }

    fn write_foot(&mut self, ended: &[u64; PASSES + 1]) -> Result<(), WalkTrouble> {
        let Some(writer) = &mut self.writer else { return Err(WalkTrouble::NoMemory) };
        let mut foot = Array::new(1 << 16).ok_or(WalkTrouble::NoMemory)?;
        let totals = Totals {
            objects: self.seen.count(),
            tracked: self.watch.control().tracked.load(std::sync::atomic::Ordering::Relaxed),
            passes_ns: std::array::from_fn(|pass| ended[pass + 1].saturating_sub(ended[pass])),
            pause_ns: self.watch.control().pause_ns.load(std::sync::atomic::Ordering::Relaxed),
            ..writer.totals
        };
        let offsets = writer.output.offsets.all();
        Foot::put(&totals, offsets.len() as u64, &mut foot);
        let mut before = 0;
        for offset in offsets {
            put_varint(&mut foot, offset - before);
            before = *offset;
        }
        let at = writer.output.written;
        writer.output.section(Tag::Foot, [foot.all()], &mut self.watch)?;
        writer.output.write(&put_tail(at), &mut self.watch)
    }
}

/// The hash of a long string, by its first part if it is very long. That may be in memory that the clone does not have.
unsafe fn whole_hash(at: usize, length: usize) -> u64 {
    const PART: usize = 1 << 20;
    // SAFETY: the caller's promise: it is a string's data, of which every page up to the end is there.
    unsafe {
        if length <= PART {
            hash(bytes(at, length))
        } else if memory::word(at + PART - 8).is_some() && memory::word(at & !7).is_some() {
            hash(bytes(at, PART))
        } else {
            0
        }
    }
}
