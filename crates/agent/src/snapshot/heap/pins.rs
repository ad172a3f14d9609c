//! Objects in arenas of which little is in use: a few of them keep CPython from returning a whole arena.

use neurogc_ngch::Kind;

use super::super::control::WalkTrouble;
use super::census::HeapCensus;
use super::places::DictEntries;
use super::raw::word;

impl HeapCensus<'_> {
    /// Counts an object that the collector tracks, and those that it refers to, as far as they lie in sparse arenas.
    ///
    /// # Safety
    /// It must be an object of the class with this number that the collector tracks.
    pub(super) unsafe fn count_pins(&mut self, object: usize, class: u32) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe {
            self.count_pin(object, class)?;
            self.walk.told.truncate(0);
            self.tell_referents(object, class);
            while let Some(other) = self.walk.told.pop() {
                if !self.is_in_sparse_arena(other) {
                    continue;
                }
                let class = self.walk.classes.of(word(other + self.walk.layout.object_type))?;
                // The collector does not track tuples of simple objects, so that they are met here only.
                if self.count_pin(other, class)? && self.walk.classes.get(class).kind == Kind::Tuple {
                    self.tell_referents(other, class);
                }
            }
        }
        Ok(())
    }

    /// Counts one object, if it lies in a sparse arena and was not counted yet.
    unsafe fn count_pin(&mut self, object: usize, class: u32) -> Result<bool, WalkTrouble> {
        if !self.is_in_sparse_arena(object) {
            return Ok(false);
        }
        let Some(pins) = &mut self.pins else { return Ok(false) };
        let is_new = pins.add(object)?;
        if is_new {
            self.walk.classes.get_mut(class).pinned += 1;
        }
        Ok(is_new)
    }

    /// Adds what an object refers to to what was told.
    unsafe fn tell_referents(&mut self, object: usize, class: u32) {
        let facts = *self.walk.classes.get(class);
        // SAFETY: the caller's promise: it is an object of this class, which the collector knows.
        unsafe {
            if self.is_apart(object, class) {
                return;
            }
            if facts.kind == Kind::Dict {
                // A dict does not tell of keys that are strings.
                for (key, value) in DictEntries::of(&self.walk, object) {
                    let _ = self.walk.told.push(key);
                    let _ = self.walk.told.push(value);
                }
            } else {
                self.walk.traverse::<true>(object, facts.traverse);
            }
        }
    }

    fn is_in_sparse_arena(&self, object: usize) -> bool {
        let ranges = &self.walk.facts.sparse;
        let after = ranges.partition_point(|range| range.0 <= object);
        after > 0 && object < ranges[after - 1].1
    }
}
