//! Dicts and attributes: tables of keys, which instances and dicts may share.

use neurogc_ngch::RunKind;

use super::super::control::WalkTrouble;
use super::HeapWalk;
use super::classes::{Class, HEAP_TYPE, INLINE_VALUES, MANAGED_DICT};
use super::emit::PART;
use super::raw::{byte, signed, word};

/// A table of a dict's keys.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) at: usize,
    pub(super) entries: usize,
    pub(super) count: usize,
    /// Bytes of an entry, and where the key is in it. The value follows the key.
    stride: usize,
    key: usize,
}

/// Attributes of an instance that are not in a dict.
#[derive(Clone, Copy)]
pub(super) struct Attributes {
    pub(super) at: usize,
    pub(super) count: usize,
}

impl HeapWalk<'_> {
    /// A table of keys.
    ///
    /// # Safety
    /// It must be one.
    pub(super) unsafe fn keys(&self, at: usize) -> Keys {
        let heap = self.heap;
        // SAFETY: the caller's promise.
        unsafe {
            let count = signed(at + heap.keys_nentries).max(0) as usize;
            let (index, general) = match (heap.keys_log2_index_bytes, heap.keys_kind, heap.keys_size) {
                (Some(index), Some(kind), _) => (1 << byte(at + index), byte(at + kind) == 0),
                (_, _, Some(size)) => (index_bytes(word(at + size)), true),
                _ => (0, true),
            };
            let (stride, key) = if general { (24, 8) } else { (16, 0) };
            Keys { at, entries: at + heap.keys_indices + index, count, stride, key }
        }
    }

    /// The key of an entry.
    ///
    /// # Safety
    /// It must be one of the table's entries.
    #[inline(always)]
    pub(super) unsafe fn key_at(keys: &Keys, at: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { word(keys.entries + at * keys.stride + keys.key) }
    }

    #[inline(always)]
    pub(super) unsafe fn value_at(keys: &Keys, at: usize) -> usize {
        // SAFETY: the caller's promise, as for `key_at`.
        unsafe { word(keys.entries + at * keys.stride + keys.key + 8) }
    }

    /// Looks a name up in a dict.
    ///
    /// # Safety
    /// It must be a dict, and its keys objects.
    pub(super) unsafe fn item(&self, dict: usize, name: &[u8]) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe {
            let keys = self.keys(word(dict + self.heap.dict_keys));
            let values = word(dict + self.heap.dict_values);
            for at in 0..keys.count {
                let key = Self::key_at(&keys, at);
                let value = if values == 0 {
                    Self::value_at(&keys, at)
                } else {
                    word(values + self.heap.values_values.unwrap_or(0) + 8 * at)
                };
                if value != 0 && key != 0 && self.ascii(key) == Some(name) {
                    return Some(value);
                }
            }
        }
        None
    }

    pub(super) unsafe fn dict<const EMIT: bool>(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // SAFETY: it is a dict, and its tables are as long as they say.
        unsafe {
            let keys = self.keys(word(object + self.heap.dict_keys));
            let values = word(object + self.heap.dict_values);
            if values != 0 {
                return self.split::<EMIT>(&keys, values);
            }
            let mut from = 0;
            while from < keys.count {
                let to = keys.count.min(from + PART);
                if EMIT {
                    if from > 0 {
                        self.go_on()?;
                    }
                    let count = (from..to).filter(|at| Self::value_at(&keys, *at) != 0).count();
                    self.begin_run(RunKind::Pairs, count)?;
                }
                for at in from..to {
                    let value = Self::value_at(&keys, at);
                    if value != 0 {
                        let key = Self::key_at(&keys, at);
                        if EMIT {
                            self.put_key(key);
                            self.put_reference(value);
                        } else {
                            self.see(key)?;
                            self.see(value)?;
                        }
                    }
                }
                from = to;
            }
        }
        Ok(())
    }

    /// A dict whose keys many others share.
    unsafe fn split<const EMIT: bool>(&mut self, keys: &Keys, values: usize) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: there is a value, or null, for every key.
        unsafe {
            if self.heap.values_embedded.is_some_and(|embedded| byte(values + embedded) != 0) {
                // They are inside the instance, which has told of them.
                return Ok(());
            }
            let at = values + self.heap.values_values.unwrap_or(0);
            if !EMIT {
                self.see_shape(keys)?;
                for slot in 0..keys.count {
                    self.see(word(at + 8 * slot))?;
                }
                return Ok(());
            }
            let count = filled(at, keys.count);
            if count > 0 {
                self.begin_run(RunKind::Split, count)?;
                self.put_number(self.shapes.number(keys.at).unwrap_or(0).into());
                for slot in 0..count {
                    self.put_slot(word(at + 8 * slot));
                }
            }
        }
        Ok(())
    }

    /// Takes in a table of keys that instances or dicts share.
    pub(super) unsafe fn see_shape(&mut self, keys: &Keys) -> Result<(), WalkTrouble> {
        if self.shapes.number(keys.at).is_some() {
            return Ok(());
        }
        self.shapes.add(keys.at)?;
        for at in 0..keys.count {
            // SAFETY: the caller's promise: it is a table of keys.
            let key = unsafe { Self::key_at(keys, at) };
            self.see(key)?;
            self.name(key)?;
        }
        Ok(())
    }

    /// The keys that instances of a class share, where their attributes are not in a dict.
    ///
    /// # Safety
    /// It must be a class.
    pub(super) unsafe fn shared_keys(&self, class: &Class) -> Option<Keys> {
        if self.heap.minor < 11 || !class.has(MANAGED_DICT) || !class.has(HEAP_TYPE) {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let keys = word(class.address + self.heap.heap_type_cached_keys);
            (keys != 0).then(|| self.keys(keys))
        }
    }

    /// Attributes of an instance that are not in a dict, and its dict.
    ///
    /// # Safety
    /// It must be an instance of the class, which has a managed dict.
    pub(super) unsafe fn managed(&self, object: usize, class: &Class) -> (Option<Attributes>, usize) {
        // SAFETY: the caller's promise: the two words before the collector's head are there.
        unsafe {
            let keys = || self.shared_keys(class).map_or(0, |keys| keys.count);
            let before = word(object - 24);
            match self.heap.minor {
                ..=10 => (None, 0),
                11 => {
                    let values = word(object - 32);
                    ((values != 0).then(|| Attributes { at: values, count: keys() }), before)
                }
                12 if before & 1 == 1 => (Some(Attributes { at: before + 1, count: keys() }), 0),
                12 => (None, before),
                _ if !class.has(INLINE_VALUES) => (None, before),
                _ => {
                    let values = object + class.basic;
                    let valid = self.heap.values_valid.is_some_and(|valid| byte(values + valid) != 0);
                    let capacity = self.heap.values_capacity.map_or(0, |at| byte(values + at).into());
                    let at = values + self.heap.values_values.unwrap_or(0);
                    (valid.then(|| Attributes { at, count: keys().min(capacity) }), before)
                }
            }
        }
    }
}

/// How many slots there are up to the last one that is not empty.
pub(super) unsafe fn filled(at: usize, count: usize) -> usize {
    // SAFETY: the caller's promise: so many words are there.
    (0..count).rev().find(|slot| unsafe { word(at + 8 * slot) } != 0).map_or(0, |last| last + 1)
}

/// How long the table of indices is in 3.10.
pub(super) fn index_bytes(size: usize) -> usize {
    match size {
        ..=0xff => size,
        0x100..=0xffff => size * 2,
        0x1_0000..=0xffff_ffff => size * 4,
        _ => size * 8,
    }
}
