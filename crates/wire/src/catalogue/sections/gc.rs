//! Figures of collections.

use super::super::figure::{Across, Attribute, Figure, Metric, Unit, figure, item};

/// The time that a kind of collection stopped the program.
macro_rules! pauses {
    ($($part:ident).+) => {
        [
            figure!($($part).+.total_ms).counter(Unit::Milliseconds, STOPPED),
            figure!($($part).+.p50_ms).quantile(0.5, STOPPED),
            figure!($($part).+.p99_ms).quantile(0.99, STOPPED),
            figure!($($part).+.max_ms).largest(Unit::Milliseconds, STOPPED),
        ]
    };
}

const STOPPED: &str = "How long they stopped the program";
/// How many collections of each kind there were, beside their lengths.
const PAUSES: &str = "neurogc_gc_pause_seconds_count";
const COLLECTIONS: &str = "cpython.gc.collections";
const GENERATION: &str = "cpython.gc.generation";
const PLACE_SECONDS: Metric =
    Metric::shared("neurogc_gc_place_seconds_total", "Time of collections by where they fell");
const PLACE_COUNT: Metric = Metric::shared("neurogc_gc_place_collections_total", "Collections by where they fell");

const YOUNG: [Figure; 4] = pauses!(gc.young);
const MIDDLE: [Figure; 4] = pauses!(gc.middle);
const FULL: [Figure; 4] = pauses!(gc.full);
const REAP: [Figure; 4] = pauses!(gc.reap);

/// Garbage collections by generation and by place.
pub(crate) const FIGURES: &[Figure] = &[
    figure!(gc.young.count)
        .counter(Unit::Count, "Collections of generation 0")
        .series("gc.young")
        .found_in(PAUSES, &[("kind", "young")], &[])
        .otlp_part(COLLECTIONS, "{collection}", GENERATION, Attribute::Integer(0)),
    YOUNG[0],
    YOUNG[1],
    YOUNG[2],
    YOUNG[3],
    figure!(gc.middle.count)
        .counter(Unit::Count, "Collections of generation 1")
        .series("gc.middle")
        .found_in(PAUSES, &[("kind", "middle")], &[])
        .otlp_part(COLLECTIONS, "{collection}", GENERATION, Attribute::Integer(1)),
    MIDDLE[0],
    MIDDLE[1],
    MIDDLE[2],
    MIDDLE[3],
    figure!(gc.full.count)
        .counter(Unit::Count, "Collections of everything")
        .note("Generation 2.")
        .series("gc.full")
        .found_in(PAUSES, &[("kind", "full")], &[])
        .otlp_part(COLLECTIONS, "{collection}", GENERATION, Attribute::Integer(2)),
    FULL[0],
    FULL[1],
    FULL[2],
    FULL[3],
    figure!(gc.reap.count).counter(Unit::Count, "Slices that freed what a snapshot found").series("gc.reap")
        .found_in(PAUSES, &[("kind", "reap")], &[]),
    REAP[0],
    REAP[1],
    REAP[2],
    REAP[3],
    figure!(gc.in_request.count)
        .counter(Unit::Count, "Collections while at least one request was being served")
        .metric(PLACE_COUNT.with(&[("place", "in_request")])),
    figure!(gc.in_request.total_ms)
        .counter(Unit::Milliseconds, "Time that requests waited for collections")
        .series("gc.in_request_ms")
        .metric(PLACE_SECONDS.with(&[("place", "in_request")])),
    figure!(gc.in_request.max_ms).largest(Unit::Milliseconds, "The longest of them"),
    figure!(gc.in_gap.count)
        .counter(Unit::Count, "Collections while no request was being served, and for which none waited")
        .metric(PLACE_COUNT.with(&[("place", "in_gap")])),
    figure!(gc.in_gap.total_ms)
        .counter(Unit::Milliseconds, "Time of collections while no request was served")
        .series("gc.in_gap_ms")
        .metric(PLACE_SECONDS.with(&[("place", "in_gap")])),
    figure!(gc.in_gap.max_ms).largest(Unit::Milliseconds, "The longest of them"),
    figure!(gc.in_gap_arrivals.count)
        .counter(Unit::Count, "Collections in gaps during which requests arrived")
        .note("The requests waited for the end. A stop in a gap may move here until 300 ms after its end.")
        .metric(PLACE_COUNT.with(&[("place", "in_gap_arrivals")])),
    figure!(gc.in_gap_arrivals.total_ms)
        .counter(Unit::Milliseconds, "Time of collections in gaps during which requests arrived")
        .series("gc.in_gap_arrivals_ms")
        .metric(PLACE_SECONDS.with(&[("place", "in_gap_arrivals")])),
    figure!(gc.in_gap_arrivals.max_ms).largest(Unit::Milliseconds, "The longest of them"),
    figure!(gc.arrivals).counter(Unit::Count, "Requests that arrived during collections in gaps"),
    figure!(gc.forced.count)
        .counter(Unit::Count, "Collections and slices that memory could not wait for")
        .note(
            "The backstop, the ceiling, and a collection that the program asked for and that was put off too long. They \
             are not counted in `gc.in_request` and `gc.in_gap`.",
        )
        .metric(PLACE_COUNT.with(&[("place", "forced")])),
    figure!(gc.forced.total_ms)
        .counter(Unit::Milliseconds, "Time of collections that a guard ordered")
        .series("gc.forced_ms")
        .metric(PLACE_SECONDS.with(&[("place", "forced")])),
    figure!(gc.forced.max_ms).largest(Unit::Milliseconds, "The longest of them"),
    figure!(gc.snapshot.count)
        .counter(Unit::Count, "Snapshots")
        .note("Collections from a [snapshot](snapshots.md) that were launched.")
        .series("gc.snapshots")
        .prometheus("neurogc_gc_snapshots_total"),
    figure!(gc.snapshot.failed)
        .counter(Unit::Count, "Snapshots that failed")
        .prometheus("neurogc_gc_snapshot_failures_total"),
    figure!(gc.snapshot.failures).list("Why snapshots failed").note("At most eight kinds, each with its latest reason."),
    item!("gc.snapshot.failures[].reason").text("The latest reason"),
    item!("gc.snapshot.failures[].count").counter(Unit::Count, "How often"),
    item!("gc.snapshot.failures[].last_s")
        .latest(Unit::Seconds, "When last, in seconds since the agent was installed")
        .across(Across::Apart),
    figure!(gc.snapshot.clone_p50_ms).quantile(0.5, "How long the program was stopped for the clone"),
    figure!(gc.snapshot.clone_max_ms).largest(Unit::Milliseconds, "How long the program was stopped for the clone"),
    figure!(gc.snapshot.flight_p50_ms).quantile(0.5, "How long the walk took, beside the program"),
    figure!(gc.snapshot.copied_ms)
        .counter(Unit::Milliseconds, "Time that the program lost to copies of pages during all walks")
        .note("An upper estimate: 5 µs for each page fault."),
    figure!(gc.snapshot.latest_copied_ms)
        .latest(Unit::Milliseconds, "The same for the latest walk")
        .across(Across::Max),
    figure!(gc.snapshot.extra_max_mb)
        .largest(Unit::Megabytes, "The most memory that a walk took besides the program's own")
        .note("The walk's own memory, and pages of which there were two."),
    figure!(gc.snapshot.new_walks)
        .counter(Unit::Count, "Snapshots that walked only the new objects")
        .note("Of those that ended well; the others walked everything. They are much shorter.")
        .series("gc.new_walks")
        .prometheus("neurogc_gc_snapshot_new_walks_total"),
    figure!(gc.snapshot.candidates).counter(Unit::Count, "Objects that snapshots found unreachable"),
    figure!(gc.snapshot.freed).counter(Unit::Count, "Objects of these that were freed"),
    figure!(gc.recent_max_ms)
        .peak(Unit::Milliseconds, "The longest collection of the last second that is over, and of the running one")
        .across(Across::Max),
    figure!(gc.collected)
        .counter(Unit::Count, "Objects freed by collections")
        .series("gc.collected")
        .prometheus("neurogc_gc_collected_objects_total")
        .otlp("cpython.gc.collected_objects", "{object}"),
    figure!(gc.uncollectable)
        .counter(Unit::Count, "Objects that could not be freed")
        .note("Collections found them unreachable. More than zero deserves a look.")
        .prometheus("neurogc_gc_uncollectable_objects_total")
        .otlp("cpython.gc.uncollectable_objects", "{object}"),
    figure!(gc.frozen)
        .latest(Unit::Count, "Objects in the permanent generation")
        .note("`gc.freeze()` puts objects there; CPython 3.12 puts some there itself.")
        .series("gc.frozen")
        .prometheus("neurogc_gc_frozen_objects"),
    figure!(gc.tracked)
        .latest(Unit::Count, "Objects that the collector tracks")
        .note(
            "An estimate, because nothing is walked for it: those in the middle generation, some thousands, are left \
             out, and what died old counts until the next full collection. Zero where the interpreter's layout is not \
             known.",
        )
        .series("gc.tracked")
        .prometheus("neurogc_gc_tracked_objects"),
];
