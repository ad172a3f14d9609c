//! The numbers by which decisions weigh what is expected. They are found by search in the simulator, on the true cost.

use std::collections::BTreeMap;

/// How many there are.
pub const WEIGHTS: usize = 7;

/// The numbers, all above zero, and 1 where nothing is known better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// How much delay each millisecond of young and middle collections may cost where nothing presses.
    pub small: f64,
    /// How many young objects make a collection worth it.
    pub young: f64,
    /// How many survivors do, as a share of those that take the pause budget; 1 at most.
    pub survivors: f64,
    /// The room for young objects beyond which they press, as a share of those that take the pause budget; 1 at most.
    pub room: f64,
    /// How fast they do as it fills.
    pub pressing: f64,
    /// How much delay each millisecond of freeing what a snapshot found may cost.
    pub slice: f64,
    /// What a slice outside of gaps is taken for, against what it seems to cost.
    pub hurry: f64,
}

/// Their names, in a model's file.
pub const WEIGHT_NAMES: [&str; WEIGHTS] = ["small", "young", "survivors", "room", "pressing", "slice", "hurry"];

impl Weights {
    /// From their names; those that are missing, or cannot be meant, are as usual.
    #[must_use]
    pub fn named(named: &BTreeMap<String, f64>) -> Self {
        let mut weights: [f64; WEIGHTS] = Self::default().into();
        for (weight, name) in weights.iter_mut().zip(WEIGHT_NAMES) {
            let given = named.get(name).copied().filter(|given| (1e-3..=1e3).contains(given));
            *weight = given.unwrap_or(*weight);
        }
        weights.into()
    }
}

impl From<[f64; WEIGHTS]> for Weights {
    fn from([small, young, survivors, room, pressing, slice, hurry]: [f64; WEIGHTS]) -> Self {
        Self { small, young, survivors, room, pressing, slice, hurry }
    }
}

impl From<Weights> for [f64; WEIGHTS] {
    fn from(it: Weights) -> Self {
        [it.small, it.young, it.survivors, it.room, it.pressing, it.slice, it.hurry]
    }
}

impl Default for Weights {
    /// Found on made-up workloads with the plain forecast.
    fn default() -> Self {
        Self::from([0.83, 1.1, 1.0, 0.63, 0.79, 1.5, 1.4])
    }
}
