//! Evidence and what must be found in it.

use neurogc_wire::status::{Bound, ByCause, Cause, Latency, PauseTotals};
use neurogc_wire::window::{StallSite, TimeByCause, WindowGc, WindowRequests, WindowStalls};

use super::*;

fn site(cause: Cause, site: &str, count: u64, total_ms: f64, max_ms: f64) -> StallSite {
    StallSite { cause, site: site.to_owned(), count, total_ms, max_ms, ..StallSite::default() }
}

/// Five minutes with these stalls.
fn window(sites: Vec<StallSite>) -> Window {
    let (mut by_cause, mut time_ms_by_cause) = (ByCause::default(), TimeByCause::default());
    for site in &sites {
        *by_cause.of(site.cause) += site.count;
        time_ms_by_cause.set(site.cause, time_ms_by_cause.of(site.cause) + site.total_ms);
    }
    let count = sites.iter().map(|site| site.count).sum();
    let stalls = WindowStalls { count, by_cause, time_ms_by_cause, sites };
    Window { seconds: 297.0, stalls, ..Window::default() }
}

fn evidence(window: Window) -> Evidence {
    let policy = Some(PolicyInForce { shown: "observe".to_owned(), acts: false });
    Evidence { pid: 26496, window: Some(window), policy, ..Evidence::default() }
}

/// Each finding: its kind, its text and its advice.
fn check(evidence: &Evidence, expected: &[(FindingKind, &str, &str)]) {
    let found = diagnose(evidence);
    let found: Vec<_> = found.iter().map(|it| (it.kind, &*it.text, &*it.advice)).collect();
    assert_eq!(found, expected);
}

fn full(max_ms: f64) -> StallSite {
    StallSite {
        stop: "full".to_owned(),
        objects: 980_000,
        ..site(Cause::Gc, "app.py:9 in load", 12, 6.0 * max_ms, max_ms)
    }
}

#[test]
fn collections_that_requests_wait_for_are_the_problem() {
    let mut window = window(vec![full(343.0), site(Cause::Python, "app.py:35 in slow", 18, 760.0, 41.0)]);
    window.requests.count = 30_000;
    window.gc.in_request = PauseTotals { count: 400, total_ms: 2100.0, max_ms: 343.0 };
    let python = (
        FindingKind::Python,
        "Long-running Python code caused 27 % of stall time in the last 5 minutes: longest 41 ms at app.py:35 in slow, \
         18 times.",
        "Move this work to a process or a worker, or split it up.",
    );
    let gc = "Garbage collection caused 73 % of stall time in the last 5 minutes: longest 343 ms at app.py:9 in load \
              (full collection, 980,000 objects).";
    let mut evidence = evidence(window);
    check(&evidence, &[(FindingKind::Gc, gc, "Try: neurogc policy 26496 auto"), python]);
    evidence.policy = Some(PolicyInForce { shown: "auto (gap)".to_owned(), acts: true });
    let advice = "The policy acts already; `neurogc status 26496` says under `conduct` why it collected.";
    check(&evidence, &[(FindingKind::Gc, gc, advice), python]);
}

#[test]
fn collections_in_gaps_are_no_problem_where_no_request_waited() {
    let mut window = window(vec![full(343.0), site(Cause::Python, "app.py:35 in slow", 18, 760.0, 41.0)]);
    window.requests.count = 30_000;
    window.gc.in_gap = PauseTotals { count: 12, total_ms: 2058.0, max_ms: 343.0 };
    window.gc.in_request = PauseTotals { count: 300, total_ms: 20.0, max_ms: 0.3 };
    let text = "Garbage collection is not your problem: app.py:35 in slow blocks for 41 ms, 18 times in 5 minutes.";
    let advice = "Move this work to a process or a worker, or split it up.";
    check(&evidence(window), &[(FindingKind::Python, text, advice)]);
}

#[test]
fn a_program_without_requests_is_held_up_by_any_collection() {
    let mut window = window(vec![full(1843.0)]);
    window.gc.in_gap = PauseTotals { count: 12, total_ms: 11_058.0, max_ms: 1843.0 };
    let text = "Garbage collection caused 100 % of stall time in the last 5 minutes: longest 1.8 s at app.py:9 in load \
                (full collection, 980,000 objects).";
    check(&evidence(window), &[(FindingKind::Gc, text, "Try: neurogc policy 26496 auto")]);
}

#[test]
fn the_text_has_a_short_place_and_the_finding_the_whole_path() {
    let slow = site(Cause::Python, "/srv/shop/app.py:35 in slow", 18, 760.0, 41.0);
    let found = &diagnose(&evidence(window(vec![slow.clone()])))[0];
    assert!(found.text.contains("your problem: app.py:35 in slow blocks"), "{}", found.text);
    assert_eq!(found.site, "/srv/shop/app.py:35 in slow");
    let other = site(Cause::Gc, "/srv/stock/app.py:35 in slow", 1, 1.0, 1.0);
    let found = &diagnose(&evidence(window(vec![slow, other])))[0];
    assert!(found.text.contains("your problem: shop/app.py:35 in slow blocks"), "{}", found.text);
}

#[test]
fn native_code_and_missing_processors_are_told_apart() {
    let native = site(Cause::GilNative, "image.py:12 in resize → vips", 40, 900.0, 22.5);
    let starved = site(Cause::CpuStarved, "", 10, 400.0, 60.0);
    let expected = [
        (
            FindingKind::GilNative,
            "Garbage collection is not your problem: image.py:12 in resize → vips holds the GIL for 22 ms, 40 times in 5 \
             minutes.",
            "Call it where it releases the GIL, in a process of its own, or with less data at a time.",
        ),
        (
            FindingKind::CpuStarved,
            "CPU starvation caused 31 % of stall time in the last 5 minutes: longest 60 ms, 10 times.",
            "Check the CPU limit of its container and what else runs on this machine.",
        ),
    ];
    check(&evidence(window(vec![native, starved])), &expected);
}

#[test]
fn nothing_and_next_to_nothing_are_said() {
    let calm = "Nothing held this program up in the last 5 minutes.";
    check(&evidence(window(Vec::new())), &[(FindingKind::Nothing, calm, "")]);
    let nearly = window(vec![site(Cause::CpuStarved, "", 3, 21.0, 8.25)]);
    let text = "Nothing held this program up for long in the last 5 minutes: 3 stalls, the longest 8.2 ms.";
    check(&evidence(nearly), &[(FindingKind::Nothing, text, "")]);
}

#[test]
fn a_young_window_is_no_verdict() {
    let window = Window { seconds: 1.0, ..window(vec![full(343.0)]) };
    let text = "Too early to tell: there are figures of 1 s only.";
    check(&evidence(window), &[(FindingKind::TooEarly, text, "Ask again in a few seconds.")]);
    check(&Evidence::default(), &[]);
}

#[test]
fn requests_that_queue_without_stalls_are_told() {
    let latency = |p99_ms| Latency { p99_ms, ..Latency::default() };
    let requests =
        WindowRequests { count: 9, wait: latency(310.0), service: latency(4.0), ..WindowRequests::default() };
    let window = Window { seconds: 40.0, requests, gc: WindowGc::default(), ..window(Vec::new()) };
    let text = "Requests wait before the application sees them, and nothing stalls: in the last 40 seconds the 99th \
                percentile of the wait was 310 ms, that of the service 4.0 ms. More requests come than are served.";
    let advice = "Add workers, or make the busiest route faster: see `routes` in the report.";
    check(&evidence(window), &[(FindingKind::Queueing, text, advice)]);
}

#[test]
fn memory_and_what_does_not_work_come_after_the_verdict() {
    let mut evidence = evidence(window(Vec::new()));
    evidence.degraded = vec!["no PSS".to_owned(), "no sites".to_owned()];
    let (goal_objects, live_objects, objects) = (2_800_000, 2_240_000, 3_000_000);
    evidence.bound =
        Some(Bound { goal_objects, live_objects, objects, over: 0.36, live_bytes: 700 << 20, ..Bound::default() });
    let kinds: Vec<_> = diagnose(&evidence).iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::Nothing, FindingKind::MemoryOverGoal, FindingKind::Degraded]);
    evidence.bound = Some(Bound { over: 0.1, goal_objects, ..Bound::default() });
    assert_eq!(diagnose(&evidence).len(), 2);
}
