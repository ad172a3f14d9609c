//! Where containers are, as a programmer would write it: globals of modules, attributes of those and of classes, variables
//! of closures and of running functions, and two steps below them. No deeper: that is what a dump is for.

use neurogc_ngch::{ByteSink, Kind};

use super::super::control::WalkTrouble;
use super::HeapWalk;
use super::census::HeapCensus;
use super::classes::{Class, MANAGED_DICT, WalkKind};
use super::raw::{Array, c_string, int, signed, word};

/// A namespace with more entries than this is a store, not a namespace; and so many entries are looked at in all.
const MOST_ENTRIES: usize = 1 << 14;
const MOST_LOOKS: usize = 1 << 20;

/// Longest name of a slot.
const LONGEST: usize = 128;

/// What a place begins at. The words are addresses of strings, and of types and code objects.
#[derive(Clone, Copy)]
pub(super) enum PlaceBase {
    Module(usize),
    Global { module: usize, name: usize },
    Class(usize),
    Local { code: usize, name: usize },
}

/// What follows.
#[derive(Clone, Copy)]
pub(super) enum PlaceStep {
    Nothing,
    Namespace,
    Attribute(usize),
    /// A slot, by the address of its C string.
    Slot(usize),
    /// A variable of a function's closure, and of a method's.
    Variable(usize),
    MethodVariable {
        method: usize,
        name: usize,
    },
    /// Something that a C object holds, by the number of its type.
    Part(u32),
    MethodPart {
        method: usize,
        class: u32,
    },
}

/// What stands for the entries of a container where a place has names of attributes.
pub(super) const ITEM: usize = 1;

/// A place.
#[derive(Clone, Copy)]
pub(super) struct ContainerPlace {
    base: PlaceBase,
    /// What lies between, the outermost first: attributes by name, or [`ITEM`]; zero is nothing.
    through: [usize; 2],
    step: PlaceStep,
}

impl ContainerPlace {
    fn new(base: PlaceBase, step: PlaceStep) -> Self {
        Self { base, through: [0; 2], step }
    }

    fn at(self, step: PlaceStep) -> Self {
        Self { step, ..self }
    }

    /// The place of what an object there has by this name, or of the entries of the container there. None where that is too
    /// deep, or the place has another end.
    pub(super) fn below(self, name: usize) -> Option<Self> {
        let mut through = self.through;
        let mut put = |name: usize| {
            let free = through.iter_mut().find(|it| **it == 0)?;
            *free = name;
            Some(())
        };
        match self.step {
            PlaceStep::Nothing => {}
            PlaceStep::Attribute(own) => put(own)?,
            _ => return None,
        }
        put(name)?;
        Some(Self { base: self.base, through, step: PlaceStep::Nothing })
    }

    /// How good a name it is: lower is better.
    pub(super) fn rank(self) -> u8 {
        match (self.base, self.step) {
            (PlaceBase::Local { .. }, _) => 2,
            (
                _,
                PlaceStep::Variable(_)
                | PlaceStep::MethodVariable { .. }
                | PlaceStep::Part(_)
                | PlaceStep::MethodPart { .. },
            ) => 1,
            _ if self.through[0] != 0 => 1,
            _ => 0,
        }
    }

    /// Appends it as text.
    ///
    /// # Safety
    /// Its words must be what they are said to be.
    pub(super) unsafe fn put(self, walk: &mut HeapWalk<'_>, to: &mut Array<u8>) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.base {
                PlaceBase::Module(module) => walk.put_utf8(module, to),
                PlaceBase::Global { module, name } => {
                    walk.put_utf8(module, to);
                    to.put_bytes(b".");
                    walk.put_utf8(name, to);
                }
                PlaceBase::Class(class) => {
                    let class = walk.classes.of(class)?;
                    walk.put_type_name(walk.classes.get(class), to);
                }
                PlaceBase::Local { code, name } => {
                    let named = walk.heap.code_qualname.unwrap_or(walk.layout.code_name);
                    walk.put_utf8(word(code + named), to);
                    to.put_bytes(b"(): ");
                    walk.put_utf8(name, to);
                }
            }
            for name in self.through.into_iter().filter(|name| *name != 0) {
                if name == ITEM {
                    to.put_bytes("[…]".as_bytes());
                } else {
                    to.put_bytes(b".");
                    walk.put_utf8(name, to);
                }
            }
            match self.step {
                PlaceStep::Nothing => {}
                PlaceStep::Namespace => to.put_bytes(b".__dict__"),
                PlaceStep::Attribute(name) => {
                    to.put_bytes(b".");
                    walk.put_utf8(name, to);
                }
                PlaceStep::Slot(name) => {
                    to.put_bytes(b".");
                    to.put_bytes(c_string(name, LONGEST));
                }
                PlaceStep::Variable(name) => Self::put_variable(walk, name, to),
                PlaceStep::MethodVariable { method, name } => {
                    to.put_bytes(b".");
                    walk.put_utf8(method, to);
                    Self::put_variable(walk, name, to);
                }
                PlaceStep::Part(class) => Self::put_part(walk, class, to),
                PlaceStep::MethodPart { method, class } => {
                    to.put_bytes(b".");
                    walk.put_utf8(method, to);
                    Self::put_part(walk, class, to);
                }
            }
        }
        Ok(())
    }

    unsafe fn put_variable(walk: &HeapWalk<'_>, name: usize, to: &mut Array<u8>) {
        to.put_bytes(b".__closure__[\"");
        // SAFETY: the caller's promise: it is a string.
        unsafe { walk.put_utf8(name, to) };
        to.put_bytes(b"\"]");
    }

    unsafe fn put_part(walk: &HeapWalk<'_>, class: u32, to: &mut Array<u8>) {
        to.put_bytes(b".<");
        // SAFETY: the caller's promise: it is the number of a type.
        unsafe { walk.put_type_name(walk.classes.get(class), to) };
        to.put_bytes(b">");
    }
}

/// Whether a word may be the address of an object.
fn is_address(word: usize) -> bool {
    word != 0 && word >> 48 == 0 && word.is_multiple_of(8)
}

/// The entries of a dict.
pub(super) struct DictEntries {
    keys: super::dicts::Keys,
    /// Where the values are, if many dicts share the keys.
    values: usize,
    at: usize,
}

impl DictEntries {
    /// # Safety
    /// It must be a dict.
    pub(super) unsafe fn of(walk: &HeapWalk<'_>, dict: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let values = word(dict + walk.heap.dict_values);
            let values = if values == 0 { 0 } else { values + walk.heap.values_values.unwrap_or(0) };
            Self { keys: walk.keys(word(dict + walk.heap.dict_keys)), values, at: 0 }
        }
    }
}

impl Iterator for DictEntries {
    type Item = (usize, usize);

    /// A key and its value, as long as there are not too many.
    fn next(&mut self) -> Option<(usize, usize)> {
        while self.at < self.keys.count.min(MOST_ENTRIES) {
            let at = self.at;
            self.at += 1;
            // SAFETY: `of` was promised a dict, whose tables have so many entries.
            let (key, value) = unsafe {
                let value =
                    if self.values == 0 { HeapWalk::value_at(&self.keys, at) } else { word(self.values + 8 * at) };
                (HeapWalk::key_at(&self.keys, at), value)
            };
            if key != 0 && value != 0 {
                return Some((key, value));
            }
        }
        None
    }
}

impl HeapCensus<'_> {
    /// Looks for the largest containers where programs keep them.
    ///
    /// # Safety
    /// The facts must be those of this process.
    pub(super) unsafe fn look_for_names(&mut self) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: modules are in a dict.
        unsafe {
            let modules = word(self.walk.facts.interpreter + self.walk.heap.interpreter_modules);
            let mut looks = 0;
            if modules != 0 && self.walk.is_dict(modules) {
                for (module, object) in DictEntries::of(&self.walk, modules) {
                    if looks < MOST_LOOKS && self.walk.kind_of(object) == Some(Kind::Module) {
                        looks += self.look_at_module(module, word(object + self.walk.heap.module_dict))?;
                    }
                }
            }
            self.look_at_frames()
        }
    }

    /// Looks at the globals of a module, and says how many there are.
    unsafe fn look_at_module(&mut self, module: usize, globals: usize) -> Result<usize, WalkTrouble> {
        let mut looks = 1;
        // SAFETY: the caller's promise.
        unsafe {
            if globals == 0 || !self.walk.is_dict(globals) {
                return Ok(looks);
            }
            self.meet_if_container(globals, ContainerPlace::new(PlaceBase::Module(module), PlaceStep::Namespace))?;
            for (name, value) in DictEntries::of(&self.walk, globals) {
                looks += 1;
                self.walk.watch.step()?;
                self.look_at(value, PlaceBase::Global { module, name })?;
            }
        }
        Ok(looks)
    }

    /// Looks at the variables of functions that run.
    unsafe fn look_at_frames(&mut self) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: the facts are those of this process.
        unsafe {
            let (mut thread, mut threads, mut frames) = (0, 0, 0);
            while let Some(next) = self.walk.next_thread(thread, threads) {
                (thread, threads) = (next, threads + 1);
                let mut at = self.walk.first_frame(thread);
                while at != 0 && frames < MOST_ENTRIES {
                    // The variables of a module's own code are globals.
                    if let Some(frame) = self.walk.frame(at).filter(|frame| frame.locals != frame.globals) {
                        for slot in 0..frame.variables {
                            self.walk.watch.step()?;
                            let name = self.variable(frame.code, slot);
                            let value = self.walk.frame_slot(&frame, slot);
                            let value = if is_address(value) { self.content(value) } else { 0 };
                            if let Some(name) = name.filter(|_| is_address(value)) {
                                self.look_at(value, PlaceBase::Local { code: frame.code, name })?;
                            }
                        }
                    }
                    frames += 1;
                    at = self.walk.previous_frame(at, frames);
                }
            }
        }
        Ok(())
    }

    /// What is in a cell; any other object is itself.
    unsafe fn content(&mut self, object: usize) -> usize {
        // SAFETY: the caller's promise: it is an object, or null.
        unsafe {
            if object != 0 && self.walk.kind_of(object) == Some(Kind::Cell) {
                word(object + self.walk.heap.cell_value)
            } else {
                object
            }
        }
    }

    /// The name of a variable of a code object: locals, then those in cells, then those of enclosing functions.
    unsafe fn variable(&self, code: usize, slot: usize) -> Option<usize> {
        let heap = self.walk.heap;
        let tuples = [heap.code_localsplusnames, heap.code_varnames, heap.code_cellvars, heap.code_freevars];
        let mut slot = slot;
        for offset in tuples.into_iter().flatten() {
            // SAFETY: the caller's promise: it is a code object, and these are tuples of strings.
            unsafe {
                let tuple = word(code + offset);
                let count = self.tuple_length(tuple);
                if slot < count {
                    return Some(word(tuple + heap.tuple_items + 8 * slot)).filter(|name| *name != 0);
                }
                slot -= count;
            }
        }
        None
    }

    unsafe fn tuple_length(&self, tuple: usize) -> usize {
        // SAFETY: the caller's promise: it is a tuple, or null.
        if tuple == 0 { 0 } else { unsafe { signed(tuple + self.walk.layout.var_object_size).max(0) as usize } }
    }

    unsafe fn meet_if_container(&mut self, object: usize, place: ContainerPlace) -> Result<(), WalkTrouble> {
        if object == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise: it is an object.
        unsafe {
            let class = self.walk.classes.of(word(object + self.walk.layout.object_type))?;
            if self.walk.classes.get(class).is_container() { self.meet(object, class, place) } else { Ok(()) }
        }
    }

    /// Looks at an object that has a name, and at what it holds.
    unsafe fn look_at(&mut self, object: usize, base: PlaceBase) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: it is an object.
        unsafe {
            let index = self.walk.classes.of(word(object + self.walk.layout.object_type))?;
            let class = *self.walk.classes.get(index);
            if class.is_container() {
                self.meet(object, index, ContainerPlace::new(base, PlaceStep::Nothing))?;
            }
            match class.kind {
                Kind::Type if self.walk.is_heap_type(object) => self.look_at_class(object),
                Kind::Type | Kind::Module => Ok(()),
                Kind::Function => self.look_at_closure(object, base, None),
                _ if class.way == WalkKind::Instance => {
                    let place = ContainerPlace::new(base, PlaceStep::Nothing);
                    self.follow_chain(object, index, place)?;
                    self.look_at_instance(object, &class, place)
                }
                Kind::Other if class.way == WalkKind::Told => self.look_at_parts(object, &class, base, None),
                _ => Ok(()),
            }
        }
    }

    unsafe fn look_at_class(&mut self, object: usize) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: it is a class that was made at run time.
        unsafe {
            let dict = word(object + self.walk.heap.type_dict);
            // Many modules import the same class.
            if dict == 0 || !self.walk.is_dict(dict) || !self.walk.seen.add(object)? {
                return Ok(());
            }
            let base = PlaceBase::Class(object);
            self.meet_if_container(dict, ContainerPlace::new(base, PlaceStep::Namespace))?;
            for (name, value) in DictEntries::of(&self.walk, dict) {
                self.walk.watch.step()?;
                let index = self.walk.classes.of(word(value + self.walk.layout.object_type))?;
                let class = *self.walk.classes.get(index);
                if class.is_container() {
                    self.meet(value, index, ContainerPlace::new(base, PlaceStep::Attribute(name)))?;
                } else if class.way == WalkKind::Instance {
                    let place = ContainerPlace::new(base, PlaceStep::Attribute(name));
                    self.follow_chain(value, index, place)?;
                    if let Some(place) = ContainerPlace::new(base, PlaceStep::Nothing).below(name)
                        && self.may_look()
                    {
                        self.look_at_instance(value, &class, place)?;
                    }
                } else if class.kind == Kind::Function {
                    self.look_at_closure(value, base, Some(name))?;
                } else if class.kind == Kind::Other && class.way == WalkKind::Told {
                    self.look_at_parts(value, &class, base, Some(name))?;
                }
            }
        }
        Ok(())
    }

    /// Looks at the attributes of an instance of a class that is written in Python.
    pub(super) unsafe fn look_at_instance(
        &mut self,
        object: usize,
        class: &Class,
        place: ContainerPlace,
    ) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise, and so for its bases.
        unsafe {
            let mut at = class.address;
            while at != 0 && at != class.native {
                self.look_at_slots(object, at, place)?;
                at = word(at + self.walk.heap.type_base);
            }
            let mut dict = 0;
            if self.walk.heap.minor >= 11 && class.has(MANAGED_DICT) {
                let (attributes, managed) = self.walk.managed(object, class);
                dict = managed;
                if let (Some(attributes), Some(keys)) = (attributes, self.walk.shared_keys(class)) {
                    for slot in 0..attributes.count {
                        let name = HeapWalk::key_at(&keys, slot);
                        self.look_at_attribute(word(attributes.at + 8 * slot), place, name)?;
                    }
                    return Ok(());
                }
            } else if let Some(place) = self.walk.dict_place(object, class) {
                dict = word(place);
            }
            if dict != 0 && self.walk.is_dict(dict) {
                self.meet_if_container(dict, place.at(PlaceStep::Namespace))?;
                for (name, value) in DictEntries::of(&self.walk, dict) {
                    self.walk.watch.step()?;
                    self.look_at_attribute(value, place, name)?;
                }
            }
        }
        Ok(())
    }

    /// Looks at what an instance at this place has by this name.
    unsafe fn look_at_attribute(&mut self, object: usize, of: ContainerPlace, name: usize) -> Result<(), WalkTrouble> {
        if object == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise: it is an object.
        unsafe {
            let index = self.walk.classes.of(word(object + self.walk.layout.object_type))?;
            let class = *self.walk.classes.get(index);
            if class.is_container() {
                return self.meet(object, index, of.at(PlaceStep::Attribute(name)));
            }
            if class.way != WalkKind::Instance || !self.may_look() {
                return Ok(());
            }
            self.follow_chain(object, index, of.at(PlaceStep::Attribute(name)))?;
            match of.below(name) {
                Some(place) => self.look_at_instance(object, &class, place),
                None => Ok(()),
            }
        }
    }

    /// Looks at the slots that a class gives its instances.
    unsafe fn look_at_slots(&mut self, object: usize, class: usize, place: ContainerPlace) -> Result<(), WalkTrouble> {
        const MEMBER: usize = 40;
        const OBJECT_EX: i32 = 16;
        let layout = self.walk.layout;
        // SAFETY: the caller's promise: classes that are written in Python have their members behind them.
        unsafe {
            let count = signed(class + layout.var_object_size).max(0) as usize;
            let members = class + word(word(class + layout.object_type) + layout.type_basicsize);
            for member in (0..count).map(|at| members + MEMBER * at) {
                if int(member + 8) == OBJECT_EX {
                    let value = word(object.wrapping_add_signed(signed(member + 16)));
                    self.meet_if_container(value, place.at(PlaceStep::Slot(word(member))))?;
                }
            }
        }
        Ok(())
    }

    /// Looks at the variables that a function has from enclosing ones.
    unsafe fn look_at_closure(
        &mut self,
        function: usize,
        base: PlaceBase,
        method: Option<usize>,
    ) -> Result<(), WalkTrouble> {
        let heap = self.walk.heap;
        // SAFETY: the caller's promise: it is a function, and its closure a tuple of cells.
        unsafe {
            let closure = word(function + heap.function_closure);
            let cells = self.tuple_length(closure);
            if cells == 0 {
                return Ok(());
            }
            let code = word(function + heap.function_code);
            // They are the last of its variables.
            let names = heap.code_freevars.or(heap.code_localsplusnames).map_or(0, |offset| word(code + offset));
            let Some(first) = self.tuple_length(names).checked_sub(cells) else { return Ok(()) };
            for cell in 0..cells {
                let name = word(names + heap.tuple_items + 8 * (first + cell));
                let value = self.content(word(closure + heap.tuple_items + 8 * cell));
                let step =
                    method.map_or(PlaceStep::Variable(name), |method| PlaceStep::MethodVariable { method, name });
                self.meet_if_container(value, ContainerPlace::new(base, step))?;
            }
        }
        Ok(())
    }

    /// Looks at what a C object holds itself, as the wrapper of `functools.lru_cache` holds its cache.
    unsafe fn look_at_parts(
        &mut self,
        object: usize,
        class: &Class,
        base: PlaceBase,
        method: Option<usize>,
    ) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise: it is an object of this class, whose type tells what it refers to.
        unsafe {
            if !self.walk.is_collected(object, class) {
                return Ok(());
            }
            self.walk.told.truncate(0);
            self.walk.traverse::<true>(object, class.traverse);
            let holder = *class;
            while let Some(part) = self.walk.told.pop() {
                let class = self.walk.classes.of(word(part + self.walk.layout.object_type))?;
                let step = method.map_or(PlaceStep::Part(class), |method| PlaceStep::MethodPart { method, class });
                self.meet_if_container(part, ContainerPlace::new(base, step))?;
                if let Some(bound) = self.maxsize(object, part, &holder) {
                    self.is_bounded(part, bound);
                }
            }
        }
        Ok(())
    }

    /// How many entries the cache of `functools.lru_cache` may have. Where the wrapper has its cache elsewhere than this
    /// knows, nothing is told.
    unsafe fn maxsize(&self, wrapper: usize, cache: usize, class: &Class) -> Option<usize> {
        const CACHE: usize = 72;
        const MAXSIZE: usize = 96;
        const NAME: &[u8] = b"functools._lru_cache_wrapper";
        // SAFETY: the caller's promise: it is an object of this class, which is as long as the offsets; names are C strings.
        unsafe {
            let is_wrapper = class.basic > MAXSIZE
                && c_string(word(class.address + self.walk.layout.type_name), NAME.len() + 1) == NAME
                && word(wrapper + CACHE) == cache;
            is_wrapper.then(|| signed(wrapper + MAXSIZE)).and_then(|bound| usize::try_from(bound).ok())
        }
    }
}
