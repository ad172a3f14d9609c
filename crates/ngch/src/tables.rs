//! Rows of the tables that stand before the blocks: types, shapes, threads, frames, tasks, images and roots.
//!
//! A section with a table is the number of rows, then the rows. An object that may be missing is its number plus one, or
//! zero.

use crate::{ByteSink, Cursor, FormatError, Kind, RootKind, TaskState, TypeFlags, put_varint};

/// Appends a length and bytes.
#[inline]
pub fn put_text(to: &mut impl ByteSink, text: &[u8]) {
    put_varint(to, text.len() as u64);
    to.put_bytes(text);
}

fn put_optional(to: &mut impl ByteSink, object: Option<u32>) {
    put_varint(to, object.map_or(0, |object| u64::from(object) + 1));
}

fn optional(from: &mut Cursor<'_>) -> Result<Option<u32>, FormatError> {
    from.varint()?
        .checked_sub(1)
        .map(|object| u32::try_from(object).map_err(|_| FormatError::Damaged("an object has an impossible number")))
        .transpose()
}

/// A row that can be read.
pub trait Row<'a>: Sized {
    /// Reads one row.
    fn read(from: &mut Cursor<'a>) -> Result<Self, FormatError>;
}

/// The rows of a section.
#[derive(Clone, Debug)]
pub struct TableRows<'a, R> {
    from: Cursor<'a>,
    left: u64,
    row: core::marker::PhantomData<R>,
}

impl<'a, R: Row<'a>> TableRows<'a, R> {
    /// The rows in a section's bytes.
    pub fn new(section: &'a [u8]) -> Result<Self, FormatError> {
        let mut from = Cursor::new(section);
        let left = from.varint()?;
        // A row takes a byte at least: a wrong number cannot make a reader reserve more than the file has.
        if left > from.rest().len() as u64 {
            return Err(FormatError::Cut);
        }
        Ok(Self { from, left, row: core::marker::PhantomData })
    }
}

impl<'a, R: Row<'a>> Iterator for TableRows<'a, R> {
    type Item = Result<R, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let row = R::read(&mut self.from);
        if row.is_err() {
            self.left = 0;
        }
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok())
    }
}

/// A type. Its number is its place in the table; frequent types come first.
#[derive(Clone, Copy, Debug)]
pub struct TypeRow<'a> {
    /// The class as an object.
    pub object: Option<u32>,
    /// What it is or derives from.
    pub kind: Kind,
    /// Facts about it.
    pub flags: TypeFlags,
    /// `tp_basicsize`.
    pub basic: u64,
    /// `tp_itemsize`.
    pub item: u64,
    /// How many objects of exactly this type the dump has.
    pub objects: u64,
    /// The shape with the names of its instances' attributes.
    pub shape: Option<u32>,
    /// The type that it derives from first, by number, if that is in the table.
    pub base: Option<u32>,
    /// The full name in UTF-8: `module.Class`, and only the name for builtins.
    pub name: &'a [u8],
    /// Names of words of an instance.
    pub members: Members<'a>,
}

impl TypeRow<'_> {
    /// Appends the row up to the members: their number and [`TypeMember`]s follow.
    pub fn put(&self, to: &mut impl ByteSink) {
        put_optional(to, self.object);
        put_varint(to, self.kind as u64);
        put_varint(to, self.flags.0);
        put_varint(to, self.basic);
        put_varint(to, self.item);
        put_varint(to, self.objects);
        put_optional(to, self.shape);
        put_optional(to, self.base);
        put_text(to, self.name);
    }
}

impl<'a> Row<'a> for TypeRow<'a> {
    fn read(from: &mut Cursor<'a>) -> Result<Self, FormatError> {
        Ok(Self {
            object: optional(from)?,
            kind: Kind::of(from.varint()?).unwrap_or(Kind::Other),
            flags: TypeFlags(from.varint()?),
            basic: from.varint()?,
            item: from.varint()?,
            objects: from.varint()?,
            shape: optional(from)?,
            base: optional(from)?,
            name: from.text()?,
            members: Members::read(from)?,
        })
    }
}

/// The name of one word of a type's instances.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TypeMember<'a> {
    /// The word.
    pub word: u64,
    /// Its name.
    pub name: &'a [u8],
}

impl<'a> TypeMember<'a> {
    /// Appends it.
    pub fn put(&self, to: &mut impl ByteSink) {
        put_varint(to, self.word);
        put_text(to, self.name);
    }

    fn read(from: &mut Cursor<'a>) -> Result<Self, FormatError> {
        Ok(Self { word: from.varint()?, name: from.text()? })
    }
}

/// The names of words of a type's instances.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    from: Cursor<'a>,
    left: u64,
}

impl<'a> Members<'a> {
    /// No names.
    #[must_use]
    pub fn none() -> Self {
        Self { from: Cursor::new(&[]), left: 0 }
    }

    fn read(from: &mut Cursor<'a>) -> Result<Self, FormatError> {
        let left = from.varint()?;
        let members = Self { from: *from, left };
        for _ in 0..left {
            TypeMember::read(from)?;
        }
        Ok(members)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = TypeMember<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        TypeMember::read(&mut self.from).ok()
    }
}

/// Attribute names that many dicts or instances share, in the order of their slots.
#[derive(Clone, Copy, Debug)]
pub struct ShapeRow<'a> {
    from: Cursor<'a>,
    left: u64,
}

impl<'a> Row<'a> for ShapeRow<'a> {
    fn read(from: &mut Cursor<'a>) -> Result<Self, FormatError> {
        let left = from.varint()?;
        let row = Self { from: *from, left };
        for _ in 0..left {
            optional(from)?;
        }
        Ok(row)
    }
}

/// The names, each a string object: none for a slot without a name.
impl Iterator for ShapeRow<'_> {
    type Item = Option<u32>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        optional(&mut self.from).ok()
    }
}

impl ShapeRow<'_> {
    /// Appends one name of a shape. The number of names stands before the first.
    pub fn put_name(to: &mut impl ByteSink, name: Option<u32>) {
        put_optional(to, name);
    }
}

/// A thread of the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadRow<'a> {
    /// What `threading.get_ident` says there.
    pub ident: u64,
    /// The kernel's number of it, or zero.
    pub native: u64,
    /// Whether it made the clone.
    pub current: bool,
    /// Its name in UTF-8, or nothing.
    pub name: &'a [u8],
}

impl ThreadRow<'_> {
    /// Appends the row.
    pub fn put(&self, to: &mut impl ByteSink) {
        put_varint(to, self.ident);
        put_varint(to, self.native);
        put_varint(to, self.current.into());
        put_text(to, self.name);
    }
}

impl<'a> Row<'a> for ThreadRow<'a> {
    fn read(from: &mut Cursor<'a>) -> Result<Self, FormatError> {
        Ok(Self { ident: from.varint()?, native: from.varint()?, current: from.varint()? & 1 != 0, name: from.text()? })
    }
}

/// A frame of a thread. The frames of a thread follow each other, the innermost first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameRow {
    /// The thread, by its place in the table.
    pub thread: u32,
    /// The code that runs.
    pub code: Option<u32>,
    /// The function, where the frame has one.
    pub function: Option<u32>,
    /// The generator or coroutine that the frame belongs to. Its locals are references of that object.
    pub generator: Option<u32>,
    /// The line, or zero.
    pub line: u32,
}

impl FrameRow {
    /// Appends the row.
    pub fn put(&self, to: &mut impl ByteSink) {
        put_varint(to, self.thread.into());
        put_optional(to, self.code);
        put_optional(to, self.function);
        put_optional(to, self.generator);
        put_varint(to, self.line.into());
    }
}

impl Row<'_> for FrameRow {
    fn read(from: &mut Cursor<'_>) -> Result<Self, FormatError> {
        Ok(Self {
            thread: from.varint32()?,
            code: optional(from)?,
            function: optional(from)?,
            generator: optional(from)?,
            line: from.varint32()?,
        })
    }
}

/// A task of asyncio.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskRow {
    /// The task.
    pub object: u32,
    /// Its state.
    pub state: TaskState,
    /// Its coroutine.
    pub coroutine: Option<u32>,
    /// The future or task that it waits for.
    pub awaits: Option<u32>,
    /// Its name: a string, or the integer that the name is made of.
    pub name: Option<u32>,
}

impl TaskRow {
    /// Appends the row.
    pub fn put(&self, to: &mut impl ByteSink) {
        put_varint(to, self.object.into());
        put_varint(to, self.state as u64);
        put_optional(to, self.coroutine);
        put_optional(to, self.awaits);
        put_optional(to, self.name);
    }
}

impl Row<'_> for TaskRow {
    fn read(from: &mut Cursor<'_>) -> Result<Self, FormatError> {
        Ok(Self {
            object: from.varint32()?,
            state: TaskState::of(from.varint()?).unwrap_or(TaskState::Unknown),
            coroutine: optional(from)?,
            awaits: optional(from)?,
            name: optional(from)?,
        })
    }
}

/// Writable memory of a file that is loaded as code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ImageRow<'a> {
    /// Where the file is loaded.
    pub base: u64,
    /// Where its writable memory begins.
    pub start: u64,
    /// How long that is.
    pub length: u64,
    /// The path of the file: empty for the program itself.
    pub path: &'a [u8],
}

impl ImageRow<'_> {
    /// Appends the row.
    pub fn put(&self, to: &mut impl ByteSink) {
        put_varint(to, self.base);
        put_varint(to, self.start);
        put_varint(to, self.length);
        put_text(to, self.path);
    }
}

impl<'a> Row<'a> for ImageRow<'a> {
    fn read(from: &mut Cursor<'a>) -> Result<Self, FormatError> {
        Ok(Self { base: from.varint()?, start: from.varint()?, length: from.varint()?, path: from.text()? })
    }
}

/// What holds an object from outside of the heap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RootRow {
    /// What it is.
    pub kind: RootKind,
    /// See [`RootKind`].
    pub a: u32,
    /// See [`RootKind`].
    pub b: u64,
    /// The object that is held.
    pub object: u32,
}

impl RootRow {
    /// Appends the row.
    pub fn put(&self, to: &mut impl ByteSink) {
        put_varint(to, self.kind as u64);
        put_varint(to, self.a.into());
        put_varint(to, self.b);
        put_varint(to, self.object.into());
    }
}

impl Row<'_> for RootRow {
    fn read(from: &mut Cursor<'_>) -> Result<Self, FormatError> {
        let kind = RootKind::of(from.varint()?).ok_or(FormatError::Damaged("a root has an unknown kind"))?;
        Ok(Self { kind, a: from.varint32()?, b: from.varint()?, object: from.varint32()? })
    }
}
