//! A trace as one flat table: the columns that every tabular export writes.

use neurogc_wire::trace::Record;

use super::kind;

/// One column: its name and how a record fills it. An empty cell is one that the record's kind does not have.
#[derive(Debug)]
pub(crate) struct TraceColumn {
    pub(crate) name: &'static str,
    pub(crate) cell: Cell,
}

/// How a cell is found.
#[derive(Debug)]
pub(crate) enum Cell {
    Number(fn(&Record) -> Option<u64>),
    Text(fn(&Record) -> Option<&str>),
}

const fn number(name: &'static str, cell: fn(&Record) -> Option<u64>) -> TraceColumn {
    TraceColumn { name, cell: Cell::Number(cell) }
}

const fn text(name: &'static str, cell: fn(&Record) -> Option<&str>) -> TraceColumn {
    TraceColumn { name, cell: Cell::Text(cell) }
}

/// All columns, in their order.
pub(crate) const COLUMNS: &[TraceColumn] = &[
    text("kind", |record| Some(kind(record))),
    number("at_ns", |record| Some(record.at())),
    number("id", |record| match record {
        Record::RequestStart { id, .. } | Record::RequestEnd { id, .. } | Record::RequestWait { id, .. } => Some(*id),
        _ => None,
    }),
    number("duration_ns", |record| match record {
        Record::RequestWait { wait, .. } => Some(*wait),
        Record::Collection { pause, .. } => Some(*pause),
        Record::Gap { busy, .. } => Some(*busy),
        Record::Stall { duration, .. } => Some(*duration),
        Record::Flight { lasted, .. } => Some(*lasted),
        _ => None,
    }),
    number("idle_ns", |record| match record {
        Record::Gap { idle, .. } => Some(*idle),
        _ => None,
    }),
    text("what", |record| match record {
        Record::Collection { kind, .. } => Some(kind.name()),
        Record::Order { what, .. } => Some(what.name()),
        Record::RequestWait { source, .. } => Some(source.name()),
        _ => None,
    }),
    number("generation", |record| match record {
        Record::Collection { kind, .. } => kind.generation().map(u64::from),
        _ => None,
    }),
    text("place", |record| match record {
        Record::Collection { place, .. } => Some(place.name()),
        _ => None,
    }),
    number("collected", |record| match record {
        Record::Collection { collected, .. } => Some(*collected),
        _ => None,
    }),
    number("uncollectable", |record| match record {
        Record::Collection { uncollectable, .. } => Some(*uncollectable),
        _ => None,
    }),
    text("cause", |record| match record {
        Record::Stall { cause, .. } => Some(cause.name()),
        _ => None,
    }),
    text("site", |record| match record {
        Record::Stall { site, .. } => Some(site),
        _ => None,
    }),
    number("rss", |record| match record {
        Record::Process { rss, .. } => Some(*rss),
        _ => None,
    }),
    number("cpu_us", |record| match record {
        Record::Process { cpu_us, .. } => Some(*cpu_us),
        _ => None,
    }),
    number("young", |record| counter(record, 0)),
    number("middle", |record| counter(record, 1)),
    number("full", |record| counter(record, 2)),
    number("dropped", |record| match record {
        Record::Dropped { count, .. } => Some(*count),
        _ => None,
    }),
    number("order", |record| match record {
        Record::Collection { order, .. } => *order,
        Record::Order { id, .. } => Some(*id).filter(|&id| id != 0),
        _ => None,
    }),
    number("guard", |record| match record {
        Record::Order { guard, .. } => Some(u64::from(*guard)),
        _ => None,
    }),
    text("reason", |record| match record {
        Record::Order { reason, .. } => Some(reason),
        _ => None,
    }),
    text("policy_before", |record| match record {
        Record::Policy { before, .. } => Some(before),
        _ => None,
    }),
    text("policy_after", |record| match record {
        Record::Policy { after, .. } => Some(after),
        _ => None,
    }),
    number("gathered", |record| match record {
        Record::Heap { gathered, .. } => Some(*gathered),
        _ => None,
    }),
    number("tenured", |record| match record {
        Record::Heap { tenured, .. } => Some(*tenured),
        _ => None,
    }),
    number("pending", |record| match record {
        Record::Heap { pending, .. } => Some(*pending),
        _ => None,
    }),
    number("faults", |record| match record {
        Record::Flight { faults, .. } => Some(*faults),
        _ => None,
    }),
    number("objects", |record| match record {
        Record::Flight { objects, .. } => Some(*objects),
        _ => None,
    }),
    number("found", |record| match record {
        Record::Flight { found, .. } => Some(*found),
        _ => None,
    }),
];

fn counter(record: &Record, generation: usize) -> Option<u64> {
    match record {
        Record::Counts { counts, .. } => counts.get(generation).map(|&count| u64::from(count)),
        _ => None,
    }
}
