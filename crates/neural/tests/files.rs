//! Files that are damaged, foreign or put together wrongly are refused with a reason; none of them panics.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod made_up;

use neurogc_neural::{Family, MOST_BYTES, Metadata, Model, ModelError, OUTPUTS, Tensor, Values, write};
use proptest::prelude::*;

fn predicts_numbers(model: &mut Model, seed: u64) {
    let mut draw = made_up::Draw::new(seed);
    let extremes = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 0.0];
    let extreme = (0..).zip(draw.window()).map(|(at, it)| if it > 0.0 { extremes[at % extremes.len()] } else { it });
    for window in [draw.window(), extreme.collect(), vec![f32::NAN; 5], Vec::new(), vec![1e9; 1000]] {
        let mut forecast = [f32::NAN; OUTPUTS];
        model.predict(&window, &mut forecast);
        assert!(forecast.iter().all(|it| it.is_finite()), "{}: {forecast:?}", model.family());
        assert!(forecast[..5].is_sorted(), "{}: {forecast:?}", model.family());
    }
}

#[test]
fn what_was_written_is_read_and_is_the_same_each_time() {
    for family in Family::ALL {
        let bytes = made_up::file(family, 3);
        assert_eq!(bytes, made_up::file(family, 3), "{family}");
        let mut model = Model::load(&bytes).unwrap();
        assert_eq!(model.metadata(), &made_up::metadata(family));
        predicts_numbers(&mut model, 3);
    }
}

#[test]
fn the_largest_weights_still_give_numbers() {
    for family in Family::ALL {
        let mut tensors = made_up::tensors(family, &mut made_up::Draw::new(4));
        for tensor in &mut tensors {
            if let Values::Floats(values) = &mut tensor.values {
                values.iter_mut().for_each(|value| *value = value.signum() * 1e4);
            }
        }
        let bytes = write(&made_up::metadata(family), &tensors).unwrap();
        predicts_numbers(&mut Model::load(&bytes).unwrap(), 4);
    }
}

/// What loading says after a change of the description or the tensors of a small model.
fn refusal(change: impl FnOnce(&mut Metadata, &mut Vec<Tensor>)) -> ModelError {
    let mut metadata = made_up::metadata(Family::Gru);
    let mut tensors = made_up::tensors(Family::Gru, &mut made_up::Draw::new(5));
    change(&mut metadata, &mut tensors);
    Model::load(&write(&metadata, &tensors).unwrap()).unwrap_err()
}

#[test]
fn each_refusal_names_what_is_wrong() {
    let check = |error: ModelError, says: &str| assert!(error.to_string().contains(says), "{error}");
    check(refusal(|metadata, _| metadata.format = 9), "has format 9 and this version reads 1");
    check(refusal(|metadata, _| metadata.model = "oracle".to_owned()), "it knows linear, trees, mlp");
    check(refusal(|metadata, _| metadata.scales[3] = 0.0), "mean or scale of feature_3");
    check(refusal(|metadata, _| metadata.means.truncate(4)), "32 features have 4 means");
    check(refusal(|metadata, _| metadata.features.clear()), "it names 0 features");
    check(refusal(|metadata, _| metadata.outputs.truncate(2)), "this version does otherwise");
    check(refusal(|metadata, _| metadata.window = 9), "from 9 rows");
    check(refusal(|_, tensors| tensors.truncate(3)), "lacks");
    check(refusal(|_, tensors| tensors[0].shape.reverse()), "input.weight in the model file has shape [32, 96]");
    check(refusal(|_, tensors| tensors[0].values = Values::Floats(vec![f32::NAN; 96 * 32])), "out of range");
    check(
        refusal(|_, tensors| {
            let spare = Tensor { name: "spare".to_owned(), shape: vec![1], values: Values::Floats(vec![0.0]) };
            tensors.push(spare);
        }),
        "spare in the model file belongs to no part of a gru",
    );
    check(Model::load(&vec![0; MOST_BYTES + 1]).unwrap_err(), "4194305 bytes");
    check(Model::load(b"\x02\0\0\0\0\0\0\0{}").unwrap_err(), "does not say what it is");
    check(Model::load(&[]).unwrap_err(), "damaged, or no safetensors file");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_truncated_file_is_refused(family in 0..Family::ALL.len(), share in 0.0..1.0_f64) {
        let bytes = made_up::file(Family::ALL[family], 1);
        let kept = (bytes.len() as f64 * share) as usize;
        prop_assert!(Model::load(&bytes[..kept]).is_err());
    }

    #[test]
    fn a_damaged_file_never_panics(
        family in 0..Family::ALL.len(),
        damage in proptest::collection::vec((0.0..1.0_f64, any::<u8>(), any::<bool>()), 1..6),
    ) {
        let mut bytes = made_up::file(Family::ALL[family], 1);
        for (at, byte, in_header) in damage {
            // The header is small beside the weights, and the more interesting place.
            let span = if in_header { bytes.len().min(2000) } else { bytes.len() };
            bytes[(span as f64 * at) as usize] = byte;
        }
        if let Ok(mut model) = Model::load(&bytes) {
            predicts_numbers(&mut model, 1);
        }
    }
}
