//! Half an hour of a made-up service as a trace, to time a training with: `… --example halfhour -- FILE`.

use std::error::Error;
use std::{env, fs};

use neurogc_learn::{HeapModel, Scene, Start, TrafficShape, imagined, record};
use neurogc_policy::Name;
use neurogc_wire::trace::encode;

const REQUESTS: usize = 180_000;

fn main() -> Result<(), Box<dyn Error>> {
    let to = env::args().nth(1).ok_or("say where the trace goes")?;
    let model = HeapModel::default();
    let start = Start { at: 2_000_000_000, tenured: 600_000.0, pending: 0.0 };
    let workload = TrafficShape::Diurnal { rate: 100.0 }.requests(REQUESTS, &imagined(500, 700.0, 3), start, 3);
    let trace = record(&Scene::new(&model, &workload), Name::Gap);
    fs::write(to, encode(&trace.header, &trace.records))?;
    Ok(())
}
