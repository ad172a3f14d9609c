//! An open-loop client: Poisson arrivals at a rate, whatever the service does. Its figures are JSON on stdout.
//!
//! `cargo run --profile fast -p neurogc-load --example open_loop -- PORT RATE SECONDS PATH…`

#![expect(clippy::print_stdout, reason = "its output is its result")]

use std::error::Error;
use std::time::Duration;

use neurogc_load::{Arrivals, Asks, Flow, Load, LoadPlan, PlanPart, Target, drive};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, rate, seconds, paths @ ..] = words.as_slice() else {
        return Err("usage: open_loop PORT RATE SECONDS PATH…".into());
    };
    let plan = LoadPlan {
        target: Target::port(port.parse()?),
        asks: Asks::weighted(&paths.iter().map(|path| (1, path.as_str())).collect::<Vec<_>>()),
        load: Load::Open(Arrivals::Poisson { per_second: rate.parse()? }),
        parts: vec![PlanPart { name: "measured", lasts: Duration::from_secs_f64(seconds.parse()?) }],
        patience: Duration::from_secs(30),
        connections: 1000,
        shed: false,
        seed: 7,
    };
    let outcome = drive(&plan, &mut |_| Flow::On)?;
    let part = &outcome.parts[0];
    let figures = serde_json::json!({
        "latency": part.latencies.figures(),
        "late": part.lateness.figures(),
        "failures": part.failures.total(),
        "unanswered": part.unanswered,
        "connections": outcome.connections,
    });
    println!("{figures}");
    Ok(())
}
