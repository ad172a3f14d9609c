//! A made-up dataset with a law that can be learned: to try learners on.

use neurogc_load::Chance;
use neurogc_neural::{OUTPUTS, WINDOW};

use super::dataset::{Dataset, TrainingSample};

/// A made-up program of a number of features, at least four, seen ten times in a second. How long gaps last depends on
/// the present, on what changed lately and on how restless the last rows were; the rest depends on the present alone.
#[must_use]
pub fn imagined(samples: usize, features: usize, seed: u64) -> Dataset {
    let features = features.max(4);
    let mut chance = Chance::new(seed);
    let mut dataset = Dataset::new((0..features).map(|at| format!("imagined_{at}")).collect());
    let mut now = vec![0.0_f32; features];
    let mut rows: Vec<f32> = Vec::new();
    for at in 0..samples + WINDOW {
        for value in &mut now {
            *value = 0.9 * *value + 0.75 * (2.0 * chance.share() as f32 - 1.0);
        }
        // Some features are large and lopsided, as counts and rates are.
        rows.extend(now.iter().enumerate().map(|(at, value)| if at % 3 == 0 { (5.0 + value).exp() } else { *value }));
        if rows.len() > WINDOW * features {
            rows.drain(..features);
        }
        if rows.len() == WINDOW * features {
            let targets = targets(&rows, &now, &mut chance);
            dataset.push(TrainingSample { window: &rows, targets, weight: 1.0, at: at as f64 * 0.1 });
        }
        if dataset.len() == samples {
            break;
        }
    }
    dataset
}

fn targets(rows: &[f32], now: &[f32], chance: &mut Chance) -> [f32; OUTPUTS] {
    let features = now.len();
    let restless =
        (1..WINDOW).map(|row| (rows[row * features + 1] - rows[(row - 1) * features + 1]).abs()).sum::<f32>();
    let changed = rows[rows.len() - features + 2] - rows[2];
    let mean = (1.0 + now[0] + 0.8 * (now[1] * now[2]).tanh() + 0.4 * changed + 0.5 * (restless - 2.6)).exp();
    let gap = (mean * chance.exponential(1.0) as f32).ln_1p();
    let share = |x: f32| 1.0 / (1.0 + (-x).exp());
    // A collection of one kind is seen now and then only.
    let mut seen = |often: f64, value: f32| if chance.share() < often { value } else { f32::NAN };
    [
        gap,
        gap,
        gap,
        gap,
        gap,
        seen(0.7, share(2.0 * now[1] + now[3])),
        seen(0.3, share(2.0 * now[2] - 1.0)),
        seen(0.7, 3.0 + 0.5 * now[0]),
        seen(0.3, 4.0 + 0.3 * now[3] * now[0]),
    ]
}
