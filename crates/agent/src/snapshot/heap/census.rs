//! A census: what the walk of a collection counts on its way. Objects and bytes by type, and the largest containers, for
//! which names are looked up afterwards.
//!
//! It counts the objects that the collector tracks and that are reachable. Sizes are taken right after an object was
//! traversed, when its memory is near.

use super::super::control::WalkTrouble;
use super::super::walk::WalkWatch;
use super::depths::Gathered;
use super::places::ContainerPlace;
use super::raw::{Array, signed, word};
use super::seen::Seen;
use super::tally::{MOST_CONTAINERS, TallyRoom, ToldContainer};
use super::{HeapFacts, HeapWalk};
use neurogc_ngch::Kind;

/// Containers are gathered up to this many, then all but the largest are dropped.
const GATHERED: usize = 8 * MOST_CONTAINERS;

/// Types that are told of.
const MOST_TYPES: usize = 128;

/// Bits that tell quickly whether a container may be among the largest.
const FILTER: usize = 64;

/// A container.
#[derive(Clone, Copy)]
pub(super) struct HeldContainer {
    pub(super) object: usize,
    class: u32,
    bytes: usize,
    /// The text of its name, and how good that is: lower is better. Without a name the length is zero.
    name: (usize, usize),
    rank: u8,
    /// How many entries it may have, where that is known.
    bound: Option<usize>,
}

/// What is counted.
pub(crate) struct HeapCensus<'a> {
    pub(super) walk: HeapWalk<'a>,
    /// Memory that the clone does not have.
    apart: &'a [(usize, usize)],
    largest: Array<HeldContainer>,
    /// Containers of at most so many bytes are not among the largest.
    floor: usize,
    filter: [u64; FILTER],
    pub(super) texts: Array<u8>,
    /// What is told of besides: entries of containers in containers, and chains.
    pub(super) gathered: Array<Gathered>,
    /// How many objects below others were looked at.
    pub(super) looks: usize,
    /// Objects in sparse arenas that were counted; nothing where that is not wanted, or could not be done.
    pub(super) pins: Option<Seen>,
    /// It could not go on: it tells nothing.
    given_up: bool,
}

impl<'a> HeapCensus<'a> {
    pub(in super::super) fn new(
        facts: &'a HeapFacts,
        watch: WalkWatch<'a>,
        apart: &'a [(usize, usize)],
    ) -> Result<Self, WalkTrouble> {
        let (Some(largest), Some(texts), Some(gathered)) =
            (Array::new(2 * GATHERED), Array::new(1 << 16), Array::new(256))
        else {
            return Err(WalkTrouble::NoMemory);
        };
        let mut walk = HeapWalk::new(facts, watch)?;
        // SAFETY: the facts are those of this process.
        unsafe { walk.learn_numpy() };
        let pins = if facts.sparse.is_empty() { None } else { Seen::new() };
        let filter = [0; FILTER];
        Ok(Self { walk, apart, largest, floor: 0, filter, texts, gathered, looks: 0, pins, given_up: false })
    }

    /// Counts one object.
    ///
    /// # Safety
    /// It must be an object of the interpreter that the facts are of.
    pub(in super::super) unsafe fn count(&mut self, object: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let Ok(index) = self.walk.classes.of(word(object + self.walk.layout.object_type)) else {
                self.given_up = true;
                return;
            };
            let class = self.walk.classes.get(index);
            let bytes = self.walk.tracked_size(object, class);
            let is_container = class.is_container();
            let class = self.walk.classes.get_mut(index);
            class.objects += 1;
            class.bytes += bytes as u64;
            if is_container && bytes > self.floor {
                self.hold(object, index, bytes);
            }
            if self.pins.is_some() && self.count_pins(object, index).is_err() {
                self.pins = None;
            }
        }
    }

    #[cold]
    fn hold(&mut self, object: usize, class: u32, bytes: usize) {
        self.largest.push(HeldContainer { object, class, bytes, name: (0, 0), rank: u8::MAX, bound: None });
        if self.largest.len() >= GATHERED {
            self.drop_small();
        }
    }

    /// Keeps the largest.
    fn drop_small(&mut self) {
        if self.largest.len() > MOST_CONTAINERS {
            self.largest.all_mut().sort_unstable_by_key(|held| std::cmp::Reverse(held.bytes));
            self.largest.truncate(MOST_CONTAINERS);
            self.floor = self.largest.all().last().map_or(0, |held| held.bytes);
        }
    }

    /// Looks up names, and writes everything for the program.
    ///
    /// # Safety
    /// Nothing may have changed since the objects were counted.
    pub(in super::super) unsafe fn tell(&mut self, room: &TallyRoom) -> Result<(), WalkTrouble> {
        if self.given_up {
            return Ok(());
        }
        self.drop_small();
        for at in 0..self.largest.len() {
            self.note_in_filter(self.largest.all()[at].object);
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.look_for_names()?;
            self.drop_small();
            self.largest.all_mut().sort_unstable_by_key(|held| std::cmp::Reverse(held.bytes));
            let mut name = Array::new(4096).ok_or(WalkTrouble::NoMemory)?;
            for held in self.largest.all() {
                let class = *self.walk.classes.get(held.class);
                let (from, length) = held.name;
                let told = ToldContainer {
                    address: held.object,
                    class,
                    length: self.length(held.object, class.kind),
                    bytes: held.bytes,
                    bound: held.bound.or_else(|| self.maxlen(held.object, class.kind)),
                    place: &self.texts.all()[from..from + length],
                };
                self.walk.tell_container(room, &told, &mut name);
            }
            Self::rank_gathered(&mut self.gathered);
            for it in self.gathered.all() {
                let (from, length) = it.name;
                let told = ToldContainer {
                    address: it.object,
                    class: *self.walk.classes.get(it.class),
                    length: it.length,
                    bytes: it.bytes,
                    bound: None,
                    place: &self.texts.all()[from..from + length],
                };
                self.walk.tell_container(room, &told, &mut name);
            }
        }
        if self.pins.is_some() {
            self.walk.tell_pins(room)?;
        }
        self.walk.tell_counts(room, MOST_TYPES, |class| class.bytes)
    }

    /// How many others a container has.
    pub(super) unsafe fn length(&self, object: usize, kind: Kind) -> usize {
        let (layout, heap) = (self.walk.layout, self.walk.heap);
        // SAFETY: the caller's promise: it is a container of this kind.
        unsafe {
            word(match kind {
                Kind::Dict | Kind::OrderedDict => object + heap.dict_used,
                Kind::Set => object + heap.set_used,
                _ => object + layout.var_object_size,
            })
        }
    }

    /// The bound of a deque, if it has one.
    unsafe fn maxlen(&self, object: usize, kind: Kind) -> Option<usize> {
        const MAXLEN: usize = 64;
        if kind != Kind::Deque {
            return None;
        }
        // SAFETY: the caller's promise: it is a deque.
        let bound = unsafe { signed(object + MAXLEN) };
        usize::try_from(bound).ok()
    }

    /// Notes how many entries a container may have, if it is one of the largest.
    pub(super) fn is_bounded(&mut self, object: usize, bound: usize) {
        self.largest
            .all_mut()
            .iter_mut()
            .filter(|held| held.object == object)
            .for_each(|held| held.bound = Some(bound));
    }

    fn note_in_filter(&mut self, object: usize) {
        let (word, bit) = filter_place(object);
        self.filter[word] |= 1 << bit;
    }

    /// A container was met at a place: if it is one of the largest, the place is its name, unless it has a better one.
    /// One that the collector does not track was not counted, so that it is first met here.
    ///
    /// # Safety
    /// It must be an object of the class with this number, and a container.
    pub(super) unsafe fn meet(&mut self, object: usize, class: u32, place: ContainerPlace) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe { self.look_into(object, class, place)? };
        let (word, bit) = filter_place(object);
        let is_known = self.filter[word] & 1 << bit != 0;
        let known = if is_known { self.largest.all().iter().position(|held| held.object == object) } else { None };
        // SAFETY: the caller's promise.
        let at = unsafe {
            match known {
                Some(at) => at,
                None => {
                    if self.is_apart(object, class) {
                        return Ok(());
                    }
                    let bytes = self.walk.size(object, self.walk.classes.get(class));
                    if bytes <= self.floor || self.largest.len() >= GATHERED {
                        return Ok(());
                    }
                    self.largest.push(HeldContainer { object, class, bytes, name: (0, 0), rank: u8::MAX, bound: None });
                    self.note_in_filter(object);
                    self.largest.len() - 1
                }
            }
        };
        let (held, from) = (self.largest.all()[at], self.texts.len());
        if place.rank() > held.rank {
            return Ok(());
        }
        // SAFETY: the place is made of objects that were met on the way here.
        unsafe { place.put(&mut self.walk, &mut self.texts)? };
        let length = self.texts.len() - from;
        if place.rank() < held.rank || length < held.name.1 {
            let held = &mut self.largest.all_mut()[at];
            (held.name, held.rank) = ((from, length), place.rank());
        } else {
            self.texts.truncate(from);
        }
        Ok(())
    }

    /// Whether the table of a dict may be in memory that the clone does not have.
    pub(super) unsafe fn is_apart(&self, object: usize, class: u32) -> bool {
        let is_dict = matches!(self.walk.classes.get(class).kind, Kind::Dict | Kind::OrderedDict);
        // SAFETY: the caller's promise: it is an object of this class.
        let table = if is_dict { unsafe { word(object + self.walk.heap.dict_keys) } } else { 0 };
        self.apart.iter().any(|(from, to)| (*from..*to).contains(&table))
    }
}

fn filter_place(object: usize) -> (usize, usize) {
    let hash = (object >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    (hash / 64 % FILTER, hash % 64)
}
