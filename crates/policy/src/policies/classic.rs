//! `classic`: the original's way, to compare with. A network looks at ten metrics of the process, once a second; what it
//! says is a formula of processor and memory that it was taught, and above a threshold everything is collected.

use neurogc_neural::{ModelError, ModelRequirements, Sequence, sigmoid};

use super::{CollectionControl, Policy};
use crate::bytes::Bytes;
use crate::metrics::{METRICS, Metrics, NAMES, OUTPUTS, SAMPLES};
use crate::observation::{Collected, Decision, Observation, Order};

/// The model's file, in the folder of the Python package.
pub const CLASSIC_MODEL: &str = "models/classic.safetensors";

/// Collects when the model says so. CPython collects beside it as it always does.
#[derive(Debug)]
pub(super) struct Classic {
    model: Sequence,
    threshold: f32,
    metrics: Metrics,
    samples: [f32; SAMPLES * METRICS],
    missing: usize,
}

impl Classic {
    /// With a model's file, at so many percent of urgency, for a program that can have so much memory.
    pub(super) fn new(bytes: &[u8], percent: u8, memory: Bytes) -> Result<Self, ModelError> {
        let model = Sequence::load(bytes, ModelRequirements { window: SAMPLES, outputs: &OUTPUTS })?;
        if model.metadata().features != NAMES {
            return Err(ModelError::BadMetadata { reason: "it was trained on other metrics".to_owned() });
        }
        Ok(Self {
            model,
            threshold: f32::from(percent) / 100.0,
            metrics: Metrics::new(memory),
            samples: [0.0; SAMPLES * METRICS],
            missing: SAMPLES,
        })
    }
}

impl Policy for Classic {
    fn control(&self) -> CollectionControl {
        CollectionControl::Cpython
    }

    fn decide(&mut self, observation: &Observation) -> Order {
        let Some(sample) = self.metrics.look(observation) else { return Order::WAIT };
        self.samples.copy_within(METRICS.., 0);
        self.samples[(SAMPLES - 1) * METRICS..].copy_from_slice(&sample);
        self.missing = self.missing.saturating_sub(1);
        if self.missing > 0 {
            return Order::WAIT;
        }
        let mut urgency = [0.0];
        self.model.run(&self.samples, &mut urgency);
        if sigmoid(urgency[0]) < self.threshold {
            return Order::WAIT;
        }
        Order::at_once(Decision::Full, "the model finds it urgent")
    }

    fn wants_looks(&self) -> bool {
        true
    }

    fn learn(&mut self, collected: &Collected) {
        self.metrics.learn(collected);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use allocation_counter::measure;
    use neurogc_neural::{FORMAT, Metadata, Tensor, Values, write};

    use super::*;
    use crate::guards::{Guarded, Limits};
    use crate::policies::Tuning;

    const MEMORY: Bytes = Bytes::mebibytes(1024);

    /// A network that looks at memory alone: the log-odds of its urgency are four times how far it is above a half.
    fn file(names: [&str; METRICS]) -> Vec<u8> {
        let mut means = vec![0.0; METRICS];
        means[1] = 0.5;
        let metadata = Metadata {
            format: FORMAT,
            model: "linear".to_owned(),
            window: SAMPLES,
            features: names.map(str::to_owned).to_vec(),
            outputs: OUTPUTS.map(str::to_owned).to_vec(),
            means,
            scales: vec![1.0; METRICS],
            ..Metadata::default()
        };
        let mut weights = vec![0.0; 2 * METRICS];
        weights[1] = 4.0;
        let tensor =
            |name: &str, shape, values| Tensor { name: name.to_owned(), shape, values: Values::Floats(values) };
        let tensors = [tensor("head.weight", vec![1, 2 * METRICS], weights), tensor("head.bias", vec![1], vec![0.0])];
        write(&metadata, &tensors).unwrap()
    }

    fn classic(percent: u8) -> Classic {
        Classic::new(&file(NAMES), percent, MEMORY).unwrap()
    }

    /// The program after so many hundredths of a second, always in a request.
    fn at(hundredths: u64, memory_share: f64, paused: bool) -> Observation {
        let rss = MEMORY.share(memory_share);
        Observation { now: Duration::from_millis(10 * hundredths), in_flight: 1, rss, paused, ..Observation::default() }
    }

    /// How many collections so many seconds see.
    fn check(percent: u8, memory_share: f64, paused: bool, seconds: u64) -> usize {
        let mut guarded = Guarded::new(Box::new(classic(percent)), Limits::default(), Tuning::default(), [700, 10, 10]);
        let orders: Vec<Order> = (0..=100 * seconds).map(|it| guarded.decide(&at(it, memory_share, paused))).collect();
        let collections = orders.iter().filter(|order| order.decision == Decision::Full);
        assert!(collections.clone().all(|order| order.at_once && !order.forced));
        collections.count()
    }

    #[test]
    fn at_the_threshold_and_above_it_collects_every_second() {
        // At a share of 0.72 the urgency is 0.707.
        assert_eq!(check(70, 0.72, false, 30), 21);
        assert_eq!(check(71, 0.72, false, 30), 0);
        assert_eq!(check(70, 0.70, false, 30), 0);
        assert_eq!(check(50, 0.5, false, 30), 21);
    }

    #[test]
    fn nothing_is_collected_before_ten_samples_are_there() {
        assert_eq!(check(0, 0.9, false, 9), 0);
        assert_eq!(check(0, 0.9, false, 10), 1);
    }

    #[test]
    fn nothing_is_collected_while_the_program_wants_quiet() {
        assert_eq!(check(70, 1.0, true, 30), 0);
    }

    #[test]
    fn cpython_goes_on_beside_it() {
        let classic = classic(70);
        assert_eq!(classic.control(), CollectionControl::Cpython);
    }

    #[test]
    fn deciding_allocates_nothing() {
        let mut classic = classic(70);
        let deciding = measure(|| {
            for it in 0..=3000 {
                classic.decide(&at(it, 0.9, false));
            }
        });
        assert_eq!(deciding.count_total, 0);
    }

    #[test]
    fn a_model_of_something_else_is_refused() {
        let mut other = NAMES;
        other[3] = "disk_read";
        let reason = Classic::new(&file(other), 70, MEMORY).unwrap_err().to_string();
        assert!(reason.contains("other metrics"), "{reason}");
        let reason = Classic::new(crate::SHIPPED, 70, MEMORY).unwrap_err().to_string();
        assert!(reason.contains("this version does otherwise"), "{reason}");
    }
}
