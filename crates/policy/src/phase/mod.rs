//! What repeats from step to step: [`StepPattern`] sees that every tenth gap is long, however long the steps between take, and says
//! nothing about a program in which nothing repeats. [`LongGaps`] says which gap will be long, as long as it is right about it.
//!
//! What comes by the clock is not looked for: to know it brought next to nothing (docs/lab-notes.md).

mod long_gaps;
mod steps;

pub use long_gaps::{ForetoldGap, GapRhythm, LongGaps};
pub use steps::StepPattern;

#[cfg(test)]
mod chance {
    //! Numbers that look random, the same each time.

    pub(super) struct Jitter(pub(super) u64);

    impl Jitter {
        /// Between zero and one.
        pub(super) fn share(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// A time until the next of independent events that come at a rate.
        pub(super) fn exponential(&mut self, rate: f64) -> f64 {
            -(1.0 - self.share()).ln() / rate
        }
    }
}
