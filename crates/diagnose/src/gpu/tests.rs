//! Verdicts on made-up runs: each pattern, and loops that only look like leaks.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::gpu::{GpuHeld, GpuHolder, GpuHolderKind, GpuReport};

use super::*;

const MIB: u64 = 1 << 20;

/// A run of 10 ms steps, each with its bytes and blocks.
fn run(steps: u64, of_step: impl Fn(u64) -> (u64, u64)) -> StepSeries {
    let mut series = StepSeries::default();
    for step in 1..=steps {
        let (allocated, blocks) = of_step(step);
        series.push(StepFigures {
            step,
            at_s: step as f64 / 100.0,
            allocated,
            blocks,
            reserved: allocated + 64 * MIB,
            ..StepFigures::default()
        });
    }
    series
}

fn look(steps: u64, holder: GpuHolder) -> GpuReport {
    let held = GpuHeld { allocated_bytes: 500 * MIB + holder.all_bytes(), ..GpuHeld::default() };
    GpuReport { devices: vec![held], holders: vec![holder], steps, complete: true, ..GpuReport::default() }
}

/// The verdict on a leak of 1 MiB a step whose holder grows like this.
fn check_leak(kind: GpuHolderKind, of_step: impl Fn(u64) -> (u64, u64, u64), pattern: &str) {
    let series = run(200, |step| (500 * MIB + step * MIB, 1000 + 3 * step));
    let looks = [60, 120].map(|step| {
        let (tensors, bytes, graph_bytes) = of_step(step);
        let path = "train(): kept[…]".to_owned();
        look(step, GpuHolder { path, kind, tensors, bytes, graph_bytes, graph_nodes: graph_bytes / 64, bound: None })
    });
    let found = diagnose_gpu(&GpuEvidence { device: 0, series: &series, looks: &looks });
    assert_eq!(found.len(), 1);
    let found = &found[0];
    assert!(found.kind == FindingKind::GpuLeak && found.is_alarm(), "{found:?}");
    assert!(found.pattern.contains(pattern) && !found.advice.is_empty(), "{found:?}");
    assert!(found.holder == "train(): kept[…]" && found.text.contains("1 MiB per step"), "{found:?}");
}

#[test]
fn every_pattern_is_named_with_its_holder() {
    use GpuHolderKind::{Attribute, Container, Dataset, Gradient, Hook, Traceback, Variable};
    check_leak(Container, |step| (step, step * 512, step * MIB), "kept with its graph");
    check_leak(Container, |step| (step, step * MIB, 0), "container for logging");
    check_leak(Hook, |step| (step, step * MIB, 0), "hook that keeps activations");
    check_leak(Attribute, |step| (1, 512, step * MIB), "tensor as an attribute");
    check_leak(Attribute, |step| (step, step * MIB, 0), "tensors as attributes");
    check_leak(Variable, |step| (1, 512, step * MIB), "retain_graph");
    check_leak(Gradient, |step| (6, 6 * MIB, step * MIB), "create_graph");
    check_leak(Traceback, |step| (step, step * MIB, 0), "stored traceback");
    check_leak(Dataset, |step| (step, step * MIB, 0), "cache in the dataset");
}

fn check_healthy(name: &str, series: &StepSeries) {
    let found = diagnose_gpu(&GpuEvidence { device: 0, series, looks: &[] });
    assert!(!found.iter().any(neurogc_wire::finding::Finding::is_alarm), "{name}: {found:?}");
    assert_eq!(step_growth(series), None, "{name}");
}

#[test]
fn healthy_loops_are_no_leaks() {
    let base = 500 * MIB;
    check_healthy("steady", &run(400, |_| (base, 1000)));
    check_healthy("accumulation", &run(400, |step| (base + step % 8 * 30 * MIB, 1000 + step % 8 * 10)));
    check_healthy("warm-up", &run(400, |step| (base + step.min(30) * MIB, 1000 + step.min(30))));
    check_healthy("optimizer state", &run(400, |step| (base + step.min(1) * base, 1000 + step.min(1) * 400)));
    // The same tensors, only longer.
    check_healthy("growing lengths", &run(400, |step| (base + step * MIB, 1000)));
    check_healthy("evaluation", &run(400, |step| (base + u64::from(step % 50 > 40) * MIB, 1000 + step % 50)));
    check_healthy("a copy at half time", &run(400, |step| (base + step / 200 * base, 1000 + step / 200 * 50)));
    check_healthy("compiled again", &run(400, |step| (base + step.isqrt() * 4096, 1000 + step / 100)));
    // Fast at first, and then hardly any more.
    let fills = |step: u64| (base + (200.0 * (1.0 - (-(step as f64) / 20.0).exp())) as u64 * MIB, 1000 + step / 40);
    check_healthy("a cache that is full", &run(400, fills));
}

#[test]
fn growth_is_seen_within_sixty_steps_and_a_slow_one_in_a_long_run() {
    assert!(step_growth(&run(60, |step| (500 * MIB + step * 65_536, 1000 + step))).is_some());
    assert!(step_growth(&run(40, |step| (500 * MIB + step * 65_536, 1000 + step))).is_none());
    // One block in 100 steps, below phases that come and go.
    let slow = |step: u64| (500 * MIB + step % 7 * MIB + step / 100 * 65_536, 1000 + step % 7 * 5 + step / 100);
    let found = step_growth(&run(20_000, slow));
    assert!(found.is_some_and(|it| (600.0..700.0).contains(&it.bytes_step)), "{found:?}");
}

#[test]
fn a_holder_that_is_not_known_yet_is_no_alarm() {
    let series = run(200, |step| (500 * MIB + step * MIB, 1000 + step));
    let found = diagnose_gpu(&GpuEvidence { device: 1, series: &series, looks: &[] });
    assert!(found[0].kind == FindingKind::GpuLeak && !found[0].is_alarm() && found[0].holder.is_empty());
    // A holder that did not grow does not explain it either.
    let steady = |step| look(step, GpuHolder { path: "model.cache".to_owned(), bytes: MIB, ..GpuHolder::default() });
    let looks = [steady(60), steady(120)];
    let found = diagnose_gpu(&GpuEvidence { device: 1, series: &series, looks: &looks });
    assert!(found[0].holder.is_empty() && !found[0].is_alarm(), "{found:?}");
}

#[test]
fn a_container_with_a_bound_is_no_alarm_until_it_is_full() {
    let series = run(200, |step| (500 * MIB + step * MIB, 1000 + step));
    let looks = [60, 120].map(|step| {
        let path = "replay.items[…]".to_owned();
        let kind = GpuHolderKind::Container;
        look(
            step,
            GpuHolder { path, kind, tensors: step, bytes: step * MIB, bound: Some(10_000), ..GpuHolder::default() },
        )
    });
    let found = diagnose_gpu(&GpuEvidence { device: 0, series: &series, looks: &looks });
    assert!(!found[0].is_alarm(), "{found:?}");
}

#[test]
fn pieces_that_grow_are_fragmentation() {
    let mut series = StepSeries::default();
    for step in 1..=200_u64 {
        series.push(StepFigures {
            step,
            at_s: step as f64,
            allocated: 4000 * MIB,
            blocks: 1000,
            reserved: 5000 * MIB + step * 4 * MIB,
            inactive: 500 * MIB + step * 4 * MIB,
            retries: step / 40,
        });
    }
    let found = diagnose_gpu(&GpuEvidence { device: 0, series: &series, looks: &[] });
    assert!(found[0].kind == FindingKind::GpuFragmented && found[0].is_alarm(), "{found:?}");
    assert!(found[0].advice.contains("expandable_segments"));
}

#[test]
fn pieces_that_grow_from_the_first_steps_on_are_fragmentation() {
    let mut series = StepSeries::default();
    for step in 1..=200_u64 {
        // The first step has not made what all later ones keep.
        let (pieces, allocated) = if step == 1 { (0, 76 * MIB) } else { (20 * (32 + step / 6) - 128, 210 * MIB) };
        let (reserved, inactive) = (1421 * MIB, pieces * MIB);
        series.push(StepFigures { step, at_s: step as f64, allocated, blocks: 90, reserved, inactive, retries: 0 });
    }
    let found = diagnose_gpu(&GpuEvidence { device: 0, series: &series, looks: &[] });
    assert!(found[0].kind == FindingKind::GpuFragmented, "{found:?}");
}

#[test]
fn what_the_allocator_keeps_is_no_leak() {
    let mut series = StepSeries::default();
    for step in 1..=100_u64 {
        let (allocated, reserved) = (1000 * MIB, 4174 * MIB);
        series.push(StepFigures { step, at_s: step as f64, allocated, reserved, blocks: 10, ..StepFigures::default() });
    }
    let found = diagnose_gpu(&GpuEvidence { device: 0, series: &series, looks: &[] });
    assert!(found[0].kind == FindingKind::GpuCacheKeeps && !found[0].is_alarm());
    assert!(found[0].text.contains("keeps 3.1 GiB"), "{}", found[0].text);
}
