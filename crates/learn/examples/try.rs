//! Temporary.
use neurogc_learn::*;
fn main() {
    let model =
        Model { lifetimes: Lifetimes { die_young: 0.6, held: 0.0, die_old: 0.35, lag: 120_000.0 }, ..Model::default() };
    let start = Start { at: 2_000_000_000, tenured: 400_000.0, pending: 0.0 };
    let w = Shape::Poisson { rate: 250.0 }.requests(8_000, &imagined(500, 800.0, 3), start, 11);
    let scene = Scene::new(&model, &w);
    let trace = record(&scene, "cpython".parse().unwrap());
    let f = fit(&trace, 0, 1).unwrap();
    let fs = Scene::new(&f.model, &f.workload);
    let mean = |w: &Workload| w.requests.iter().map(|r| r.service as f64).sum::<f64>() / 1e6 / w.requests.len() as f64;
    println!("service {} {}", mean(&w), mean(&f.workload));
    println!("never {} {} p99 {} {}", never(&scene).p50_ms, never(&fs).p50_ms, never(&scene).p99_ms, never(&fs).p99_ms);
    let (a, b) = (simulate(&scene, "cpython".parse().unwrap()), simulate(&fs, "cpython".parse().unwrap()));
    println!("{a:?}\n{b:?}\n{:?}", f.model.lifetimes);
    println!("{:?}\n{:?}", f.model.costs, f.model.memory);
    let late: f64 =
        w.requests.iter().zip(&f.workload.requests).map(|(a, b)| (b.at as f64 - a.at as f64) / 1e6).sum::<f64>()
            / 8000.0;
    println!("arrivals late by {late} ms");
}
