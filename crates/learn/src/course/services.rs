//! Imagined services, for a model that has to do without recordings.

use super::RecordedProgram;
use crate::generate::{TrafficShape, imagined};
use crate::model::{Costs, HeapModel, Lifetimes};
use crate::workload::{Pace, Start};

/// Services that differ in everything that matters: shape, live objects, objects of a request, the share that dies
/// young, the share that dies old, after how many allocations it does, and what copies cost while a snapshot is walked:
/// how much longer work takes, and bytes for each object.
const SERVICES: [(TrafficShape, [f64; 7]); 16] = [
    (TrafficShape::Poisson { rate: 60.0 }, [1e6, 900.0, 0.7, 0.25, 60e3, 0.25, 13.0]),
    (TrafficShape::Poisson { rate: 100.0 }, [5e5, 700.0, 0.5, 0.45, 100e3, 0.8, 50.0]),
    (TrafficShape::Poisson { rate: 180.0 }, [3e5, 400.0, 0.6, 0.3, 200e3, 0.5, 30.0]),
    (TrafficShape::Poisson { rate: 250.0 }, [5e5, 700.0, 0.5, 0.45, 100e3, 0.25, 13.0]),
    (TrafficShape::Poisson { rate: 300.0 }, [2e5, 1500.0, 0.5, 0.45, 100e3, 0.8, 50.0]),
    (TrafficShape::Poisson { rate: 350.0 }, [1e6, 300.0, 0.8, 0.15, 50e3, 0.4, 20.0]),
    (TrafficShape::Bursty { rate: 60.0 }, [2e6, 1200.0, 0.5, 0.45, 300e3, 0.25, 13.0]),
    (TrafficShape::Bursty { rate: 100.0 }, [1e6, 700.0, 0.5, 0.45, 100e3, 0.5, 30.0]),
    (TrafficShape::Bursty { rate: 150.0 }, [4e5, 500.0, 0.9, 0.08, 80e3, 0.8, 50.0]),
    (TrafficShape::Bursty { rate: 200.0 }, [5e5, 700.0, 0.5, 0.45, 100e3, 0.5, 30.0]),
    (TrafficShape::Bursty { rate: 220.0 }, [3e6, 300.0, 0.4, 0.5, 150e3, 0.25, 13.0]),
    (TrafficShape::Diurnal { rate: 120.0 }, [8e5, 600.0, 0.6, 0.35, 120e3, 0.5, 30.0]),
    (TrafficShape::Diurnal { rate: 150.0 }, [2e6, 700.0, 0.5, 0.45, 100e3, 0.25, 13.0]),
    (TrafficShape::Diurnal { rate: 220.0 }, [5e5, 500.0, 0.7, 0.25, 100e3, 0.8, 50.0]),
    (TrafficShape::Closed { users: 100 }, [6e5, 700.0, 0.5, 0.4, 100e3, 0.5, 30.0]),
    (TrafficShape::Closed { users: 250 }, [4e5, 300.0, 0.6, 0.3, 100e3, 0.8, 50.0]),
];

/// How many requests each has.
const REQUESTS: usize = 20_000;

/// Nanoseconds: when a program has started up, and how long it then has no requests.
const STARTED: u64 = 2_000_000_000;
const QUIET: u64 = 1_000_000_000;

/// All of them.
#[must_use]
pub fn services() -> Vec<RecordedProgram> {
    let service = |(seed, (shape, numbers)): (u64, (TrafficShape, [f64; 7]))| {
        let [tenured, objects, die_young, die_old, lag, slowdown, copied] = numbers;
        let model = HeapModel {
            lifetimes: Lifetimes { die_young, die_old, lag, ..Lifetimes::default() },
            costs: Costs { slowdown, copied, ..Costs::default() },
            ..HeapModel::default()
        };
        let start = Start { at: STARTED, tenured, pending: 0.0 };
        let mut workload = shape.requests(REQUESTS, &imagined(500, objects, seed), start, seed);
        if workload.pace == Pace::Open {
            workload.requests.iter_mut().for_each(|request| request.at += QUIET);
        }
        RecordedProgram { name: format!("{shape:?}"), model, workload }
    };
    (1..).zip(SERVICES).map(service).collect()
}
