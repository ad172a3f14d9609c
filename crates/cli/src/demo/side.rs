//! One of the two services, and what is known about it while it runs.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neurogc_load::{Latencies, Live};

/// What a person sees of one side.
#[derive(Debug, Default)]
pub(crate) struct SideFigures {
    /// Latencies since the load began, and of the running second.
    pub(super) all: Latencies,
    pub(super) second: Latencies,
    /// The longest latency of each second that is over, in milliseconds.
    pub(crate) slowest: Vec<f64>,
    /// Resident memory of each second that is over, in bytes.
    pub(crate) rss: Vec<u64>,
    pub(crate) failed: u64,
    /// Resident memory now.
    pub(crate) rss_now: u64,
}

impl SideFigures {
    /// Takes what the generator saw since the last time.
    pub(crate) fn take(&mut self, live: &Live<'_>) {
        self.all.add(&live.tick.latencies);
        self.second.add(&live.tick.latencies);
        self.failed += live.tick.failed;
        self.until(live.elapsed);
    }

    /// Closes the seconds that are over.
    fn until(&mut self, elapsed: Duration) {
        while (self.slowest.len() as u64) < elapsed.as_secs() {
            self.slowest.push(self.second.figures().max_ms);
            self.rss.push(self.rss_now);
            self.second.clear();
        }
    }

    /// The figures since the load began.
    pub(crate) fn figures(&self) -> neurogc_load::LatencyFigures {
        self.all.figures()
    }

    /// Answers in a second, since the load began.
    pub(crate) fn per_second(&self) -> f64 {
        self.all.count() as f64 / (self.slowest.len().max(1)) as f64
    }
}

/// One side, as the generator's thread and the screen share it.
#[derive(Debug, Default)]
pub(crate) struct DemoSide(Mutex<SideFigures>);

impl DemoSide {
    /// Looks at it. It is never held for long.
    pub(crate) fn seen(&self) -> MutexGuard<'_, SideFigures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use neurogc_load::LoadTick;

    use super::*;

    #[test]
    fn seconds_close_with_their_slowest_answer() {
        let mut seen = SideFigures { rss_now: 7, ..SideFigures::default() };
        let mut at = |milliseconds: u64, latency: u64| {
            let mut tick = LoadTick::default();
            tick.latencies.record(Duration::from_millis(latency));
            seen.take(&Live { elapsed: Duration::from_millis(milliseconds), part: 0, in_flight: 0, tick: &tick });
        };
        at(500, 5);
        at(1000, 90);
        at(1500, 3);
        at(3100, 4);
        assert_eq!(seen.slowest.iter().map(|ms| ms.round()).collect::<Vec<_>>(), [90.0, 4.0, 0.0]);
        assert_eq!((seen.rss.len(), seen.figures().count), (3, 4));
    }
}
