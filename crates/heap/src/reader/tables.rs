//! The tables of a dump: types, shapes, threads, frames, tasks, images and roots.

use neurogc_ngch::{
    FormatError, FrameRow, ImageRow, Kind, RootRow, ShapeRow, TableRows, Tag, TaskRow, TaskState, ThreadRow, TypeFlags,
    TypeRow,
};

/// A type.
#[derive(Clone, Debug)]
pub struct HeapType {
    /// The full name.
    pub name: String,
    /// The class as an object.
    pub object: Option<u32>,
    /// What it is or derives from.
    pub kind: Kind,
    /// Facts about it.
    pub flags: TypeFlags,
    /// The shape with the attribute names of its instances.
    pub shape: Option<u32>,
    /// The type that it derives from first.
    pub base: Option<u32>,
    /// Names of words of an instance, in the order of words.
    pub members: Vec<(u64, String)>,
}

/// A thread.
#[derive(Clone, Debug)]
pub struct HeapThread {
    /// What `threading.get_ident` says there.
    pub ident: u64,
    /// The kernel's number of it, or zero.
    pub native: u64,
    /// Its name, or nothing.
    pub name: String,
}

/// A frame.
pub type HeapFrame = FrameRow;

/// A task.
pub type HeapTask = TaskRow;

/// Writable memory of a file that is loaded as code.
#[derive(Clone, Debug)]
pub struct HeapImage {
    /// Where that memory begins, seen from where the file is loaded.
    pub start: u64,
    /// The path: empty for the program itself.
    pub path: String,
}

/// All tables. Numbers of objects in them are those of objects that the dump has.
#[derive(Debug, Default)]
pub struct DumpTables {
    /// Types. The last one stands for objects that cannot be read.
    pub types: Vec<HeapType>,
    /// The names of each shape.
    pub shapes: Vec<Vec<Option<u32>>>,
    /// Threads.
    pub threads: Vec<HeapThread>,
    /// Frames.
    pub frames: Vec<HeapFrame>,
    /// Tasks of asyncio.
    pub tasks: Vec<HeapTask>,
    /// Images.
    pub images: Vec<HeapImage>,
    /// What holds objects from outside.
    pub roots: Vec<RootRow>,
}

/// The longest name or path that is taken from a table.
const LONGEST_TEXT: usize = 4096;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_TEXT)]).into_owned()
}

impl DumpTables {
    /// Reads one table from its section.
    pub(super) fn read(&mut self, tag: Tag, bytes: &[u8]) -> Result<(), FormatError> {
        match tag {
            Tag::Types => {
                for row in TableRows::<TypeRow<'_>>::new(bytes)? {
                    self.types.push(heap_type(&row?));
                }
            }
            Tag::Shapes => {
                for row in TableRows::<ShapeRow<'_>>::new(bytes)? {
                    self.shapes.push(row?.collect());
                }
            }
            Tag::Threads => {
                for row in TableRows::<ThreadRow<'_>>::new(bytes)? {
                    let ThreadRow { ident, native, name, .. } = row?;
                    self.threads.push(HeapThread { ident, native, name: text(name) });
                }
            }
            Tag::Frames => self.frames = TableRows::<FrameRow>::new(bytes)?.collect::<Result<_, _>>()?,
            Tag::Tasks => self.tasks = TableRows::<TaskRow>::new(bytes)?.collect::<Result<_, _>>()?,
            Tag::Images => {
                for row in TableRows::<ImageRow<'_>>::new(bytes)? {
                    let ImageRow { base, start, path, .. } = row?;
                    self.images.push(HeapImage { start: start.wrapping_sub(base), path: text(path) });
                }
            }
            Tag::Roots => self.roots = TableRows::<RootRow>::new(bytes)?.collect::<Result<_, _>>()?,
            Tag::Block | Tag::Foot => {}
        }
        Ok(())
    }

    /// Takes out everything that names an object which is not there, and adds the type of unreadable objects.
    pub(super) fn finish(&mut self, objects: u32) {
        let known = |object: &u32| *object < objects;
        for it in &mut self.types {
            it.object = it.object.filter(known);
        }
        self.shapes.iter_mut().flatten().for_each(|name| *name = name.filter(known));
        for frame in &mut self.frames {
            frame.code = frame.code.filter(known);
            frame.function = frame.function.filter(known);
            frame.generator = frame.generator.filter(known);
        }
        self.tasks.retain(|task| known(&task.object));
        for task in &mut self.tasks {
            task.coroutine = task.coroutine.filter(known);
            task.awaits = task.awaits.filter(known);
            task.name = task.name.filter(known);
        }
        self.roots.retain(|root| known(&root.object));
        self.types.push(HeapType {
            name: "(unreadable)".to_owned(),
            object: None,
            kind: Kind::Other,
            flags: TypeFlags(0),
            shape: None,
            base: None,
            members: Vec::new(),
        });
    }

    /// The type of objects that cannot be read.
    #[must_use]
    pub fn unreadable(&self) -> u32 {
        self.types.len() as u32 - 1
    }

    /// For each type the object that instances of it hold by being instances.
    #[must_use]
    pub fn classes(&self) -> Vec<u32> {
        let held = |it: &HeapType| it.object.filter(|_| it.flags.has(TypeFlags::HEAP));
        self.types.iter().map(|it| held(it).unwrap_or(crate::graph::NONE)).collect()
    }

    /// Whether a task still runs.
    #[must_use]
    pub fn is_pending(task: &HeapTask) -> bool {
        task.state == TaskState::Pending
    }
}

fn heap_type(row: &TypeRow<'_>) -> HeapType {
    let mut members: Vec<_> = row.members.map(|member| (member.word, text(member.name))).collect();
    // Of two names for a word the first is that of the class itself.
    members.sort_by_key(|(word, _)| *word);
    members.dedup_by_key(|(word, _)| *word);
    HeapType {
        name: text(row.name),
        object: row.object,
        kind: row.kind,
        flags: row.flags,
        shape: row.shape,
        base: row.base,
        members,
    }
}
