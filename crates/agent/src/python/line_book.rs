//! `LineBook`: what `profile_memory` books at each line of a marked function.
//!
//! Its methods are callbacks of `sys.monitoring`, and are called for each line. They allocate nothing that is counted, but for the
//! frame object of a call at its first line, which is not booked.

use std::collections::HashMap;
use std::sync::Mutex;

use pyo3::prelude::*;

use crate::alloc::exact;
use crate::cpython::own_stack::current_frame;
use crate::sys::locks::lock;

/// Figures of marked functions by line, and the calls that go on.
#[pyclass(frozen, module = "neurogc._agent")]
pub(crate) struct LineBook {
    state: Mutex<BookState>,
}

#[derive(Default)]
struct BookState {
    /// Functions by the addresses of their code objects, which live as long as the book: the caller sees to that.
    functions: HashMap<usize, usize>,
    figures: Vec<Vec<LineFigures>>,
    running: Vec<RunningCall>,
}

/// One line: by how much memory grew, the most above the beginning of the call, and how often it ran.
#[derive(Clone, Copy)]
struct LineFigures {
    line: u32,
    change: i64,
    peak: i64,
    times: u64,
}

/// A call that goes on.
struct RunningCall {
    frame: Py<PyAny>,
    function: usize,
    /// What lived when it began, and at its latest line.
    base: i64,
    live: i64,
    /// The most since that line.
    peak: i64,
    /// The line that runs, among the function's.
    line: Option<usize>,
}

impl RunningCall {
    /// Books the line that ran.
    fn book(&mut self, figures: &mut [LineFigures], live: i64) {
        if let Some(line) = self.line.and_then(|at| figures.get_mut(at)) {
            line.change += live - self.live;
            line.times += 1;
            line.peak = line.peak.max(self.peak - self.base);
        }
        (self.live, self.peak) = (live, live);
    }
}

impl BookState {
    /// The call of a frame. The innermost come last, and are looked for first.
    fn call(&self, frame: usize) -> Option<usize> {
        self.running.iter().rposition(|call| call.frame.as_ptr() as usize == frame)
    }

    /// The most that lived is that of every call that goes on.
    fn spread(&mut self, peak: i64) {
        self.running.iter_mut().for_each(|call| call.peak = call.peak.max(peak));
    }

    /// Books the line that a call was at, and gives the call.
    fn book(&mut self, frame: usize, live: i64) -> Option<usize> {
        let at = self.call(frame)?;
        let call = &mut self.running[at];
        call.book(&mut self.figures[call.function], live);
        call.line = None;
        Some(at)
    }

    fn line_of(&self, function: usize, number: u32) -> Option<usize> {
        self.figures[function].binary_search_by_key(&number, |line| line.line).ok()
    }
}

#[pymethods]
impl LineBook {
    #[new]
    fn new() -> Self {
        Self { state: Mutex::default() }
    }

    /// Adds a function with its lines, and gives its number. The caller keeps the code object alive.
    fn add(&self, code: &Bound<'_, PyAny>, mut lines: Vec<u32>) -> usize {
        lines.sort_unstable();
        lines.dedup();
        let figures = lines.into_iter().map(|line| LineFigures { line, change: 0, peak: 0, times: 0 }).collect();
        let mut state = lock(&self.state);
        let number = state.figures.len();
        state.figures.push(figures);
        state.functions.insert(code.as_ptr() as usize, number);
        number
    }

    /// The lines of a function: number, change, peak and times of each.
    fn figures(&self, function: usize) -> Vec<(u32, i64, i64, u64)> {
        let state = lock(&self.state);
        let row = |it: &LineFigures| (it.line, it.change, it.peak, it.times);
        state.figures.get(function).into_iter().flatten().map(row).collect()
    }

    /// How many calls go on.
    fn running(&self) -> usize {
        lock(&self.state).running.len()
    }

    /// Forgets calls that go on.
    fn clear(&self) {
        let running = std::mem::take(&mut lock(&self.state).running);
        // What a frame holds may run code when it goes: the book is not locked any more.
        drop(running);
    }

    /// A line of a marked function begins in this thread.
    fn line(&self, py: Python<'_>, code: &Bound<'_, PyAny>, number: u32) {
        let marked = exact::mark();
        if let Some(frame) = current_frame(py) {
            self.begin_line(&frame, code, number, marked);
        }
    }

    /// The same for a trace function, which has the frame.
    fn line_in(&self, frame: &Bound<'_, PyAny>, code: &Bound<'_, PyAny>, number: u32) {
        self.begin_line(frame, code, number, exact::mark());
    }

    /// A marked function returns in this thread.
    fn returned(&self, py: Python<'_>, _code: &Bound<'_, PyAny>, _offset: u32, _value: &Bound<'_, PyAny>) {
        if let Some(frame) = current_frame(py) {
            self.leave(&frame);
        }
    }

    /// It yields.
    fn yielded(&self, py: Python<'_>, _code: &Bound<'_, PyAny>, _offset: u32, _value: &Bound<'_, PyAny>) {
        if let Some(frame) = current_frame(py) {
            self.pause(&frame);
        }
    }

    /// It goes on after that.
    fn resumed(&self, py: Python<'_>, _code: &Bound<'_, PyAny>, _offset: u32) {
        if let Some(frame) = current_frame(py) {
            self.resume(&frame);
        }
    }

    /// The call with this frame is over.
    fn leave(&self, frame: &Bound<'_, PyAny>) {
        let (live, peak) = exact::mark();
        let call = {
            let mut state = lock(&self.state);
            state.spread(peak);
            let at = state.book(frame.as_ptr() as usize, live);
            at.map(|at| state.running.remove(at))
        };
        drop(call);
    }

    /// The call with this frame is suspended: what follows is no line of it.
    fn pause(&self, frame: &Bound<'_, PyAny>) {
        let (live, peak) = exact::mark();
        let mut state = lock(&self.state);
        state.spread(peak);
        state.book(frame.as_ptr() as usize, live);
    }

    /// The call with this frame goes on.
    fn resume(&self, frame: &Bound<'_, PyAny>) {
        let (live, peak) = exact::mark();
        let mut state = lock(&self.state);
        state.spread(peak);
        if let Some(at) = state.call(frame.as_ptr() as usize) {
            let call = &mut state.running[at];
            (call.live, call.peak) = (live, live);
        }
    }
}

impl LineBook {
    fn begin_line(&self, frame: &Bound<'_, PyAny>, code: &Bound<'_, PyAny>, number: u32, (live, peak): (i64, i64)) {
        let mut state = lock(&self.state);
        state.spread(peak);
        let at = match state.book(frame.as_ptr() as usize, live) {
            Some(at) => at,
            None => {
                let Some(function) = state.functions.get(&(code.as_ptr() as usize)).copied() else { return };
                // The frame object has just been made, perhaps: it is not the function's.
                let (live, _) = exact::mark();
                let frame = frame.clone().unbind();
                state.running.push(RunningCall { frame, function, base: live, live, peak: live, line: None });
                state.running.len() - 1
            }
        };
        let function = state.running[at].function;
        state.running[at].line = state.line_of(function, number);
    }
}
