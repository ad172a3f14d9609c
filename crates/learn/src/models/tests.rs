//! Every family learns, repeats itself, can be interrupted, and says in the agent what its trainer says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use neurogc_neural::{Family, Head, Model, OUTPUTS, Scaling, WINDOW, write};

use super::dataset::{Dataset, Split, TrainingSample};
use super::prepared::{Prepared, PreparedSamples};
use super::train::{Options, TrainError, learner};
use super::*;

const FEATURES: usize = 6;

fn data(samples: usize) -> Split {
    imagined(samples, FEATURES, 5).split().unwrap()
}

fn options(epochs: usize) -> Options {
    Options { most_epochs: epochs, ..Options::default() }
}

fn bytes_after(family: Family, split: &Split, options: &Options) -> Vec<u8> {
    train(family, split, options, &mut |_| ()).unwrap().to_bytes().unwrap()
}

#[test]
fn every_family_beats_the_forecast_that_does_not_look() {
    let split = data(5000);
    let constant = evaluate_constant(&split.train, &split.test);
    for family in Family::ALL {
        let mut losses = Vec::new();
        let epochs = if family == Family::Trees { 20 } else { 8 };
        let trained = train(family, &split, &options(epochs), &mut |it| losses.push(it.validation_loss)).unwrap();
        let mut model = Model::load(&trained.to_bytes().unwrap()).unwrap();
        let metrics = evaluate(&mut model, &split.test);
        let ratio = |of: fn(&ForecastQuality) -> Option<f64>| of(&metrics).unwrap() / of(&constant).unwrap();
        let seen = [
            ratio(ForecastQuality::mean_pinball),
            ratio(|it| it.young_yield_mae),
            ratio(|it| it.old_yield_mae),
            ratio(|it| it.young_pause_rmse),
        ];
        assert!(seen[0] < 0.85 && seen[1..].iter().all(|it| *it < 0.6), "{family}: {seen:?} {losses:?}");
        assert!(metrics.worst_calibration().unwrap() < 0.08, "{family}: {metrics:?}");
        assert!(losses.last().unwrap() < losses.first().unwrap(), "{family}: {losses:?}");
    }
}

/// Windows as they come, and windows as they should never come.
fn awkward() -> Dataset {
    let extremes = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1e30, 1e-30, 0.0];
    let mut data = imagined(300, FEATURES, 9);
    for at in 0..200 {
        let window: Vec<f32> = (0..WINDOW * FEATURES).map(|it| extremes[(it * 31 + at * 17) % (1 + at % 7)]).collect();
        data.push(TrainingSample { window: &window, targets: [0.0; OUTPUTS], weight: 1.0, at: 1e3 });
    }
    data
}

#[test]
fn the_agent_says_what_the_trainer_says() {
    let split = data(1500);
    let options = options(4);
    let prepared = Prepared::new(&split, &options).unwrap();
    for family in Family::ALL {
        let mut learner = learner(family, &prepared, &options).unwrap();
        for epoch in 0..3 {
            learner.epoch(epoch).unwrap();
        }
        let metadata = train(family, &split, &Options { most_epochs: 1, ..options.clone() }, &mut |_| ()).unwrap();
        let mut model = Model::load(&write(metadata.metadata(), &learner.model()).unwrap()).unwrap();
        let awkward = awkward();
        let scaling = Scaling::of(model.metadata());
        let wanted = learner.predict(&PreparedSamples::new(&awkward, &scaling)).unwrap();
        let mut worst = 0.0_f32;
        for (sample, wanted) in awkward.samples().zip(wanted) {
            let mut found = [f32::NAN; OUTPUTS];
            model.predict(sample.window, &mut found);
            worst = found.iter().zip(wanted).fold(worst, |worst, (found, wanted)| worst.max((found - wanted).abs()));
            assert!(worst <= 1e-4, "{family}: {found:?} {wanted:?}");
        }
        assert_eq!(family.head() == Head::Plain, family == Family::Trees);
        eprintln!("{family}: the agent differs by at most {worst:e}");
    }
}

#[test]
fn the_same_seed_gives_the_same_model_and_an_interruption_changes_nothing() {
    let split = data(1500);
    for family in Family::ALL {
        let whole = bytes_after(family, &split, &options(3));
        assert!(whole == bytes_after(family, &split, &options(3)), "{family} differs from run to run");
        let mut checkpoints = Vec::new();
        train(family, &split, &options(3), &mut |it| checkpoints.push(it.checkpoint)).unwrap();
        let resumed = Options { checkpoint: Some(checkpoints[0].clone()), ..options(3) };
        let mut epochs = Vec::new();
        let trained = train(family, &split, &resumed, &mut |it| epochs.push(it.epoch)).unwrap();
        assert_eq!(epochs, [2, 3], "{family}");
        assert!(whole == trained.to_bytes().unwrap(), "{family} differs after an interruption");
    }
}

#[test]
fn a_checkpoint_of_something_else_is_refused() {
    let split = data(1500);
    let mut checkpoint = Vec::new();
    train(Family::Linear, &split, &options(1), &mut |it| checkpoint = it.checkpoint).unwrap();
    let refusal = |family, split: &Split, checkpoint: &[u8]| {
        let options = Options { checkpoint: Some(checkpoint.to_vec()), ..options(2) };
        train(family, split, &options, &mut |_| ()).unwrap_err().to_string()
    };
    assert!(refusal(Family::Mlp, &split, &checkpoint).contains("another model"));
    let other = imagined(1500, FEATURES, 6).split().unwrap();
    assert!(refusal(Family::Linear, &other, &checkpoint).contains("other data"));
    let model = bytes_after(Family::Linear, &split, &options(1));
    assert!(refusal(Family::Linear, &split, &model).contains("finished model"));
    assert!(refusal(Family::Linear, &split, &checkpoint[..99]).contains("remove it to start again"));
}

#[test]
fn data_without_gaps_is_refused() {
    let mut data = Dataset::new(vec!["a".to_owned()]);
    for at in 0..500 {
        data.push(TrainingSample {
            window: &[1.0; WINDOW],
            targets: [f32::NAN; OUTPUTS],
            weight: 1.0,
            at: f64::from(at),
        });
    }
    let split = data.split().unwrap();
    assert_eq!(train(Family::Linear, &split, &options(1), &mut |_| ()).unwrap_err(), TrainError::NoGaps);
    let empty = Split { train: split.train, ..Split::default() };
    let error = train(Family::Linear, &empty, &options(1), &mut |_| ()).unwrap_err();
    assert_eq!(error, TrainError::EmptyPart { part: "validation" });
}

#[test]
fn features_that_say_nothing_do_no_harm() {
    let mut data = Dataset::new(["constant", "unknown", "real"].map(str::to_owned).to_vec());
    for (at, sample) in imagined(3000, 4, 3).samples().enumerate() {
        let window: Vec<f32> = sample.window.chunks(4).flat_map(|row| [7.0, f32::NAN, row[0]]).collect();
        data.push(TrainingSample { window: &window, at: at as f64, ..sample });
    }
    let split = data.split().unwrap();
    let constant = evaluate_constant(&split.train, &split.test).mean_pinball().unwrap();
    for family in [Family::Linear, Family::Trees, Family::Gru] {
        let mut model = Model::load(&bytes_after(family, &split, &options(4))).unwrap();
        let found = evaluate(&mut model, &split.test).mean_pinball().unwrap();
        assert!(found < constant, "{family}: {found} {constant}");
    }
}
