//! What held the program up: which cause took how much of the stall time, and where.

use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::status::Cause;
use neurogc_wire::window::{StallSite, Window};

use crate::{Evidence, sites, words};

/// Stalls that took less than this share of the window, none of them longer than that, are not worth a finding.
const LEAST_SHARE: f64 = 0.001;
const LEAST_MS: f64 = 30.0;

/// A cause with less than this share of the stall time is not worth a finding beside others.
const PART: f64 = 0.1;

/// The time of one cause that mattered, and the longest stall of it.
struct Lost<'w> {
    cause: Cause,
    ms: f64,
    count: u64,
    worst: Option<&'w StallSite>,
    /// The longest, which may be at no known place.
    longest_ms: f64,
}

pub(crate) fn look(evidence: &Evidence, window: &Window) -> Vec<Finding> {
    let mut lost: Vec<_> = Cause::ALL.iter().map(|cause| lost_to(*cause, window)).collect();
    lost.sort_by(|one, other| other.ms.total_cmp(&one.ms));
    let total: f64 = lost.iter().map(|lost| lost.ms).sum();
    let longest = lost.iter().map(|lost| lost.longest_ms).fold(0.0, f64::max);
    if total < window.seconds * 1e3 * LEAST_SHARE && longest < LEAST_MS {
        return Vec::new();
    }
    let gc_share = lost.iter().find(|lost| lost.cause == Cause::Gc).map_or(0.0, |lost| lost.ms / total);
    let worth = lost.iter().filter(|lost| lost.ms >= total * PART && lost.ms > 0.0);
    worth
        .enumerate()
        .map(|(place, lost)| {
            // Only the verdict has to say what it is not.
            let is_other = place == 0 && gc_share < PART;
            finding(lost, lost.ms / total, is_other, evidence, window)
        })
        .collect()
}

/// Of collections only those count for which requests waited, where there are requests.
fn lost_to(cause: Cause, window: &Window) -> Lost<'_> {
    let stalls = &window.stalls;
    let sites = || stalls.sites.iter().filter(|site| site.cause == cause);
    let (mut ms, mut by_cause) = (stalls.time_ms_by_cause.of(cause), stalls.by_cause);
    let count = *by_cause.of(cause);
    let by = |of: fn(&StallSite) -> f64| sites().max_by(|one, other| of(one).total_cmp(&of(other)));
    if cause == Cause::Gc {
        let mut most = f64::INFINITY;
        if window.requests.count > 0 {
            let gc = &window.gc;
            let held = [gc.in_request, gc.in_gap_arrivals, gc.forced];
            ms = ms.min(held.iter().map(|place| place.total_ms).sum());
            most = held.iter().map(|place| place.max_ms).fold(0.0, f64::max);
        }
        let harmful = sites().filter(|site| site.max_ms <= most * 1.001);
        let worst = harmful.max_by(|one, other| one.max_ms.total_cmp(&other.max_ms));
        let longest_ms = by(|site| site.max_ms).map_or(0.0, |site| site.max_ms).min(most);
        return Lost { cause, ms, count, worst, longest_ms };
    }
    let longest_ms = by(|site| site.max_ms).map_or(0.0, |site| site.max_ms);
    Lost { cause, ms, count, worst: by(|site| site.total_ms), longest_ms }
}

fn finding(lost: &Lost<'_>, share: f64, is_other: bool, evidence: &Evidence, window: &Window) -> Finding {
    let (kind, name) = match lost.cause {
        Cause::Gc => (FindingKind::Gc, "Garbage collection"),
        Cause::GilNative => (FindingKind::GilNative, "Native code that holds the GIL"),
        Cause::Python => (FindingKind::Python, "Long-running Python code"),
        Cause::CpuStarved => (FindingKind::CpuStarved, "CPU starvation"),
        Cause::Unknown => (FindingKind::Unknown, "An unknown cause"),
    };
    let lasted = words::window(window.seconds);
    let text = if is_other {
        format!("Garbage collection is not your problem: {} in {lasted}.", blocks(lost, window))
    } else {
        let percent = (share * 100.0).round();
        format!("{name} caused {percent} % of stall time in the last {lasted}: {}.", place(lost, window))
    };
    let known = lost.worst.is_some_and(|site| !site.site.is_empty());
    Finding {
        kind,
        confidence: match lost.cause {
            Cause::Gc => 0.95,
            Cause::Unknown => 0.3,
            Cause::CpuStarved => 0.8,
            Cause::GilNative | Cause::Python => {
                if known {
                    0.9
                } else {
                    0.6
                }
            }
        },
        text,
        site: lost.worst.map(|site| site.site.clone()).unwrap_or_default(),
        advice: advice(lost.cause, known, evidence),
        ..Finding::default()
    }
}

/// What blocks, for how long and how often, for a sentence that goes on with the window.
fn blocks(lost: &Lost<'_>, window: &Window) -> String {
    let worst = lost.worst.filter(|site| !site.site.is_empty());
    let (longest, times) = match worst {
        Some(site) => (words::ms(site.max_ms), words::times(site.count)),
        None => (words::ms(lost.longest_ms), words::times(lost.count)),
    };
    let site = worst.map_or_else(|| "code at an unknown place".to_owned(), |worst| short(worst, window));
    match lost.cause {
        Cause::GilNative => format!("{site} holds the GIL for {longest}, {times}"),
        Cause::CpuStarved => format!("CPU starvation stops the program for {longest}, {times}"),
        Cause::Unknown => format!("something unknown stopped it for {longest}, {times}"),
        Cause::Gc | Cause::Python => format!("{site} blocks for {longest}, {times}"),
    }
}

/// The longest one and its place, after a colon.
fn place(lost: &Lost<'_>, window: &Window) -> String {
    let Some(worst) = lost.worst else { return format!("longest {}", words::ms(lost.longest_ms)) };
    let longest = words::ms(worst.max_ms);
    let site = if worst.site.is_empty() { String::new() } else { format!(" at {}", short(worst, window)) };
    let what = match (&*worst.stop, worst.objects) {
        ("", _) => format!(", {}", words::times(worst.count)),
        (stop, 0) => format!(" ({})", stop_name(stop)),
        (stop, objects) => format!(" ({}, {} objects)", stop_name(stop), words::count(objects)),
    };
    format!("longest {longest}{site}{what}")
}

fn short(site: &StallSite, window: &Window) -> String {
    sites::short(&site.site, window.stalls.sites.iter().map(|other| &*other.site))
}

fn stop_name(stop: &str) -> String {
    match stop {
        "clone" => "clone for a snapshot".to_owned(),
        "reap" => "slice that freed what a snapshot found".to_owned(),
        generation => format!("{generation} collection"),
    }
}

fn advice(cause: Cause, known: bool, evidence: &Evidence) -> String {
    let pid = evidence.pid;
    match cause {
        Cause::Gc if evidence.policy.as_ref().is_some_and(|policy| policy.acts) => {
            format!("The policy acts already; `neurogc status {pid}` says under `conduct` why it collected.")
        }
        Cause::Gc => format!("Try: neurogc policy {pid} auto"),
        Cause::Python if known => "Move this work to a process or a worker, or split it up.".to_owned(),
        Cause::GilNative if known => {
            "Call it where it releases the GIL, in a process of its own, or with less data at a time.".to_owned()
        }
        Cause::CpuStarved => "Check the CPU limit of its container and what else runs on this machine.".to_owned(),
        Cause::Python | Cause::GilNative | Cause::Unknown => {
            format!("Record a trace to see more: `neurogc status {pid}` lists the longest stalls.")
        }
    }
}
