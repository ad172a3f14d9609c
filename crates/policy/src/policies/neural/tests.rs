//! The policy on scripted programs, with a model that expects gaps of 10 to 50 ms and nothing else.

use std::time::Duration;

use neurogc_neural::{FORMAT, Metadata, OUTPUT_NAMES, OUTPUTS, Tensor, Values, WINDOW, write};

use super::*;
use crate::bytes::Bytes;
use crate::features::{FEATURES, NAMES};
use crate::observation::Generation;

/// What the model always says: quantiles of gaps as ln(1 + ms), yields as log-odds, costs as ln(ns).
const SAYS: [f32; OUTPUTS] = [2.4, -0.8, -0.8, -0.8, -0.8, 0.0, 0.0, 4.0, 4.6];

fn model(says: [f32; OUTPUTS]) -> Model {
    let metadata = Metadata {
        format: FORMAT,
        model: "linear".to_owned(),
        window: WINDOW,
        features: NAMES.map(str::to_owned).to_vec(),
        outputs: OUTPUT_NAMES.map(str::to_owned).to_vec(),
        means: vec![0.0; FEATURES],
        scales: vec![1.0; FEATURES],
        ..Metadata::default()
    };
    let tensor = |name: &str, shape: Vec<usize>, values| Tensor { name: name.to_owned(), shape, values };
    let tensors = [
        tensor("head.weight", vec![OUTPUTS, 2 * FEATURES], Values::Floats(vec![0.0; OUTPUTS * 2 * FEATURES])),
        tensor("head.bias", vec![OUTPUTS], Values::Floats(says.to_vec())),
    ];
    Model::load(&write(&metadata, &tensors).unwrap()).unwrap()
}

/// A program that works for a millisecond and then has a gap, again and again, looked at every other millisecond.
struct Script {
    neural: Neural,
    now: u64,
    requests: u64,
    pending: u64,
    cycle_due: bool,
    /// Whether it is looked at regularly.
    sees: bool,
    orders: Vec<Order>,
}

impl Script {
    fn new() -> Self {
        // Garbage costs nothing, so that the policy does not collect it for its price.
        let tuning = Tuning { memory_price: 0.0, ..Tuning::default() };
        let mut neural = Neural::new(tuning, model(SAYS), Weights::default()).sparing();
        // Start-up is over.
        let at = Duration::from_secs(2);
        let full = Collected {
            at,
            generation: Generation::Full,
            pause: Duration::from_millis(50),
            gathered: 1_000,
            freed: 10,
            rss: Bytes::mebibytes(100),
            objects: None,
        };
        neural.learn(&full);
        Self { neural, now: 2_000, requests: 0, pending: 0, cycle_due: false, sees: true, orders: Vec::new() }
    }

    fn look(&mut self, idle: Option<u64>, young: u32) {
        let observation = Observation {
            now: Duration::from_millis(self.now),
            idle: idle.map(Duration::from_millis),
            in_flight: u64::from(idle.is_none()),
            requests: self.requests,
            counts: [young, 1, 1],
            tenured: 500_000,
            pending: self.pending,
            cycle_due: self.cycle_due,
            rss: Bytes::mebibytes(100),
            snapshot: Snapshot::Idle,
            ..Observation::default()
        };
        if self.sees {
            self.neural.looked(observation.now);
        }
        let order = self.neural.decide(&observation);
        self.orders.push(order);
    }

    /// Seconds with gaps of these lengths, in milliseconds, by turns.
    fn play(&mut self, seconds: u64, gaps: &[u64]) {
        let until = self.now + seconds * 1_000;
        for gap in gaps.iter().cycle() {
            if self.now >= until {
                break;
            }
            self.requests += 1;
            self.look(None, 200);
            for idle in (0..*gap).step_by(2) {
                self.now += 2;
                self.look(Some(idle), 200);
            }
            self.now += 2;
        }
    }

    fn trust(&self) -> Trust {
        self.neural.trust().unwrap()
    }
}

#[test]
fn a_program_as_expected_is_trusted_and_its_quantiles_are_passed_as_often_as_they_say() {
    let mut script = Script::new();
    script.play(60, &[8, 14, 18, 22, 26, 30, 34, 40, 48, 60]);
    let trust = script.trust();
    assert!(!trust.drifted && trust.drifts == 0, "{trust:?}");
    let latest = trust.latest.unwrap();
    assert!((7.0..=62.0).contains(&latest.lasted_ms) && latest.expected_ms.is_sorted(), "{latest:?}");
    for (covered, level) in trust.covered.iter().zip([0.1, 0.25, 0.5, 0.75, 0.9]) {
        assert!((covered - level).abs() < 0.15, "{trust:?}");
    }
}

#[test]
fn a_program_that_changes_is_left_to_rules_within_a_second_until_it_is_calm_again() {
    let mut script = Script::new();
    script.play(20, &[14, 18, 22, 26, 30, 34, 40, 48]);
    assert!(!script.trust().drifted);
    script.play(1, &[2]);
    assert!(script.trust().drifted, "{:?}", script.trust());
    script.play(30, &[14, 18, 22, 26, 30, 34, 40, 48]);
    let trust = script.trust();
    assert!(!trust.drifted && trust.drifts == 1, "{trust:?}");
}

#[test]
fn young_objects_are_collected_in_gaps_that_are_long_enough() {
    let mut script = Script::new();
    script.play(5, &[20, 30, 40]);
    let before = script.orders.len();
    script.requests += 1;
    script.look(None, 9_000);
    script.now += 2;
    script.look(Some(0), 9_000);
    let decisions: Vec<_> = script.orders[before..].iter().map(|order| order.decision).collect();
    assert_eq!(decisions, [Decision::Wait, Decision::Young]);
}

#[test]
fn until_start_up_is_over_rules_decide() {
    let mut neural = Neural::new(Tuning::default(), model(SAYS), Weights::default());
    let mut gap = Gap::new(Tuning::default());
    for young in [100, 1_000, 10_000] {
        let counts = [young, 1, 1];
        let idle = Some(Duration::from_millis(5));
        let observation =
            Observation { idle, counts, young_limit: 2_000, survivors_limit: 9_000, ..Observation::default() };
        assert_eq!(neural.decide(&observation), gap.decide(&observation), "{young}");
    }
}

#[test]
fn what_a_program_asks_for_is_kept_quiet() {
    let mut script = Script::new();
    script.play(5, &[20, 30, 40]);
    let observation = Observation {
        now: Duration::from_millis(script.now + 2),
        idle: Some(Duration::from_millis(5)),
        counts: [50_000, 1, 1],
        paused: true,
        ..Observation::default()
    };
    assert_eq!(script.neural.decide(&observation), Order::WAIT);
}

#[test]
fn everything_is_collected_when_the_pacer_wants_a_cycle_and_not_before() {
    let decided = |pending, cycle_due| {
        let mut script = Script::new();
        script.play(5, &[20, 30, 40]);
        (script.pending, script.cycle_due) = (pending, cycle_due);
        script.play(1, &[20, 30, 40]);
        script.orders.iter().any(|order| matches!(order.decision, Decision::Snapshot { .. }))
    };
    assert!(!decided(60_000, false));
    assert!(!decided(400_000, false), "garbage that costs much is no reason");
    assert!(decided(60_000, true));
}

#[test]
fn without_regular_looks_rules_decide_and_nothing_is_compared() {
    let mut script = Script::new();
    script.sees = false;
    script.play(20, &[14, 18, 22, 26, 30, 34]);
    assert_eq!(script.trust().gaps, 0);
    script.sees = true;
    script.play(5, &[20, 30, 40]);
    let gaps = script.trust().gaps;
    assert!(gaps > 50, "{gaps}");
}
