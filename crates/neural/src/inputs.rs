//! How inputs are prepared, in training and in the agent alike.

use crate::metadata::Metadata;

/// How many rows of features a forecast looks at, the oldest first and the last of them now.
pub const WINDOW: usize = 8;

/// How many features a row has at most.
pub const MOST_FEATURES: usize = 32;

/// Prepared values stay within this many scales of their mean, so that what training never saw cannot go far astray.
pub const CLIP: f32 = 6.0;

/// Brings each feature to mean 0 and scale 1.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// Mean and one over the scale of each feature.
    features: Vec<(f32, f32)>,
}

impl Scaling {
    /// As the model was trained with.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self::new(&metadata.means, &metadata.scales)
    }

    /// From the means and scales of the features.
    #[must_use]
    pub fn new(means: &[f32], scales: &[f32]) -> Self {
        Self { features: means.iter().zip(scales).map(|(mean, scale)| (*mean, 1.0 / scale)).collect() }
    }

    /// Prepares rows. What is not a number counts as the mean: nothing is known about it.
    pub fn apply(&self, rows: &[f32], prepared: &mut [f32]) {
        let width = self.features.len().max(1);
        for (row, prepared) in rows.chunks(width).zip(prepared.chunks_mut(width)) {
            for ((value, to), (mean, over_scale)) in row.iter().zip(prepared).zip(&self.features) {
                let scaled = (value - mean) * over_scale;
                *to = if scaled.is_nan() { 0.0 } else { scaled.clamp(-CLIP, CLIP) };
            }
        }
    }
}

/// What models without a memory see of a prepared window: the last row, and how far each feature moved since the first.
pub fn summarise(window: &[f32], summary: &mut [f32]) {
    let features = summary.len() / 2;
    let (now, moved) = summary.split_at_mut(features);
    let last = window.len().saturating_sub(features);
    for (((now, moved), value), first) in now.iter_mut().zip(moved).zip(&window[last..]).zip(window) {
        *now = *value;
        *moved = value - first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_scaled_clipped_and_never_nan() {
        let scaling = Scaling::new(&[10.0, 0.0], &[2.0, 1e-30]);
        let mut prepared = [9.0; 6];
        scaling.apply(&[14.0, 0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0], &mut prepared);
        assert_eq!(prepared, [2.0, 0.0, 0.0, CLIP, -CLIP, -CLIP]);
    }

    #[test]
    fn a_summary_is_the_last_row_and_the_way_to_it() {
        let mut summary = [0.0; 4];
        summarise(&[1.0, 2.0, 50.0, 60.0, 4.0, 1.0], &mut summary);
        assert_eq!(summary, [4.0, 1.0, 3.0, -1.0]);
    }
}
