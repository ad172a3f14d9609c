//! Predicting allocates nothing, whatever the family.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod made_up;

use allocation_counter::measure;
use neurogc_neural::{Family, Model, OUTPUTS};

#[test]
fn predicting_allocates_nothing() {
    let mut draw = made_up::Draw::new(1);
    let windows = [draw.window(), draw.window(), vec![f32::NAN; 256], vec![1.0; 3], Vec::new()];
    for family in Family::ALL {
        let mut model = None;
        let loading = measure(|| model = Some(Model::load(&made_up::file(family, 7)).unwrap()));
        assert!(loading.count_total > 0, "nothing is counted at all");
        let mut forecast = [0.0; OUTPUTS];
        let predicting = measure(|| {
            for window in &windows {
                model.as_mut().unwrap().predict(window, &mut forecast);
            }
        });
        assert_eq!(predicting.count_total, 0, "{family}");
    }
}
