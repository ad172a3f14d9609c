//! What holds objects from outside of the heap: modules, frames, states of the interpreter and its threads, and words in
//! the memory of loaded files.

use neurogc_ngch::{FramePart, InterpreterPart, RootKind, RootRow};

use super::super::control::WalkTrouble;
use super::HeapWalk;
use super::frames::LiveFrame;
use super::raw::{Array, word};
use crate::sys::memory;

/// More roots than this are not told of.
const MOST: u64 = 4 << 20;

/// Words that are read at a time.
const AT_ONCE: usize = 2048;

/// Rows of the table.
pub(super) struct Roots {
    pub(super) rows: Array<u8>,
    pub(super) count: u64,
}

impl HeapWalk<'_> {
    /// The dicts and lists that the interpreter holds by name.
    unsafe fn interpreter_parts(&self) -> [(RootKind, u32, usize); 5] {
        let (heap, interpreter) = (self.heap, self.facts.interpreter);
        let gc = interpreter + self.layout.interpreter_gc;
        let part = |part: InterpreterPart| part as u32;
        // SAFETY: the interpreter's state is where the layout says.
        unsafe {
            [
                (RootKind::Modules, 0, word(interpreter + heap.interpreter_modules)),
                (RootKind::Interpreter, part(InterpreterPart::Sys), word(interpreter + heap.interpreter_sysdict)),
                (RootKind::Interpreter, part(InterpreterPart::Builtins), word(interpreter + heap.interpreter_builtins)),
                (RootKind::Interpreter, part(InterpreterPart::Garbage), word(gc + heap.gc_garbage)),
                (RootKind::Interpreter, part(InterpreterPart::Callbacks), word(gc + heap.gc_callbacks)),
            ]
        }
    }

    /// The parts of a frame that are objects.
    fn frame_parts(frame: &LiveFrame) -> [(FramePart, usize); 4] {
        // Globals and builtins are borrowed from the function from 3.11 on, so they are no roots of their own.
        [
            (FramePart::Code, frame.code),
            (FramePart::Function, frame.function),
            (FramePart::Locals, frame.locals),
            (FramePart::Object, frame.object),
        ]
    }

    /// Takes in everything that is held from outside.
    ///
    /// # Safety
    /// The facts must be those of this process.
    pub(super) unsafe fn see_roots(&mut self) -> Result<(), WalkTrouble> {
        // SAFETY: the caller's promise.
        unsafe {
            for (_, _, object) in self.interpreter_parts() {
                self.see(object)?;
            }
            self.see(self.facts.builtins.type_type)?;
            let (mut thread, mut threads, mut frames) = (0, 0, 0);
            while let Some(next) = self.next_thread(thread, threads) {
                (thread, threads) = (next, threads + 1);
                let mut at = self.first_frame(thread);
                while at != 0 {
                    if let Some(frame) = self.frame(at) {
                        for (_, object) in Self::frame_parts(&frame) {
                            self.see(object)?;
                        }
                        self.see(frame.globals)?;
                        self.see(frame.builtins)?;
                        self.see(frame.generator)?;
                        for slot in 0..frame.variables {
                            self.see(self.frame_slot(&frame, slot))?;
                        }
                        if !frame.runs {
                            for slot in frame.variables..frame.variables + frame.stack {
                                self.see(self.frame_slot(&frame, slot))?;
                            }
                        }
                    }
                    frames += 1;
                    at = self.previous_frame(at, frames);
                }
            }
        }
        Ok(())
    }

    fn root(&self, roots: &mut Roots, kind: RootKind, a: u32, b: u64, object: usize) {
        if let Some(object) = self.seen.number(object)
            && roots.count < MOST
            && roots.rows.reserve(32)
        {
            RootRow { kind, a, b, object }.put(&mut roots.rows);
            roots.count += 1;
        }
    }

    /// All roots but those of frames.
    ///
    /// # Safety
    /// As for `see_roots`; objects must have numbers.
    pub(super) unsafe fn state_roots(&mut self, roots: &mut Roots) -> Result<(), WalkTrouble> {
        let (heap, interpreter) = (self.heap, self.facts.interpreter);
        // SAFETY: the caller's promise.
        unsafe {
            for (kind, a, object) in self.interpreter_parts() {
                self.root(roots, kind, a, 0, object);
            }
        }
        let state = (interpreter, interpreter + heap.interpreter_size);
        // The cache of methods borrows what it refers to.
        let cache = match (heap.interpreter_type_cache, heap.type_cache_size) {
            (Some(cache), Some(size)) => (interpreter + cache, interpreter + cache + size),
            _ => (0, 0),
        };
        let gc = interpreter + self.layout.interpreter_gc;
        let named = [
            interpreter + heap.interpreter_modules,
            interpreter + heap.interpreter_sysdict,
            interpreter + heap.interpreter_builtins,
            gc + heap.gc_garbage,
            gc + heap.gc_callbacks,
        ];
        self.scan(state, |walk, at, value| {
            if !(cache.0..cache.1).contains(&at) && !named.contains(&at) {
                let offset = (at - interpreter) as u64;
                walk.root(roots, RootKind::Interpreter, InterpreterPart::Other as u32, offset, value);
            }
        })?;
        let (mut thread, mut threads) = (0, 0);
        // SAFETY: the caller's promise.
        while let Some(next) = unsafe { self.next_thread(thread, threads) } {
            thread = next;
            let number = threads as u32;
            self.scan((thread, thread + heap.thread_size), |walk, at, value| {
                walk.root(roots, RootKind::Thread, number, (at - thread) as u64, value);
            })?;
            threads += 1;
        }
        let facts = self.facts;
        for (number, image) in facts.images.iter().enumerate() {
            self.scan((image.start, image.start + image.length), |walk, at, value| {
                if !(state.0..state.1).contains(&at) {
                    walk.root(roots, RootKind::Image, number as u32, (at - image.start) as u64, value);
                }
            })?;
        }
        Ok(())
    }

    /// The roots of one frame.
    ///
    /// # Safety
    /// As for `state_roots`.
    pub(super) unsafe fn frame_roots(&self, frame: &LiveFrame, number: u32, roots: &mut Roots) {
        for (part, object) in Self::frame_parts(frame) {
            // What a generator's frame holds, the generator tells of.
            if part == FramePart::Object || !Self::is_told_by_generator(frame) {
                self.root(roots, RootKind::Frame, number, part as u64, object);
            }
        }
        if Self::is_told_by_generator(frame) {
            return;
        }
        // SAFETY: the caller's promise: the frame has so many slots.
        unsafe {
            for slot in 0..frame.variables {
                self.root(roots, RootKind::Local, number, slot as u64, self.frame_slot(frame, slot));
            }
            for slot in frame.variables..frame.variables + frame.stack {
                self.root(roots, RootKind::Stack, number, slot as u64, self.frame_slot(frame, slot));
            }
        }
    }

    /// Calls `act` for every word of a range that may be the address of an object. What cannot be read is passed over.
    fn scan(
        &mut self,
        (from, to): (usize, usize),
        mut act: impl FnMut(&mut Self, usize, usize),
    ) -> Result<(), WalkTrouble> {
        let mut buffer = [0; 8 * AT_ONCE];
        let mut at = from;
        while at < to {
            self.watch.look()?;
            let length = (to - at).min(buffer.len());
            let read = memory::read_some(at, &mut buffer[..length]);
            for (number, bytes) in buffer[..read].chunks_exact(8).enumerate() {
                let value = bytes.first_chunk().map_or(0, |bytes| usize::from_ne_bytes(*bytes));
                if value > 65536 && self.seen.has(value) {
                    act(self, at + 8 * number, value);
                }
            }
            at += length;
        }
        Ok(())
    }
}
