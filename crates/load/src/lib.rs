//! A load generator for services on this machine: it sends when it was meant to send, whatever the service does.
//!
//! The pure half decides and counts: `arrivals` (when), `asks` (what), `response` (is the answer whole), `latencies`
//! (how long). `drive` is the other half, one thread around one `epoll`. A latency counts from the moment at which the
//! request was meant to be sent, so a service that stands still is charged for every request that came meanwhile.

#![forbid(unsafe_code)]

mod arrivals;
mod asks;
mod chance;
mod connection;
mod drive;
mod errands;
mod latencies;
mod outcome;
mod precedence;
mod response;
mod target;

pub use arrivals::{ArrivalTimes, Arrivals, Phase};
pub use asks::Asks;
pub use chance::Chance;
pub use drive::{Flow, Live, LoadError, LoadPlan, LoadTick, PlanPart, drive};
pub use errands::{Load, Users};
pub use latencies::{Latencies, LatencyFigures};
pub use outcome::{Failures, LoadOutcome, PartOutcome, Second};
pub use precedence::go_first;
pub use response::{Done, MalformedResponse, ResponseProgress, ResponseReader};
pub use target::{Target, get, get_with};
