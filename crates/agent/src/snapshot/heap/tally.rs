//! Counts by type, in memory that the program and the clone share.

use super::super::control::WalkTrouble;
use super::super::system;
use super::HeapWalk;
use super::raw::Array;

/// Longer names of types are cut.
const NAME: usize = 108;
/// Types beyond that, which are those with the fewest objects, are left out.
const MOST: usize = 16_384;

#[repr(C)]
struct Row {
    objects: u64,
    bytes: u64,
    length: u32,
    name: [u8; NAME],
}

#[repr(C)]
struct Tally {
    rows: u64,
    all: [Row; MOST],
}

/// Room for the counts. Only what is used takes memory.
#[derive(Debug)]
pub(crate) struct TallyRoom {
    at: *mut Tally,
}

// SAFETY: the clone writes to it, and the program reads it when the clone has ended.
unsafe impl Send for TallyRoom {}
// SAFETY: as above.
unsafe impl Sync for TallyRoom {}

/// Objects of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) name: String,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

impl TallyRoom {
    pub(crate) fn new() -> Option<Self> {
        let at = system::map_shared(size_of::<Tally>()).cast::<Tally>();
        (!at.is_null()).then(|| Self { at })
    }

    /// What the clone has written, after it has ended.
    pub(crate) fn read(&self) -> Vec<Counted> {
        // SAFETY: the mapping is as long as a tally, of which any bytes are valid; the clone no longer writes to it.
        let tally = unsafe { &*self.at };
        let rows = usize::try_from(tally.rows).unwrap_or(0).min(MOST);
        let row = |row: &Row| Counted {
            name: String::from_utf8_lossy(&row.name[..(row.length as usize).min(NAME)]).into_owned(),
            objects: row.objects,
            bytes: row.bytes,
        };
        tally.all[..rows].iter().map(row).collect()
    }
}

impl Drop for TallyRoom {
    fn drop(&mut self) {
        // SAFETY: the mapping is this struct's own.
        unsafe { system::unmap(self.at.cast(), size_of::<Tally>()) };
    }
}

impl HeapWalk<'_> {
    /// Writes the counts for the program.
    pub(super) fn tell_counts(&mut self, room: &TallyRoom) -> Result<(), WalkTrouble> {
        let order = self.classes.rank().ok_or(WalkTrouble::NoMemory)?;
        let mut name = Array::new(4096).ok_or(WalkTrouble::NoMemory)?;
        // SAFETY: the mapping is shared, and the program does not read it yet.
        let tally = unsafe { &mut *room.at };
        for (row, index) in tally.all.iter_mut().zip(order.all()) {
            let class = *self.classes.get(*index);
            name.truncate(0);
            // SAFETY: the class is a type that was met.
            unsafe { self.put_type_name(&class, &mut name) };
            let length = name.len().min(NAME);
            row.name[..length].copy_from_slice(&name.all()[..length]);
            (row.objects, row.bytes, row.length) = (class.objects, class.bytes, length as u32);
            tally.rows += 1;
        }
        Ok(())
    }
}
