//! The slowest requests of the last minutes, and what each of them waited for.

use neurogc_wire::status::{Cause, SlowRequest};

use super::routes::{RouteId, RouteNames, Routes};
use super::spans::{ms, seconds};

/// How many are kept of each window, and reported.
const KEPT: usize = 20;

/// A window; the running one and the one before it are kept.
const WINDOW_S: u64 = 150;

/// One request that has ended. Times are `monotonic_ns`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slow {
    /// When it arrived, and when it ended.
    pub(crate) arrived: u64,
    pub(crate) ended: u64,
    pub(crate) wait: u64,
    pub(crate) gc: u64,
    /// Stalls during it, by cause, without collections.
    pub(crate) stalls: Causes,
    pub(crate) route: RouteId,
    pub(crate) trace: [u8; 16],
}

/// Nanoseconds by cause.
pub(crate) type Causes = [u64; Cause::ALL.len()];

impl Slow {
    fn total(&self) -> u64 {
        self.ended.saturating_sub(self.arrived)
    }
}

/// How long two spans overlap.
pub(crate) fn overlap(one: (u64, u64), other: (u64, u64)) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

/// The slowest requests.
#[derive(Debug, Default)]
pub(crate) struct Slowest {
    windows: [(u64, Vec<Slow>); 2],
}

impl Slowest {
    /// A request ended in this second of the agent's life.
    pub(crate) fn add(&mut self, slow: Slow, second: u64) {
        let window = second / WINDOW_S;
        let (number, kept) = &mut self.windows[(window % 2) as usize];
        if *number != window {
            *number = window;
            kept.clear();
        }
        if kept.len() < KEPT {
            kept.push(slow);
        } else if let Some(quickest) = kept.iter_mut().min_by_key(|kept| kept.total())
            && quickest.total() < slow.total()
        {
            *quickest = slow;
        }
    }

    /// A stall is known only now that was during requests that have ended.
    pub(crate) fn stalled(&mut self, span: (u64, u64), cause: Cause) {
        for slow in self.windows.iter_mut().flat_map(|(_, kept)| kept) {
            slow.stalls[cause as usize] += overlap(span, (slow.arrived, slow.ended));
        }
    }

    /// The same for a collection.
    pub(crate) fn collected(&mut self, span: (u64, u64)) {
        for slow in self.windows.iter_mut().flat_map(|(_, kept)| kept) {
            slow.gc += overlap(span, (slow.arrived, slow.ended));
        }
    }

    /// The slowest, slowest first.
    pub(crate) fn report(&self, names: &RouteNames, installed: u64, second: u64) -> Vec<SlowRequest> {
        let window = second / WINDOW_S;
        let current = self.windows.iter().filter(|(number, _)| number + 1 >= window);
        let mut slowest: Vec<_> = current.flat_map(|(_, kept)| kept).collect();
        slowest.sort_by_key(|slow| std::cmp::Reverse(slow.total()));
        slowest.truncate(KEPT);
        slowest.into_iter().map(|slow| reported(slow, names, installed)).collect()
    }
}

fn reported(slow: &Slow, names: &RouteNames, installed: u64) -> SlowRequest {
    let of = |cause: Cause| ms(slow.stalls[cause as usize]);
    SlowRequest {
        at_s: seconds(slow.arrived.saturating_sub(installed)),
        route: Routes::name(names, slow.route),
        total_ms: ms(slow.total()),
        wait_ms: ms(slow.wait),
        gc_ms: ms(slow.gc),
        gil_native_ms: of(Cause::GilNative),
        python_ms: of(Cause::Python),
        cpu_starved_ms: of(Cause::CpuStarved),
        trace_id: if slow.trace == [0; 16] {
            String::new()
        } else {
            slow.trace.iter().map(|byte| format!("{byte:02x}")).collect()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn slow(at: u64, lasted: u64) -> Slow {
        Slow { arrived: at * MS, ended: (at + lasted) * MS, trace: [0xab; 16], ..Slow::default() }
    }

    #[test]
    fn the_slowest_are_kept_and_forgotten_after_a_while() {
        let (mut slowest, names) = (Slowest::default(), RouteNames::default());
        (0..1_000).for_each(|number| slowest.add(slow(number, number % 100), number / 100));
        let report = slowest.report(&names, 0, 10);
        assert_eq!((report.len(), report[0].total_ms, report[19].total_ms), (20, 99.0, 98.0));
        assert_eq!(report[0].trace_id, "ab".repeat(16));
        slowest.add(slow(400_000, 1), 400);
        let report = slowest.report(&names, 0, 400);
        assert_eq!((report.len(), report[0].total_ms), (1, 1.0));
    }

    #[test]
    fn a_stall_that_is_judged_late_is_put_beside_its_requests() {
        let (mut slowest, names) = (Slowest::default(), RouteNames::default());
        slowest.add(slow(100, 50), 0);
        slowest.stalled((120 * MS, 500 * MS), Cause::Python);
        slowest.stalled((160 * MS, 500 * MS), Cause::GilNative);
        let report = slowest.report(&names, 0, 1);
        assert_eq!((report[0].python_ms, report[0].gil_native_ms), (30.0, 0.0));
    }
}
