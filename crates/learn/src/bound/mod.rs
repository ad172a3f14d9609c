//! A cost that no schedule of collections can be below, whatever it knows beforehand.
//!
//! The best schedule is out of reach for more than a few requests. This is the exact optimum of a simpler problem, in which
//! everything that is left out of the real one could only cost more. So the bound is below the cost of every policy and
//! of every plan, and the distance to the best known schedule says how much the simplification gives away.
//!
//! # What is bounded
//!
//! Cost = Σ `delay` × d(k) + Σ `hold` × b(k) × (F(k) − C(k)) + copies, where d(k) is the delay of request k, C(k) when it
//! ends, b(k) the objects that are garbage from then on, and F(k) when these are freed, or the end of the last request. c(k)
//! is when it ends without any collection, and d(k) = C(k) − c(k).
//!
//! # Why it is below
//!
//! 1. **Times.** One request after the other: C(k) = max(C(k−1) + g, arrival) + service + p, with the stops g between two
//!    requests and p within one. So C(k) ≥ c(k). A request may delay its own garbage: that is paid for by its own delay, as
//!    `delay` × d + `hold` × b × (F − C) ≥ (`delay` − v) × d + v × (F − c), for v = min(`hold` × b, `delay`). From here on b
//!    is what v stands for, and `late` is what is left of `delay`. Garbage of requests that do not count is left out.
//! 2. **Stops add up.** By the recursion, C(k) is a maximum over the first request i of a busy stretch of arrival(i) and all
//!    services and stops from there to k. Stops further along count for more of these sums, so C is supermodular in the
//!    set of stops, and d(all stops) ≥ Σ d(each stop alone). A stop of length L after request i delays request k by at
//!    least max(0, L − idle(i, k)), with the time that the program would idle between the two (`Timeline::delay`). A stop
//!    within a request delays more. That is convex in L, and a stop can be divided into what is done meanwhile.
//! 3. **Nothing is freed for nothing.** Each object costs the collection that frees it, or the slice, a time of its own.
//! 4. **What dies late is never alone.** Objects born after it are in its generation or a younger one, and those of the last
//!    `lag` births that do not die with their request are alive. So whatever frees it has looked at all of these,
//!    even where a program's other objects are frozen. A snapshot must also clone the memory of all that is alive, and what
//!    it finds is held until the walk is over.
//! 5. **What has been collected is older.** After a young (middle) collection that frees something that died late, what was
//!    born before is no longer young (middle-aged). So within `lag` births of it the next that frees such garbage must be
//!    of an older generation; after a full collection or a snapshot only these two are left.
//! 6. **Walks slow down.** Between the launch and the end of the walk, the program works more slowly, idles for no longer than
//!    it would have, or stands still for other stops. Where it stands still, it does less work in that time: a stop of length
//!    L saves at most L × slowdown / (1 + slowdown) of what the walk costs. So that share of each other stop is counted here
//!    and not there, by the lowest `late` of a request.
//!
//! Left out are: what a collection looks at beyond 4, all stops that free nothing, copies, slices' own part, and that
//! one thing after another is freed.
//!
//! In a loop (one user who waits for each answer) a stop delays one step and moves all later ones. Held times are
//! lengths between steps, and need no 1. Seconds grow with the delays, by which memory is divided: either the delays alone
//! cost as much as the bound without them, or the seconds are at most so many more.
//!
//! Several users who wait for answers, and requests that wait for others and queue again, are served in an order that
//! depends on the schedule. For these the bound is zero.

mod optimum;
mod timeline;

use neurogc_wire::stop::StopKind;

use crate::model::Sweep;
use crate::simulate::Scene;
use crate::workload::{Pace, Workload};
use optimum::{Optimum, StopCosts};
use timeline::Timeline;

/// What rounding may add to the bound at most: a part of it, and so many milliseconds where large sums cancel.
const ROUNDED: (f64, f64) = (1e-6, 1e-9);

/// What no schedule of a scene costs less than, in the unit of [`cost`](crate::cost); zero where nothing is known.
#[must_use]
pub fn lower_bound(scene: &Scene<'_>, lambda: f64) -> f64 {
    let Some(timeline) = Timeline::of(scene) else { return 0.0 };
    let first = bound_over(scene, lambda, &timeline, timeline.seconds);
    let bound = match scene.workload.pace {
        Pace::Open => first,
        Pace::Closed(_) => {
            let delays = first * 1e6 * timeline.requests;
            bound_over(scene, lambda, &timeline, timeline.seconds + delays / 1e9)
        }
    };
    (bound * (1.0 - ROUNDED.0) - ROUNDED.1).max(0.0)
}

/// The bound, with memory as a mean over so many seconds.
fn bound_over(scene: &Scene<'_>, lambda: f64, timeline: &Timeline, seconds: f64) -> f64 {
    let delay = 1.0 / timeline.requests / 1e6;
    let hold = lambda * scene.model.memory.object / seconds / 1e6 / 1e9;
    Optimum::new(timeline, stops(scene), delay, hold).cost()
}

/// What stops cost at least.
fn stops(scene: &Scene<'_>) -> StopCosts {
    let (model, costs) = (scene.model, &scene.model.costs);
    let lifetimes = &model.lifetimes;
    let alive = lifetimes.lag * (1.0 - lifetimes.die_young - lifetimes.by_reference).max(0.0);
    let least = |kind: StopKind, sweep: Sweep| {
        let factor = model.disturbed.least(kind);
        Sweep { looked: sweep.looked * factor, freed: sweep.freed * factor }
    };
    let sweeps =
        [least(StopKind::Young, costs.young), least(StopKind::Middle, costs.middle), least(StopKind::Full, costs.full)];
    let mut each = sweeps.iter().map(|sweep| sweep.looked + sweep.freed).fold(f64::INFINITY, f64::min);
    if scene.snapshots {
        each = each.min(costs.reap.each);
    }
    StopCosts {
        sweeps: sweeps.map(|sweep| sweep.looked * alive),
        clone: scene.snapshots.then_some((costs.clone, model.memory)),
        walk: costs.walk.at(alive).floor().max(0.0),
        slowdown: if scene.snapshots { costs.slowdown.max(0.0) } else { 0.0 },
        each: each.max(0.0),
        lag: lifetimes.lag,
    }
}

/// Whether the order in which the program works is the same whatever is collected.
fn has_one_order(workload: &Workload) -> bool {
    match workload.pace {
        Pace::Open => workload.requests.iter().all(|request| request.visits <= 1),
        // All steps of a loop count, or which of them do depends on the schedule.
        Pace::Closed(1) => {
            workload.requests.first().is_some_and(|first| workload.start.at + first.at >= workload.counted_from)
        }
        Pace::Closed(_) => false,
    }
}

#[cfg(test)]
mod tests;
