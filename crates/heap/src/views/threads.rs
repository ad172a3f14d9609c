//! Threads with their frames and local variables, and tasks of asyncio with what they wait for.

use neurogc_ngch::{Kind, RootKind, TaskState};
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::graph::NONE;
use crate::heap::Heap;
use crate::names::{Names, PathStep};

/// How far up the tree it is looked for whether a variable holds what refers to it. A list may be a million nodes long.
const MOST_STEPS: usize = 1000;

/// A local variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LocalLine {
    /// Its name.
    pub name: String,
    /// What it is.
    pub what: String,
    /// What the object retains, whether or not the frame is its only holder.
    pub retained: u64,
    /// Whether nothing but frames holds it.
    pub only_here: bool,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameLine {
    /// The function.
    pub function: String,
    /// The file and line.
    pub place: Option<String>,
    /// Its variables, the largest first.
    pub locals: Vec<LocalLine>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadLine {
    /// Its name.
    pub name: String,
    /// What only its frames hold.
    pub retained: u64,
    /// Its frames, the innermost first.
    pub frames: Vec<FrameLine>,
}

/// A task of asyncio.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskLine {
    /// Its name.
    pub name: String,
    /// The function of its coroutine.
    pub coroutine: Option<String>,
    /// pending, cancelled, finished or unknown.
    pub state: &'static str,
    /// What it waits for.
    pub awaits: Option<String>,
    /// What it retains.
    pub retained: u64,
}

/// Threads and tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadReport {
    /// Threads.
    pub threads: Vec<ThreadLine>,
    /// Tasks, the largest first.
    pub tasks: Vec<TaskLine>,
    /// How many tasks there are.
    pub all_tasks: usize,
}

/// Threads, and the `top` largest tasks and variables of each frame.
#[must_use]
pub fn threads(heap: &Heap, top: usize) -> ThreadReport {
    let names = Names::of(heap);
    let tables = &heap.dump.tables;
    let elsewhere = held_elsewhere(heap);
    let mut threads: Vec<ThreadLine> = (0..tables.threads.len() as u32)
        .map(|thread| ThreadLine { name: names.thread(thread), retained: 0, frames: Vec::new() })
        .collect();
    for (number, frame) in tables.frames.iter().enumerate() {
        let Some(thread) = threads.get_mut(frame.thread as usize) else { continue };
        let mut locals = match frame.generator {
            Some(generator) => of_generator(heap, &names, generator),
            None => of_frame(heap, &names, number as u32, &elsewhere),
        };
        thread.retained += locals.iter().filter(|it| it.only_here).map(|it| it.retained).sum::<u64>();
        locals.sort_by(|one, other| other.retained.cmp(&one.retained).then_with(|| one.name.cmp(&other.name)));
        locals.truncate(top);
        thread.frames.push(FrameLine { function: names.frame(frame), place: names.frame_line(frame), locals });
    }
    let mut tasks: Vec<TaskLine> = tables
        .tasks
        .iter()
        .map(|task| TaskLine {
            name: names.object(task.object).trim_start_matches("task ").to_owned(),
            coroutine: task.coroutine.and_then(|it| names.generator(it)),
            state: match task.state {
                TaskState::Pending => "pending",
                TaskState::Cancelled => "cancelled",
                TaskState::Finished => "finished",
                TaskState::Unknown => "unknown",
            },
            awaits: task.awaits.map(|it| names.object(it)),
            retained: heap.retained(task.object),
        })
        .collect();
    let all_tasks = tasks.len();
    tasks.sort_by(|one, other| other.retained.cmp(&one.retained).then_with(|| one.name.cmp(&other.name)));
    tasks.truncate(top);
    ThreadReport { threads, tasks, all_tasks }
}

fn of_frame(heap: &Heap, names: &Names<'_>, frame: u32, elsewhere: &FxHashSet<u32>) -> Vec<LocalLine> {
    let locals = heap.dump.tables.roots.iter().filter(|root| root.kind == RootKind::Local && root.a == frame);
    locals
        .map(|root| {
            // What a variable in a cell retains is what the cell does.
            let shown = match (heap.kind(root.object), heap.graph.links.of(root.object)) {
                (Kind::Cell, [content, ..]) => *content,
                _ => root.object,
            };
            LocalLine {
                name: names.local(root.a, root.b),
                what: names.object(shown),
                retained: heap.retained(shown),
                only_here: !elsewhere.contains(&root.object),
            }
        })
        .collect()
}

/// Variables of frames that an object refers to which they do not hold themselves. Until CPython 3.10 a frame is an object,
/// and later one may be; that is the frame itself.
fn held_elsewhere(heap: &Heap) -> FxHashSet<u32> {
    let roots = heap.dump.tables.roots.iter().filter(|root| root.kind == RootKind::Local);
    let locals: FxHashSet<u32> = roots.map(|root| root.object).collect();
    let mut found = FxHashSet::default();
    for object in (0..heap.graph.objects() as u32).filter(|object| heap.kind(*object) != Kind::Frame) {
        for target in heap.graph.links.of(object) {
            if locals.contains(target) && !found.contains(target) && !is_below(heap, object, *target) {
                found.insert(*target);
            }
        }
    }
    found
}

/// Whether an object is below another in the tree, as far as a look of some steps tells.
fn is_below(heap: &Heap, object: u32, above: u32) -> bool {
    let mut at = object;
    for _ in 0..MOST_STEPS {
        if at == above {
            return true;
        }
        match heap.tree.holders.get(at as usize) {
            Some(holder) if *holder != NONE => at = *holder,
            _ => return false,
        }
    }
    true
}

fn of_generator(heap: &Heap, names: &Names<'_>, generator: u32) -> Vec<LocalLine> {
    let mut locals = Vec::new();
    heap.dump.each_reference(generator, |reference| {
        if let PathStep::Variable(name) = names.slot_step(generator, reference.slot, reference.target) {
            locals.push(LocalLine {
                name,
                what: names.object(reference.target),
                retained: heap.retained(reference.target),
                only_here: heap.tree.holders[reference.target as usize] == generator,
            });
        }
    });
    locals
}
