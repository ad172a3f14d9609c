//! Quantiles of a stream, without keeping it.

/// Which quantiles.
pub const LEVELS: [f32; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99];

/// How far a value moves them: this part of how far values are from the middle, and more of it at first.
const STEP: f32 = 0.05;
const FIRST: f32 = 20.0;

/// Quantiles that follow the last hundred values or so: each moves up by its level where a value is above it, and down by the
/// rest where it is below.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantiles {
    values: [f32; LEVELS.len()],
    spread: f32,
    seen: u32,
}

impl Quantiles {
    /// A value; one that is not a number is left out.
    pub fn add(&mut self, value: f32) {
        if !value.is_finite() {
            return;
        }
        if self.seen == 0 {
            self.values = [value; LEVELS.len()];
        }
        let middle = self.values[LEVELS.len() / 2 - 1];
        self.spread += STEP.max(1.0 / (self.seen + 1) as f32) * ((value - middle).abs() - self.spread);
        self.seen = self.seen.saturating_add(1);
        let step = self.spread * STEP.max(1.0 / (1.0 + self.seen as f32 / FIRST) / 2.0);
        for (quantile, level) in self.values.iter_mut().zip(LEVELS) {
            // The outer ones move in steps as large as the others, and rarely: or they would take hundreds of values.
            *quantile += step * if value > *quantile { level } else { level - 1.0 } * 2.0;
        }
        // Each is no lower than the one before it.
        for index in 1..LEVELS.len() {
            self.values[index] = self.values[index].max(self.values[index - 1]);
        }
    }

    /// The quantiles, lowest first; nothing before there have been so many values as the outer ones need.
    #[must_use]
    pub fn values(&self) -> Option<[f32; LEVELS.len()]> {
        (self.seen as f32 >= FIRST).then_some(self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_cover_what_they_say() {
        let mut state = 9_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        let mut quantiles = Quantiles::default();
        let mut below = [0.0; LEVELS.len()];
        for index in 0..6_000 {
            // The middle moves on after a while.
            let value = (next() + next() + next()) * 2.0 + if index > 3_000 { 5.0 } else { 0.0 };
            if index >= 1_000 {
                let known = quantiles.values().unwrap_or_default();
                below
                    .iter_mut()
                    .zip(known)
                    .for_each(|(below, quantile)| *below += f32::from(u8::from(value <= quantile)));
            }
            quantiles.add(value);
        }
        for (below, level) in below.iter().zip(LEVELS) {
            assert!((below / 5_000.0 - level).abs() < 0.04, "{level}: {}", below / 5_000.0);
        }
        quantiles.add(f32::NAN);
        assert!(quantiles.values().is_some_and(|values| values.is_sorted()));
    }

    #[test]
    fn a_few_values_say_nothing() {
        let mut quantiles = Quantiles::default();
        (0..19).for_each(|_| quantiles.add(1.0));
        assert_eq!(quantiles.values(), None);
        quantiles.add(1.0);
        assert_eq!(quantiles.values(), Some([1.0; LEVELS.len()]));
    }
}
