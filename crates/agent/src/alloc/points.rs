//! Which allocations are sampled, and what each stands for.
//!
//! A stream of allocations is divided into stretches of equal length, and one point is drawn in each. So every byte is
//! met with the same probability, and a block stands for the length of a stretch for each point in it. A block of two
//! stretches or more always has a point in it, and stands for itself.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use super::interface::SamplePoints;

impl SamplePoints {
    /// A stream that has not begun.
    pub(super) const fn new() -> Self {
        Self { left: AtomicI64::new(0), rest: AtomicI64::new(0), random: AtomicU64::new(0), busy: AtomicU32::new(0) }
    }

    /// Draws the first point, where that has not been done.
    pub(super) fn begin(&self, seed: u64, interval: u64) -> bool {
        let is_new = self.random.load(Relaxed) == 0;
        if is_new {
            // The addresses of two threads' points differ in a few bits, and so may the seeds: they are mixed well.
            let mut mixed = seed ^ (std::ptr::from_ref(self) as u64).rotate_left(32);
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            self.random.store((mixed ^ mixed >> 31) | 1, Relaxed);
            self.rest.store(0, Relaxed);
            let gap = self.gap(interval);
            self.left.store(gap, Relaxed);
        }
        is_new
    }

    /// How many points lie in the block by which `left` has fallen below zero. Another thread may count the same
    /// stream down meanwhile (interpreters with a GIL of their own): that may cost a point, and nothing else.
    pub(super) fn met(&self, interval: u64) -> u64 {
        let interval = interval.max(1) as i64;
        let mut left = self.left.load(Relaxed);
        let mut met = 0;
        // Most of a huge block is passed over at once.
        if left < interval.saturating_mul(-64) {
            let stretches = left.unsigned_abs() as i64 as u64 / interval as u64 - 32;
            met += stretches;
            left = left.wrapping_add((stretches as i64).wrapping_mul(interval));
        }
        while left < 0 {
            met += 1;
            left += self.gap(interval as u64);
        }
        self.left.store(left, Relaxed);
        met
    }

    /// From this point to the next: the rest of its stretch, and a part of the following one.
    fn gap(&self, interval: u64) -> i64 {
        let into = ((u128::from(self.next()) * u128::from(interval)) >> 64) as i64;
        let gap = self.rest.load(Relaxed) + into + 1;
        self.rest.store(interval as i64 - 1 - into, Relaxed);
        gap
    }

    /// A random number (xorshift).
    pub(super) fn next(&self) -> u64 {
        let mut x = self.random.load(Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x, Relaxed);
        x
    }
}

/// The bytes that a sampled block stands for.
pub(super) fn weight(size: usize, points: u64, interval: u64) -> u64 {
    if size as u64 >= 2 * interval { size as u64 } else { points.saturating_mul(interval) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimate of a run of blocks, and how many were sampled.
    fn estimate(points: &SamplePoints, interval: u64, sizes: impl Iterator<Item = usize>) -> (u64, u64) {
        let (mut bytes, mut samples) = (0, 0);
        for size in sizes {
            points.left.store(points.left.load(Relaxed) - size as i64, Relaxed);
            if points.left.load(Relaxed) < 0 {
                let met = points.met(interval);
                if met > 0 {
                    bytes += weight(size, met, interval);
                    samples += 1;
                }
            }
        }
        (bytes, samples)
    }

    fn check(size: usize, count: usize, interval: u64, tolerance: f64) {
        let points = SamplePoints::new();
        points.begin(7, interval);
        let (bytes, samples) = estimate(&points, interval, std::iter::repeat_n(size, count));
        let truth = (size * count) as f64;
        assert!((bytes as f64 / truth - 1.0).abs() < tolerance, "{size}: {bytes} for {truth}, {samples} samples");
    }

    #[test]
    fn an_estimate_is_right_for_every_size() {
        for size in [1, 16, 48, 500, 4096, 20_000, 40_000, 65_535, 65_536, 100_000, 5_000_000] {
            check(size, 40_000_000 / size + 400, 32 * 1024, 0.03);
        }
    }

    #[test]
    fn a_tiny_interval_meets_every_block() {
        check(64, 10_000, 30, 0.001);
        check(64, 10_000, 1, 0.001);
    }

    #[test]
    fn a_block_of_absurd_size_ends_the_count_quickly() {
        let points = SamplePoints::new();
        points.begin(1, 300);
        points.left.store(i64::MIN + 5, Relaxed);
        points.met(300);
        assert!(points.left.load(Relaxed) >= 0);
    }

    #[test]
    fn sites_that_take_turns_are_told_apart() {
        let points = SamplePoints::new();
        points.begin(3, 32 * 1024);
        let mut bytes = [0_u64; 2];
        for turn in 0..2_000_000 {
            let which = turn % 2;
            let size = [48, 144][which];
            points.left.store(points.left.load(Relaxed) - size, Relaxed);
            if points.left.load(Relaxed) < 0 {
                bytes[which] += weight(size as usize, points.met(32 * 1024), 32 * 1024);
            }
        }
        assert!((bytes[0] as f64 / 48e6 - 1.0).abs() < 0.1 && (bytes[1] as f64 / 144e6 - 1.0).abs() < 0.1, "{bytes:?}");
    }
}
