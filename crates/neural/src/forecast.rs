//! What a model predicts, in which order and unit, and how the last layer's numbers become that.

use crate::arithmetic::{sigmoid, softplus};

/// How many numbers a forecast has.
pub const OUTPUTS: usize = 9;

/// The shares of gaps that end before each of the predicted gaps.
pub const GAP_LEVELS: [f32; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];

/// The numbers of a forecast, in order. Gaps are what remains of the present one.
pub const OUTPUT_NAMES: [&str; OUTPUTS] = [
    "gap_q10_ln1p_ms",
    "gap_q25_ln1p_ms",
    "gap_q50_ln1p_ms",
    "gap_q75_ln1p_ms",
    "gap_q90_ln1p_ms",
    "young_yield_share",
    "old_yield_share",
    "young_pause_ln_ns_per_object",
    "full_pause_ln_ns_per_object",
];

/// How the last layer's numbers become a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// The first quantile, then steps up to each next one; yields as log-odds.
    Steps,
    /// The numbers themselves, with quantiles brought into order.
    Plain,
}

impl Head {
    /// Makes a forecast of the last layer's numbers, in place.
    pub fn finish(self, outputs: &mut [f32; OUTPUTS]) {
        let [q10, q25, q50, q75, q90, young_yield, old_yield, ..] = outputs;
        match self {
            Self::Steps => {
                let mut gap = *q10;
                for step in [q25, q50, q75, q90] {
                    gap += softplus(*step);
                    *step = gap;
                }
                *young_yield = sigmoid(*young_yield);
                *old_yield = sigmoid(*old_yield);
            }
            Self::Plain => {
                outputs[..GAP_LEVELS.len()].sort_unstable_by(f32::total_cmp);
                for share in &mut outputs[5..7] {
                    *share = share.clamp(0.0, 1.0);
                }
            }
        }
        // No gap is shorter than nothing.
        for gap in &mut outputs[..GAP_LEVELS.len()] {
            *gap = gap.max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_do_not_cross_and_shares_are_shares() {
        let given = [-3.0, -80.0, 2.0, 0.0, 50.0, 40.0, -40.0, 3.0, -2.0];
        for head in [Head::Steps, Head::Plain] {
            let mut outputs = given;
            head.finish(&mut outputs);
            assert!(outputs[..5].is_sorted() && outputs[0] >= 0.0, "{outputs:?}");
            assert!(outputs[5..7].iter().all(|share| (0.0..=1.0).contains(share)), "{outputs:?}");
            assert_eq!(outputs[7..], given[7..]);
        }
    }
}
