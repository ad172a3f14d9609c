//! Names from code: functions, their local variables, frames and threads.

use neurogc_ngch::{Kind, Slot};

use super::Names;
use crate::reader::HeapFrame;

/// The name of the main thread, which is not worth saying.
const MAIN: &str = "MainThread";

impl Names<'_> {
    /// The name of a code object's function.
    pub(crate) fn code_name(&self, code: u32) -> Option<String> {
        let name = self.member(code, "co_qualname").or_else(|| self.member(code, "co_name"))?;
        self.whole_text(name)
    }

    /// The file of a code object.
    pub(crate) fn code_file(&self, code: u32) -> Option<String> {
        self.text(self.member(code, "co_filename")?).map(|(text, _)| text)
    }

    /// The names of a code object's variables: locals, then those in cells, then those of enclosing functions.
    pub(crate) fn variables(&self, code: u32) -> Vec<String> {
        let tuple = |name| self.member(code, name).map(|it| self.heap.graph.links.of(it)).unwrap_or_default();
        let all = match tuple("co_localsplusnames") {
            [] => [tuple("co_varnames"), tuple("co_cellvars"), tuple("co_freevars")].concat(),
            names => names.to_vec(),
        };
        all.into_iter().map(|name| self.whole_text(name).unwrap_or_default()).collect()
    }

    /// The name of the variable that a cell of a function's closure is.
    pub(crate) fn closure_variable(&self, function: u32, closure: u32, place: u64) -> Option<String> {
        let code = self.member(function, "__code__")?;
        let names = self.variables(code);
        let cells = self.heap.graph.links.of(closure).len();
        let place = names.len().checked_sub(cells)?.checked_add(usize::try_from(place).ok()?)?;
        names.get(place).cloned().filter(|name| !name.is_empty())
    }

    /// The name of a variable of a generator or coroutine.
    pub(crate) fn generator_variable(&self, generator: u32, place: u64) -> Option<String> {
        let names = self.variables(self.generator_code(generator)?);
        names.into_iter().nth(usize::try_from(place).ok()?).filter(|name| !name.is_empty())
    }

    fn generator_code(&self, generator: u32) -> Option<u32> {
        let mut found = None;
        self.heap.dump.each_reference(generator, |reference| {
            let field = matches!(reference.slot, Slot::Field(_));
            if found.is_none() && field && self.heap.kind(reference.target) == Kind::Code {
                found = Some(reference.target);
            }
        });
        found
    }

    /// The function of a generator or coroutine.
    pub(crate) fn generator(&self, generator: u32) -> Option<String> {
        self.code_name(self.generator_code(generator)?)
    }

    /// The function of a frame.
    #[must_use]
    pub fn frame(&self, frame: &HeapFrame) -> String {
        let name = frame.code.and_then(|code| self.code_name(code));
        name.unwrap_or_else(|| "<unknown>".to_owned())
    }

    /// The file and line of a frame, as far as they are known.
    #[must_use]
    pub fn frame_line(&self, frame: &HeapFrame) -> Option<String> {
        let file = self.code_file(frame.code?)?;
        Some(if frame.line > 0 { format!("{file}:{}", frame.line) } else { file })
    }

    /// The name of a thread; its number if it has none.
    #[must_use]
    pub fn thread(&self, thread: u32) -> String {
        match self.heap.dump.tables.threads.get(thread as usize) {
            Some(known) if !known.name.is_empty() => known.name.clone(),
            Some(known) if known.native > 0 => format!("thread {}", known.native),
            _ => format!("thread {thread}"),
        }
    }

    /// `handler()`, with the thread before it unless it is the main one.
    pub(crate) fn frame_with_thread(&self, frame: u32) -> String {
        let Some(row) = self.heap.dump.tables.frames.get(frame as usize) else { return format!("frame {frame}") };
        let thread = self.thread(row.thread);
        let function = self.frame(row);
        if thread == MAIN { format!("{function}()") } else { format!("{thread} {function}()") }
    }

    /// The name of a local variable of a frame.
    pub(crate) fn local(&self, frame: u32, variable: u64) -> String {
        let code = self.heap.dump.tables.frames.get(frame as usize).and_then(|row| row.code);
        let names = code.map(|code| self.variables(code)).unwrap_or_default();
        let name = usize::try_from(variable).ok().and_then(|place| names.into_iter().nth(place));
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("<local {variable}>"))
    }
}
