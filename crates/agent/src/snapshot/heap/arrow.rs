//! The memory of Arrow's buffers. An object of pyarrow points to a C++ object, and that leads to buffers, which several
//! objects may share. Where those pointers are differs by version, so small objects are made to find out.

use std::sync::OnceLock;

use pyo3::prelude::*;

use super::HeapWalk;
use super::raw::word;
use crate::cpython::modules::loaded;
use crate::snapshot::control::WalkTrouble;
use crate::sys::memory;

/// How many words of each object are searched.
const WORDS: usize = 32;

/// `std::shared_ptr`: the object's address and that of its counts.
const SHARED: usize = 16;

/// Lists within lists, and slices of slices, are followed so far.
const DEPTH: u32 = 16;

/// More entries than this are not those of a vector.
const MOST_ENTRIES: usize = 1 << 24;

/// A class of pyarrow that has a C++ object with a vector of pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    /// The address of the Python type.
    class: usize,
    /// The offset of the C++ object's address in the Python object.
    native: usize,
    /// The offset of the vector in the C++ object.
    vector: usize,
    /// The first word of the C++ object, where it tells kinds of objects apart: the address of their virtual functions.
    first: Option<usize>,
}

/// Offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrowLayout {
    /// Python's buffers and arrays: the address of the type, and the offset of the C++ object's address.
    buffer: (usize, usize),
    array: (usize, usize),
    /// Of the address of an array's data in the array.
    data: usize,
    /// Of vectors in the data: buffers, and the data of the arrays that this one consists of.
    buffers: usize,
    children: usize,
    /// Of the address of a dictionary's data.
    dictionary: usize,
    chunked: Holder,
    batch: Holder,
    table: Holder,
    /// Of the allocated length, and of the address of the buffer that this one is a part of.
    capacity: usize,
    parent: usize,
    /// What marks buffers that Arrow's own pool has allocated. Others have the memory of a Python object or of a file.
    pooled: usize,
}

static LAYOUT: OnceLock<Option<ArrowLayout>> = OnceLock::new();

impl ArrowLayout {
    /// Finds it out, once, in a program that has loaded pyarrow.
    pub(crate) fn learn(py: Python<'_>) -> Option<Self> {
        if let Some(known) = LAYOUT.get() {
            return *known;
        }
        let arrow = loaded(py, "pyarrow.lib").ok()?;
        // Another time, if its import has not ended.
        arrow.getattr("Table").and_then(|table| table.getattr("from_arrays")).ok()?;
        let of = |length| Self::search(&arrow, length).ok().flatten();
        let (one, other) = (of(4099), of(8209));
        *LAYOUT.get_or_init(|| if one == other { one } else { None })
    }

    /// The layout as objects of such a length show it.
    fn search<'py>(arrow: &Bound<'py, PyAny>, length: usize) -> PyResult<Option<Self>> {
        let class = |name: &str| arrow.getattr(name).map(|class| class.as_ptr() as usize);
        let from_arrays = |class: &str, values: &Bound<'py, PyAny>| {
            arrow.getattr(class)?.call_method1("from_arrays", (vec![values], vec!["a"]))
        };
        let buffer = arrow.call_method1("allocate_buffer", (length,))?;
        let address: usize = buffer.getattr("address")?.extract()?;
        let array = arrow.call_method1("array", (vec![0_i64; length / 8],))?;
        let codes = arrow.call_method1("array", (vec![0_i64],))?;
        let chunked = arrow.call_method1("chunked_array", (vec![&array],))?;
        let made = Made {
            address,
            length,
            part: buffer.call_method1("slice", (64,))?,
            values: array.call_method0("buffers")?.get_item(1)?,
            outer: from_arrays("StructArray", &array)?,
            coded: arrow.getattr("DictionaryArray")?.call_method1("from_arrays", (codes, &array))?,
            batch: from_arrays("RecordBatch", &array)?,
            table: from_arrays("Table", &chunked)?,
            buffer,
            array,
            chunked,
        };
        let classes =
            [class("Buffer")?, class("Array")?, class("ChunkedArray")?, class("RecordBatch")?, class("Table")?];
        Ok(made.layout(classes))
    }
}

/// Objects that show the layout.
struct Made<'py> {
    buffer: Bound<'py, PyAny>,
    address: usize,
    length: usize,
    part: Bound<'py, PyAny>,
    array: Bound<'py, PyAny>,
    values: Bound<'py, PyAny>,
    outer: Bound<'py, PyAny>,
    coded: Bound<'py, PyAny>,
    chunked: Bound<'py, PyAny>,
    batch: Bound<'py, PyAny>,
    table: Bound<'py, PyAny>,
}

impl Made<'_> {
    fn layout(&self, classes: [usize; 5]) -> Option<ArrowLayout> {
        let at = |object: &Bound<'_, PyAny>| object.as_ptr() as usize;
        let (in_buffer, native, _) = pointer(at(&self.buffer), |native| find(native, self.address))?;
        let capacity = find(native, self.length)? + 8;
        if !(self.length..self.length + 4096).contains(&memory::word(native + capacity)?) {
            return None;
        }
        let pooled = memory::word(native)?;
        let parent = find(memory::word(at(&self.part) + in_buffer)?, native)?;

        let values = memory::word(at(&self.values) + in_buffer)?;
        let (in_array, native_array, (data, of_array, buffers)) = pointer(at(&self.array), |native| {
            (0..WORDS / 2).map(|number| 8 * number).find_map(|offset| {
                let data = memory::word(native + offset)?;
                Some((offset, data, vector(data, values, 1)?))
            })
        })?;
        let data_of = |object| memory::word(memory::word(at(object) + in_array)? + data);
        let children = vector(data_of(&self.outer)?, of_array, 0)?;
        let dictionary = find(data_of(&self.coded)?, of_array)?;

        let holder = |object, class, first| {
            let (native, address, vector) = pointer(at(object), |native| vector(native, first, 0))?;
            Some((Holder { class, native, vector, first: None }, address))
        };
        let (chunked, native_chunked) = holder(&self.chunked, classes[2], native_array)?;
        let (batch, native_batch) = holder(&self.batch, classes[3], of_array)?;
        let (table, native_table) = holder(&self.table, classes[4], native_chunked)?;
        Some(ArrowLayout {
            buffer: (classes[0], in_buffer),
            array: (classes[1], in_array),
            data,
            buffers,
            children,
            dictionary,
            chunked,
            batch: Holder { first: Some(memory::word(native_batch)?), ..batch },
            table: Holder { first: Some(memory::word(native_table)?), ..table },
            capacity,
            parent,
            pooled,
        })
    }
}

/// The first word of a Python object that points to something in which `look` finds what it looks for: the offset, where it
/// points to, and what was found.
fn pointer<T>(object: usize, look: impl Fn(usize) -> Option<T>) -> Option<(usize, usize, T)> {
    (2..8).map(|number| 8 * number).find_map(|offset| {
        let native = memory::word(object + offset).filter(|at| is_address(*at))?;
        Some((offset, native, look(native)?))
    })
}

/// The offset of the word that has this value.
fn find(at: usize, what: usize) -> Option<usize> {
    let words = (0..WORDS).map(|number| 8 * number);
    words
        .take_while(|offset| memory::word(at + offset).is_some())
        .find(|offset| memory::word(at + offset) == Some(what))
}

/// The offset of a vector whose entry of this number points there.
fn vector(at: usize, what: usize, number: usize) -> Option<usize> {
    (0..WORDS).map(|number| 8 * number).find(|offset| {
        let entries = memory::word(at + offset).filter(|entries| is_address(*entries));
        entries.and_then(|entries| memory::word(entries + SHARED * number)) == Some(what)
    })
}

fn is_address(word: usize) -> bool {
    word > 4096 && word >> 47 == 0 && word.is_multiple_of(8)
}

impl HeapWalk<'_> {
    /// The bytes of the buffers that an object of pyarrow leads to, those excepted that were counted before.
    ///
    /// # Safety
    /// It must be an object of the type at `class`.
    #[cold]
    pub(super) unsafe fn buffers_size(
        &mut self,
        object: usize,
        class: usize,
        layout: &ArrowLayout,
    ) -> Result<usize, WalkTrouble> {
        let known = [layout.buffer.0, layout.array.0, layout.chunked.class, layout.batch.class, layout.table.class];
        let mut base = class;
        while base != 0 && !known.contains(&base) {
            // SAFETY: bases of a type are types.
            base = unsafe { word(base + self.heap.type_base) };
        }
        let mut sum = 0;
        // SAFETY: the caller's promise; `learn` has seen that this is where the parts of such objects are.
        unsafe {
            if base == layout.buffer.0 {
                return self.buffer_size(word(object + layout.buffer.1), layout);
            }
            if base == layout.array.0 {
                return self.arrow_array_size(word(object + layout.array.1), layout);
            }
            for data in entries(object, base, &layout.batch) {
                sum += self.data_size(data, layout, 0)?;
            }
            for array in entries(object, base, &layout.chunked) {
                sum += self.arrow_array_size(array, layout)?;
            }
            for chunked in entries(object, base, &layout.table) {
                for array in vector_entries(chunked, layout.chunked.vector) {
                    sum += self.arrow_array_size(array, layout)?;
                }
            }
        }
        Ok(sum)
    }

    unsafe fn arrow_array_size(&mut self, array: usize, layout: &ArrowLayout) -> Result<usize, WalkTrouble> {
        if !is_address(array) {
            return Ok(0);
        }
        // SAFETY: the caller's promise: it is an array of Arrow.
        unsafe { self.data_size(word(array + layout.data), layout, 0) }
    }

    unsafe fn data_size(&mut self, data: usize, layout: &ArrowLayout, depth: u32) -> Result<usize, WalkTrouble> {
        if !is_address(data) || depth == DEPTH {
            return Ok(0);
        }
        let mut sum = 0;
        // SAFETY: the caller's promise: it is the data of an array; so are its children and its dictionary.
        unsafe {
            for buffer in vector_entries(data, layout.buffers) {
                sum += self.buffer_size(buffer, layout)?;
            }
            for child in vector_entries(data, layout.children) {
                sum += self.data_size(child, layout, depth + 1)?;
            }
            sum += self.data_size(word(data + layout.dictionary), layout, depth + 1)?;
        }
        Ok(sum)
    }

    unsafe fn buffer_size(&mut self, mut buffer: usize, layout: &ArrowLayout) -> Result<usize, WalkTrouble> {
        for _ in 0..DEPTH {
            if !is_address(buffer) {
                break;
            }
            // SAFETY: the caller's promise: it is a buffer of Arrow, and a part of one has its address.
            unsafe {
                if word(buffer) != layout.pooled {
                    buffer = word(buffer + layout.parent);
                    continue;
                }
                let is_new = buffer.is_multiple_of(16) && self.storages.add(buffer)?;
                return Ok(if is_new { word(buffer + layout.capacity) } else { 0 });
            }
        }
        Ok(0)
    }
}

/// What the vector of an object's C++ object points to, if the object is of that class.
unsafe fn entries(object: usize, class: usize, holder: &Holder) -> impl Iterator<Item = usize> + use<> {
    // SAFETY: the caller's promise: it is an object of pyarrow.
    let native = if class == holder.class { unsafe { word(object + holder.native) } } else { 0 };
    // SAFETY: as above, and the object is of that class.
    let is_known = is_address(native) && holder.first.is_none_or(|first| unsafe { word(native) } == first);
    // SAFETY: a C++ object of the kind that has the vector.
    unsafe { vector_entries(if is_known { native } else { 0 }, holder.vector) }
}

/// What a vector of shared pointers points to.
unsafe fn vector_entries(at: usize, offset: usize) -> impl Iterator<Item = usize> + use<> {
    let (begin, end) = if is_address(at) {
        // SAFETY: the caller's promise: there is a vector at this offset, which begins with two addresses.
        unsafe { (word(at + offset), word(at + offset + 8)) }
    } else {
        (0, 0)
    };
    let length = end.saturating_sub(begin) / SHARED;
    let length = if is_address(begin) && length <= MOST_ENTRIES { length } else { 0 };
    // SAFETY: an entry of the vector.
    (0..length).map(move |number| unsafe { word(begin + SHARED * number) })
}
