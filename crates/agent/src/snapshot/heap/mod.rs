//! A walk of every object of the heap, in the clone: for a dump, which tells of each, or for a count by type.
//!
//! First the collector's lists give the objects that it tracks. Each object is walked for those that it refers to, in the
//! order of addresses and in rounds, until no new one is found. Then every object has a number, and a dump is written in a
//! second walk. As everything in the clone, this writes to no object, allocates nothing but mappings and takes no lock.

mod arrow;
mod builtins;
mod census;
mod classes;
mod depths;
mod dicts;
mod emit;
mod fields;
mod frames;
mod images;
mod names;
mod output;
mod pins;
mod places;
mod raw;
mod references;
mod roots;
mod seen;
mod sizes;
mod tables;
mod tally;
mod tensors;

use std::sync::atomic::Ordering;

pub(crate) use arrow::ArrowLayout;
pub(crate) use builtins::Builtins;
pub(crate) use census::HeapCensus;
use classes::{Classes, Shapes, WalkKind};
pub(crate) use images::{Image, images};
pub(crate) use output::Destination;
use raw::Array;
use seen::{Region, Seen};
pub(crate) use tally::{CensusFound, Counted, CountedContainer, TallyRoom};
pub(crate) use tensors::TensorLayout;

use super::control::WalkTrouble;
use super::system;
use super::walk::{Lists, WalkWatch, prefetch};
use crate::cpython::generations::GcHead;
use crate::cpython::heap_layout::HeapLayout;
use crate::cpython::layout::Layout;

/// What the program tells the clone of itself.
#[derive(Clone, Debug)]
pub(crate) struct HeapFacts {
    pub(crate) layout: &'static Layout,
    pub(crate) heap: &'static HeapLayout,
    pub(crate) builtins: Builtins,
    /// The interpreter's state, and that of the thread that clones.
    pub(crate) interpreter: usize,
    pub(crate) thread: usize,
    pub(crate) images: Vec<Image>,
    /// CPython's version as a number.
    pub(crate) python: u32,
    pub(crate) pid: u32,
    /// In nanoseconds since 1970.
    pub(crate) started_ns: u64,
    pub(crate) taken_ns: u64,
    /// Resident memory in bytes, or zero.
    pub(crate) resident: u64,
    /// Whether values of strings and integers are told.
    pub(crate) texts: bool,
    /// How tensors of torch are read, if there are any.
    pub(crate) tensors: Option<TensorLayout>,
    /// How objects of pyarrow are read, if there are any.
    pub(crate) arrow: Option<ArrowLayout>,
    /// Arenas of which little is in use, in the order of addresses, where it is worth knowing what lies in them.
    pub(crate) sparse: Vec<(usize, usize)>,
    /// Functions that `atexit` is to call; zero where that is not wanted.
    pub(crate) at_exit: u64,
}

/// After so many rounds objects are walked as they are found: a chain of objects that no list has, each before the one
/// that refers to it, would take a round for each.
const ROUNDS: u32 = 6;

/// A walk.
pub(crate) struct HeapWalk<'a> {
    facts: &'a HeapFacts,
    layout: &'static Layout,
    heap: &'static HeapLayout,
    watch: WalkWatch<'a>,
    seen: Seen,
    /// Strings that are names.
    named: Seen,
    classes: Classes,
    shapes: Shapes,
    /// Memory of tensors and of Arrow that has been counted.
    storages: Seen,
    /// Tasks of asyncio.
    tasks: Array<usize>,
    /// What an object's type has told.
    told: Array<usize>,
    /// The dict of the current object that is not in one of its words.
    managed_dict: usize,
    /// Objects that were found and are to be walked at once, where `follows`.
    waiting: Array<usize>,
    follows: bool,
    /// Whether sizes are added up by type.
    sums: bool,
    /// Whether the first part of numpy's version is 1.
    old_numpy: bool,
    /// What could not be done in a function that CPython calls.
    trouble: Option<WalkTrouble>,
    writer: Option<emit::DumpWriter>,
}

impl<'a> HeapWalk<'a> {
    pub(super) fn new(facts: &'a HeapFacts, watch: WalkWatch<'a>) -> Result<Self, WalkTrouble> {
        let make = || {
            Some(Self {
                facts,
                layout: facts.layout,
                heap: facts.heap,
                watch,
                seen: Seen::new()?,
                named: Seen::new()?,
                classes: Classes::new(facts.layout, facts.heap, facts.builtins)?,
                shapes: Shapes::new()?,
                storages: Seen::new()?,
                tasks: Array::new(1024)?,
                told: Array::new(1 << 16)?,
                managed_dict: 0,
                waiting: Array::new(1 << 12)?,
                follows: false,
                sums: false,
                old_numpy: false,
                trouble: None,
                writer: None,
            })
        };
        make().ok_or(WalkTrouble::NoMemory)
    }

    /// Counts all objects by type.
    ///
    /// # Safety
    /// The lists must be those of the interpreter that the facts are of, and no thread may change them.
    pub(super) unsafe fn count(&mut self, lists: &Lists, room: &TallyRoom) -> Result<(), WalkTrouble> {
        self.sums = true;
        // SAFETY: the caller's promise.
        unsafe {
            self.enlist(lists)?;
            self.discover()?;
        }
        self.tell_counts(room, usize::MAX, |class| class.objects)
    }

    /// Writes all objects.
    ///
    /// # Safety
    /// As for `count`.
    pub(super) unsafe fn dump(&mut self, lists: &Lists, to: Destination) -> Result<(), WalkTrouble> {
        let mut ended = [system::now(); neurogc_ngch::PASSES + 1];
        // SAFETY: the caller's promise.
        unsafe {
            self.enlist(lists)?;
            ended[1] = system::now();
            self.discover()?;
            ended[2] = system::now();
            self.seen.rank()?;
            self.watch.progress_of(self.seen.count());
            ended[3] = system::now();
            self.write(to, &mut ended)
        }
    }

    /// Takes in the objects of all lists.
    unsafe fn enlist(&mut self, lists: &Lists) -> Result<(), WalkTrouble> {
        for list in lists.each() {
            // SAFETY: the caller's promise: every member of the list is a head with an object behind it.
            unsafe {
                let mut at = (*(list.head as *const GcHead)).next;
                while at != list.head {
                    let next = (*(at as *const GcHead)).next;
                    prefetch(next);
                    self.watch.step()?;
                    self.seen.track(at + GcHead::SIZE)?;
                    at = next;
                }
            }
        }
        self.watch.control().tracked.store(self.seen.count(), Ordering::Relaxed);
        Ok(())
    }

    /// Walks all objects until no new one is found.
    unsafe fn discover(&mut self) -> Result<(), WalkTrouble> {
        // SAFETY: what is in the set are objects.
        unsafe {
            self.learn_numpy();
            self.see_roots()?;
            self.sweep(true)?;
            let (mut rounds, mut classes) = (0, 0);
            loop {
                // Types are objects, too.
                while classes < self.classes.len() {
                    self.see(self.classes.get(classes as u32).address)?;
                    classes += 1;
                }
                if self.sweep(false)? == 0 {
                    break;
                }
                rounds += 1;
                self.follows = rounds >= ROUNDS;
            }
        }
        Ok(())
    }

    /// Walks the objects that were not walked yet, in the order of addresses, and says how many those were.
    unsafe fn sweep(&mut self, tracked_only: bool) -> Result<u64, WalkTrouble> {
        let mut walked = 0;
        let mut regions = Regions::default();
        while let Some(region) = regions.next(&self.seen) {
            // SAFETY: the region is one of the table's, which stays where it is; objects are added to it meanwhile, so
            // it is only used through the pointer.
            unsafe {
                if !tracked_only && !(*region).take_dirty() {
                    continue;
                }
                for word in 0..Region::WORDS {
                    loop {
                        let wanted = if tracked_only { (&(*region).tracked)[word] } else { (&(*region).all)[word] };
                        let left = wanted & !(&(*region).done)[word];
                        if left == 0 {
                            break;
                        }
                        let bit = left.trailing_zeros();
                        (&mut (*region).done)[word] |= 1 << bit;
                        walked += 1;
                        self.watch.step()?;
                        let object = (*region).address(word, bit);
                        prefetch(object + 256);
                        self.discover_from(object)?;
                        while let Some(object) = self.waiting.pop() {
                            if self.seen.take(object) {
                                walked += 1;
                                self.watch.step()?;
                                self.discover_from(object)?;
                            }
                        }
                    }
                }
            }
        }
        Ok(walked)
    }

    /// Walks one object for those that it refers to.
    #[inline(always)]
    unsafe fn discover_from(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // SAFETY: it is an object, so this is its type.
        unsafe {
            let index = self.classes.of(raw::word(object + self.layout.object_type))?;
            let class = self.classes.get_mut(index);
            class.objects += 1;
            let class = *class;
            if self.sums {
                let size = (self.size(object, &class) + self.shared_size(object, &class)?) as u64;
                self.classes.get_mut(index).bytes += size;
            }
            if class.way != WalkKind::Nothing {
                self.walk::<false>(object, &class)?;
                self.note(object, &class)?;
            }
        }
        match self.trouble {
            None => Ok(()),
            Some(trouble) => Err(trouble),
        }
    }

    /// Takes in an object that another one refers to.
    #[inline(always)]
    fn see(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // What cannot be an object is none.
        if object == 0 || object >> 48 != 0 || !object.is_multiple_of(8) {
            return Ok(());
        }
        if self.seen.add(object)? && self.follows && self.waiting.len() < 1 << 12 {
            self.waiting.push(object);
        }
        Ok(())
    }
}

/// All regions of a set in the order of addresses, also those that are made meanwhile behind the current one.
#[derive(Default)]
struct Regions {
    top: usize,
    middle: usize,
}

impl Regions {
    fn next(&mut self, seen: &Seen) -> Option<*mut Region> {
        seen.next_region(&mut self.top, &mut self.middle)
    }
}
