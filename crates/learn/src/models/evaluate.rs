//! How good forecasts are on data that they were not learned from.

use std::collections::BTreeMap;

use neurogc_neural::{GAP_LEVELS, Model, OUTPUTS};
use serde::Serialize;

use super::constant::constant;
use super::dataset::Dataset;
use super::loss::pinball;

/// The quality of forecasts. What no sample tells is nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ForecastQuality {
    /// How many samples were forecast.
    pub samples: usize,
    /// The mean pinball loss of each gap quantile, of ln(1 + ms).
    pub pinball: [Option<f64>; GAP_LEVELS.len()],
    /// The share of gaps that were no longer than each quantile; a calibrated one has its own level.
    pub coverage: [Option<f64>; GAP_LEVELS.len()],
    /// By how much the yield of a young collection is missed, in shares.
    pub young_yield_mae: Option<f64>,
    /// By how much the yield of a full collection is missed, in shares.
    pub old_yield_mae: Option<f64>,
    /// By how much the pause of a young collection is missed, in ln(ns per object).
    pub young_pause_rmse: Option<f64>,
    /// By how much the pause of a full collection is missed, in ln(ns per object).
    pub full_pause_rmse: Option<f64>,
}

impl ForecastQuality {
    /// The mean over the gap quantiles.
    #[must_use]
    pub fn mean_pinball(&self) -> Option<f64> {
        let known: Vec<f64> = self.pinball.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// The largest distance of a quantile's coverage from its level.
    #[must_use]
    pub fn worst_calibration(&self) -> Option<f64> {
        let known = self.coverage.iter().zip(GAP_LEVELS).filter_map(|(it, level)| Some((*it)? - f64::from(level)));
        known.map(f64::abs).max_by(f64::total_cmp)
    }

    /// The figures by name, as they go into a model's file.
    #[must_use]
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let mut figures = BTreeMap::from([("test_samples".to_owned(), self.samples as f64)]);
        let mut add = |name: String, figure: Option<f64>| figure.map(|figure| figures.insert(name, figure));
        for ((level, pinball), coverage) in GAP_LEVELS.iter().zip(self.pinball).zip(self.coverage) {
            let level = (level * 100.0).round();
            add(format!("gap_q{level}_pinball_ln1p_ms"), pinball);
            add(format!("gap_q{level}_coverage_share"), coverage);
        }
        add("young_yield_mae_share".to_owned(), self.young_yield_mae);
        add("old_yield_mae_share".to_owned(), self.old_yield_mae);
        add("young_pause_rmse_ln_ns_per_object".to_owned(), self.young_pause_rmse);
        add("full_pause_rmse_ln_ns_per_object".to_owned(), self.full_pause_rmse);
        figures
    }
}

/// How well a model does, as the agent would run it.
#[must_use]
pub fn evaluate(model: &mut Model, data: &Dataset) -> ForecastQuality {
    judge(data, |window, forecast| model.predict(window, forecast))
}

/// How well the best forecast does that does not look: the constant of `learned_from`, judged on `data`.
#[must_use]
pub fn evaluate_constant(learned_from: &Dataset, data: &Dataset) -> ForecastQuality {
    let targets: Vec<_> = learned_from.samples().map(|sample| (sample.targets, sample.weight)).collect();
    let says = constant(targets.iter().map(|(targets, weight)| (targets, *weight))).unwrap_or_default();
    judge(data, |_, forecast| *forecast = says)
}

fn judge(data: &Dataset, mut predict: impl FnMut(&[f32], &mut [f32; OUTPUTS])) -> ForecastQuality {
    let mut pinballs = [Mean::default(); GAP_LEVELS.len()];
    let mut coverages = pinballs;
    let mut absolute = [Mean::default(); OUTPUTS];
    let mut squared = absolute;
    let mut forecast = [0.0; OUTPUTS];
    for sample in data.samples() {
        predict(sample.window, &mut forecast);
        for at in (0..OUTPUTS).filter(|at| sample.targets[*at].is_finite()) {
            let (target, forecast, weight) = (sample.targets[at], forecast[at], f64::from(sample.weight));
            if let Some(level) = GAP_LEVELS.get(at) {
                pinballs[at].add(f64::from(pinball(*level, target, forecast)), weight);
                coverages[at].add(f64::from(u8::from(target <= forecast)), weight);
            }
            let miss = f64::from(target - forecast);
            absolute[at].add(miss.abs(), weight);
            squared[at].add(miss * miss, weight);
        }
    }
    ForecastQuality {
        samples: data.len(),
        pinball: pinballs.map(Mean::get),
        coverage: coverages.map(Mean::get),
        young_yield_mae: absolute[5].get(),
        old_yield_mae: absolute[6].get(),
        young_pause_rmse: squared[7].get().map(f64::sqrt),
        full_pause_rmse: squared[8].get().map(f64::sqrt),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: f64, weight: f64) {
        self.sum += value * weight;
        self.weight += weight;
    }

    fn get(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}
