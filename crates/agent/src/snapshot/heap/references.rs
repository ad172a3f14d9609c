//! What objects refer to, by walkers of our own for the types that have many references, and by `tp_traverse` else.
//!
//! Each walker serves both walks: with `EMIT` it writes references with their names, else it takes objects in.

use std::ffi::{c_int, c_void};

use neurogc_ngch::{Kind, RunKind, put_varint};

use super::super::control::WalkTrouble;
use super::HeapWalk;
use super::classes::{Class, HAVE_GC, HEAP_TYPE, MANAGED_DICT, STATIC_BUILTIN, WalkKind};
use super::dicts::{Attributes, filled};
use super::emit::PART;
use super::raw::{int, signed, word};

/// `visitproc` and `traverseproc`.
type Visit = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Traverse = unsafe extern "C" fn(*mut c_void, Visit, *mut c_void) -> c_int;

/// Where an array of numpy has its parts, and its dtype the number of its type.
const DATA: usize = 16;
pub(super) const DIMENSIONS: usize = 24;
const BASE: usize = 48;
pub(super) const DESCRIPTION: usize = 56;
pub(super) const FLAGS: usize = 64;
const TYPE_NUMBER: usize = 28;
/// The array has memory of its own; its items are objects.
pub(super) const OWNS: i32 = 4;
const OBJECTS: i32 = 17;

impl HeapWalk<'_> {
    /// Walks what an object refers to.
    ///
    /// # Safety
    /// It must be an object of this class.
    #[inline(always)]
    pub(super) unsafe fn walk<const EMIT: bool>(&mut self, object: usize, class: &Class) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: the fields are where the layout says.
        unsafe {
            match class.way {
                WalkKind::Nothing => Ok(()),
                WalkKind::List => self.list::<EMIT>(object),
                WalkKind::Tuple => self.tuple::<EMIT>(object),
                WalkKind::Dict => self.dict::<EMIT>(object),
                WalkKind::Set => self.set::<EMIT>(object),
                WalkKind::Instance => self.instance::<EMIT>(object, class),
                WalkKind::Told => self.told_by_type::<EMIT>(object, class),
                WalkKind::Words => {
                    if EMIT {
                        self.told.truncate(0);
                        self.words_of(object, class, 16, class.basic);
                        self.put_fields(object, class)?;
                    }
                    Ok(())
                }
            }
        }
    }

    /// An array of references, some of them null.
    #[inline(always)]
    unsafe fn slots<const EMIT: bool>(&mut self, items: usize, count: usize) -> Result<(), WalkTrouble> {
        if count == 0 || items == 0 {
            return Ok(());
        }
        let mut done = 0;
        while done < count {
            let part = (count - done).min(PART);
            if EMIT {
                if done > 0 {
                    self.go_on()?;
                }
                self.begin_run(if done == 0 { RunKind::Index } else { RunKind::More }, part)?;
                if done > 0 {
                    self.put_number(done as u64);
                }
            }
            for at in done..done + part {
                // SAFETY: the caller's promise: so many words are there.
                let item = unsafe { word(items + 8 * at) };
                if EMIT { self.put_slot(item) } else { self.see(item)? }
            }
            done += part;
        }
        Ok(())
    }

    unsafe fn list<const EMIT: bool>(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // SAFETY: it is a list.
        unsafe {
            let count = signed(object + self.layout.var_object_size).max(0) as usize;
            self.slots::<EMIT>(word(object + self.heap.list_items), count)
        }
    }

    unsafe fn tuple<const EMIT: bool>(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // SAFETY: it is a tuple.
        unsafe {
            let count = signed(object + self.layout.var_object_size).max(0) as usize;
            self.slots::<EMIT>(object + self.heap.tuple_items, count)
        }
    }

    unsafe fn set<const EMIT: bool>(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // SAFETY: it is a set: entries of a key and its hash, which is -1 for one that was taken out.
        unsafe {
            let table = word(object + self.heap.set_table);
            let entries = word(object + self.heap.set_mask) + 1;
            let key = |at: usize| {
                let key = word(table + 16 * at);
                if signed(table + 16 * at + 8) == -1 { 0 } else { key }
            };
            let mut from = 0;
            while from < entries {
                let to = entries.min(from + PART);
                if EMIT {
                    if from > 0 {
                        self.go_on()?;
                    }
                    let count = (from..to).filter(|at| key(*at) != 0).count();
                    self.begin_run(RunKind::Plain, count)?;
                }
                for at in from..to {
                    match key(at) {
                        0 => {}
                        key if EMIT => self.put_reference(key),
                        key => self.see(key)?,
                    }
                }
                from = to;
            }
        }
        Ok(())
    }

    /// An instance of a class that is written in Python: slots, attributes, then what the base in C knows.
    unsafe fn instance<const EMIT: bool>(&mut self, object: usize, class: &Class) -> Result<(), WalkTrouble> {
        self.told.truncate(0);
        // SAFETY: the caller's promise, and so for its bases.
        unsafe {
            if class.kind == Kind::Type && !self.is_heap_type(object) {
                self.static_type(object)?;
                return if EMIT { self.put_fields(object, class) } else { self.see_told() };
            }
            let mut base = class.address;
            while base != 0 && base != class.native {
                self.class_slots(object, base)?;
                base = word(base + self.heap.type_base);
            }
            if self.heap.minor >= 11 && class.has(MANAGED_DICT) {
                let (attributes, dict) = self.managed(object, class);
                if let Some(Attributes { at, count }) = attributes {
                    if EMIT {
                        let count = filled(at, count);
                        if count > 0 {
                            self.begin_run(RunKind::Attributes, count)?;
                            for slot in 0..count {
                                self.put_slot(word(at + 8 * slot));
                            }
                        }
                    } else {
                        for slot in 0..count {
                            self.see(word(at + 8 * slot))?;
                        }
                    }
                }
                self.managed_dict = dict;
                self.tell(dict)?;
            } else if let Some(at) = self.dict_place(object, class) {
                self.tell(word(at))?;
            }
            match class.kind {
                Kind::List => self.list::<EMIT>(object)?,
                Kind::Tuple => self.tuple::<EMIT>(object)?,
                Kind::Set => self.set::<EMIT>(object)?,
                Kind::Dict | Kind::OrderedDict => self.dict_and_more::<EMIT>(object, class)?,
                Kind::Deque if EMIT => self.deque(object)?,
                Kind::Ndarray => self.array::<EMIT>(object)?,
                _ if class.native_traverse != 0 => {
                    if class.kind == Kind::Type {
                        self.untold_by_type(object)?;
                    }
                    self.traverse::<EMIT>(object, class.native_traverse);
                }
                _ if EMIT => self.words_of(object, class, 16, class.native_basic),
                _ => {}
            }
        }
        // SAFETY: the caller's promise.
        if EMIT { unsafe { self.put_fields(object, class) } } else { self.see_told() }
    }

    /// What a class's own slots of an instance hold.
    unsafe fn class_slots(&mut self, object: usize, class: usize) -> Result<(), WalkTrouble> {
        const MEMBER: usize = 40;
        const OBJECT_EX: i32 = 16;
        // SAFETY: the caller's promise: classes that are written in Python have their members behind them.
        unsafe {
            let count = signed(class + self.layout.var_object_size).max(0) as usize;
            let metatype = word(class + self.layout.object_type);
            let members = class + word(metatype + self.layout.type_basicsize);
            for member in (0..count).map(|at| members + MEMBER * at) {
                if int(member + 8) == OBJECT_EX {
                    self.tell(word(object.wrapping_add_signed(signed(member + 16))))?;
                }
            }
        }
        Ok(())
    }

    /// Where an instance has its dict, where its class has given it one.
    pub(super) unsafe fn dict_place(&self, object: usize, class: &Class) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe {
            let offset = signed(class.address + self.heap.type_dictoffset);
            let native = if class.native == 0 { 0 } else { signed(class.native + self.heap.type_dictoffset) };
            match offset {
                0 | -1 => None,
                _ if offset == native => None,
                1.. => Some(object + offset as usize),
                _ => {
                    let items = self.items(object, class);
                    let size = (class.basic + items * class.item).next_multiple_of(8);
                    Some((object + size).wrapping_add_signed(offset))
                }
            }
        }
    }

    /// A dict of a subclass in C, or of a class that derives from one: `defaultdict` and others have fields of their own.
    unsafe fn dict_and_more<const EMIT: bool>(&mut self, object: usize, class: &Class) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe {
            self.dict::<EMIT>(object)?;
            let own = self.heap.dict_size;
            if class.native_basic > own {
                if EMIT {
                    self.words_of(object, class, own, class.native_basic);
                } else {
                    self.traverse::<EMIT>(object, class.native_traverse);
                }
            }
        }
        Ok(())
    }

    /// An object whose type tells, and what such types leave out because it cannot be a part of a cycle.
    unsafe fn told_by_type<const EMIT: bool>(&mut self, object: usize, class: &Class) -> Result<(), WalkTrouble> {
        self.told.truncate(0);
        // SAFETY: the caller's promise.
        unsafe {
            match class.kind {
                Kind::Code => self.code(object)?,
                Kind::Ndarray => self.array::<EMIT>(object)?,
                Kind::Type if !self.is_heap_type(object) => self.static_type(object)?,
                Kind::Type => {
                    self.untold_by_type(object)?;
                    self.traverse::<EMIT>(object, class.traverse);
                }
                Kind::Dict | Kind::OrderedDict => self.dict_and_more::<EMIT>(object, class)?,
                Kind::Deque if EMIT => self.deque(object)?,
                _ => {
                    if class.is_descriptor {
                        self.tell(word(object + self.heap.descriptor_name))?;
                        self.tell(word(object + self.heap.descriptor_qualname))?;
                    }
                    if self.is_collected(object, class) {
                        self.traverse::<EMIT>(object, class.traverse);
                    }
                }
            }
        }
        // SAFETY: the caller's promise.
        if EMIT { unsafe { self.put_fields(object, class) } } else { self.see_told() }
    }

    /// Whether the collector knows an object: with its type's flag alone, static types are taken for what they are not.
    ///
    /// # Safety
    /// It must be an object of this class.
    pub(super) unsafe fn is_collected(&self, object: usize, class: &Class) -> bool {
        type IsGc = unsafe extern "C" fn(*mut c_void) -> c_int;
        if !class.has(HAVE_GC) {
            return false;
        }
        // SAFETY: the caller's promise; the function of a type looks at the object alone.
        unsafe {
            if class.kind == Kind::Type {
                return self.is_heap_type(object);
            }
            let asked: Option<IsGc> = std::mem::transmute(word(class.address + self.heap.type_is_gc));
            asked.is_none_or(|is_gc| is_gc(object as *mut c_void) != 0)
        }
    }

    pub(super) unsafe fn is_heap_type(&self, object: usize) -> bool {
        // SAFETY: the caller's promise: it is a type.
        unsafe { word(object + self.layout.type_flags) & HEAP_TYPE != 0 }
    }

    unsafe fn static_type(&mut self, object: usize) -> Result<(), WalkTrouble> {
        let heap = self.heap;
        // SAFETY: the caller's promise: it is a type.
        unsafe {
            // From 3.12 on the interpreter has these of builtin types, and the fields are used otherwise.
            let builtin = heap.minor >= 12 && word(object + self.layout.type_flags) & STATIC_BUILTIN != 0;
            for offset in [heap.type_dict, heap.type_bases, heap.type_mro, heap.type_base, heap.type_cache] {
                self.tell(word(object + offset))?;
            }
            if !builtin {
                self.tell(word(object + heap.type_subclasses))?;
            }
        }
        Ok(())
    }

    /// What `type` leaves out of what a class holds.
    unsafe fn untold_by_type(&mut self, object: usize) -> Result<(), WalkTrouble> {
        let heap = self.heap;
        // SAFETY: the caller's promise: it is a class that was made at run time.
        unsafe {
            for offset in [heap.heap_type_name, heap.heap_type_qualname, heap.heap_type_slots, heap.type_subclasses] {
                self.tell(word(object + offset))?;
            }
            let keys = word(object + heap.heap_type_cached_keys);
            if keys != 0 {
                let keys = self.keys(keys);
                for at in 0..keys.count {
                    self.tell(Self::key_at(&keys, at))?;
                }
            }
        }
        Ok(())
    }

    unsafe fn code(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: it is a code object.
        unsafe {
            for (_, offset) in self.code_fields().into_iter().flatten() {
                self.tell(word(object + offset))?;
            }
            if let Some(cached) = self.heap.code_cached {
                let cached = word(object + cached);
                if cached != 0 {
                    for at in 0..4 {
                        self.tell(word(cached + 8 * at))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The references of a code object, by name.
    pub(super) fn code_fields(&self) -> [Option<(&'static [u8], usize)>; 14] {
        let (layout, heap) = (self.layout, self.heap);
        let maybe = |name: &'static [u8], offset: Option<usize>| offset.map(|offset| (name, offset));
        [
            Some((b"co_consts", heap.code_consts)),
            Some((b"co_names", heap.code_names)),
            Some((b"co_filename", layout.code_filename)),
            Some((b"co_name", layout.code_name)),
            Some((b"co_linetable", layout.code_linetable)),
            maybe(b"co_qualname", heap.code_qualname),
            maybe(b"co_localsplusnames", heap.code_localsplusnames),
            maybe(b"co_localspluskinds", heap.code_localspluskinds),
            maybe(b"co_exceptiontable", heap.code_exceptiontable),
            maybe(b"co_code", heap.code_code),
            maybe(b"co_varnames", heap.code_varnames),
            maybe(b"co_cellvars", heap.code_cellvars),
            maybe(b"co_freevars", heap.code_freevars),
            None,
        ]
    }

    /// A deque's items: blocks of 64 with a link on either side.
    unsafe fn deque(&mut self, object: usize) -> Result<(), WalkTrouble> {
        const LEFT_BLOCK: usize = 24;
        const LEFT_INDEX: usize = 40;
        const ITEMS: usize = 64;
        // SAFETY: the caller's promise: it is a deque, and its blocks have room for as many as it says.
        unsafe {
            let count = signed(object + self.layout.var_object_size).max(0) as usize;
            let (mut block, mut index) = (word(object + LEFT_BLOCK), word(object + LEFT_INDEX));
            for done in 0..count {
                if done % PART == 0 {
                    if done > 0 {
                        self.go_on()?;
                    }
                    let part = (count - done).min(PART);
                    self.begin_run(if done == 0 { RunKind::Index } else { RunKind::More }, part)?;
                    if done > 0 {
                        self.put_number(done as u64);
                    }
                }
                if index >= ITEMS {
                    (block, index) = (word(block + 8 + 8 * ITEMS), 0);
                }
                self.put_slot(word(block + 8 + 8 * index));
                index += 1;
            }
        }
        Ok(())
    }

    /// An array of numpy: what it is a view of, its dtype, and its items if they are objects.
    unsafe fn array<const EMIT: bool>(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: it is an array.
        unsafe {
            let description = word(object + DESCRIPTION);
            if description == 0 {
                return Ok(());
            }
            self.tell(word(object + BASE))?;
            self.tell(description)?;
            if int(object + FLAGS) & OWNS != 0 && int(description + TYPE_NUMBER) == OBJECTS && word(object + DATA) != 0
            {
                let count = Self::array_items(object);
                self.slots::<EMIT>(word(object + DATA), count)?;
            }
        }
        Ok(())
    }

    /// How many items an array has.
    pub(super) unsafe fn array_items(object: usize) -> usize {
        // SAFETY: the caller's promise: it is an array.
        unsafe {
            let count = int(object + DIMENSIONS).clamp(0, 64) as usize;
            let sizes = word(object + DIMENSIONS + 8);
            (0..count).map(|at| word(sizes + 8 * at)).product()
        }
    }

    /// Notes what an object holds in one of its words.
    #[inline(always)]
    pub(super) fn tell(&mut self, object: usize) -> Result<(), WalkTrouble> {
        if object != 0 && !self.told.push(object) {
            return Err(WalkTrouble::NoMemory);
        }
        Ok(())
    }

    fn see_told(&mut self) -> Result<(), WalkTrouble> {
        while let Some(object) = self.told.pop() {
            self.see(object)?;
        }
        Ok(())
    }

    /// Has a type tell what an object refers to.
    pub(super) unsafe fn traverse<const EMIT: bool>(&mut self, object: usize, traverse: usize) {
        let visit: Visit = if EMIT { told } else { met };
        // SAFETY: the caller's promise: it is the object's own function, which calls `visit` and returns.
        unsafe {
            let traverse: Option<Traverse> = std::mem::transmute(traverse);
            if let Some(traverse) = traverse {
                traverse(object as *mut c_void, visit, (self as *mut Self).cast());
            }
        }
    }

    /// Words of an object, in a range of bytes, that are objects.
    unsafe fn words_of(&mut self, object: usize, class: &Class, from: usize, to: usize) {
        const MOST: usize = 256 * 8;
        for offset in (from..to.min(MOST)).step_by(8) {
            // SAFETY: the caller's promise: the object is as long as that.
            let value = unsafe { word(object + offset) };
            if offset != class.weak && value > 65536 && value != object && self.seen.has(value) {
                let _ = self.told.push(value);
            }
        }
    }

    pub(super) fn put_number(&mut self, number: u64) {
        if let Some(writer) = &mut self.writer {
            put_varint(writer.references(), number);
        }
    }
}

/// Called by a type for each object that an instance refers to, when objects are taken in.
unsafe extern "C" fn met(object: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `traverse` passes the walk, and uses it no more until this has returned.
    let walk = unsafe { &mut *walk.cast::<HeapWalk<'_>>() };
    if let Err(trouble) = walk.see(object as usize) {
        walk.trouble = Some(trouble);
    }
    0
}

/// The same, when references are written.
unsafe extern "C" fn told(object: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `traverse` passes the walk, and uses it no more until this has returned.
    let walk = unsafe { &mut *walk.cast::<HeapWalk<'_>>() };
    if let Err(trouble) = walk.tell(object as usize) {
        walk.trouble = Some(trouble);
    }
    0
}
