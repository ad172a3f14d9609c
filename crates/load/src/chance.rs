//! Chance that repeats itself: the same seed gives the same arrivals on every machine.

/// A small generator of random numbers (SplitMix64), good enough for arrivals and for nothing secret.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Starts at a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 up to, and without, 1.
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The time to the next event of a Poisson process, in seconds.
    pub fn exponential(&mut self, per_second: f64) -> f64 {
        -(1.0 - self.share()).ln() / per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_another_does_not() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..5).map(|_| chance.number()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn waiting_times_have_their_mean() {
        let mut chance = Chance::new(1);
        let mean = (0..100_000).map(|_| chance.exponential(50.0)).sum::<f64>() / 100_000.0;
        assert!((mean - 0.02).abs() < 0.0005, "{mean}");
    }
}
