//! Views of a heap as text.

use neurogc_heap::Heap;
use neurogc_heap::views::{
    ContainerReport, GarbageReport, GrowthReport, HeapSummary, MergedPaths, ObjectLine, ObjectPath, OutsideReport,
    StringReport, Suspect, ThreadReport, TreeLine, TypeLine, branches,
};
use serde::Serialize;

use crate::figures::{bytes, change, count, ms, plain, shorten, shorten_front, utc};
use crate::table::{Alignment, Table};

/// What of the tree is opened: an object needs this share.
const OPENED: f64 = 0.01;

/// Children of one object that --tree shows at most.
const MOST_CHILDREN: usize = 5;

/// The views that are to be shown.
#[derive(Debug, Default)]
pub(crate) struct Views {
    pub(crate) types: Option<Vec<TypeLine>>,
    pub(crate) suspects: Option<Vec<Suspect>>,
    pub(crate) largest: Option<Vec<ObjectLine>>,
    pub(crate) tree: Option<Vec<OpenLine>>,
    pub(crate) threads: Option<ThreadReport>,
    pub(crate) strings: Option<StringReport>,
    pub(crate) containers: Option<ContainerReport>,
    pub(crate) outside: Option<OutsideReport>,
    pub(crate) garbage: Option<GarbageReport>,
}

/// A line of the tree with how deep it is.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OpenLine {
    depth: usize,
    #[serde(flatten)]
    line: TreeLine,
    /// Further objects with the same holder that are not shown.
    more: u64,
}

/// The tree, opened where it is large.
pub(crate) fn open_tree(heap: &Heap, depth: usize, top: usize) -> Vec<OpenLine> {
    let mut lines = Vec::new();
    let level = |holder: Option<u32>, depth: usize| {
        let most = if holder.is_none() { top } else { MOST_CHILDREN };
        let all = heap.tree.children(holder.unwrap_or(heap.tree.root())).len();
        let mut found: Vec<OpenLine> = branches(heap, holder, most)
            .into_iter()
            .filter(|line| line.share >= OPENED)
            .map(|line| OpenLine { depth, line, more: 0 })
            .collect();
        let left = (all - found.len()) as u64;
        if let Some(last) = found.last_mut() {
            last.more = left;
        }
        found.reverse();
        found
    };
    let mut open = level(None, 0);
    while let Some(line) = open.pop() {
        let below = if line.depth + 1 < depth { level(Some(line.line.object), line.depth + 1) } else { Vec::new() };
        lines.push(line);
        open.extend(below);
    }
    lines
}

/// Everything that is to be shown.
pub(crate) fn show(summary: &HeapSummary, views: &Views, top: usize, room: Option<usize>) -> String {
    let mut text = head(summary);
    let mut add = |part: Option<String>| {
        if let Some(part) = part {
            text.push('\n');
            text.push_str(&part);
        }
    };
    add(views.suspects.as_ref().map(|it| suspects(it)));
    add(views.types.as_ref().map(|it| types(it, top, room)));
    add(views.largest.as_ref().map(|it| objects("largest objects, by what they retain", it, room)));
    add(views.tree.as_ref().map(|it| tree(it, room)));
    add(views.threads.as_ref().map(|it| threads(it, room)));
    add(views.strings.as_ref().map(|it| strings(it, room)));
    add(views.containers.as_ref().map(|it| containers(it, room)));
    add(views.outside.as_ref().map(|it| outside(it, room)));
    add(views.garbage.as_ref().map(|it| garbage(it, room)));
    text
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn head(summary: &HeapSummary) -> String {
    let mut text = format!(
        "process {}: {} in {} objects\n  Python {}, taken {}",
        summary.pid,
        bytes(summary.bytes),
        count(summary.objects),
        summary.python,
        utc(summary.taken_unix_ms * 1_000_000)
    );
    if summary.pause_ms > 0.0 {
        text.push_str(&format!(", the program stood still for {}", ms(summary.pause_ms)));
    }
    let share = |part: u64| percent(part as f64 / summary.bytes.max(1) as f64);
    text.push_str(&format!(
        "\n  {} under modules, frames and the interpreter, {} held from C without a name, {} garbage\n",
        share(summary.named_bytes),
        share(summary.from_c_bytes),
        share(summary.garbage_bytes)
    ));
    if summary.resident_bytes > summary.bytes {
        text.push_str(&format!(
            "  {} of the {} resident are not in these sizes: libraries, free memory, native memory",
            bytes(summary.resident_bytes - summary.bytes),
            bytes(summary.resident_bytes)
        ));
        text.push_str(&match summary.native_objects {
            0 => "\n".to_owned(),
            objects => format!(", which {} objects may own\n", count(objects)),
        });
    }
    text
}

fn suspects(suspects: &[Suspect]) -> String {
    let mut text = String::from("suspects\n");
    if suspects.is_empty() {
        text.push_str("  none: nothing below a module, a frame or a library holds 10 % of the heap\n");
    }
    for suspect in suspects {
        text.push_str(&format!(
            "  {} ({}): {}\n",
            bytes(suspect.retained),
            percent(suspect.share),
            plain(&suspect.text)
        ));
        let parts: Vec<_> = suspect
            .parts
            .iter()
            .map(|part| format!("{} {} ({})", count(part.objects), plain(&part.class), bytes(part.retained)))
            .collect();
        if suspect.holder.is_some() && !parts.is_empty() {
            text.push_str(&format!("    it holds {}\n", parts.join(", ")));
        }
    }
    text
}

fn types(types: &[TypeLine], top: usize, room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    let mut table = Table::new(&[("OBJECTS", Right), ("BYTES", Right), ("RETAINED", Right), ("TYPE", Left)]);
    for line in types.iter().take(top) {
        table.row([count(line.objects), bytes(line.bytes), bytes(line.retained), plain(&line.name)]);
    }
    table.fit_last(2, room, shorten_front);
    format!("types\n{}{}", table.render(2), more(types.len(), top))
}

/// A line for what is not shown, if there is any.
fn more(all: usize, shown: usize) -> String {
    let left_out = all.saturating_sub(shown);
    if left_out == 0 { String::new() } else { format!("  … and {} more; --top shows more\n", count(left_out as u64)) }
}

fn objects(title: &str, objects: &[ObjectLine], room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    let mut table = Table::new(&[("RETAINED", Right), ("SHARE", Right), ("TYPE", Left), ("PATH", Left)]);
    for line in objects {
        let path = line.path.clone().unwrap_or_else(|| "garbage".to_owned());
        table.row([bytes(line.retained), percent(line.share), shorten(&plain(&line.class), 40), plain(&path)]);
    }
    table.fit_last(2, room, shorten_front);
    format!("{title}\n{}", table.render(2))
}

fn tree(lines: &[OpenLine], room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    let mut table = Table::new(&[("RETAINED", Right), ("SHARE", Right), ("HOLDER", Left)]);
    for OpenLine { depth, line, more } in lines {
        let indent = "  ".repeat(*depth);
        let name = if line.step.is_empty() { line.what.clone() } else { format!("{}  {}", line.step, line.what) };
        let objects = if line.children > 0 { format!(", holds {}", count(line.children)) } else { String::new() };
        table.row([bytes(line.retained), percent(line.share), format!("{indent}{}{objects}", plain(&name))]);
        if *more > 0 {
            table.row([String::new(), String::new(), format!("{indent}… {} smaller", count(*more))]);
        }
    }
    table.fit_last(2, room, shorten);
    format!("who holds what\n{}", table.render(2))
}

fn threads(report: &ThreadReport, room: Option<usize>) -> String {
    let mut text = String::from("threads\n");
    let cut = |line: String| room.map_or(line.clone(), |room| shorten(&line, room));
    for thread in &report.threads {
        let held = bytes(thread.retained);
        text.push_str(&cut(format!("  {}: {held} that only its frames hold", plain(&thread.name))));
        text.push('\n');
        for frame in &thread.frames {
            let place = frame.place.as_deref().map(|it| format!("  {}", plain(it))).unwrap_or_default();
            text.push_str(&cut(format!("    {}(){place}", plain(&frame.function))));
            text.push('\n');
            for local in &frame.locals {
                let only = if local.only_here { "" } else { ", also held elsewhere" };
                let line = format!(
                    "      {:>10}  {} = {}{only}",
                    bytes(local.retained),
                    plain(&local.name),
                    plain(&local.what)
                );
                text.push_str(&cut(line));
                text.push('\n');
            }
        }
    }
    if report.all_tasks > 0 {
        text.push_str(&format!("\ntasks of asyncio: {}\n", count(report.all_tasks as u64)));
    }
    for task in &report.tasks {
        let runs = task.coroutine.as_deref().map(|it| format!(" runs {}", plain(it))).unwrap_or_default();
        let awaits = task.awaits.as_deref().map(|it| format!(", waits for {}", plain(it))).unwrap_or_default();
        let line = format!("  {:>10}  {}{runs}, {}{awaits}", bytes(task.retained), plain(&task.name), task.state);
        text.push_str(&cut(line));
        text.push('\n');
    }
    text
}

fn strings(report: &StringReport, room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    if report.withheld {
        return "strings\n  the dump was taken with --no-text: there is nothing to compare\n".to_owned();
    }
    let mut table = Table::new(&[("WASTED", Right), ("TIMES", Right), ("TEXT", Left), ("ONE IS AT", Left)]);
    for line in &report.rows {
        let path = line.path.clone().unwrap_or_default();
        table.row([bytes(line.wasted), count(line.objects), shorten(&plain(&line.text), 42), plain(&path)]);
    }
    table.fit_last(2, room, shorten_front);
    format!(
        "strings that are there more than once: {} of {} in {} strings\n{}",
        bytes(report.wasted),
        bytes(report.bytes),
        count(report.objects),
        table.render(2)
    )
}

fn containers(report: &ContainerReport, room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    let mut table =
        Table::new(&[("LENGTH", Right), ("BYTES", Right), ("RETAINED", Right), ("TYPE", Left), ("PATH", Left)]);
    for line in &report.longest {
        let path = line.object.path.clone().unwrap_or_default();
        let (own, retained) = (bytes(line.object.bytes), bytes(line.object.retained));
        table.row([count(line.length), own, retained, shorten(&plain(&line.object.class), 30), plain(&path)]);
    }
    table.fit_last(2, room, shorten_front);
    let mut text = format!("longest containers\n{}", table.render(2));
    let mut empty = Table::new(&[("EMPTY", Right), ("OF", Right), ("BYTES", Right), ("TYPE", Left)]);
    for line in &report.empty {
        empty.row([count(line.objects), count(line.all), bytes(line.bytes), plain(&line.class)]);
    }
    text.push_str(&format!("\nempty containers\n{}", empty.render(2)));
    text
}

fn outside(report: &OutsideReport, room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    let mut table = Table::new(&[("RETAINED", Right), ("OBJECTS", Right), ("HELD BY", Left), ("LARGEST", Left)]);
    for row in &report.rows {
        for (place, line) in row.largest.iter().enumerate() {
            let largest = format!("{} ({})", plain(&line.what), bytes(line.retained));
            match place {
                0 => table.row([bytes(row.retained), count(row.objects), plain(&row.by), largest]),
                _ => table.row([String::new(), String::new(), String::new(), largest]),
            }
        }
    }
    table.fit_last(2, room, shorten);
    format!("held from C, and by no module or frame: {}\n{}", bytes(report.retained), table.render(2))
}

fn garbage(report: &GarbageReport, room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    let mut text =
        format!("garbage that is not collected yet: {} in {} objects\n", bytes(report.bytes), count(report.objects));
    if report.objects > 0 {
        let mut table = Table::new(&[("OBJECTS", Right), ("BYTES", Right), ("TYPE", Left)]);
        for line in &report.types {
            table.row([count(line.objects), bytes(line.bytes), plain(&line.name)]);
        }
        table.fit_last(2, room, shorten_front);
        text.push_str(&table.render(2));
    }
    if !report.finalizers.is_empty() {
        text.push_str(&format!("  types with a finalizer among them: {}\n", plain(&report.finalizers.join(", "))));
    }
    if report.kept_objects > 0 {
        let title = format!("gc.garbage: {} objects that the collector does not free", count(report.kept_objects));
        text.push('\n');
        text.push_str(&objects(&title, &report.kept, room));
        text.push_str(
            "  why: gc.DEBUG_SAVEALL is set, the program has put them there, or their type is of C and has an old finalizer \
             (tp_del), which no class of Python code has\n",
        );
    }
    text
}

/// The path to one object.
pub(crate) fn object_path(path: &ObjectPath, room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    let object = &path.object;
    let mut text = format!(
        "{} at {}: {}, retains {} ({})\n",
        plain(&object.what),
        object.address,
        bytes(object.bytes),
        bytes(object.retained),
        percent(object.share)
    );
    if path.steps.is_empty() {
        text.push_str("  nothing reaches it: it is garbage that is not collected yet\n");
    } else {
        let mut table = Table::new(&[("RETAINED", Right), ("IS", Left), ("PATH", Left)]);
        for step in &path.steps {
            table.row([bytes(step.retained), shorten(&plain(&step.what), 40), plain(&step.path)]);
        }
        table.fit_last(2, room, shorten_front);
        text.push_str(&format!("\nshortest path\n{}", table.render(2)));
    }
    let referred = count(path.referred as u64);
    text.push_str(&format!("\nreferred to by {referred}\n"));
    let mut table = Table::new(&[("RETAINED", Right), ("HOLDER", Left), ("PATH", Left)]);
    for holder in &path.holders {
        table.row([bytes(holder.retained), shorten(&plain(&holder.what), 40), plain(&holder.path)]);
    }
    table.fit_last(2, room, shorten_front);
    text.push_str(&table.render(2));
    text
}

/// Paths to many objects.
pub(crate) fn merged_paths(what: &str, merged: &MergedPaths, room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    let garbage = match merged.garbage {
        0 => String::new(),
        some => format!(", {} of them garbage", count(some)),
    };
    let mut text = format!("{}: {} objects{garbage}\n\n", plain(what), count(merged.objects));
    let mut table = Table::new(&[("OBJECTS", Right), ("BYTES", Right), ("PATH", Left)]);
    for row in &merged.rows {
        table.row([count(row.objects), bytes(row.bytes), plain(&row.path)]);
        if row.example != row.path {
            table.row([String::new(), String::new(), format!("  for instance {}", plain(&row.example))]);
        }
    }
    table.fit_last(2, room, shorten_front);
    text.push_str(&table.render(2));
    text.push_str(&more(merged.paths, merged.rows.len()));
    text
}

/// What grew.
pub(crate) fn growth(report: &GrowthReport, room: Option<usize>) -> String {
    use Alignment::{Left, Right};
    let between = crate::figures::span(report.between_ms.unsigned_abs() as f64 / 1e3);
    let mut text = format!(
        "process {}: {}, {} objects in {between}\n\n",
        report.pid,
        change(report.bytes),
        signed(report.objects)
    );
    if report.rows.is_empty() {
        text.push_str("  no place grew\n");
        return text;
    }
    let mut table = Table::new(&[("GROWTH", Right), ("OBJECTS", Right), ("TYPE", Left), ("PLACE", Left)]);
    for row in &report.rows {
        let class = shorten(&plain(&row.class), 40);
        table.row([change(row.retained), signed(row.objects), class, plain(&row.place)]);
        for part in &row.parts {
            let class = format!("  {}", shorten(&plain(&part.class), 38));
            table.row([change(part.bytes), signed(part.objects), class, format!("  {}", plain(&part.place))]);
        }
    }
    table.fit_last(2, room, shorten_front);
    text.push_str(&table.render(2));
    text.push_str(&more(report.grown, report.rows.len()));
    text
}

fn signed(value: i64) -> String {
    match value {
        0 => "±0".to_owned(),
        1.. => format!("+{}", count(value.unsigned_abs())),
        _ => format!("−{}", count(value.unsigned_abs())),
    }
}
