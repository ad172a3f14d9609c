//! Lists and dictionaries keep what they refer to in tables of their own, elsewhere in memory.

use super::heap_layout::heap_layout_for;
use super::layout::{Layout, Version};
use super::symbol;

/// A cache line.
const LINE: usize = 64;

/// Where such objects say that their tables are. What is not known is zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ObjectTables {
    object_type: usize,
    list_type: usize,
    list_items: usize,
    dict_type: usize,
    dict_keys: usize,
    dict_values: usize,
}

impl ObjectTables {
    /// Looks it up for this interpreter.
    pub(crate) fn find(version: &Version, layout: &Layout) -> Self {
        let Some(heap) = heap_layout_for(version) else { return Self::default() };
        let address = |name| symbol(name).map_or(0, |found| found as usize);
        Self {
            object_type: layout.object_type,
            list_type: address(c"PyList_Type"),
            list_items: heap.list_items,
            dict_type: address(c"PyDict_Type"),
            dict_keys: heap.dict_keys,
            dict_values: heap.dict_values,
        }
    }

    /// Calls `near` with addresses of an object's tables, if it has some: what is read first when it is traversed.
    ///
    /// # Safety
    /// It must be an object of that interpreter.
    #[inline(always)]
    pub(crate) unsafe fn each(&self, object: usize, near: impl Fn(usize)) {
        // SAFETY: the caller's promise: lists and dictionaries have these words, and all objects have a type.
        let word = |offset: usize| unsafe { *((object + offset) as *const usize) };
        let kind = word(self.object_type);
        if kind == self.dict_type {
            let keys = word(self.dict_keys);
            near(keys);
            near(keys.wrapping_add(LINE));
            near(word(self.dict_values));
        } else if kind == self.list_type {
            near(word(self.list_items));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn only_lists_and_dictionaries_have_tables() {
        let tables =
            ObjectTables { object_type: 8, list_type: 1, list_items: 16, dict_type: 2, dict_keys: 24, dict_values: 32 };
        let check = |kind: usize, expected: &[usize]| {
            let object = [9, kind, 100, 200, 300];
            let found = RefCell::new(Vec::new());
            // SAFETY: the array has all the words that an object would have.
            unsafe { tables.each(object.as_ptr() as usize, |address| found.borrow_mut().push(address)) };
            assert_eq!(*found.borrow(), expected);
        };
        check(1, &[100]);
        check(2, &[200, 264, 300]);
        check(3, &[]);
    }
}
