//! `neurogc heap show`: types, suspects, the largest objects, and other views of a dump.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use neurogc_heap::views::{self, TypeOrder};
use serde_json::{Value, json};

use crate::failure::CommandResult;
use crate::heap::listing::{self, Views};
use crate::heap::{HeapFile, print};

/// Show what a heap dump has: types, who holds much, the largest objects
///
/// Retained is what would be freed together with an object or with all objects of a type. Without a view, types,
/// suspects and the largest objects are shown.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  neurogc heap show service.ngch\n  neurogc heap show service.ngch --by retained --top 40\n  \
                        neurogc heap show service.ngch --tree --depth 6\n  \
                        neurogc heap show service.ngch --json | jq .types[0]"
)]
pub(crate) struct Arguments {
    /// A file of `neurogc heap dump`
    file: PathBuf,
    /// Who holds what, opened level by level
    #[arg(long)]
    tree: bool,
    /// How many levels --tree opens
    #[arg(long, default_value_t = 5, value_name = "N", requires = "tree")]
    depth: usize,
    /// Threads with their frames and variables, and tasks of asyncio with what they wait for
    #[arg(long)]
    threads: bool,
    /// Strings that are there more than once
    #[arg(long)]
    strings: bool,
    /// The longest containers, and how much empty ones take
    #[arg(long)]
    containers: bool,
    /// What native code holds, by library
    #[arg(long)]
    from_c: bool,
    /// Garbage that is not collected yet, and gc.garbage
    #[arg(long)]
    garbage: bool,
    /// The order of types
    #[arg(long, default_value = "bytes", value_name = "WHAT")]
    by: OrderName,
    /// How many lines of each view to show
    #[arg(long, default_value_t = 15, value_name = "N")]
    top: usize,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The values of --by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OrderName {
    /// Their own bytes
    Bytes,
    /// What they retain
    Retained,
    /// How many there are
    Objects,
}

impl OrderName {
    fn order(self) -> TypeOrder {
        match self {
            Self::Bytes => TypeOrder::Bytes,
            Self::Retained => TypeOrder::Retained,
            Self::Objects => TypeOrder::Objects,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let mut file = HeapFile::open(&arguments.file)?;
    let paths = file.paths()?;
    let (heap, top) = (&file.heap, arguments.top);
    let chosen = [
        arguments.tree,
        arguments.threads,
        arguments.strings,
        arguments.containers,
        arguments.from_c,
        arguments.garbage,
    ];
    let usual = !chosen.contains(&true);
    let views = Views {
        types: usual.then(|| views::types(heap, arguments.by.order())),
        suspects: usual.then(|| views::suspects(heap, &paths)),
        largest: usual.then(|| views::largest(heap, &paths, top)),
        tree: arguments.tree.then(|| listing::open_tree(heap, arguments.depth, top)),
        threads: arguments.threads.then(|| views::threads(heap, top)),
        strings: arguments.strings.then(|| views::strings(heap, &paths, top)),
        containers: arguments.containers.then(|| views::containers(heap, &paths, top)),
        outside: arguments.from_c.then(|| views::outside(heap, &paths, top)),
        garbage: arguments.garbage.then(|| views::garbage(heap, &paths, top)),
    };
    let summary = views::summary(heap);
    file.done();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&as_json(&summary, &views, top))?)?;
        return Ok(());
    }
    print(out, &listing::show(&summary, &views, top, crate::figures::room()))
}

fn as_json(summary: &views::HeapSummary, views: &Views, top: usize) -> Value {
    let mut all = json!({ "summary": summary });
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            all[name] = value;
        }
    };
    add("types", views.types.as_ref().map(|types| json!(types.iter().take(top).collect::<Vec<_>>())));
    add("suspects", views.suspects.as_ref().map(|it| json!(it)));
    add("largest", views.largest.as_ref().map(|it| json!(it)));
    add("tree", views.tree.as_ref().map(|it| json!(it)));
    add("threads", views.threads.as_ref().map(|it| json!(it)));
    add("strings", views.strings.as_ref().map(|it| json!(it)));
    add("containers", views.containers.as_ref().map(|it| json!(it)));
    add("from_c", views.outside.as_ref().map(|it| json!(it)));
    add("garbage", views.garbage.as_ref().map(|it| json!(it)));
    all
}
