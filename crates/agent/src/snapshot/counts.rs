//! References of the few objects that have more of them than a byte can count.

use super::system;

/// A table from object to count, by open addressing; a slot with no object is free.
pub(super) struct CountTable {
    slots: *mut Slot,
    /// A power of two.
    capacity: usize,
    used: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Slot {
    object: usize,
    left: i64,
}

const FIRST_CAPACITY: usize = 4096;

impl CountTable {
    pub(super) fn new() -> Option<Self> {
        let slots: *mut Slot = system::map(FIRST_CAPACITY * size_of::<Slot>()).cast();
        (!std::ptr::eq(slots, std::ptr::null())).then_some(Self { slots, capacity: FIRST_CAPACITY, used: 0 })
    }

    /// The object's slot, or the free one where it would stand.
    fn slot(&self, object: usize) -> *mut Slot {
        let mut index = spread(object);
        loop {
            // SAFETY: the index is masked to the capacity, which is a power of two. A free slot is found: at most half
            // of them are used.
            unsafe {
                let slot = self.slots.add(index & (self.capacity - 1));
                if (*slot).object == object || (*slot).object == 0 {
                    return slot;
                }
            }
            index = index.wrapping_add(1);
        }
    }

    /// Notes an object's references. False where there is no memory.
    pub(super) fn put(&mut self, object: usize, left: i64) -> bool {
        if self.used * 2 >= self.capacity && !self.grow() {
            return false;
        }
        // SAFETY: `slot` gives a slot of the table.
        unsafe { *self.slot(object) = Slot { object, left } };
        self.used += 1;
        true
    }

    fn grow(&mut self) -> bool {
        let old = Self { slots: self.slots, capacity: self.capacity, used: self.used };
        let slots: *mut Slot = system::map(2 * old.capacity * size_of::<Slot>()).cast();
        if slots.is_null() {
            return false;
        }
        (self.slots, self.capacity) = (slots, 2 * old.capacity);
        for index in 0..old.capacity {
            // SAFETY: the index is inside the old table; `slot` gives a slot of the new one.
            unsafe {
                let slot = *old.slots.add(index);
                if slot.object != 0 {
                    *self.slot(slot.object) = slot;
                }
            }
        }
        // SAFETY: the old table is no longer used.
        unsafe { system::unmap(old.slots.cast(), old.capacity * size_of::<Slot>()) };
        true
    }

    /// Takes a reference away and says how many are left.
    pub(super) fn take(&mut self, object: usize) -> i64 {
        let slot = self.slot(object);
        // SAFETY: `slot` gives a slot of the table.
        unsafe {
            if (*slot).object == object {
                (*slot).left -= 1;
                return (*slot).left;
            }
        }
        0
    }

    /// How many references are left.
    pub(super) fn left(&self, object: usize) -> i64 {
        // SAFETY: `slot` gives a slot of the table, and a free one has none left.
        unsafe { (*self.slot(object)).left }
    }
}

/// Spreads addresses, whose low bits are all the same, over a table.
#[inline(always)]
pub(super) fn spread(address: usize) -> usize {
    address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_while_the_table_grows() {
        let Some(mut counts) = CountTable::new() else { panic!("no memory") };
        let object = |number: usize| 0x7f00_0000_0000 + number * 16;
        for number in 1..20_000 {
            assert!(counts.put(object(number), number as i64));
        }
        for number in 1..20_000 {
            assert_eq!(counts.take(object(number)), number as i64 - 1);
            assert_eq!(counts.left(object(number)), number as i64 - 1);
        }
        assert_eq!((counts.left(8), counts.take(8)), (0, 0));
    }
}
