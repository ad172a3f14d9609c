//! Temporary.
use neurogc_learn::*;
fn main() {
    for path in std::env::args().skip(1) {
        let trace = neurogc_wire::trace::read(&std::fs::read(&path).unwrap()).unwrap();
        let f = fit(&trace, 1_000_000_000, 1).unwrap();
        println!("{path}\n{:#?} {:?} start {:?} n {}", f.model, f.assumed, f.workload.start, f.workload.requests.len());
        let s: f64 = f.workload.requests.iter().map(|r| r.service as f64).sum::<f64>();
        let n = f.workload.requests.len() as f64;
        let span = (f.workload.requests.last().unwrap().at - f.workload.requests[0].at) as f64;
        println!(
            "service mean {:.3} ms, busy {:.3}, objects {:.1}, rest {:.3}",
            s / n / 1e6,
            s / span,
            f.workload.requests.iter().map(|r| r.objects).sum::<f64>() / n,
            f.workload.requests.iter().map(|r| r.rest as f64).sum::<f64>() / n / 1e6
        );
        let scene = Scene::new(&f.model, &f.workload);
        println!("never {:?}", never(&scene));
        for name in ["cpython", "gap"] {
            println!("{name} {:?}", simulate(&scene, name.parse().unwrap()));
        }
        let t = std::time::Instant::now();
        let plan = oracle(&scene, 0.01, Resolution::default()).unwrap();
        println!(
            "oracle {:?} states {} decisions {} in {:?}",
            plan.outcome,
            plan.states,
            plan.decisions.len(),
            t.elapsed()
        );
    }
}
