//! The forecast that is always the same: where learning begins, and what it must beat.

use neurogc_neural::{GAP_LEVELS, Head, OUTPUTS};

/// Where a trace says nothing, forecasts expect to free nothing and to pay much, so that nothing is done because of them.
const UNKNOWN_YIELD: f32 = 0.0;
const UNKNOWN_PAUSE_LN_NS: f32 = 4.6;

/// The best forecast of those that do not look, for targets with their weights. Nothing where no gap is known.
pub(super) fn constant<'a>(samples: impl Iterator<Item = (&'a [f32; OUTPUTS], f32)> + Clone) -> Option<[f32; OUTPUTS]> {
    let known = |at: usize| {
        let of = samples.clone().map(move |(targets, weight)| (targets[at], weight));
        of.filter(|(target, weight)| target.is_finite() && *weight > 0.0)
    };
    let mut constant = [0.0; OUTPUTS];
    for (at, (level, to)) in GAP_LEVELS.into_iter().zip(&mut constant).enumerate() {
        *to = quantile(&mut known(at).collect::<Vec<_>>(), level)?;
    }
    for (at, to) in constant.iter_mut().enumerate().skip(GAP_LEVELS.len()) {
        let (sum, weight) = known(at).fold((0.0, 0.0), |(sum, all), (target, weight)| {
            (sum + f64::from(target) * f64::from(weight), all + f64::from(weight))
        });
        let unknown = if at < 7 { UNKNOWN_YIELD } else { UNKNOWN_PAUSE_LN_NS };
        *to = if weight > 0.0 { (sum / weight) as f32 } else { unknown };
    }
    Some(constant)
}

/// The value below which a share of the weight lies.
pub(super) fn quantile(values: &mut [(f32, f32)], share: f32) -> Option<f32> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = values.iter().map(|(_, weight)| f64::from(*weight)).sum();
    let mut left = all * f64::from(share);
    let reached = values.iter().find(|(_, weight)| {
        left -= f64::from(*weight);
        // A level such as 0.1 is no exact number.
        left <= 1e-6 * all
    });
    reached.or(values.last()).map(|(value, _)| *value)
}

/// What the last layer must say for a head to make this forecast of it.
pub(super) fn before_head(head: Head, forecast: &[f32; OUTPUTS]) -> [f32; OUTPUTS] {
    let mut raw = *forecast;
    if head == Head::Steps {
        for at in 1..GAP_LEVELS.len() {
            // The inverse of ln(1 + e^x); a step is never quite zero.
            raw[at] = (forecast[at] - forecast[at - 1]).max(0.01).exp_m1().ln();
        }
        for share in &mut raw[5..7] {
            let kept = share.clamp(0.01, 0.99);
            *share = (kept / (1.0 - kept)).ln();
        }
    }
    raw
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_means_are_found() {
        let targets: Vec<[f32; OUTPUTS]> = (1..=100)
            .map(|at| {
                let at = at as f32;
                [at, at, at, at, at, at / 100.0, f32::NAN, 2.0, f32::NAN]
            })
            .collect();
        let found = constant(targets.iter().map(|it| (it, 1.0))).unwrap();
        assert_eq!(found[..5], [10.0, 25.0, 50.0, 75.0, 90.0]);
        assert!((found[5] - 0.505).abs() < 1e-5);
        assert_eq!(found[6..], [UNKNOWN_YIELD, 2.0, UNKNOWN_PAUSE_LN_NS]);
        assert_eq!(constant([([f32::NAN; OUTPUTS], 1.0)].iter().map(|(it, weight)| (it, *weight))), None);
    }

    #[test]
    fn heads_are_undone() {
        let forecast = [1.0, 1.5, 2.0, 4.0, 8.0, 0.3, 0.9, 2.0, 3.0];
        for head in [Head::Steps, Head::Plain] {
            let mut back = before_head(head, &forecast);
            head.finish(&mut back);
            assert!(back.iter().zip(forecast).all(|(found, wanted)| (found - wanted).abs() < 1e-4), "{back:?}");
        }
    }
}
