//! Figures of the last minutes, and what is concluded from them.

use super::super::figure::{Across, Figure, Metric, Unit, figure, item};
use super::program::{OBJECTS, STOP};

/// What is the matter.
pub(crate) const FINDINGS: &[Figure] = &[
    figure!(findings)
        .list("What is the matter, the most important first")
        .note(
            "From the figures of the last five minutes, and for memory from those of the whole run. There is always one; the \
             first is the verdict. `neurogc memory` says more about memory.",
        )
        .metric(Metric::shared("neurogc_finding", "Findings by kind: how sure they are, from 0 to 1"))
        .each(&["kind"], |sample, to| {
            let findings = &sample.status.findings;
            for (index, finding) in findings.iter().enumerate() {
                // Of several of a kind the surest comes first.
                if findings[..index].iter().all(|other| other.kind != finding.kind) {
                    to(&[("kind", finding.kind.name())], finding.confidence);
                }
            }
        }),
    item!("findings[].kind").text("What kind of finding it is").note(
        "`nothing`, `too_early`, `gc`, `gil_native`, `python`, `cpu_starved`, `unknown`, `queueing`, `memory_over_goal`, \
         `degraded`, `growing`, or a [kind of leak](leaks.md): `unbounded_container`, `unbounded_cache`, `callbacks`, \
         `stored_exceptions`, `logging`, `contexts`, `modules`, `tasks`, `threads`, `descriptors`, `children`, \
         `cyclic_garbage`, `python_growth`, `native_growth`, `arena_explosion`, `malloc_free`, `pymalloc_pinned`, \
         `dataloader_copies`.",
    ),
    item!("findings[].confidence").latest(Unit::Ratio, "How sure it is, from 0 to 1").across(Across::Apart),
    item!("findings[].text").text("What is the matter, as a sentence with its number and its place"),
    item!("findings[].holder").text("What holds the memory; empty where the finding is not about memory"),
    item!("findings[].site").text("Where in the code; empty where it is no single place"),
    item!("findings[].rate_bytes_h")
        .latest(Unit::Bytes, "How fast memory grows, per hour; zero where the finding is not about growth")
        .across(Across::Apart),
    item!("findings[].advice").text("What to do next; empty where nothing is to be done"),
    item!("findings[].pattern").text("How the program came to it; empty where the finding is not about memory"),
    item!("findings[].doc").text("Where to read more"),
    item!("findings[].bytes").latest(Unit::Bytes, "What is held now; zero where that is not known").across(Across::Apart),
    item!("findings[].share")
        .latest(Unit::Ratio, "The share of the growth of the whole process, from 0 to 1")
        .across(Across::Apart),
    item!("findings[].since_s")
        .latest(Unit::Seconds, "Since when it has been so, in seconds since the agent was installed")
        .across(Across::Apart),
];

/// Counts and times of one class of stops.
macro_rules! place {
    ($place:ident, $what:expr) => {
        [
            figure!(window.gc.$place.count).latest(Unit::Count, $what),
            figure!(window.gc.$place.total_ms).latest(Unit::Milliseconds, $what),
            figure!(window.gc.$place.max_ms).latest(Unit::Milliseconds, $what).across(Across::Max),
        ]
    };
}

/// Percentiles of one part of the latency.
macro_rules! percentiles {
    ($part:ident, $what:expr) => {
        [
            figure!(window.requests.$part.p50_ms).latest(Unit::Milliseconds, $what).across(Across::Merged),
            figure!(window.requests.$part.p95_ms).latest(Unit::Milliseconds, $what).across(Across::Merged),
            figure!(window.requests.$part.p99_ms).latest(Unit::Milliseconds, $what).across(Across::Merged),
            figure!(window.requests.$part.p999_ms).latest(Unit::Milliseconds, $what).across(Across::Merged),
            figure!(window.requests.$part.max_ms).latest(Unit::Milliseconds, $what).across(Across::Max),
        ]
    };
}

const FULL: [Figure; 3] = place!(full, "Full collections, wherever they happened");
const IN_REQUEST: [Figure; 3] = place!(in_request, "Stops while a request was being served");
const IN_GAP_ARRIVALS: [Figure; 3] = place!(in_gap_arrivals, "Stops between requests, during which requests came");
const IN_GAP: [Figure; 3] = place!(in_gap, "Stops for which no request waited");
const FORCED: [Figure; 3] = place!(forced, "Stops that a guard ordered");
const TOTAL: [Figure; 5] = percentiles!(total, "From the arrival of a request to its last byte");
const WAIT: [Figure; 5] = percentiles!(wait, "From the arrival of a request to the call of the application");
const SERVICE: [Figure; 5] = percentiles!(service, "From the call of the application to the last byte");

/// Figures of the last minutes.
pub(crate) const WINDOW: &[Figure] = &[
    figure!(window.seconds)
        .latest(Unit::Seconds, "How long the window is")
        .note("At most 300. It begins with the first request, or 5 s after the agent was installed.")
        .across(Across::Max),
    figure!(window.stalls.count).latest(Unit::Count, "Stalls"),
    figure!(window.stalls.by_cause.gc).latest(Unit::Count, "Stalls by collections"),
    figure!(window.stalls.by_cause.gil_native).latest(Unit::Count, "Stalls by native code that held the GIL"),
    figure!(window.stalls.by_cause.python).latest(Unit::Count, "Stalls by long-running Python"),
    figure!(window.stalls.by_cause.cpu_starved).latest(Unit::Count, "Stalls by CPU starvation"),
    figure!(window.stalls.by_cause.unknown).latest(Unit::Count, "Stalls of unknown cause"),
    figure!(window.stalls.time_ms_by_cause.gc).latest(Unit::Milliseconds, "Time of stalls by collections"),
    figure!(window.stalls.time_ms_by_cause.gil_native)
        .latest(Unit::Milliseconds, "Time of stalls by native code that held the GIL"),
    figure!(window.stalls.time_ms_by_cause.python).latest(Unit::Milliseconds, "Time of stalls by long-running Python"),
    figure!(window.stalls.time_ms_by_cause.cpu_starved).latest(Unit::Milliseconds, "Time of stalls by CPU starvation"),
    figure!(window.stalls.time_ms_by_cause.unknown).latest(Unit::Milliseconds, "Time of stalls of unknown cause"),
    figure!(window.stalls.sites).list("Where the stalls happened: at most ten places for each cause"),
    item!("window.stalls.sites[].cause").text("The cause of the stalls there"),
    item!("window.stalls.sites[].site").text("The place; empty where it is not known"),
    item!("window.stalls.sites[].count").latest(Unit::Count, "How many").across(Across::Apart),
    item!("window.stalls.sites[].total_ms")
        .latest(Unit::Milliseconds, "How long they lasted together")
        .across(Across::Apart),
    item!("window.stalls.sites[].max_ms").latest(Unit::Milliseconds, "The longest").across(Across::Apart),
    item!("window.stalls.sites[].at_s")
        .latest(Unit::Seconds, "When the longest began, in seconds since the agent was installed")
        .across(Across::Apart),
    item!("window.stalls.sites[].stop").text(STOP),
    item!("window.stalls.sites[].objects").latest(Unit::Count, OBJECTS).across(Across::Apart),
    FULL[0],
    FULL[1],
    FULL[2],
    IN_REQUEST[0],
    IN_REQUEST[1],
    IN_REQUEST[2],
    IN_GAP_ARRIVALS[0],
    IN_GAP_ARRIVALS[1],
    IN_GAP_ARRIVALS[2],
    IN_GAP[0],
    IN_GAP[1],
    IN_GAP[2],
    FORCED[0],
    FORCED[1],
    FORCED[2],
    figure!(window.requests.count).latest(Unit::Count, "Requests ended"),
    TOTAL[0],
    TOTAL[1],
    TOTAL[2],
    TOTAL[3],
    TOTAL[4],
    WAIT[0],
    WAIT[1],
    WAIT[2],
    WAIT[3],
    WAIT[4],
    SERVICE[0],
    SERVICE[1],
    SERVICE[2],
    SERVICE[3],
    SERVICE[4],
];
