//! What lies below named objects: objects that objects have, containers in containers, and chains of objects.

use neurogc_ngch::Kind;

use super::super::control::WalkTrouble;
use super::HeapWalk;
use super::census::HeapCensus;
use super::classes::WalkKind;
use super::places::{ContainerPlace, DictEntries, ITEM};
use super::raw::{Array, signed, word};

/// Objects below others that are looked at in all.
const MOST_BELOW: usize = 1 << 17;

/// Objects in a container are looked at where there are no more than this.
const FEW_ENTRIES: usize = 64;

/// Entries of a container that are looked at.
const MOST_ENTRIES: usize = 1 << 14;

/// Fewer entries in the containers of a container, or objects in a chain, are not told of; and no longer chain is followed.
const LEAST: usize = 256;
const LONGEST_CHAIN: usize = 1 << 21;

/// What is told of at most.
const MOST_TOLD: usize = 32;

/// Many things at one place: the entries of all containers in a container, or the objects of a chain.
#[derive(Clone, Copy)]
pub(super) struct Gathered {
    pub(super) object: usize,
    pub(super) class: u32,
    pub(super) length: usize,
    pub(super) bytes: usize,
    /// Its name, among the texts.
    pub(super) name: (usize, usize),
}

/// What the containers in a container have: lengths and bytes of those that hold objects, and of buffers, whose entries are bytes.
#[derive(Default)]
struct InnerSums {
    entries: (usize, usize),
    buffers: (usize, usize),
    /// The class of a buffer.
    buffer: u32,
}

impl HeapCensus<'_> {
    /// Whether one more object may be looked at.
    pub(super) fn may_look(&mut self) -> bool {
        self.looks += 1;
        self.looks < MOST_BELOW
    }

    /// Looks into a container that has a name: how many entries its containers have, and what its objects hold.
    ///
    /// # Safety
    /// It must be a container of the class with this number.
    pub(super) unsafe fn look_into(
        &mut self,
        object: usize,
        class: u32,
        place: ContainerPlace,
    ) -> Result<(), WalkTrouble> {
        let kind = self.walk.classes.get(class).kind;
        // SAFETY: the caller's promise.
        unsafe {
            if !matches!(kind, Kind::List | Kind::Dict | Kind::OrderedDict) || self.is_apart(object, class) {
                return Ok(());
            }
            // Many modules import the same container.
            if !self.walk.seen.add(object)? {
                return Ok(());
            }
            let few = self.length(object, kind) <= FEW_ENTRIES;
            let below = place.below(ITEM).filter(|_| few);
            let (mut inner, mut at) = (InnerSums::default(), 0);
            if kind == Kind::List {
                let items = word(object + self.walk.heap.list_items);
                let count = signed(object + self.walk.layout.var_object_size).max(0) as usize;
                while at < count.min(MOST_ENTRIES) {
                    self.look_at_entry(word(items + 8 * at), below, &mut inner)?;
                    at += 1;
                }
            } else {
                for (_, value) in DictEntries::of(&self.walk, object) {
                    self.look_at_entry(value, below, &mut inner)?;
                }
            }
            let Some(place) = place.below(ITEM) else { return Ok(()) };
            for (class, (length, bytes)) in [(class, inner.entries), (inner.buffer, inner.buffers)] {
                if length >= LEAST {
                    self.gather(object, class, (length, bytes), place)?;
                }
            }
        }
        Ok(())
    }

    unsafe fn look_at_entry(
        &mut self,
        entry: usize,
        below: Option<ContainerPlace>,
        inner: &mut InnerSums,
    ) -> Result<(), WalkTrouble> {
        if entry == 0 {
            return Ok(());
        }
        self.walk.watch.step()?;
        // SAFETY: the caller's promise: it is an object.
        unsafe {
            let index = self.walk.classes.of(word(entry + self.walk.layout.object_type))?;
            let class = *self.walk.classes.get(index);
            if class.is_container() {
                let sum = if class.kind == Kind::ByteArray {
                    inner.buffer = index;
                    &mut inner.buffers
                } else {
                    &mut inner.entries
                };
                sum.0 += self.length(entry, class.kind);
                if !self.is_apart(entry, index) {
                    sum.1 += self.walk.size(entry, &class);
                }
            } else if let Some(place) = below.filter(|_| class.way == WalkKind::Instance)
                && self.may_look()
            {
                self.look_at_instance(entry, &class, place)?;
            }
        }
        Ok(())
    }

    /// Follows a chain of objects of one class, each of which refers to the next, and tells of it where it is long.
    ///
    /// # Safety
    /// It must be an instance of the class with this number.
    pub(super) unsafe fn follow_chain(
        &mut self,
        first: usize,
        class: u32,
        place: ContainerPlace,
    ) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut object, mut length) = (first, 0);
            while length < LONGEST_CHAIN && self.walk.seen.add(object)? {
                length += 1;
                self.walk.watch.step()?;
                match self.next_in_chain(object, class)? {
                    Some(next) => object = next,
                    None => break,
                }
            }
            if length >= LEAST {
                let bytes = length * self.walk.size(first, self.walk.classes.get(class));
                self.gather(first, class, (length, bytes), place)?;
            }
        }
        Ok(())
    }

    /// Another instance of the same class that an object refers to and that was not met yet.
    unsafe fn next_in_chain(&mut self, object: usize, class: u32) -> Result<Option<usize>, WalkTrouble> {
        let facts = *self.walk.classes.get(class);
        // SAFETY: the caller's promise: it is an instance of this class.
        unsafe {
            if !self.walk.is_collected(object, &facts) {
                return Ok(None);
            }
            self.walk.told.truncate(0);
            self.walk.traverse::<true>(object, facts.traverse);
            let is_next = |walk: &HeapWalk<'_>, other: usize| {
                word(other + walk.layout.object_type) == facts.address && !walk.seen.has(other)
            };
            let mut dict = 0;
            while let Some(other) = self.walk.told.pop() {
                if is_next(&self.walk, other) {
                    return Ok(Some(other));
                }
                // Attributes may be in a dict.
                if self.walk.is_dict(other) {
                    dict = other;
                }
            }
            if dict == 0 {
                return Ok(None);
            }
            let entries = DictEntries::of(&self.walk, dict).take(FEW_ENTRIES);
            let found = entries.map(|(_, value)| value).find(|value| is_next(&self.walk, *value));
            Ok(found)
        }
    }

    unsafe fn gather(
        &mut self,
        object: usize,
        class: u32,
        (length, bytes): (usize, usize),
        place: ContainerPlace,
    ) -> Result<(), WalkTrouble> {
        let from = self.texts.len();
        // SAFETY: the place is made of objects that were met on the way here.
        unsafe { place.put(&mut self.walk, &mut self.texts)? };
        let name = (from, self.texts.len() - from);
        self.gathered.push(Gathered { object, class, length, bytes, name });
        Ok(())
    }

    /// The largest of what was gathered come first, and the others go.
    pub(super) fn rank_gathered(gathered: &mut Array<Gathered>) {
        gathered.all_mut().sort_unstable_by_key(|it| std::cmp::Reverse(it.length));
        let most = gathered.len().min(MOST_TOLD);
        gathered.truncate(most);
    }
}
