//! The call stack of the calling thread, read without a lock, an allocation or the kernel.
//!
//! A thread's frames change only while that thread runs Python code, and own the code objects that they execute. So the
//! thread itself may read them at any moment, also in the middle of an allocation and without the GIL.

use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;

use super::frames::Frames;
use super::layout::Layout;
use super::{lines, symbol};

/// The innermost frames that are read.
pub(crate) const DEPTH: usize = 48;

/// The frame that 3.12 puts between C code and the Python code that it calls.
const SHIM: &[u8] = b"<shim>";

type ThisThread = unsafe extern "C" fn() -> usize;

/// A place in the code, with what tells its code object apart from another one at the same address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodePlace {
    pub(crate) code: usize,
    /// Offset of the instruction in bytes.
    pub(crate) instruction: u32,
    pub(crate) name: usize,
    pub(crate) file: usize,
    pub(crate) first_line: u32,
}

/// Reads the calling thread's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnStack {
    layout: &'static Layout,
    code_type: usize,
    this_thread: ThisThread,
}

impl OwnStack {
    /// Needs frames whose layout was checked in this process.
    pub(crate) fn new(frames: Frames) -> Option<Self> {
        let function = symbol(c"PyGILState_GetThisThreadState")?;
        // SAFETY: the symbol is this function of CPython's API, which takes nothing and gives a pointer.
        let this_thread = unsafe { std::mem::transmute::<*mut std::ffi::c_void, ThisThread>(function) };
        Some(Self { layout: frames.layout(), code_type: frames.code_type(), this_thread })
    }

    /// The places of the innermost frames, the innermost first. A thread that Python does not know has none.
    pub(crate) fn read<'a, const MOST: usize>(&self, to: &'a mut [MaybeUninit<CodePlace>; MOST]) -> &'a [CodePlace] {
        let layout = self.layout;
        // SAFETY: it reads a thread-local of CPython's. It is this thread's own state even where another one has the GIL.
        let thread = unsafe { (self.this_thread)() };
        if thread == 0 {
            return &[];
        }
        let mut count = 0;
        // SAFETY: `selfcheck` has compared this layout with the running interpreter. The state is this thread's own,
        // so its frames stay as they are until this function returns, and they own their code.
        unsafe {
            let mut frame = match (layout.thread_frame, layout.thread_cframe, layout.cframe_current_frame) {
                (Some(offset), _, _) => word(thread + offset),
                (None, Some(offset), Some(inner)) => match word(thread + offset) {
                    0 => 0,
                    cframe => word(cframe + inner),
                },
                _ => 0,
            };
            while frame != 0 && count < MOST {
                if let Some(place) = self.place(frame) {
                    to[count].write(place);
                    count += 1;
                }
                frame = word(frame + layout.frame_previous);
            }
            // So many places were written.
            std::slice::from_raw_parts(to.as_ptr().cast(), count)
        }
    }

    /// # Safety
    /// The frame must be one of the calling thread's.
    unsafe fn place(&self, frame: usize) -> Option<CodePlace> {
        let layout = self.layout;
        // SAFETY: the caller's promise. What a frame executes is an object, with a type, or nothing.
        unsafe {
            // From 3.14 on the pointer carries tag bits.
            let code = word(frame + layout.frame_code) & !7;
            if code == 0 || word(code + layout.object_type) != self.code_type {
                return None;
            }
            let (name, file) = (word(code + layout.code_name), word(code + layout.code_filename));
            let first_line = int(code + layout.code_firstlineno);
            // The second has no lines at all: it is what CPython runs when `__init__` returns.
            if name == 0 || file == 0 || first_line <= 0 && self.table(code).is_empty() || self.is_shim(file) {
                return None;
            }
            let instruction = match layout.code_instructions {
                Some(start) => word(frame + layout.frame_instruction).wrapping_sub(code + start),
                None => (int(frame + layout.frame_instruction) as u32 as usize).wrapping_mul(2),
            };
            let instruction = u32::try_from(instruction).unwrap_or(u32::MAX);
            Some(CodePlace { code, instruction, name, file, first_line: first_line as u32 })
        }
    }

    /// # Safety
    /// It must be a text object that lives.
    unsafe fn is_shim(&self, file: usize) -> bool {
        // SAFETY: the caller's promise; the bytes of a text of this length can be read.
        unsafe {
            word(file + self.layout.unicode_length) == SHIM.len()
                && std::slice::from_raw_parts((file + self.layout.unicode_ascii_data) as *const u8, SHIM.len()) == SHIM
        }
    }

    /// # Safety
    /// The code object must live.
    unsafe fn table(&self, code: usize) -> &[u8] {
        // SAFETY: the caller's promise; a code object owns its line table, a bytes object.
        unsafe {
            let table = word(code + self.layout.code_linetable);
            if table == 0 {
                return &[];
            }
            let size = word(table + self.layout.bytes_size);
            std::slice::from_raw_parts((table + self.layout.bytes_data) as *const u8, size)
        }
    }

    /// The line of a place that the calling thread has just read; zero where there is none.
    pub(crate) fn line(&self, place: &CodePlace) -> u32 {
        // SAFETY: the thread's frame owns the code.
        let table = unsafe { self.table(place.code) };
        let (first, offset) = (place.first_line as i32, place.instruction as usize);
        let line = match self.layout.code_instructions {
            Some(_) => lines::line_3_11(table, first, offset),
            None => lines::line_3_10(table, first, offset),
        };
        line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
    }

    /// Writes the file's or function's name of a place that the calling thread has just read, as UTF-8, as far as
    /// there is room, and says how long it is.
    pub(crate) fn text(&self, object: usize, to: &mut [u8]) -> usize {
        let layout = self.layout;
        // SAFETY: the thread's frame owns the code, and the code its names: compact text objects.
        unsafe {
            let length = word(object + layout.unicode_length).min(to.len());
            let state = int(object + layout.unicode_state) as u32;
            let (kind, compact, ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
            if !compact {
                return 0;
            }
            let data = object + if ascii { layout.unicode_ascii_data } else { layout.unicode_compact_data };
            let mut end = 0;
            for index in 0..length {
                let character = match kind {
                    1 => u32::from(*((data + index) as *const u8)),
                    2 => u32::from(*((data + 2 * index) as *const u16)),
                    4 => *((data + 4 * index) as *const u32),
                    _ => return end,
                };
                let mut bytes = [0; 4];
                let bytes = char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut bytes);
                let Some(place) = to.get_mut(end..end + bytes.len()) else { return end };
                place.copy_from_slice(bytes.as_bytes());
                end += bytes.len();
            }
            end
        }
    }
}

/// # Safety
/// The address must be that of a word that can be read.
unsafe fn word(address: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { *(address as *const usize) }
}

/// # Safety
/// The address must be that of an int that can be read.
unsafe fn int(address: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { *(address as *const i32) }
}

/// The frame of the Python code that runs in this thread. CPython makes an object for it when it is first asked for.
pub(crate) fn current_frame(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: this thread holds the GIL; the frame is borrowed, and is a Python object.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) }
}
