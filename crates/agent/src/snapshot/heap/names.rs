//! Strings: their text, which of them are names, and the full names of types.

use neurogc_ngch::{ByteSink, Kind};

use super::super::control::WalkTrouble;
use super::HeapWalk;
use super::classes::{Class, HEAP_TYPE, MANAGED_DICT};
use super::raw::{Array, bytes, c_string, int, signed, word};

/// A string's code units.
#[derive(Clone, Copy)]
pub(super) struct Units {
    pub(super) at: usize,
    pub(super) length: usize,
    pub(super) width: usize,
}

/// Longer names of types are cut.
const LONGEST: usize = 512;

impl HeapWalk<'_> {
    /// The code units of a string.
    ///
    /// # Safety
    /// It must be a string.
    #[inline(always)]
    pub(super) unsafe fn units(&self, object: usize) -> Option<Units> {
        let layout = self.layout;
        // SAFETY: the caller's promise.
        unsafe {
            let state = int(object + layout.unicode_state) as usize;
            let (width, compact, ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
            let at = match (compact, ascii) {
                (true, true) => object + layout.unicode_ascii_data,
                (true, false) => object + layout.unicode_compact_data,
                _ => word(object + self.heap.unicode_data),
            };
            let length = word(object + layout.unicode_length);
            (matches!(width, 1 | 2 | 4) && at != 0).then_some(Units { at, length, width })
        }
    }

    /// The text of an object if it is exactly a string, and ASCII.
    ///
    /// # Safety
    /// It must be an object.
    pub(super) unsafe fn ascii(&self, object: usize) -> Option<&[u8]> {
        // SAFETY: the caller's promise; the bytes of a string do not change.
        unsafe {
            if !self.is_text(object) || int(object + self.layout.unicode_state) & 0x60 != 0x60 {
                return None;
            }
            let Units { at, length, .. } = self.units(object)?;
            Some(bytes(at, length))
        }
    }

    /// Whether an object is exactly a string.
    pub(super) unsafe fn is_text(&self, object: usize) -> bool {
        // SAFETY: the caller's promise: it is an object.
        unsafe { word(object + self.layout.object_type) == self.facts.builtins.str_type }
    }

    /// Appends a string in UTF-8.
    ///
    /// # Safety
    /// It must be an object.
    pub(super) unsafe fn put_utf8(&self, object: usize, to: &mut Array<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            if object == 0 || !self.is_text(object) {
                return;
            }
            let Some(Units { at, length, width }) = self.units(object) else { return };
            let text = bytes(at, length.min(LONGEST) * width);
            let text = neurogc_ngch::Text { length: 0, width: width as u8, units: text, hash: None };
            for character in text.characters() {
                to.put_bytes(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }

    /// Appends the full name of a type: `module.Class`, and for builtins only the name.
    ///
    /// # Safety
    /// It must be a type.
    pub(super) unsafe fn put_type_name(&self, class: &Class, to: &mut Array<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            let whole = c_string(word(class.address + self.layout.type_name), LONGEST);
            let dict = word(class.address + self.heap.type_dict);
            let module = if class.has(HEAP_TYPE) && dict != 0 { self.item(dict, b"__module__") } else { None };
            let Some(module) = module.filter(|module| self.is_text(*module)) else {
                to.put_bytes(whole.strip_prefix(b"builtins.").unwrap_or(whole));
                return;
            };
            if self.ascii(module) != Some(b"builtins") {
                self.put_utf8(module, to);
                to.put_bytes(b".");
            }
            let before = to.len();
            self.put_utf8(word(class.address + self.heap.heap_type_qualname), to);
            if to.len() == before {
                to.put_bytes(whole);
            }
        }
    }

    /// Notes that a string is a name.
    pub(super) fn name(&mut self, object: usize) -> Result<(), WalkTrouble> {
        if object != 0 {
            self.named.add(object)?;
        }
        Ok(())
    }

    /// Whether a string is a name.
    pub(super) fn is_name(&self, object: usize) -> bool {
        self.named.has(object)
    }

    /// Notes what an object that was just walked tells about others.
    ///
    /// # Safety
    /// It must be an object of this class.
    #[inline(always)]
    pub(super) unsafe fn note(&mut self, object: usize, class: &Class) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe {
            match class.kind {
                Kind::Code => self.note_code(object),
                Kind::Module => self.note_keys(word(object + self.heap.module_dict)),
                Kind::Type => self.note_type(object),
                Kind::Task => {
                    if self.tasks.push(object) {
                        Ok(())
                    } else {
                        Err(WalkTrouble::NoMemory)
                    }
                }
                Kind::Other if class.is_descriptor => self.name(word(object + self.heap.descriptor_name)),
                _ => Ok(()),
            }
        }
    }

    unsafe fn note_code(&mut self, object: usize) -> Result<(), WalkTrouble> {
        let (layout, heap) = (self.layout, self.heap);
        // SAFETY: the caller's promise: it is a code object.
        unsafe {
            for offset in [Some(layout.code_name), Some(layout.code_filename), heap.code_qualname].into_iter().flatten()
            {
                self.name(word(object + offset))?;
            }
            let tuples = [
                Some(heap.code_names),
                heap.code_localsplusnames,
                heap.code_varnames,
                heap.code_cellvars,
                heap.code_freevars,
            ];
            for offset in tuples.into_iter().flatten() {
                let tuple = word(object + offset);
                let count = if tuple == 0 { 0 } else { signed(tuple + layout.var_object_size).max(0) as usize };
                for at in 0..count {
                    self.name(word(tuple + heap.tuple_items + 8 * at))?;
                }
            }
        }
        Ok(())
    }

    /// The keys of a dict that are strings are names.
    unsafe fn note_keys(&mut self, dict: usize) -> Result<(), WalkTrouble> {
        if dict == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise: it is a dict.
        unsafe {
            let keys = self.keys(word(dict + self.heap.dict_keys));
            for at in 0..keys.count {
                self.name(Self::key_at(&keys, at))?;
            }
        }
        Ok(())
    }

    unsafe fn note_type(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: it is a type.
        unsafe {
            let flags = word(object + self.layout.type_flags);
            let dict = word(object + self.heap.type_dict);
            self.note_keys(dict)?;
            if flags & HEAP_TYPE == 0 {
                return Ok(());
            }
            self.name(word(object + self.heap.heap_type_name))?;
            self.name(word(object + self.heap.heap_type_qualname))?;
            if let Some(module) = if dict == 0 { None } else { self.item(dict, b"__module__") } {
                self.name(module)?;
            }
            let keys = word(object + self.heap.heap_type_cached_keys);
            if self.heap.minor >= 11 && flags & MANAGED_DICT != 0 && keys != 0 {
                let keys = self.keys(keys);
                self.see_shape(&keys)?;
            }
        }
        Ok(())
    }

    /// Finds out which numpy there is: its dtypes differ.
    ///
    /// # Safety
    /// The facts must be those of this process.
    pub(super) unsafe fn learn_numpy(&mut self) {
        // SAFETY: the caller's promise: modules are in a dict, and have one.
        unsafe {
            let modules = word(self.facts.interpreter + self.heap.interpreter_modules);
            if modules == 0 || !self.is_dict(modules) {
                return;
            }
            let Some(numpy) = self.item(modules, b"numpy") else { return };
            let Ok(class) = self.classes.of(word(numpy + self.layout.object_type)) else { return };
            let is_module = self.classes.get(class).kind == Kind::Module;
            let dict = if is_module { word(numpy + self.heap.module_dict) } else { 0 };
            if dict != 0 && self.is_dict(dict) {
                let version = self.item(dict, b"__version__").and_then(|version| self.ascii(version));
                self.old_numpy = version.is_some_and(|text| text.starts_with(b"1."));
            }
        }
    }

    pub(super) unsafe fn is_dict(&self, object: usize) -> bool {
        // SAFETY: the caller's promise: it is an object.
        unsafe { self.facts.builtins.kind(word(object + self.layout.object_type)) == Some(Kind::Dict) }
    }

    pub(super) unsafe fn is_exact_int(&self, object: usize) -> bool {
        // SAFETY: the caller's promise: it is an object.
        unsafe { self.facts.builtins.kind(word(object + self.layout.object_type)) == Some(Kind::Int) }
    }
}
