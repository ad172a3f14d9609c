//! Counts by type and the largest containers, in memory that the program and the clone share.

use super::super::control::WalkTrouble;
use super::super::system;
use super::HeapWalk;
use super::classes::Class;
use super::raw::Array;

/// Longer names of types and of containers are cut.
const NAME: usize = 108;
const PLACE: usize = 220;
/// Types beyond that are left out.
const MOST: usize = 16_384;
/// Containers that are told of.
pub(super) const MOST_CONTAINERS: usize = 64;
/// And what is told of besides.
const MOST_ROWS: usize = 96;

/// Types of objects in sparse arenas that are told of.
const MOST_PINS: usize = 8;

/// A text in shared memory.
#[repr(C)]
struct SharedText<const MOST: usize> {
    length: u32,
    bytes: [u8; MOST],
}

impl<const MOST: usize> SharedText<MOST> {
    fn write(&mut self, text: &[u8]) {
        let length = text.len().min(MOST);
        self.bytes[..length].copy_from_slice(&text[..length]);
        self.length = length as u32;
    }

    fn read(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..(self.length as usize).min(MOST)]).into_owned()
    }
}

#[repr(C)]
struct Row {
    objects: u64,
    bytes: u64,
    name: SharedText<NAME>,
}

#[repr(C)]
struct ContainerRow {
    address: u64,
    length: u64,
    bytes: u64,
    /// How many entries it may have, and one more; zero where it has no bound.
    bound: u64,
    place: SharedText<PLACE>,
    kind: SharedText<NAME>,
}

#[repr(C)]
struct Tally {
    objects: u64,
    bytes: u64,
    rows: u64,
    containers: u64,
    /// Objects in sparse arenas: rows of types, and all.
    pin_rows: u64,
    pinned: u64,
    pins: [Row; MOST_PINS],
    largest: [ContainerRow; MOST_ROWS],
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

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedContainer {
    pub(crate) address: u64,
    /// How Python code would name it; empty where no name was found.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) length: u64,
    pub(crate) bytes: u64,
    /// How many entries it may have: `maxlen` of a deque, `maxsize` of `functools.lru_cache`.
    pub(crate) bound: Option<u64>,
}

/// What a census has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CensusFound {
    /// When, by the monotonic clock.
    pub(crate) at: u64,
    /// How long the program stood still for it.
    pub(crate) pause_ns: u64,
    /// All objects and their bytes.
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    /// Those of the types with the most bytes, and the largest containers.
    pub(crate) types: Vec<Counted>,
    pub(crate) containers: Vec<CountedContainer>,
    /// Objects in arenas of which little is in use, where that was counted: all, and those of the most frequent types.
    pub(crate) pinned: u64,
    pub(crate) pins: Vec<Counted>,
}

impl TallyRoom {
    pub(crate) fn new() -> Option<Self> {
        let at = system::map_shared(size_of::<Tally>()).cast::<Tally>();
        (!at.is_null()).then(|| Self { at })
    }

    /// What the clone has written, after it has ended.
    fn tally(&self) -> &Tally {
        // SAFETY: the mapping is as long as a tally, of which any bytes are valid; the clone no longer writes to it.
        unsafe { &*self.at }
    }

    /// The counts by type.
    pub(crate) fn read(&self) -> Vec<Counted> {
        read_rows(&self.tally().all, self.tally().rows)
    }

    /// The census of a clone that was made at this moment; nothing where it was given up.
    pub(crate) fn census(&self, at: u64) -> Option<CensusFound> {
        let tally = self.tally();
        let rows = usize::try_from(tally.containers).unwrap_or(0).min(MOST_ROWS);
        let container = |row: &ContainerRow| CountedContainer {
            address: row.address,
            name: row.place.read(),
            kind: row.kind.read(),
            length: row.length,
            bytes: row.bytes,
            bound: row.bound.checked_sub(1),
        };
        (tally.objects > 0).then(|| CensusFound {
            pause_ns: 0,
            at,
            objects: tally.objects,
            bytes: tally.bytes,
            types: self.read(),
            pinned: tally.pinned,
            pins: read_rows(&tally.pins, tally.pin_rows),
            containers: tally.largest[..rows].iter().map(container).collect(),
        })
    }
}

/// The first so many rows.
fn read_rows(rows: &[Row], count: u64) -> Vec<Counted> {
    let row = |row: &Row| Counted { name: row.name.read(), objects: row.objects, bytes: row.bytes };
    rows.iter().take(usize::try_from(count).unwrap_or(0)).map(row).collect()
}

impl Drop for TallyRoom {
    fn drop(&mut self) {
        // SAFETY: the mapping is this struct's own.
        unsafe { system::unmap(self.at.cast(), size_of::<Tally>()) };
    }
}

/// A container that the clone tells of.
pub(super) struct ToldContainer<'a> {
    pub(super) address: usize,
    pub(super) class: Class,
    pub(super) length: usize,
    pub(super) bytes: usize,
    pub(super) bound: Option<usize>,
    pub(super) place: &'a [u8],
}

impl HeapWalk<'_> {
    /// Writes the counts for the program: those of so many types, with the most of something first.
    pub(super) fn tell_counts(
        &mut self,
        room: &TallyRoom,
        most: usize,
        by: impl Fn(&Class) -> u64,
    ) -> Result<(), WalkTrouble> {
        let order = self.classes.rank(by).ok_or(WalkTrouble::NoMemory)?;
        let mut name = Array::new(4096).ok_or(WalkTrouble::NoMemory)?;
        // SAFETY: the mapping is shared, and the program does not read it yet.
        let tally = unsafe { &mut *room.at };
        for (row, index) in tally.all.iter_mut().zip(order.all()).take(most) {
            let class = *self.classes.get(*index);
            name.truncate(0);
            // SAFETY: the class is a type that was met.
            unsafe { self.put_type_name(&class, &mut name) };
            row.name.write(name.all());
            (row.objects, row.bytes) = (class.objects, class.bytes);
            tally.rows += 1;
        }
        for index in order.all() {
            let class = self.classes.get(*index);
            tally.objects += class.objects;
            tally.bytes += class.bytes;
        }
        Ok(())
    }

    /// Writes which types have the most objects in sparse arenas.
    pub(super) fn tell_pins(&mut self, room: &TallyRoom) -> Result<(), WalkTrouble> {
        let order = self.classes.rank(|class| class.pinned).ok_or(WalkTrouble::NoMemory)?;
        let mut name = Array::new(4096).ok_or(WalkTrouble::NoMemory)?;
        // SAFETY: as in `tell_counts`.
        let tally = unsafe { &mut *room.at };
        for index in order.all() {
            let class = *self.classes.get(*index);
            tally.pinned += class.pinned;
            let Some(row) = tally.pins.get_mut(tally.pin_rows as usize).filter(|_| class.pinned > 0) else { continue };
            name.truncate(0);
            // SAFETY: the class is a type that was met.
            unsafe { self.put_type_name(&class, &mut name) };
            row.name.write(name.all());
            row.objects = class.pinned;
            tally.pin_rows += 1;
        }
        Ok(())
    }

    /// Writes one more container for the program, as long as there is room.
    pub(super) fn tell_container(&self, room: &TallyRoom, told: &ToldContainer<'_>, name: &mut Array<u8>) {
        // SAFETY: as in `tell_counts`.
        let tally = unsafe { &mut *room.at };
        let Some(row) = tally.largest.get_mut(tally.containers as usize) else { return };
        name.truncate(0);
        // SAFETY: the class is a type that was met.
        unsafe { self.put_type_name(&told.class, name) };
        row.kind.write(name.all());
        row.place.write(told.place);
        (row.address, row.length, row.bytes) = (told.address as u64, told.length as u64, told.bytes as u64);
        row.bound = told.bound.map_or(0, |bound| bound as u64 + 1);
        tally.containers += 1;
    }
}
