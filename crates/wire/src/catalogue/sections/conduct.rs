//! Figures of what the policy does, and of the bound on memory.

use super::super::figure::{Across, Figure, Unit, figure, item};

const GUARD: &str = "The [setting](settings.md) of this name";

/// What the policy does, and why.
pub(crate) const CONDUCT: &[Figure] = &[
    figure!(conduct.acting).switch("Whether the policy acts").note(
        "False for a policy that only watches, on an interpreter whose layout is not known, and after the program has \
         taken control of the collector.",
    ),
    figure!(conduct.due)
        .text("A full collection that the program has asked for and that waits for a gap")
        .note("With `explicit_collect=defer`; empty otherwise."),
    figure!(conduct.overdue_s)
        .peak(Unit::Seconds, "For how long a full collection has been overdue")
        .note("See `postpone_s`.")
        .across(Across::Max)
        .series("conduct.overdue_s")
        .prometheus("neurogc_overdue_seconds"),
    figure!(conduct.missed)
        .counter(Unit::Count, "Always 0")
        .note("Orders are carried out where they are given. Kept for readers of older reports."),
    figure!(conduct.deferred)
        .counter(Unit::Count, "Full collections of the program that were put off")
        .note("See `explicit_collect`."),
    figure!(conduct.orders).list("What was ordered, by reason"),
    item!("conduct.orders[].what")
        .text("`young`, `middle`, `full`, `freeze`, `snapshot`, `reap`, `throttle` or `trim`"),
    item!("conduct.orders[].reason").text("Why"),
    item!("conduct.orders[].guard").switch("Whether memory could not wait any longer").note("See `gc.forced`."),
    item!("conduct.orders[].count")
        .counter(Unit::Count, "What the policy and its guards ordered")
        .prometheus("neurogc_orders_total")
        .each(&["what", "reason", "guard"], |sample, to| {
            for order in &sample.status.conduct.orders {
                let guard = if order.guard { "true" } else { "false" };
                to(&[("what", &order.what), ("reason", &order.reason), ("guard", guard)], order.count as f64);
            }
        }),
    item!("conduct.orders[].last_s")
        .latest(Unit::Seconds, "When last, in seconds since the agent was installed")
        .across(Across::Apart),
    item!("conduct.model.family")
        .text("The kind of model by which `neural` decides, for instance `gru`")
        .note("`conduct.model` is null under other policies. [learning.md](learning.md#what-status-says) explains it."),
    item!("conduct.model.gap_ms")
        .list("By when 10, 25, 50, 75 and 90 % of gaps like this one are over, as the model expects"),
    item!("conduct.model.latest.lasted_ms")
        .latest(Unit::Milliseconds, "How long the latest gap lasted")
        .across(Across::Apart)
        .note("`conduct.model.latest` is null before the first."),
    item!("conduct.model.latest.expected_ms").list("What was expected of it"),
    item!("conduct.model.gaps").counter(Unit::Count, "Gaps whose end was compared with what was expected"),
    item!("conduct.model.covered").list("The share of the latest gaps that were over by each of these quantiles"),
    item!("conduct.model.astray")
        .latest(Unit::Ratio, "The share of the latest gaps outside of the outer quantiles")
        .across(Across::Apart)
        .note("About 0.2 where nothing is wrong."),
    item!("conduct.model.drifted").switch("Whether the model does not fit the program, so that `gap` decides for now"),
    item!("conduct.model.drifts").counter(Unit::Count, "How often that has begun"),
    figure!(conduct.guards.memory_max_mb).latest(Unit::Megabytes, GUARD).across(Across::Apart),
    figure!(conduct.guards.memory_percent).latest(Unit::Percent, GUARD).across(Across::Apart),
    figure!(conduct.guards.growth_percent).latest(Unit::Percent, GUARD).across(Across::Apart),
    figure!(conduct.guards.postpone_s).latest(Unit::Seconds, GUARD).across(Across::Apart),
    figure!(conduct.guards.gc_percent).latest(Unit::Percent, GUARD).across(Across::Apart),
    figure!(conduct.training.ranks)
        .latest(Unit::Count, "Ranks of the training job that collect at the same steps, this one included")
        .note("0 where the process collects on its own. See [training.md](training.md#ranks-collect-together).")
        .across(Across::Max),
    figure!(conduct.training.step)
        .latest(Unit::Count, "Steps of the optimizer that have ended since the ranks know of each other")
        .across(Across::Max),
    figure!(conduct.training.next_step)
        .latest(Unit::Count, "The step at whose end ranks collect next")
        .across(Across::Max),
    figure!(conduct.training.aligned)
        .counter(Unit::Count, "Collections, clones and slices at steps that ranks share")
        .prometheus("neurogc_rank_stops_aligned_total"),
    figure!(conduct.training.unaligned)
        .counter(Unit::Count, "Collections, clones and slices of a rank at other steps")
        .note("A guard has forced them, CPython's own trigger has begun them, or the program asked for them.")
        .prometheus("neurogc_rank_stops_unaligned_total"),
    figure!(conduct.training.boundaries).counter(Unit::Count, "Ends of epochs and evaluations that were seen"),
];

/// How large the heap may get, and how it is kept there.
pub(crate) const BOUND: &[Figure] = &[
    figure!(bound.goal_bytes).latest(
        Unit::Bytes,
        "Resident memory that the process may grow to until the next collection of everything is over",
    ),
    figure!(bound.live_bytes)
        .latest(Unit::Bytes, "Resident memory that the last collection of everything left")
        .note("Plain or from a snapshot; the goal follows from it."),
    figure!(bound.goal_objects).latest(Unit::Count, "What the heap may grow to, in objects"),
    figure!(bound.live_objects).latest(Unit::Count, "Objects that the last collection of everything left"),
    figure!(bound.objects).latest(Unit::Count, "Objects that there are now, about"),
    figure!(bound.over)
        .latest(Unit::Ratio, "How far above its goal the heap is now, in objects")
        .note("As a share of the room (`goal_objects` less `live_objects`); 0 while it is below.")
        .across(Across::Max),
    figure!(bound.launches)
        .counter(Unit::Count, "Snapshots that the pacer launched")
        .note("Of everything and of new objects."),
    figure!(bound.backstops).counter(
        Unit::Count,
        "Plain collections, and slices of any length, because the goal or the ceiling could not be held otherwise",
    ),
    figure!(bound.held_back)
        .counter(Unit::Count, "Full collections near the memory ceiling that were put off")
        .note("Plain collections take at most half of the time, so that a heap full of live objects is not collected over and over."),
    figure!(bound.throttled_ms)
        .counter(Unit::Milliseconds, "How long threads that allocate were held up because the program outran the walk"),
    figure!(bound.assisted_ms)
        .counter(Unit::Milliseconds, "How long the slices took that freed what snapshots found")
        .note("In gaps and in the program's own collections."),
];
