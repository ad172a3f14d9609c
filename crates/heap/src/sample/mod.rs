//! Made-up heaps, written in the real format: for tests, fuzzing and measurements that need no Python.

mod encode;

use neurogc_ngch::{DumpHead, FramePart, Kind, RootKind, RootRow, TEXTS, TaskRow, TypeFlags};

pub use encode::{ReferenceRun, SampleValue, address};

/// A type of a made-up heap.
#[derive(Clone, Debug)]
pub(crate) struct SampleType {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) flags: u64,
    pub(crate) object: Option<u32>,
    pub(crate) shape: Option<u32>,
    pub(crate) members: Vec<(u64, String)>,
}

/// An object of a made-up heap.
#[derive(Clone, Debug)]
pub(crate) struct SampleObject {
    pub(crate) class: u32,
    pub(crate) size: u64,
    /// Counted references that are not in the dump.
    pub(crate) surplus: u64,
    pub(crate) immortal: bool,
    pub(crate) runs: Vec<ReferenceRun>,
    pub(crate) value: Option<SampleValue>,
}

/// A frame of a made-up heap.
pub(crate) type SampleFrame = neurogc_ngch::FrameRow;

/// A heap that is described object by object. Objects get numbers from 0 on, in the order in which they are made.
#[derive(Clone, Debug)]
pub struct HeapSample {
    pub(crate) head: DumpHead,
    pub(crate) types: Vec<SampleType>,
    pub(crate) objects: Vec<SampleObject>,
    pub(crate) shapes: Vec<Vec<Option<u32>>>,
    pub(crate) threads: Vec<String>,
    pub(crate) frames: Vec<SampleFrame>,
    pub(crate) tasks: Vec<TaskRow>,
    pub(crate) images: Vec<String>,
    pub(crate) roots: Vec<RootRow>,
    /// Objects of a block.
    pub(crate) block: usize,
    /// References of one object that a block takes.
    pub(crate) most_references: usize,
    modules: u32,
}

/// Types that every sample has, by their numbers.
pub mod types {
    /// `str`.
    pub const STR: u32 = 0;
    /// `int`.
    pub const INT: u32 = 1;
    /// `list`.
    pub const LIST: u32 = 2;
    /// `dict`.
    pub const DICT: u32 = 3;
    /// `tuple`.
    pub const TUPLE: u32 = 4;
    /// `set`.
    pub const SET: u32 = 5;
    /// `module`.
    pub const MODULE: u32 = 6;
    /// `type`.
    pub const TYPE: u32 = 7;
    /// `function`.
    pub const FUNCTION: u32 = 8;
    /// `code`.
    pub const CODE: u32 = 9;
    /// `cell`.
    pub const CELL: u32 = 10;
    /// `coroutine`.
    pub const COROUTINE: u32 = 11;
    /// `_asyncio.Task`.
    pub const TASK: u32 = 12;
    /// `bytes`.
    pub const BYTES: u32 = 13;
    /// How many there are.
    pub const COUNT: u32 = 14;
}

impl Default for HeapSample {
    fn default() -> Self {
        Self::new()
    }
}

impl HeapSample {
    /// A heap with the builtin types and an empty `sys.modules`.
    #[must_use]
    pub fn new() -> Self {
        let builtin = |name: &str, kind, members: &[(u64, &str)]| SampleType {
            name: name.to_owned(),
            kind,
            flags: 0,
            object: None,
            shape: None,
            members: members.iter().map(|(word, name)| (*word, (*name).to_owned())).collect(),
        };
        let mut sample = Self {
            head: DumpHead {
                python: 0x030c_01f0,
                flags: TEXTS,
                text_limit: 64,
                pid: 4242,
                started_ns: 1_790_000_000_000_000_000,
                taken_ns: 1_790_000_600_000_000_000,
                objects: 0,
                resident: 900_000_000,
            },
            types: vec![
                builtin("str", Kind::Str, &[]),
                builtin("int", Kind::Int, &[]),
                builtin("list", Kind::List, &[]),
                builtin("dict", Kind::Dict, &[]),
                builtin("tuple", Kind::Tuple, &[]),
                builtin("set", Kind::Set, &[]),
                builtin("module", Kind::Module, &[(2, "__dict__")]),
                builtin("type", Kind::Type, &[(33, "__dict__"), (44, "__mro__")]),
                builtin("function", Kind::Function, &[(6, "__code__"), (10, "__closure__"), (5, "__qualname__")]),
                builtin("code", Kind::Code, &[(8, "co_localsplusnames"), (9, "co_qualname"), (10, "co_filename")]),
                builtin("cell", Kind::Cell, &[]),
                builtin("coroutine", Kind::Generator, &[(5, "<code>"), (8, "<locals>")]),
                builtin("_asyncio.Task", Kind::Task, &[(4, "_coro")]),
                builtin("bytes", Kind::Bytes, &[]),
            ],
            objects: Vec::new(),
            shapes: Vec::new(),
            threads: vec!["MainThread".to_owned()],
            frames: Vec::new(),
            tasks: Vec::new(),
            images: Vec::new(),
            roots: Vec::new(),
            block: 65_536,
            most_references: usize::MAX,
            modules: 0,
        };
        let container = TypeFlags::CONTAINER;
        for of in [types::LIST, types::DICT, types::SET] {
            sample.types[of as usize].flags |= container;
        }
        sample.modules = sample.dict(&[]);
        let modules = sample.modules;
        sample.root(RootKind::Modules, 0, 0, modules);
        sample
    }

    /// Small blocks, and references of one object spread over several of them.
    #[must_use]
    pub fn with_blocks(mut self, objects: usize, references: usize) -> Self {
        (self.block, self.most_references) = (objects, references);
        self
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none, which is never so: `sys.modules` is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds a class. Instances have attributes with these names.
    pub fn class(&mut self, name: &str, attributes: &[&str]) -> u32 {
        let names: Vec<_> = attributes.iter().map(|name| Some(self.text(name))).collect();
        let object = self.object(types::TYPE, 1064, vec![]);
        self.shapes.push(names);
        self.types.push(SampleType {
            name: name.to_owned(),
            kind: Kind::Other,
            flags: TypeFlags::HEAP,
            object: Some(object),
            shape: Some(self.shapes.len() as u32 - 1),
            members: Vec::new(),
        });
        self.types.len() as u32 - 1
    }

    /// Adds a type without a class object whose words have names.
    pub fn plain_type(&mut self, name: &str, kind: Kind, flags: u64, members: &[(u64, &str)]) -> u32 {
        let members = members.iter().map(|(word, name)| (*word, (*name).to_owned())).collect();
        self.types.push(SampleType { name: name.to_owned(), kind, flags, object: None, shape: None, members });
        self.types.len() as u32 - 1
    }

    /// Adds an object.
    pub fn object(&mut self, class: u32, size: u64, runs: Vec<ReferenceRun>) -> u32 {
        self.objects.push(SampleObject { class, size, surplus: 0, immortal: false, runs, value: None });
        self.objects.len() as u32 - 1
    }

    /// Adds a string.
    pub fn text(&mut self, text: &str) -> u32 {
        let object = self.object(types::STR, 41 + text.len() as u64, vec![]);
        self.objects[object as usize].value = Some(SampleValue::Text(text.to_owned()));
        object
    }

    /// Adds an integer.
    pub fn integer(&mut self, value: i64) -> u32 {
        let object = self.object(types::INT, 28, vec![]);
        self.objects[object as usize].value = Some(SampleValue::Integer(value));
        object
    }

    /// Adds a list.
    pub fn list(&mut self, items: &[u32]) -> u32 {
        let slots = items.iter().map(|item| Some(*item)).collect();
        self.object(types::LIST, 56 + 8 * items.len() as u64, vec![ReferenceRun::Index(slots)])
    }

    /// Adds a tuple.
    pub fn tuple(&mut self, items: &[u32]) -> u32 {
        let slots = items.iter().map(|item| Some(*item)).collect();
        self.object(types::TUPLE, 40 + 8 * items.len() as u64, vec![ReferenceRun::Index(slots)])
    }

    /// Adds a dict.
    pub fn dict(&mut self, pairs: &[(u32, u32)]) -> u32 {
        self.object(types::DICT, 64 + 24 * pairs.len() as u64, vec![ReferenceRun::Pairs(pairs.to_vec())])
    }

    /// Adds a set.
    pub fn set(&mut self, members: &[u32]) -> u32 {
        self.object(types::SET, 216 + 16 * members.len() as u64, vec![ReferenceRun::Plain(members.to_vec())])
    }

    /// Adds an instance with its attributes in the order of its class.
    pub fn instance(&mut self, class: u32, attributes: &[u32]) -> u32 {
        let slots = attributes.iter().map(|it| Some(*it)).collect();
        self.object(class, 48, vec![ReferenceRun::Attributes(slots)])
    }

    /// Adds a dict whose keys are strings.
    pub fn named(&mut self, items: &[(&str, u32)]) -> u32 {
        let pairs: Vec<_> = items.iter().map(|(name, object)| (self.text(name), *object)).collect();
        self.dict(&pairs)
    }

    /// Adds a module with its globals to `sys.modules`.
    pub fn module(&mut self, name: &str, globals: &[(&str, u32)]) -> u32 {
        let own = self.text(name);
        let mut all = vec![("__name__", own), ("__loader__", own)];
        all.extend(globals);
        let globals = self.named(&all);
        let module = self.object(types::MODULE, 72, vec![ReferenceRun::Fields(vec![(2, globals)])]);
        let key = self.text(name);
        let modules = self.modules as usize;
        if let Some(ReferenceRun::Pairs(pairs)) = self.objects[modules].runs.first_mut() {
            pairs.push((key, module));
        }
        module
    }

    /// Adds a code object.
    pub fn code(&mut self, name: &str, variables: &[&str]) -> u32 {
        let names: Vec<_> = variables.iter().map(|name| self.text(name)).collect();
        let (names, name) = (self.tuple(&names), self.text(name));
        let file = self.text("app/service.py");
        self.object(types::CODE, 200, vec![ReferenceRun::Fields(vec![(8, names), (9, name), (10, file)])])
    }

    /// Adds a frame of a thread with its code and the values of its variables.
    pub fn frame(&mut self, thread: u32, code: u32, values: &[Option<u32>]) -> u32 {
        let row = SampleFrame { thread, code: Some(code), function: None, generator: None, line: 41 };
        self.frames.push(row);
        let frame = self.frames.len() as u32 - 1;
        self.root(RootKind::Frame, frame, FramePart::Code as u64, code);
        for (place, value) in values.iter().enumerate() {
            if let Some(value) = value {
                self.root(RootKind::Local, frame, place as u64, *value);
            }
        }
        frame
    }

    /// Adds a thread.
    pub fn thread(&mut self, name: &str) -> u32 {
        self.threads.push(name.to_owned());
        self.threads.len() as u32 - 1
    }

    /// Adds a task.
    pub fn task(&mut self, row: TaskRow) {
        self.tasks.push(row);
    }

    /// Adds an image.
    pub fn image(&mut self, path: &str) -> u32 {
        self.images.push(path.to_owned());
        self.images.len() as u32 - 1
    }

    /// Adds a root.
    pub fn root(&mut self, kind: RootKind, a: u32, b: u64, object: u32) {
        self.roots.push(RootRow { kind, a, b, object });
    }

    /// Adds a reference of an object.
    pub fn link(&mut self, object: u32, run: ReferenceRun) {
        self.objects[object as usize].runs.push(run);
    }

    /// Adds an item to a list.
    pub fn append(&mut self, list: u32, item: u32) {
        let object = &mut self.objects[list as usize];
        object.size += 8;
        if let Some(ReferenceRun::Index(slots)) = object.runs.first_mut() {
            slots.push(Some(item));
        }
    }

    /// Says that something outside of the dump refers to an object.
    pub fn hold(&mut self, object: u32) {
        self.objects[object as usize].surplus += 1;
    }

    /// Says that an object has no count.
    pub fn immortal(&mut self, object: u32) {
        self.objects[object as usize].immortal = true;
    }

    /// Sets the time at which the dump was taken.
    pub fn taken(&mut self, unix_ns: u64) {
        self.head.taken_ns = unix_ns;
    }
}
