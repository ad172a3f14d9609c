//! Functions of single numbers, written so that the compiler turns loops over them into vector code.
//!
//! `sigmoid` and `tanh` differ from the exact functions by less than 1e-6.

/// e to the power of x, for x that is a number.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Beyond these the result leaves the range of `f32`. Comparisons instead of `clamp`, which would keep a NaN that
    // cannot come and costs instructions.
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let t = x * std::f32::consts::LOG2_E;
    // Adding 1.5 · 2^23 leaves the nearest whole number in the lowest bits, without a conversion that saturates.
    const ROUND: f32 = 12_582_912.0;
    let rounded = t + ROUND;
    let rest = t - (rounded - ROUND);
    // 2^rest as its Taylor series, for rest between -1/2 and 1/2, from the highest power down.
    const SERIES: [f32; 6] =
        [0.000_154_035, 0.001_333_356, 0.009_618_129, 0.055_504_11, 0.240_226_5, std::f32::consts::LN_2];
    let power = SERIES.iter().fold(0.0, |sum, factor| (sum + factor) * rest) + 1.0;
    power * f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23))
}

/// From 0 to 1.
#[must_use]
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// From -1 to 1.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (1.0 + exp(2.0 * x))
}

/// A smooth way to be above zero: ln(1 + e^x).
pub(crate) fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The sum of products. Several sums run side by side, as the next addition to one has to wait for the last.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// Shifts and stretches to mean 0 and variance 1, then to a mean and a scale of each place.
pub(crate) fn normalise(values: &[f32], scale: &[f32], shift: &[f32], to: &mut [f32]) {
    let count = values.len().max(1) as f32;
    let mean = values.iter().sum::<f32>() / count;
    for (to, value) in to.iter_mut().zip(values) {
        *to = value - mean;
    }
    let by = 1.0 / (dot(to, to) / count + NORMALISE_EPSILON).sqrt();
    for ((to, scale), shift) in to.iter_mut().zip(scale).zip(shift) {
        *to = *to * by * scale + shift;
    }
}

/// Keeps `normalise` from dividing by zero.
pub const NORMALISE_EPSILON: f32 = 1e-5;

/// Turns scores into shares that sum to one.
pub(crate) fn softmax(scores: &mut [f32]) {
    let most = scores.iter().fold(f32::MIN, |most, score| most.max(*score));
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = exp(*score - most);
        sum += *score;
    }
    for score in scores.iter_mut() {
        *score /= sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_functions_are_near_the_exact_ones() {
        for step in -30_000..=30_000 {
            let x = step as f32 * 1e-3;
            let exact = f64::from(x).exp();
            let allowed = 1e-6 * exact.max(1.0) * f64::from(x.abs().max(1.0));
            assert!((f64::from(exp(x)) - exact).abs() <= allowed, "exp {x}");
            assert!((tanh(x) - x.tanh()).abs() < 1e-6, "tanh {x}");
            assert!((sigmoid(x) - 1.0 / (1.0 + (-x).exp())).abs() < 1e-6, "sigmoid {x}");
        }
    }

    #[test]
    fn nothing_overflows() {
        for x in [f32::MAX, f32::MIN, 1e30, -1e30, 200.0, -200.0] {
            assert!(exp(x).is_finite() && sigmoid(x).is_finite() && tanh(x).is_finite(), "{x}");
        }
        assert_eq!((sigmoid(100.0), tanh(-100.0)), (1.0, -1.0));
    }

    #[test]
    fn shares_sum_to_one() {
        let mut scores = [1e6, 1e6 - 1.0, -1e6];
        softmax(&mut scores);
        assert!((scores.iter().sum::<f32>() - 1.0).abs() < 1e-6 && scores[0] > 2.0 * scores[1], "{scores:?}");
    }
}
