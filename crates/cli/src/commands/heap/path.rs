//! `neurogc heap path`: what holds an object, or all objects of a type.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use neurogc_heap::views::{merged_paths, object_path};
use neurogc_heap::{HeapTarget, Names};

use crate::failure::{CommandResult, Failure};
use crate::heap::{HeapFile, listing, print};

/// Show the shortest paths from the roots to an object, or to all objects of a type
///
/// A root is a module, a local variable of a frame, a task, or native code. Weak references are no holders. Paths to
/// many objects are merged where they differ only in positions and keys.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc heap path service.ngch app.models.Session\n  \
                        neurogc heap path service.ngch 0x7f3a5c0b1d40\n  \
                        neurogc heap path service.ngch 'app.cache[\"user:42\"].items[3]'")]
pub(crate) struct Arguments {
    /// A file of `neurogc heap dump`
    file: PathBuf,
    /// A type, an address as `id()` gives it, or an expression
    #[arg(value_name = "TYPE|ADDRESS|EXPR")]
    what: String,
    /// How many paths to show
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let mut file = HeapFile::open(&arguments.file)?;
    let found = Names::of(&file.heap).find(&arguments.what).map_err(|error| Failure::failed(error.to_string()));
    if found.is_err() {
        file.done();
    }
    let found = found?;
    let paths = file.paths()?;
    let heap = &file.heap;
    let text = match found {
        HeapTarget::Object(object) => {
            let path = object_path(heap, &paths, object);
            file.done();
            if arguments.json {
                serde_json::to_string_pretty(&path)? + "\n"
            } else {
                listing::object_path(&path, crate::figures::room())
            }
        }
        HeapTarget::Types(types) => {
            let objects: Vec<u32> =
                (0..heap.graph.objects() as u32).filter(|it| types.contains(&heap.graph.types[*it as usize])).collect();
            let merged = merged_paths(heap, &paths, &objects, arguments.top);
            file.done();
            if arguments.json {
                serde_json::to_string_pretty(&merged)? + "\n"
            } else {
                listing::merged_paths(&arguments.what, &merged, crate::figures::room())
            }
        }
    };
    if arguments.json { Ok(write!(out, "{text}")?) } else { print(out, &text) }
}
