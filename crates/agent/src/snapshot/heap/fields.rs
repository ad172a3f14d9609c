//! References with the word of the object that holds each: found by looking for them in the object.

use neurogc_ngch::{Kind, RunKind};

use super::super::control::WalkTrouble;
use super::HeapWalk;
use super::classes::{Class, HEAP_TYPE};
use super::raw::word;

/// In wider objects references are not looked for.
const WIDEST: usize = 256;

/// The word that stands for a dict in front of the object: the real one always holds the type.
pub(super) const DICT_WORD: u64 = 1;

impl HeapWalk<'_> {
    /// Writes what the object's type has told.
    ///
    /// # Safety
    /// It must be an object of this class.
    pub(super) unsafe fn put_fields(&mut self, object: usize, class: &Class) -> Result<(), WalkTrouble> {
        let managed = std::mem::take(&mut self.managed_dict);
        if class.has(HEAP_TYPE)
            && let Some(at) = self.told.all().iter().position(|told| *told == class.address)
        {
            // The reference to the type is in its column already. Some types tell of it, others do not.
            let last = self.told.pop().unwrap_or(0);
            if at < self.told.len() {
                self.told.all_mut()[at] = last;
            }
        }
        let count = self.told.len();
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let words = unsafe { self.words(object, class) };
        if words > WIDEST {
            self.begin_run(RunKind::Plain, count)?;
            for at in 0..count {
                self.put_reference(self.told.all()[at]);
            }
            return Ok(());
        }
        self.begin_run(RunKind::Fields, count)?;
        // From 3.14 on the words of frames have tags in their low bits.
        let tagged = self.heap.minor >= 14 && matches!(class.kind, Kind::Generator | Kind::Frame);
        let mask = if tagged { !3 } else { !0 };
        let (mut next, mut managed) = (2, managed);
        for at in 0..count {
            let target = self.told.all()[at];
            let mut field = 0;
            if target == managed && managed != 0 {
                (field, managed) = (DICT_WORD, 0);
            } else {
                for _ in 2..words {
                    if next >= words {
                        next = 2;
                    }
                    next += 1;
                    // SAFETY: the object has so many words.
                    if unsafe { word(object + 8 * (next - 1)) } & mask == target {
                        field = next as u64 - 1;
                        break;
                    }
                }
            }
            self.put_field(field, target);
        }
        Ok(())
    }

    /// How many words of an object there are.
    unsafe fn words(&self, object: usize, class: &Class) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match class.kind {
                Kind::Generator | Kind::Frame if self.heap.minor >= 11 => self.frame_size(object, class) / 8,
                Kind::Type if !self.is_heap_type(object) => self.heap.type_size / 8,
                Kind::Type | Kind::Code => class.basic / 8,
                _ if class.item == 8 => class.basic / 8 + self.items(object, class),
                _ => class.basic / 8,
            }
        }
    }
}
