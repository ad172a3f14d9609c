//! `rl`: a model trained in the simulator on what decisions cost, and not on examples.
//!
//! It begins as the linear model that examples gave, and changes how long gaps are expected to be, by each feature, and
//! the weights of decisions, all at once, towards what costs least.

use neurogc_neural::{Contents, Family, ModelError, OUTPUTS, Tensor, Values, write};
use neurogc_policy::{WEIGHTS, Weights};

use super::search::search;
use super::{Course, Effort, Excerpt, from_logarithms, named};

/// How far from the start the weights of features are looked for, in units of ln(1 + ms) for each scale of the feature.
const SPREAD: f64 = 0.15;

/// The logarithms of decisions' weights are searched on the same scale.
const LOGARITHMS: f64 = 0.4;

/// Trains it, from a linear model's file; gives its own file and its score.
pub(super) fn reinforce(
    course: &Course,
    excerpts: &[Excerpt<'_>],
    linear: &[u8],
    effort: Effort,
    tell: &mut dyn FnMut(usize, f64),
) -> Result<(Vec<u8>, f64), ModelError> {
    let contents = Contents::read(linear)?;
    let mut metadata = contents.metadata().clone();
    let inputs = 2 * metadata.features.len();
    let weight = contents.floats("head.weight", &[OUTPUTS, inputs])?;
    let bias = contents.floats("head.bias", &[OUTPUTS])?;
    let start_weights = <[f64; WEIGHTS]>::from(Weights::named(&metadata.weights)).map(f64::ln);
    Family::Rl.name().clone_into(&mut metadata.model);
    // The first output is the shortest gap, and all others are steps up from it: its row and its bias move them all.
    let file = |point: &[f64]| {
        let (gap, decisions) = point.split_at(inputs + 1);
        let mut metadata = metadata.clone();
        let decisions: Vec<f64> = decisions.iter().map(|at| at * LOGARITHMS / SPREAD).collect();
        let logarithms: Vec<f64> = start_weights.iter().zip(&decisions).map(|(start, moved)| start + moved).collect();
        let weights = from_logarithms(&logarithms);
        metadata.weights = named(weights);
        let (mut weight, mut bias) = (weight.clone(), bias.clone());
        weight.iter_mut().zip(gap).take(inputs).for_each(|(weight, moved)| *weight += *moved as f32);
        if let (Some(bias), Some(moved)) = (bias.first_mut(), gap.last()) {
            *bias += *moved as f32;
        }
        let tensor = |name: &str, shape: Vec<usize>, values| Tensor { name: name.to_owned(), shape, values };
        let tensors = [
            tensor("head.weight", vec![OUTPUTS, inputs], Values::Floats(weight)),
            tensor("head.bias", vec![OUTPUTS], Values::Floats(bias)),
        ];
        write(&metadata, &tensors)
    };
    let score = |point: &[f64]| {
        let Ok(bytes) = file(point) else { return f64::INFINITY };
        let Ok(contents) = Contents::read(&bytes) else { return f64::INFINITY };
        course.score_of(excerpts, &bytes, Weights::named(&contents.metadata().weights))
    };
    let start = vec![0.0; inputs + 1 + WEIGHTS];
    let (point, score) = search(&start, SPREAD, effort, &score, tell);
    Ok((file(&point)?, score))
}
