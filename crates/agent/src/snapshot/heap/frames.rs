//! Threads and their frames, with local variables.

use neurogc_ngch::Kind;

use super::HeapWalk;
use super::classes::MANAGED_DICT;
use super::raw::{byte, bytes, int, word};
use crate::cpython::lines;

/// More threads or frames than this are not followed: a chain that long is no chain.
const MOST_THREADS: usize = 1 << 16;
const MOST_FRAMES: usize = 1 << 20;

/// A frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveFrame {
    at: usize,
    pub(super) code: usize,
    pub(super) function: usize,
    pub(super) locals: usize,
    pub(super) globals: usize,
    pub(super) builtins: usize,
    /// The object that stands for it.
    pub(super) object: usize,
    /// The generator that it belongs to.
    pub(super) generator: usize,
    /// Where its variables are, how many, and how long the stack behind them is or may be.
    slots: usize,
    pub(super) variables: usize,
    pub(super) stack: usize,
    /// Whether it runs, so that it is not known how long its stack is.
    pub(super) runs: bool,
}

impl HeapWalk<'_> {
    /// The state of each thread, in turn.
    pub(super) unsafe fn next_thread(&self, thread: usize, count: usize) -> Option<usize> {
        // SAFETY: the interpreter's state, and those of threads, are where the layout says.
        let next = unsafe {
            match thread {
                0 => word(self.facts.interpreter + self.heap.interpreter_threads_head),
                _ => word(thread + self.heap.thread_next),
            }
        };
        (next != 0 && count < MOST_THREADS).then_some(next)
    }

    /// The innermost frame of a thread.
    pub(super) unsafe fn first_frame(&self, thread: usize) -> usize {
        let layout = self.layout;
        // SAFETY: the caller's promise: it is a thread's state.
        unsafe {
            match (layout.thread_frame, layout.thread_cframe, layout.cframe_current_frame) {
                (Some(frame), _, _) => word(thread + frame),
                (_, Some(cframe), Some(current)) => match word(thread + cframe) {
                    0 => 0,
                    cframe => word(cframe + current),
                },
                _ => 0,
            }
        }
    }

    /// The frame that called another one.
    pub(super) unsafe fn previous_frame(&self, frame: usize, count: usize) -> usize {
        // SAFETY: the caller's promise: it is a frame.
        if count < MOST_FRAMES { unsafe { word(frame + self.layout.frame_previous) } } else { 0 }
    }

    /// What a frame has, if it is one of Python code.
    ///
    /// # Safety
    /// It must be a frame.
    pub(super) unsafe fn frame(&self, at: usize) -> Option<LiveFrame> {
        let (layout, heap) = (self.layout, self.heap);
        // SAFETY: the caller's promise: the fields are where the layout says.
        unsafe {
            const BY_GENERATOR: u8 = 1;
            let owner = heap.frame_owner.map(|owner| byte(at + owner));
            // Frames of the interpreter's own, between C and Python, have two valid fields.
            if owner.is_some_and(|owner| owner > 2) {
                return None;
            }
            let code = self.untagged(word(at + layout.frame_code));
            if code == 0 || !code.is_multiple_of(8) || word(code + layout.object_type) != self.facts.builtins.code_type
            {
                return None;
            }
            let count = |offset: usize| int(code + offset).max(0) as usize;
            let tuple =
                |offset: Option<usize>| offset.map_or(0, |offset| word(word(code + offset) + layout.var_object_size));
            let variables = count(layout.code_nlocalsplus) + tuple(heap.code_cellvars) + tuple(heap.code_freevars);
            let most = count(layout.code_stacksize);
            let slots = at + layout.frame_localsplus;
            let stack = match heap.minor {
                // The depth of the stack behind the variables.
                10 => usize::try_from(int(at + heap.frame_stack)).ok(),
                // Up to where slots are used.
                11..=13 => usize::try_from(int(at + heap.frame_stack)).ok().map(|top| top.saturating_sub(variables)),
                // The same as a pointer.
                _ => match word(at + heap.frame_stack) {
                    0 => None,
                    top => Some((top.saturating_sub(slots) / 8).saturating_sub(variables)),
                },
            };
            Some(LiveFrame {
                at,
                code,
                function: heap.frame_function.map_or(0, |function| self.untagged(word(at + function))),
                locals: word(at + heap.frame_locals),
                globals: word(at + heap.frame_globals),
                builtins: word(at + heap.frame_builtins),
                object: heap.frame_object.map_or(at, |object| word(at + object)),
                generator: match (owner, heap.frame_generator) {
                    (Some(BY_GENERATOR), _) => at - heap.generator_frame,
                    (_, Some(generator)) => word(at + generator),
                    _ => 0,
                },
                slots,
                variables,
                stack: stack.unwrap_or(most).min(most),
                runs: stack.is_none(),
            })
        }
    }

    /// A slot of a frame: a variable, or behind them a value on its stack.
    ///
    /// # Safety
    /// The frame must have so many.
    pub(super) unsafe fn frame_slot(&self, frame: &LiveFrame, slot: usize) -> usize {
        // SAFETY: the caller's promise.
        self.untagged(unsafe { word(frame.slots + 8 * slot) })
    }

    /// Whether a frame's variables are references of its generator, which tells of them unless it runs. Until 3.10 the
    /// frame is an object and tells of them itself; they are told of again for their names.
    pub(super) fn is_told_by_generator(frame: &LiveFrame) -> bool {
        frame.generator != 0 && !frame.runs && frame.object != frame.at
    }

    /// The line at which a frame is, or zero.
    pub(super) unsafe fn line(&self, frame: &LiveFrame) -> u32 {
        let layout = self.layout;
        // SAFETY: the caller's promise: the code's table is a bytes object.
        unsafe {
            let table = word(frame.code + layout.code_linetable);
            if table == 0 {
                return 0;
            }
            let table = bytes(table + layout.bytes_data, word(table + layout.bytes_size));
            let first = int(frame.code + layout.code_firstlineno);
            let line = match layout.code_instructions {
                None => usize::try_from(int(frame.at + layout.frame_instruction))
                    .ok()
                    .and_then(|index| lines::line_3_10(table, first, index * 2)),
                Some(start) => {
                    let offset = word(frame.at + layout.frame_instruction).saturating_sub(frame.code + start);
                    lines::line_3_11(table, first, offset)
                }
            };
            line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
        }
    }

    /// The name of a thread as `threading` knows it: a string object.
    ///
    /// # Safety
    /// The facts must be those of this process.
    pub(super) unsafe fn thread_name(&mut self, ident: u64) -> Option<usize> {
        // SAFETY: the caller's promise: what is followed are objects, whose types are looked at first.
        unsafe {
            let modules = word(self.facts.interpreter + self.heap.interpreter_modules);
            if modules == 0 || !self.is_dict(modules) {
                return None;
            }
            let threading = self.item(modules, b"threading")?;
            if self.kind_of(threading)? != Kind::Module {
                return None;
            }
            let dict = word(threading + self.heap.module_dict);
            let active = self.item(dict, b"_active").filter(|active| self.is_dict(*active))?;
            let keys = self.keys(word(active + self.heap.dict_keys));
            let wanted = i64::try_from(ident).ok();
            let at = (0..keys.count).find(|at| {
                let key = Self::key_at(&keys, *at);
                key != 0 && self.is_exact_int(key) && self.integer(key) == wanted
            })?;
            let thread = Self::value_at(&keys, at);
            let name = self.attribute(thread, b"_name")?;
            self.is_text(name).then_some(name)
        }
    }

    pub(super) unsafe fn kind_of(&mut self, object: usize) -> Option<Kind> {
        // SAFETY: the caller's promise: it is an object.
        let class = unsafe { self.classes.of(word(object + self.layout.object_type)) }.ok()?;
        Some(self.classes.get(class).kind)
    }

    /// An attribute of an instance of a class that is written in Python.
    unsafe fn attribute(&mut self, object: usize, name: &[u8]) -> Option<usize> {
        if object == 0 {
            return None;
        }
        // SAFETY: the caller's promise: it is an object.
        unsafe {
            let class = self.classes.of(word(object + self.layout.object_type)).ok()?;
            let class = *self.classes.get(class);
            let mut dict = 0;
            if self.heap.minor >= 11 && class.has(MANAGED_DICT) {
                let (attributes, managed) = self.managed(object, &class);
                if let (Some(attributes), Some(keys)) = (attributes, self.shared_keys(&class)) {
                    let found = (0..attributes.count).find(|at| self.ascii(Self::key_at(&keys, *at)) == Some(name));
                    return found.map(|at| word(attributes.at + 8 * at)).filter(|value| *value != 0);
                }
                dict = managed;
            } else if let Some(place) = self.dict_place(object, &class) {
                dict = word(place);
            }
            if dict != 0 && self.is_dict(dict) { self.item(dict, name) } else { None }
        }
    }
}
