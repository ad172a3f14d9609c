//! The tables of a dump: types, shapes, threads, frames, tasks, images and roots.

use std::ffi::CStr;
use std::io::Write;

use neurogc_ngch::{
    ByteSink, FrameRow, ImageRow, Kind, Members, ShapeRow, Tag, TaskRow, TaskState, ThreadRow, TypeMember, TypeRow,
    put_varint,
};

use super::super::control::WalkTrouble;
use super::super::system;
use super::HeapWalk;
use super::classes::{Class, HEAP_TYPE, MANAGED_DICT};
use super::fields::DICT_WORD;
use super::output::Output;
use super::raw::{Array, c_string, int, signed, word};
use super::roots::Roots;

/// Names of words that no `PyMemberDef` names, by the kind of the type.
const FUNCTION_WORDS: [(u64, &[u8]); 6] = [
    (4, b"__name__"),
    (5, b"__qualname__"),
    (6, b"__code__"),
    (7, b"__defaults__"),
    (8, b"__kwdefaults__"),
    (11, b"__dict__"),
];

/// More members of a type are not named.
const MOST_MEMBERS: usize = 1024;

/// What the first word of local variables in a frame or generator is called.
const LOCALS: &[u8] = b"<locals>";

/// Rows and how many there are.
struct Table {
    rows: Array<u8>,
    count: u64,
}

impl Table {
    fn new() -> Result<Self, WalkTrouble> {
        Ok(Self { rows: Array::new(1 << 16).ok_or(WalkTrouble::NoMemory)?, count: 0 })
    }

    fn empty(&mut self) {
        self.rows.truncate(0);
        self.count = 0;
    }

    fn row(&mut self) -> &mut Array<u8> {
        self.count += 1;
        &mut self.rows
    }
}

impl HeapWalk<'_> {
    /// Writes all tables.
    ///
    /// # Safety
    /// All objects must have been found, and have numbers.
    pub(super) unsafe fn write_tables(&mut self, output: &mut Output) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe {
            let types = self.types()?;
            self.put_table(Tag::Types, &types, output)?;
            let shapes = self.shape_table()?;
            self.put_table(Tag::Shapes, &shapes, output)?;
            let mut roots = Roots { rows: Array::new(1 << 16).ok_or(WalkTrouble::NoMemory)?, count: 0 };
            let (threads, frames) = self.threads_and_frames(&mut roots)?;
            self.put_table(Tag::Threads, &threads, output)?;
            self.put_table(Tag::Frames, &frames, output)?;
            let tasks = self.task_table()?;
            self.put_table(Tag::Tasks, &tasks, output)?;
            let mut images = Table::new()?;
            for image in &self.facts.images {
                let (base, start, length) = (image.base as u64, image.start as u64, image.length as u64);
                ImageRow { base, start, length, path: &image.path }.put(images.row());
            }
            self.put_table(Tag::Images, &images, output)?;
            self.state_roots(&mut roots)?;
            self.put_table(Tag::Roots, &Table { rows: roots.rows, count: roots.count }, output)
        }
    }

    fn put_table(&mut self, tag: Tag, table: &Table, output: &mut Output) -> Result<(), WalkTrouble> {
        let mut count = Array::new(16).ok_or(WalkTrouble::NoMemory)?;
        put_varint(&mut count, table.count);
        output.section(tag, [count.all(), table.rows.all()], &mut self.watch)
    }

    unsafe fn types(&mut self) -> Result<Table, WalkTrouble> {
        let order = self.classes.rank(|class| class.objects).ok_or(WalkTrouble::NoMemory)?;
        let (mut table, mut members) = (Table::new()?, Table::new()?);
        let mut name = Array::new(1 << 12).ok_or(WalkTrouble::NoMemory)?;
        for index in order.all() {
            self.watch.step()?;
            let class = *self.classes.get(*index);
            name.truncate(0);
            // SAFETY: the caller's promise: these are types.
            unsafe {
                self.put_type_name(&class, &mut name);
                let base = self.classes.known(word(class.address + self.heap.type_base));
                let row = TypeRow {
                    object: self.seen.number(class.address),
                    kind: class.kind,
                    flags: class.facts(self.has_finalizer(&class), self.knows_memory(class.kind)),
                    basic: class.basic as u64,
                    item: class.item as u64,
                    objects: class.objects,
                    shape: self.shared_keys(&class).and_then(|keys| self.shapes.number(keys.at)),
                    base: base.map(|base| self.classes.get(base).number),
                    name: name.all(),
                    members: Members::none(),
                };
                row.put(table.row());
                self.members(&class, &mut members);
                put_varint(&mut table.rows, members.count);
                table.rows.put_bytes(members.rows.all());
            }
        }
        Ok(table)
    }

    /// The names of an instance's words.
    unsafe fn members(&self, class: &Class, rows: &mut Table) {
        let heap = self.heap;
        rows.empty();
        let mut put = |word: usize, name: &[u8]| TypeMember { word: word as u64, name }.put(rows.row());
        if heap.minor >= 11 && class.has(MANAGED_DICT) {
            put(DICT_WORD as usize, b"__dict__");
        }
        // SAFETY: the caller's promise: it is a type, and so are its bases.
        unsafe {
            let dict = signed(class.address + heap.type_dictoffset);
            if dict > 0 {
                put(dict as usize / 8, b"__dict__");
            }
            let locals = match class.kind {
                Kind::Generator if heap.minor >= 11 => Some(heap.generator_frame),
                Kind::Frame => Some(heap.frame_object_data.unwrap_or(0)),
                _ => None,
            };
            if let Some(start) = locals {
                put((start + self.layout.frame_localsplus) / 8, LOCALS);
                put((start + self.layout.frame_code) / 8, b"<code>");
            }
            match class.kind {
                Kind::Code => {
                    self.code_fields().into_iter().flatten().for_each(|(name, offset)| put(offset / 8, name));
                }
                Kind::Module => put(heap.module_dict / 8, b"__dict__"),
                Kind::Cell => put(2, b"cell_contents"),
                Kind::Function => FUNCTION_WORDS.iter().for_each(|(word, name)| put(*word as usize, name)),
                Kind::Type => {
                    put(heap.type_dict / 8, b"__dict__");
                    put(heap.type_mro / 8, b"__mro__");
                    put(heap.type_bases / 8, b"__bases__");
                    put(heap.type_base / 8, b"__base__");
                    put(heap.type_subclasses / 8, b"__subclasses__()");
                    put(heap.heap_type_name / 8, b"__name__");
                    put(heap.heap_type_qualname / 8, b"__qualname__");
                    put(heap.heap_type_slots / 8, b"__slots__");
                }
                _ => {}
            }
            let mut base = class.address;
            while base != 0 {
                self.base_members(base, &mut put);
                base = word(base + heap.type_base);
            }
        }
    }

    /// The members of one type that are objects.
    unsafe fn base_members(&self, class: usize, put: &mut impl FnMut(usize, &[u8])) {
        const MEMBER: usize = 40;
        const OBJECT: i32 = 6;
        const OBJECT_EX: i32 = 16;
        // SAFETY: the caller's promise: a table of members ends with one without a name.
        unsafe {
            let members = word(class + self.heap.type_members);
            if members == 0 {
                return;
            }
            for member in (0..MOST_MEMBERS).map(|at| members + MEMBER * at) {
                let name = word(member);
                if name == 0 {
                    return;
                }
                let offset = signed(member + 16);
                if matches!(int(member + 8), OBJECT | OBJECT_EX) && offset > 0 {
                    put(offset as usize / 8, c_string(name, 256));
                }
            }
        }
    }

    unsafe fn shape_table(&mut self) -> Result<Table, WalkTrouble> {
        let mut table = Table::new()?;
        for at in 0..self.shapes.all().len() {
            // SAFETY: the caller's promise: these are tables of keys.
            unsafe {
                let keys = self.keys(self.shapes.all()[at]);
                put_varint(table.row(), keys.count as u64);
                for key in 0..keys.count {
                    ShapeRow::put_name(&mut table.rows, self.seen.number(Self::key_at(&keys, key)));
                }
            }
        }
        Ok(table)
    }

    unsafe fn threads_and_frames(&mut self, roots: &mut Roots) -> Result<(Table, Table), WalkTrouble> {
        let (mut threads, mut frames) = (Table::new()?, Table::new()?);
        let (mut thread, mut passed) = (0, 0);
        let mut name = Array::new(1 << 12).ok_or(WalkTrouble::NoMemory)?;
        // SAFETY: the caller's promise.
        unsafe {
            while let Some(next) = self.next_thread(thread, threads.count as usize) {
                thread = next;
                let number = threads.count as u32;
                let native = self.layout.thread_native_thread_id.map_or(0, |native| word(thread + native) as u64);
                let ident = word(thread + self.layout.thread_thread_id) as u64;
                let mut kernel = [0; 32];
                name.truncate(0);
                match self.thread_name(ident) {
                    Some(text) => self.put_utf8(text, &mut name),
                    None => name.put_bytes(kernel_name(self.facts.pid, native, &mut kernel)),
                }
                let current = thread == self.facts.thread;
                ThreadRow { ident, native, current, name: name.all() }.put(threads.row());
                let mut at = self.first_frame(thread);
                while at != 0 {
                    self.watch.step()?;
                    if let Some(frame) = self.frame(at) {
                        self.frame_roots(&frame, frames.count as u32, roots);
                        let row = FrameRow {
                            thread: number,
                            code: self.seen.number(frame.code),
                            function: self.seen.number(frame.function),
                            generator: self.seen.number(frame.generator),
                            line: self.line(&frame),
                        };
                        row.put(frames.row());
                    }
                    passed += 1;
                    at = self.previous_frame(at, passed);
                }
            }
        }
        Ok((threads, frames))
    }

    unsafe fn task_table(&mut self) -> Result<Table, WalkTrouble> {
        let mut table = Table::new()?;
        let task = &self.heap.task;
        for at in 0..self.tasks.len() {
            let object = self.tasks.all()[at];
            let Some(number) = self.seen.number(object) else { continue };
            // SAFETY: the caller's promise: it is a task.
            unsafe {
                let class = self.classes.of(word(object + self.layout.object_type))?;
                let class = *self.classes.get(class);
                let known = class.native_basic == task.words * 8
                    || class.has(HEAP_TYPE) && class.native == class.address && class.basic == task.words * 8;
                let part = |at: usize| if known { self.seen.number(word(object + 8 * at)) } else { None };
                let state = if known { int(object + 8 * task.state) } else { -1 };
                let row = TaskRow {
                    object: number,
                    state: u64::try_from(state).ok().and_then(TaskState::of).unwrap_or(TaskState::Unknown),
                    coroutine: part(task.coroutine),
                    awaits: part(task.waiter),
                    name: part(task.name),
                };
                row.put(table.row());
            }
        }
        Ok(table)
    }
}

/// The kernel's name of a thread of the program.
fn kernel_name(pid: u32, native: u64, to: &mut [u8; 32]) -> &[u8] {
    let mut path = [0; 64];
    let length = write!(&mut path[..], "/proc/{pid}/task/{native}/comm")
        .ok()
        .and_then(|()| CStr::from_bytes_until_nul(&path).ok())
        .and_then(|path| system::read_all(path, to))
        .unwrap_or(0);
    to[..length].strip_suffix(b"\n").unwrap_or(&to[..length])
}
