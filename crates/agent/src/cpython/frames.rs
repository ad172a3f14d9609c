//! What a thread is executing, read from outside while it runs.
//!
//! The thread goes on meanwhile, so anything may be stale or torn: every read goes through `memory`, every pointer is
//! checked for its type, and the worst outcome is a missing name.

use std::hash::{DefaultHasher, Hasher};

use super::gil::ThreadState;
use super::layout::Layout;
use super::lines;
use crate::sys::{memory, native};

/// How many bytes of a frame's locals and stack are compared to see whether it made progress.
const FINGERPRINT: usize = 256;

/// How much of a frame is read at once: its header, which is longest in 3.10, and the fingerprint.
const FRAME_BYTES: usize = 352 + FINGERPRINT;

/// The types by which objects are recognised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types {
    pub(crate) code: usize,
    pub(crate) builtin_function: usize,
    pub(crate) method_descriptor: usize,
}

/// Reads the frames of other threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    layout: &'static Layout,
    types: Types,
}

/// The running frame of a thread at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameSample {
    /// The `_PyCFrame` that leads to the frame in 3.11 and 3.12, else zero.
    cframe: usize,
    frame: usize,
    code: usize,
    instruction: usize,
    fingerprint: u64,
}

impl FrameSample {
    /// Whether both stand at the same place of the code.
    pub(crate) fn same_instruction(&self, other: &Self) -> bool {
        (self.code, self.instruction) == (other.code, other.instruction)
    }

    /// Whether both are of the same call of a function, so that the same callers led to them.
    pub(crate) fn same_call(&self, other: &Self) -> bool {
        (self.frame, self.code) == (other.frame, other.code)
    }

    /// A sample as tests need it.
    #[cfg(test)]
    pub(crate) fn fake(instruction: usize, fingerprint: u64) -> Self {
        Self { cframe: 0, frame: 1, code: 1, instruction, fingerprint }
    }
}

impl Frames {
    pub(crate) fn new(layout: &'static Layout, types: Types) -> Self {
        Self { layout, types }
    }

    /// The layout that frames are read with.
    pub(crate) fn layout(self) -> &'static Layout {
        self.layout
    }

    /// The type of code objects.
    pub(crate) fn code_type(self) -> usize {
        self.types.code
    }

    /// What the thread executes now. Two equal samples mean that hardly any bytecode ran between them.
    pub(crate) fn sample(self, thread: ThreadState) -> Option<FrameSample> {
        let layout = self.layout;
        let (cframe, frame) = match (layout.thread_frame, layout.thread_cframe) {
            (Some(offset), _) => (0, memory::word(thread.0 + offset)?),
            (None, Some(offset)) => {
                let cframe = memory::word(thread.0 + offset)?;
                (cframe, memory::word(cframe + layout.cframe_current_frame?)?)
            }
            (None, None) => return None,
        };
        if frame == 0 {
            return None;
        }
        let mut bytes = [0; FRAME_BYTES];
        let length = memory::read_some(frame, &mut bytes);
        self.sample_from(cframe, frame, &bytes[..length])
    }

    /// Whether the thread stays where the sample met it: reads again and again until it has moved, or often enough.
    /// A loop of a few instructions is met at the same one many times, so a few looks would not do.
    pub(crate) fn is_stuck(self, thread: ThreadState, sample: &FrameSample) -> bool {
        const WORD: usize = size_of::<usize>();
        const LOOKS: usize = 48;
        let layout = self.layout;
        // The pointers that lead to the frame are read together with it. Where there are only two, the first is
        // read twice.
        let (first, second) = match (layout.thread_frame, layout.thread_cframe.zip(layout.cframe_current_frame)) {
            (None, Some((cframe, frame))) => (thread.0 + cframe, sample.cframe + frame),
            (offset, _) => (thread.0 + offset.unwrap_or(0), thread.0 + offset.unwrap_or(0)),
        };
        let places = [(first, WORD), (second, WORD), (sample.frame, FRAME_BYTES)];
        let mut bytes = [0; 2 * WORD + FRAME_BYTES];
        (0..LOOKS).all(|_| {
            let length = memory::gather(&places, &mut bytes);
            length > 2 * WORD
                && (sample.cframe == 0 || word_in(&bytes, 0) == Some(sample.cframe))
                && word_in(&bytes, WORD) == Some(sample.frame)
                && self.sample_from(sample.cframe, sample.frame, &bytes[2 * WORD..length]).as_ref() == Some(sample)
        })
    }

    /// The frame that called the sampled one.
    fn caller(self, sample: &FrameSample) -> Option<FrameSample> {
        let frame = memory::word(sample.frame + self.layout.frame_previous)?;
        let mut bytes = [0; FRAME_BYTES];
        let length = memory::read_some(frame, &mut bytes);
        self.sample_from(sample.cframe, frame, &bytes[..length])
    }

    fn sample_from(self, cframe: usize, frame: usize, bytes: &[u8]) -> Option<FrameSample> {
        let layout = self.layout;
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes.get(layout.frame_localsplus..)?.chunks(FINGERPRINT).next()?);
        // Before 3.11 an int index, later a pointer; from 3.14 on the code pointer carries tag bits.
        let instruction = match layout.code_instructions {
            Some(_) => word_in(bytes, layout.frame_instruction)?,
            None => word_in(bytes, layout.frame_instruction)? as u32 as usize,
        };
        let code = word_in(bytes, layout.frame_code)? & !7;
        Some(FrameSample { cframe, frame, code, instruction, fingerprint: hasher.finish() })
    }

    /// `file.py:12 in function` for a sample.
    pub(crate) fn site(self, sample: &FrameSample) -> Option<String> {
        let (sample, file) = self.past_entry(*sample)?;
        self.in_words(&sample, &file)
    }

    /// The places that led to a sample, the nearest caller first, at most so many.
    pub(crate) fn callers(self, sample: &FrameSample, most: usize) -> Vec<String> {
        let mut inner = self.past_entry(*sample).map(|(sample, _)| sample);
        let outwards = std::iter::from_fn(|| {
            let (outer, file) = self.past_entry(self.caller(&inner?)?)?;
            inner = Some(outer);
            self.in_words(&outer, &file)
        });
        outwards.take(most).collect()
    }

    /// A sample of Python code and its file: the sample itself, or the next caller where it is one of the frames that
    /// CPython puts between C code and the Python code that it calls. In 3.12 these have code of their own, later none.
    fn past_entry(self, mut sample: FrameSample) -> Option<(FrameSample, String)> {
        const SHIM: &str = "<shim>";
        const ENTRIES: usize = 2;
        for _ in 0..=ENTRIES {
            if self.type_of(sample.code) == Some(self.types.code) {
                let file = self.text(memory::word(sample.code + self.layout.code_filename)?)?;
                if file != SHIM {
                    return Some((sample, file));
                }
            }
            sample = self.caller(&sample)?;
        }
        None
    }

    fn in_words(self, sample: &FrameSample, file: &str) -> Option<String> {
        let function = self.text(memory::word(sample.code + self.layout.code_name)?)?;
        match self.line(sample) {
            Some(line) => Some(format!("{file}:{line} in {function}")),
            None => Some(format!("{file} in {function}")),
        }
    }

    /// The line that a sample stands at.
    pub(crate) fn line(self, sample: &FrameSample) -> Option<i32> {
        let first_line = memory::int(sample.code + self.layout.code_firstlineno)?;
        let table = memory::word(sample.code + self.layout.code_linetable)?;
        let size = memory::word(table + self.layout.bytes_size)?;
        let mut bytes = vec![0; size.min(256 * 1024)];
        if !memory::read(table + self.layout.bytes_data, &mut bytes) {
            return None;
        }
        match self.layout.code_instructions {
            Some(start) => {
                let offset = sample.instruction.checked_sub(sample.code + start)?;
                lines::line_3_11(&bytes, first_line, offset)
            }
            None => lines::line_3_10(&bytes, first_line, sample.instruction * 2),
        }
    }

    /// The native function that the sampled frame is calling, with its library: the last builtin on the frame's
    /// value stack. Slots above the stack's top may be stale, so this is a strong hint, not a proof.
    pub(crate) fn native_callee(self, sample: &FrameSample) -> Option<String> {
        let locals = memory::int(sample.code + self.layout.code_nlocalsplus)?;
        let depth = memory::int(sample.code + self.layout.code_stacksize)?;
        let start = sample.frame + self.layout.frame_localsplus + usize::try_from(locals).ok()? * size_of::<usize>();
        let mut bytes = vec![0; usize::try_from(depth).ok()?.min(64) * size_of::<usize>()];
        let length = memory::read_some(start, &mut bytes);
        bytes[..length].chunks_exact(size_of::<usize>()).rev().find_map(|slot| {
            let object = word_in(slot, 0)? & !7;
            self.native_name(object)
        })
    }

    fn native_name(self, object: usize) -> Option<String> {
        let layout = self.layout;
        let kind = self.type_of(object)?;
        let (owner, method) = if kind == self.types.builtin_function {
            let module = memory::word(object + layout.cfunction_module)?;
            let owner = if module == 0 { None } else { self.text(module) };
            (owner, memory::word(object + layout.cfunction_method)?)
        } else if kind == self.types.method_descriptor {
            let owner = memory::word(object + layout.method_descriptor_type)?;
            let name = memory::c_string(memory::word(owner + layout.type_name)?, 64);
            (name, memory::word(object + layout.method_descriptor_method)?)
        } else {
            return None;
        };
        let name = memory::c_string(memory::word(method + layout.method_name)?, 64)?;
        let function = memory::word(method + layout.method_function)?;
        let name =
            owner.filter(|owner| owner != "builtins").map_or_else(|| name.clone(), |owner| format!("{owner}.{name}"));
        Some(match native::library_of(function) {
            Some(library) => format!("{name} [{library}]"),
            None => name,
        })
    }

    fn type_of(self, object: usize) -> Option<usize> {
        if object < 4096 { None } else { memory::word(object + self.layout.object_type) }
    }

    /// The text of a compact string object, at most 4096 characters.
    fn text(self, object: usize) -> Option<String> {
        let layout = self.layout;
        let length = memory::word(object + layout.unicode_length)?.min(4096);
        let state = memory::int(object + layout.unicode_state)? as u32;
        // PyASCIIObject.state begins with interned:2, kind:3, compact:1, ascii:1 in every build that has a GIL.
        let (kind, compact, ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        if !compact {
            return None;
        }
        let data = object + if ascii { layout.unicode_ascii_data } else { layout.unicode_compact_data };
        let mut bytes = vec![0; length * kind as usize];
        if !memory::read(data, &mut bytes) {
            return None;
        }
        Some(match kind {
            1 => bytes.iter().map(|&byte| char::from(byte)).collect(),
            2 => String::from_utf16_lossy(
                &bytes.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect::<Vec<_>>(),
            ),
            4 => bytes
                .chunks_exact(4)
                .filter_map(|four| char::from_u32(u32::from_ne_bytes([four[0], four[1], four[2], four[3]])))
                .collect(),
            _ => return None,
        })
    }
}

fn word_in(bytes: &[u8], offset: usize) -> Option<usize> {
    Some(usize::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}
