//! Single series and the shape that must be seen in them.

use proptest::prelude::*;

use super::*;

const BYTES: Scale = Scale { least: 1e6, least_share: 0.002, z: 2.6, grain: 0.0, exact: false };
const EXACT: Scale = Scale { least: 100.0, least_share: 0.02, z: 3.0, grain: 0.0, exact: true };

fn series(seconds: u32, every: u32, value: impl Fn(f64) -> f64) -> FigureSeries {
    let mut series = FigureSeries::default();
    (0..seconds).step_by(every as usize).for_each(|at| series.push(f64::from(at), value(f64::from(at))));
    series
}

fn check(seconds: u32, value: impl Fn(f64) -> f64, expected: Shape) -> Growth {
    let growth = judge(&series(seconds, 5, value), &[], &BYTES);
    assert_eq!(growth.shape, expected, "{growth:?}");
    growth
}

/// A wave that looks like noise, the same each time.
fn wobble(at: f64) -> f64 {
    (at * 0.83).sin() + (at * 2.31).sin() + (at * 0.117).sin()
}

#[test]
fn lines_grow_and_their_rate_is_found() {
    for seconds in [180, 600, 4000, 30_000, 200_000] {
        let growth = check(seconds, |at| 3e8 + 5e4 * at + 2e5 * wobble(at), Shape::Rising);
        assert!((growth.rate.middle / 5e4 - 1.0).abs() < 0.1, "{seconds}: {growth:?}");
        assert!(growth.rate.low <= 5.05e4 && growth.rate.high >= 4.95e4, "{seconds}: {growth:?}");
    }
}

#[test]
fn what_ends_is_told_from_what_goes_on() {
    check(600, |at| 3e8 + 2e5 * wobble(at), Shape::Flat);
    check(600, |at| 3e8 + 5e7 * (1.0 - (-at / 90.0).exp()), Shape::Level);
    check(600, |at| 3e8 + 5e7 * (1.0 - (-at / 300.0).exp()), Shape::Slowing);
    check(600, |at| 3e8 + 2e5 * at.min(300.0), Shape::Level);
    check(600, |at| 3e8 + if at > 290.0 { 5e7 } else { 0.0 } + 2e5 * wobble(at), Shape::Stepped);
    check(600, |at| 5e8 - 1e5 * at, Shape::Falling);
    check(600, |at| 3e8 + 1e6 * (at % 150.0), Shape::Swinging);
    check(60, |at| 3e8 + 1e6 * at, Shape::TooShort);
}

#[test]
fn low_points_that_rise_are_growth() {
    check(230, |at| 3e8 + 1e6 * (at % 30.0) + 5e5 * at, Shape::Rising);
}

#[test]
fn growth_that_began_lately_is_seen_where_it_is_more_than_before() {
    let growth = check(7200, |at| 3e8 + 1e6 * wobble(at) + 3e5 * (at - 6000.0).max(0.0), Shape::Rising);
    assert!(growth.from_s > 4000.0, "{growth:?}");
    let day = |at: f64| 5e8 + 2e8 * (at * std::f64::consts::TAU / 86_400.0).sin();
    let growth = judge(&series(190_000, 20, day), &[], &BYTES);
    assert!(!growth.is_rising(), "{growth:?}");
}

#[test]
fn a_few_exact_values_are_enough() {
    let judged = |value: fn(f64) -> f64| judge(&series(200, 25, value), &[], &EXACT).shape;
    assert_eq!(judged(|at| 1000.0 + 50.0 * at), Shape::Rising);
    assert_eq!(judged(|at| 1000.0 + 50.0 * at.min(120.0)), Shape::Level);
    assert_eq!(judged(|_| 1000.0), Shape::Flat);
}

proptest! {
    #[test]
    fn any_values_have_a_shape(values in prop::collection::vec(-1e12..1e12_f64, 0..200), every in 1..4000_u32) {
        let mut series = FigureSeries::default();
        for (at, value) in values.iter().enumerate() {
            series.push(at as f64 * f64::from(every), *value);
        }
        for scale in [BYTES, EXACT] {
            let growth = judge(&series, &[&series], &scale);
            prop_assert!(growth.grown.is_finite() && growth.rate.middle.is_finite() && growth.seconds >= 0.0);
        }
    }
}
