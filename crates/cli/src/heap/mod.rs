//! Heap dumps: a file that is analysed with progress, and its views as text and as a flame graph.

pub(crate) mod flame;
pub(crate) mod listing;
mod progress;

use std::io::Write;
use std::path::Path;

use neurogc_heap::{Dump, Heap, HeapPlaces, HeapStep, Paths};

use crate::failure::{CommandResult, Failure};
use crate::notice::say;
use crate::paint;
use progress::HeapBar;

/// A dump that is analysed, while standard error tells how far it is.
pub(crate) struct HeapFile {
    pub(crate) heap: Heap,
    bar: HeapBar,
}

impl HeapFile {
    /// Opens and analyses a dump. What is missing in it is said on standard error.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |error: neurogc_heap::DumpError| Failure::failed(format!("cannot read {shown}: {error}"));
        let dump = Dump::open(path).map_err(failed)?;
        let mut bar = HeapBar::new(&shown.to_string());
        let heap = Heap::analyse(dump, &mut |step| bar.begin(step)).map_err(failed)?;
        if let Some(missing) = heap.dump.missing() {
            bar.clear();
            say(format_args!("{shown}: {missing}. What could be read is shown"));
        }
        Ok(Self { heap, bar })
    }

    /// The shortest paths from the roots.
    pub(crate) fn paths(&mut self) -> Result<Paths, Failure> {
        self.bar.begin(HeapStep::Paths);
        Ok(Paths::find(&self.heap)?)
    }

    /// The heap by place.
    pub(crate) fn places(&mut self, paths: &Paths) -> Result<HeapPlaces, Failure> {
        self.bar.begin(HeapStep::Places);
        Ok(HeapPlaces::of(&self.heap, paths)?)
    }

    /// Everything is found out: the bar goes.
    pub(crate) fn done(&mut self) {
        self.bar.clear();
    }
}

/// Prints a report, in colours where they are wanted.
pub(crate) fn print(out: &mut dyn Write, text: &str) -> CommandResult {
    if paint::is_wanted() {
        write!(out, "{}", paint::report(text, None))?;
    } else {
        write!(out, "{text}")?;
    }
    Ok(())
}
