//! How many bytes an object takes by itself, with the memory that only it owns, without running any code of its type.

use neurogc_ngch::Kind;

use super::HeapWalk;
use super::classes::{Class, HEAP_TYPE, INLINE_VALUES, MANAGED_DICT, MANAGED_WEAKREF};
use super::dicts::index_bytes;
use super::raw::{byte, int, signed, word};
use super::references::{DESCRIPTION, DIMENSIONS, FLAGS, OWNS};

/// The collector's head, and the words for dict and weak references before it.
const GC_HEAD: usize = 16;
const PRE_HEADER: usize = 16;

/// Sizes that no header tells: a block of a deque, a node of an ordered dict, a definition of a member.
const DEQUE_BLOCK: usize = 528;
const ORDERED_NODE: usize = 32;
const MEMBER: usize = 40;

/// What lies before an object that the collector tracks, of a type with these flags.
pub(super) fn before_tracked(minor: u8, flags: usize) -> usize {
    let has = |flag: usize, since: u8| minor >= since && flags & flag != 0;
    if has(MANAGED_DICT, 11) || has(MANAGED_WEAKREF, 12) { GC_HEAD + PRE_HEADER } else { GC_HEAD }
}

impl HeapWalk<'_> {
    /// The size of an object.
    ///
    /// # Safety
    /// It must be an object of this class.
    pub(super) unsafe fn size(&self, object: usize, class: &Class) -> usize {
        // SAFETY: the caller's promise: the fields are where the layout says.
        unsafe {
            let head = if self.is_collected(object, class) { 0 } else { GC_HEAD };
            self.size_in_detail(object, class) - head
        }
    }

    /// The size of an object that the collector tracks, which takes less time to tell.
    ///
    /// # Safety
    /// As for `size`.
    #[inline(always)]
    pub(super) unsafe fn tracked_size(&self, object: usize, class: &Class) -> usize {
        // SAFETY: the caller's promise.
        if class.tracked_size == 0 { unsafe { self.size_in_detail(object, class) } } else { class.tracked_size }
    }

    /// The size of an object and the collector's head.
    unsafe fn size_in_detail(&self, object: usize, class: &Class) -> usize {
        // SAFETY: the caller's promise: the fields are where the layout says.
        unsafe {
            let has_attributes = self.heap.minor >= 11 && class.has(MANAGED_DICT);
            let attributes = if has_attributes { self.attributes_size(object, class) } else { 0 };
            self.own_size(object, class) + before_tracked(self.heap.minor, class.flags) + attributes
        }
    }

    /// How many items of variable number an object has.
    ///
    /// # Safety
    /// As for `size`.
    pub(super) unsafe fn items(&self, object: usize, class: &Class) -> usize {
        if class.item == 0 {
            return 0;
        }
        // SAFETY: the caller's promise.
        let items = unsafe { signed(object + self.layout.var_object_size) };
        match class.kind {
            Kind::Int if self.heap.minor >= 12 => (items as usize >> 3).max(1),
            _ => items.unsigned_abs(),
        }
    }

    unsafe fn own_size(&self, object: usize, class: &Class) -> usize {
        let (layout, heap) = (self.layout, self.heap);
        // SAFETY: the caller's promise.
        unsafe {
            let plain = || class.basic + class.item * self.items(object, class);
            match class.kind {
                Kind::Str => self.text_size(object, class),
                Kind::Type if !self.is_heap_type(object) => heap.type_size,
                Kind::Type => {
                    let keys = word(object + heap.heap_type_cached_keys);
                    let keys = if keys == 0 { 0 } else { self.keys_size(keys) };
                    class.basic.max(heap.heap_type_size) + MEMBER * word(object + layout.var_object_size) + keys
                }
                Kind::Generator | Kind::Frame if heap.minor >= 11 => self.frame_size(object, class),
                Kind::List => plain() + 8 * word(object + heap.list_allocated),
                Kind::Dict => plain() + self.tables_size(object),
                Kind::OrderedDict => {
                    let fast = word(object + heap.dict_size + 24);
                    plain() + self.tables_size(object) + 8 * fast + ORDERED_NODE * word(object + heap.dict_used)
                }
                Kind::Set => {
                    let table = word(object + heap.set_table);
                    let apart = table != object + heap.set_smalltable;
                    plain() + if apart { 16 * (word(object + heap.set_mask) + 1) } else { 0 }
                }
                Kind::Code => plain().next_multiple_of(8),
                Kind::ByteArray => {
                    let allocated = word(object + heap.bytearray_alloc);
                    // From 3.15 on that is a bytes object, to which nothing else refers.
                    let head = if heap.bytearray_object.is_some() && allocated > 0 { layout.bytes_data + 1 } else { 0 };
                    class.basic + allocated + head
                }
                Kind::Deque => {
                    let (left, length) = (word(object + 40), word(object + layout.var_object_size));
                    class.basic + (left + length).div_ceil(64) * DEQUE_BLOCK
                }
                Kind::Array => {
                    let (allocated, description) = (word(object + 32), word(object + 40));
                    class.basic + allocated * int(description + 4).max(0) as usize
                }
                Kind::Ndarray => class.basic + self.array_size(object),
                _ => plain(),
            }
        }
    }

    unsafe fn text_size(&self, object: usize, class: &Class) -> usize {
        let (layout, heap) = (self.layout, self.heap);
        // SAFETY: the caller's promise: it is a string.
        unsafe {
            let state = int(object + layout.unicode_state) as usize;
            let (width, compact, ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
            let length = word(object + layout.unicode_length);
            let more = class.basic.saturating_sub(heap.unicode_size);
            if compact && ascii {
                return layout.unicode_ascii_data + length + 1 + more;
            }
            let utf8 = word(object + heap.unicode_utf8);
            let (size, data) = if compact {
                (layout.unicode_compact_data + (length + 1) * width, object + layout.unicode_compact_data)
            } else {
                let data = word(object + heap.unicode_data);
                (heap.unicode_size + if data == 0 { 0 } else { (length + 1) * width }, data)
            };
            let cached = utf8 != 0 && utf8 != data;
            size + more + if cached { word(object + heap.unicode_utf8_length) + 1 } else { 0 }
        }
    }

    /// Memory for a dict's keys and values, where it has that for itself.
    unsafe fn tables_size(&self, object: usize) -> usize {
        let heap = self.heap;
        // SAFETY: the caller's promise: it is a dict.
        unsafe {
            let keys = word(object + heap.dict_keys);
            let values = word(object + heap.dict_values);
            let mut size = 0;
            if values != 0 && heap.values_embedded.is_none_or(|embedded| byte(values + embedded) == 0) {
                size += 8 * self.usable(keys);
            }
            if signed(keys + heap.keys_refcnt) == 1 {
                size += self.keys_size(keys);
            }
            size
        }
    }

    /// How many keys a shared table has room for.
    unsafe fn usable(&self, keys: usize) -> usize {
        // SAFETY: the caller's promise: it is a table of keys.
        unsafe {
            match self.heap.keys_size {
                Some(size) => word(keys + size) * 2 / 3,
                None => word(keys + self.heap.keys_nentries) + word(keys + self.heap.keys_usable),
            }
        }
    }

    unsafe fn keys_size(&self, keys: usize) -> usize {
        let heap = self.heap;
        // SAFETY: the caller's promise: it is a table of keys.
        unsafe {
            match (heap.keys_log2_size, heap.keys_log2_index_bytes, heap.keys_kind, heap.keys_size) {
                (Some(size), Some(index), Some(kind), _) => {
                    let entries = (2 << byte(keys + size)) / 3;
                    let entry = if byte(keys + kind) == 0 { 24 } else { 16 };
                    heap.keys_indices + (1 << byte(keys + index)) + entries * entry
                }
                (_, _, _, Some(size)) => {
                    let size = word(keys + size);
                    heap.keys_indices + index_bytes(size) + size * 2 / 3 * 24
                }
                _ => 0,
            }
        }
    }

    /// Memory for attributes that are not in a dict.
    unsafe fn attributes_size(&self, object: usize, class: &Class) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            if self.heap.minor >= 13 {
                if !class.has(INLINE_VALUES) {
                    return 0;
                }
                let capacity = self.heap.values_capacity.map_or(0, |at| byte(object + class.basic + at).into());
                return usize::next_multiple_of(capacity, 8) + (capacity + 1) * 8;
            }
            match (self.managed(object, class).0, self.shared_keys(class)) {
                (Some(_), Some(keys)) => {
                    let usable = self.usable(keys.at);
                    usable * 8 + (usable + 2).next_multiple_of(8)
                }
                _ => 0,
            }
        }
    }

    /// A generator or frame: it has no number of items, but a frame behind it, as long as its code says.
    ///
    /// # Safety
    /// As for `size`; from 3.11 on.
    pub(super) unsafe fn frame_size(&self, object: usize, class: &Class) -> usize {
        let (layout, heap) = (self.layout, self.heap);
        // SAFETY: the caller's promise.
        unsafe {
            let (start, frame) = if class.kind == Kind::Generator {
                (heap.generator_frame, object + heap.generator_frame)
            } else {
                (heap.frame_object_data.unwrap_or(0), word(object + heap.frame_object_frame.unwrap_or(0)))
            };
            if frame == 0 {
                return class.basic;
            }
            let code = self.untagged(word(frame + layout.frame_code));
            if code == 0 || word(code + layout.object_type) != self.facts.builtins.code_type {
                return class.basic;
            }
            let slots = int(code + layout.code_nlocalsplus) + int(code + layout.code_stacksize);
            start + layout.frame_localsplus + 8 * slots.max(0) as usize
        }
    }

    /// A word of a frame without its tags, which there are from 3.14 on. Zero for what is no object.
    #[inline(always)]
    pub(super) fn untagged(&self, value: usize) -> usize {
        match self.heap.minor {
            ..14 => value,
            _ if value & 3 == 3 => 0,
            _ => value & !3,
        }
    }

    unsafe fn array_size(&self, object: usize) -> usize {
        // SAFETY: the caller's promise: it is an array of numpy.
        unsafe {
            let dimensions = int(object + DIMENSIONS).clamp(0, 64) as usize;
            let description = word(object + DESCRIPTION);
            let item = match description {
                0 => 0,
                _ if self.old_numpy => int(description + 32).max(0) as usize,
                _ => word(description + 40),
            };
            let owns = int(object + FLAGS) & OWNS != 0;
            16 * dimensions + if owns { Self::array_items(object).saturating_mul(item) } else { 0 }
        }
    }

    /// Whether a class has a finalizer of its own.
    ///
    /// # Safety
    /// It must be a class.
    pub(super) unsafe fn has_finalizer(&self, class: &Class) -> bool {
        // SAFETY: the caller's promise, and so for its bases.
        unsafe {
            let finalize = |class: usize| if class == 0 { 0 } else { word(class + self.heap.type_finalize) };
            let own = finalize(class.address);
            class.has(HEAP_TYPE) && class.native != class.address && own != 0 && own != finalize(class.native)
        }
    }
}
