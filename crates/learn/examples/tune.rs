#![allow(warnings)]
use neurogc_learn::*;
use neurogc_load::Chance;
use neurogc_neural::{self as nn, Metadata, Model as Net, Tensor, Values};
use neurogc_policy::features::{FEATURES, NAMES};
use neurogc_policy::{Name, Neural, Tuning, Weights, WEIGHTS, policy};
use std::time::Instant;

fn scenes(seed: u64) -> Vec<(String, Model, Workload)> {
    let mut all = vec![];
    let n: usize = std::env::var("N").ok().and_then(|it| it.parse().ok()).unwrap_or(10_000);
    for (shape, tenured, objects) in [
        ("poisson:100", 5e5, 700.0), ("poisson:250", 5e5, 700.0), ("poisson:350", 1e6, 300.0),
        ("bursty:100", 1e6, 700.0), ("bursty:200", 5e5, 700.0), ("diurnal:150", 2e6, 700.0), ("diurnal:250", 5e5, 700.0),
        ("poisson:300", 2e5, 1500.0), ("bursty:200", 3e6, 300.0),
    ] {
        let model = Model { lifetimes: Lifetimes { die_young: 0.5, by_reference: 0.0, held: 0.0, die_old: 0.45, lag: 100_000.0 }, ..Model::default() };
        let start = Start { at: 1_000_000_000, tenured, pending: 0.0 };
        let s: Shape = shape.parse().unwrap();
        let mut w = s.requests(n, &imagined(500, objects, seed), start, seed);
        for r in &mut w.requests { r.at += 2_000_000_000; }
        w.counted_from = w.requests[0].at;
        all.push((format!("{shape} {tenured:.0e}"), model, w));
    }
    all
}

fn linear(lessons: &[Lesson]) -> Vec<u8> {
    let n = lessons.len() as f64;
    let last = WINDOW_LEN - FEATURES;
    let mut means = vec![0.0f64; FEATURES]; let mut sq = vec![0.0f64; FEATURES];
    for l in lessons { for i in 0..FEATURES { let v = l.window[last + i] as f64; means[i] += v / n; sq[i] += v * v / n; } }
    let scales: Vec<f64> = means.iter().zip(&sq).map(|(m, s)| (s - m * m).max(1e-6).sqrt()).collect();
    let inputs = 2 * FEATURES;
    let x = |l: &Lesson| -> Vec<f64> {
        let mut x = vec![0.0; inputs];
        for i in 0..FEATURES { let a = ((l.window[last + i] as f64 - means[i]) / scales[i]).clamp(-6.0, 6.0); let b = ((l.window[i] as f64 - means[i]) / scales[i]).clamp(-6.0, 6.0); x[i] = a; x[FEATURES + i] = a - b; }
        x
    };
    let xs: Vec<Vec<f64>> = lessons.iter().map(x).collect();
    let mut w = vec![0.0; inputs]; let mut b = [0.5, 1.0, 1.5, 2.0, 2.5];
    let mut chance = Chance::new(1);
    for step in 0..lessons.len() * 10 {
        let i = chance.number() as usize % lessons.len();
        let t = lessons[i].targets[0] as f64;
        let dot: f64 = xs[i].iter().zip(&w).map(|(a, b)| a * b).sum();
        let lr = 0.02 / (1.0 + step as f64 / 50_000.0);
        let g = if t > dot + b[2] { 0.5 } else { -0.5 };
        for (w, x) in w.iter_mut().zip(&xs[i]) { *w += lr * g * x * 0.3; }
        for (k, level) in nn::GAP_LEVELS.iter().enumerate() { b[k] += lr * (*level as f64 - if t <= dot + b[k] { 1.0 } else { 0.0 }); }
    }
    let cover: Vec<f64> = (0..5).map(|k| xs.iter().zip(lessons).filter(|(x, l)| (l.targets[0] as f64) <= x.iter().zip(&w).map(|(a, b)| a * b).sum::<f64>() + b[k]).count() as f64 / n).collect();
    println!("linear: {} lessons, coverage {cover:?} b {b:?}", lessons.len());
    let mean = |k: usize, logit: bool| { let v: Vec<f64> = lessons.iter().map(|l| l.targets[k] as f64).filter(|v| v.is_finite()).collect(); let m = v.iter().sum::<f64>() / v.len().max(1) as f64; if logit { (m / (1.0 - m)).ln() } else { m } };
    let inv = |d: f64| (d.max(1e-3).exp() - 1.0).ln();
    let mut weight = vec![0.0f32; 9 * inputs];
    for i in 0..inputs { weight[i] = w[i] as f32; }
    let bias: Vec<f32> = [b[0], inv(b[1] - b[0]), inv(b[2] - b[1]), inv(b[3] - b[2]), inv(b[4] - b[3]), mean(5, true), mean(6, true), mean(7, false), mean(8, false)].iter().map(|v| if v.is_finite() { *v as f32 } else { 0.0 }).collect();
    println!("bias {bias:?}");
    let metadata = Metadata { format: nn::FORMAT, model: "linear".into(), window: nn::WINDOW, features: NAMES.iter().map(|n| n.to_string()).collect(), outputs: nn::OUTPUT_NAMES.iter().map(|n| n.to_string()).collect(), means: means.iter().map(|v| *v as f32).collect(), scales: scales.iter().map(|v| *v as f32).collect(), ..Default::default() };
    nn::write(&metadata, &[Tensor { name: "head.weight".into(), shape: vec![9, inputs], values: Values::Floats(weight) }, Tensor { name: "head.bias".into(), shape: vec![9], values: Values::Floats(bias) }]).unwrap()
}

fn run(scene: &Scene, bytes: &[u8], k: Weights) -> Outcome {
    simulate_policy(scene, Box::new(Neural::new(Tuning::default(), Net::load(bytes).unwrap(), k)), true)
}

fn main() {
    let all = scenes(5);
    let lambda = 0.01;
    let mut ls = vec![];
    for (_, m, w) in scenes(7) { ls.extend(lessons(&Scene::new(&m, &w), policy(Name::Gap, Tuning::default()), 5)); }
    let bytes = linear(&ls);
    if let Ok(to) = std::env::var("OUT") { std::fs::write(to, &bytes).unwrap(); }
    let mut base = vec![];
    for (t, m, w) in &all {
        let scene = Scene::new(m, w);
        let o = oracle(&scene, lambda, Resolution::default()).unwrap().outcome;
        let g = simulate(&scene, Name::Gap);
        base.push((o.cost(lambda), g.cost(lambda)));
        let began = Instant::now();
        let n = run(&scene, &bytes, Weights::default());
        println!("{t:<20} oracle {:.3} ({:.3}+{:.1}MB full {} snap {}) gap {:.3} ({:.3}+{:.1} s{}) neural {:.3} ({:.3}+{:.1}MB full {} snap {} inreq {:.0} peak {:.0}/{:.0}) {:.0} ms", o.cost(lambda), o.delay_ms, o.held_mb, o.full, o.snapshots, g.cost(lambda), g.delay_ms, g.held_mb, g.snapshots, n.cost(lambda), n.delay_ms, n.held_mb, n.full, n.snapshots, n.in_request.total_ms, n.peak_rss_mb, g.peak_rss_mb, began.elapsed().as_secs_f64()*1e3);
    }
    let score = |k: Weights| -> f64 {
        all.iter().zip(&base).map(|((_, m, w), (o, g))| (run(&Scene::new(m, w), &bytes, k).cost(lambda) / o).ln()).sum::<f64>() / all.len() as f64
    };
    println!("default {:.3} gap {:.3}", score(Weights::default()).exp(), (base.iter().map(|(o, g)| (g / o).ln()).sum::<f64>() / base.len() as f64).exp());
    let gens: usize = std::env::var("GENS").ok().and_then(|it| it.parse().ok()).unwrap_or(12);
    let mut mean: [f64; WEIGHTS] = <[f64; WEIGHTS]>::from(Weights::default()).map(f64::ln); let mut dev = [0.6; WEIGHTS];
    let mut chance = Chance::new(1);
    for generation in 0..gens {
        let mut pop: Vec<(f64, [f64; WEIGHTS])> = (0..32).map(|i| {
            let mut x = [0.0; WEIGHTS];
            for d in 0..WEIGHTS { let z: f64 = (0..12).map(|_| chance.share()).sum::<f64>() - 6.0; x[d] = if i == 0 { mean[d] } else { mean[d] + dev[d] * z }; }
            (score(Weights::from(x.map(f64::exp))), x)
        }).collect();
        pop.sort_by(|a, b| a.0.total_cmp(&b.0));
        for d in 0..WEIGHTS {
            let m = pop[..8].iter().map(|p| p.1[d]).sum::<f64>() / 8.0;
            let v = pop[..8].iter().map(|p| (p.1[d] - m).powi(2)).sum::<f64>() / 8.0;
            mean[d] = m; dev[d] = (v.sqrt()).max(0.05);
        }
        println!("gen {generation} best {:.3} mean {:.3} weights {:?}", pop[0].0.exp(), pop[16].0.exp(), mean.map(|x: f64| (x.exp() * 100.0).round() / 100.0));
    }
    let k = Weights::from(mean.map(f64::exp));
    for ((t, m, w), (o, g)) in all.iter().zip(&base) {
        let n = run(&Scene::new(m, w), &bytes, k);
        println!("{t:<20} vs oracle {:.2} vs gap {:.2} delay {:.3} held {:.1} full {} snap {} inreq {:.0}", n.cost(lambda) / o, n.cost(lambda) / g, n.delay_ms, n.held_mb, n.full, n.snapshots, n.in_request.total_ms);
    }
}
