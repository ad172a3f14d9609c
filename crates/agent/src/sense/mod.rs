//! What the agent perceives: collections, GIL gaps, stalls, requests and the process. Each sense is a small state
//! machine that is fed by the sampler or the uplink and asked by the status report.

pub(crate) mod arrivals;
pub(crate) mod breakdown;
pub(crate) mod cgroup;
pub(crate) mod children;
pub(crate) mod collections;
pub(crate) mod frozen;
pub(crate) mod gaps;
pub(crate) mod gpu;
pub(crate) mod hooks;
pub(crate) mod process;
pub(crate) mod requests;
pub(crate) mod rest;
pub(crate) mod routes;
pub(crate) mod schedule;
pub(crate) mod seen_requests;
pub(crate) mod seldom;
pub(crate) mod sensors;
pub(crate) mod slowest;
pub(crate) mod spans;
pub(crate) mod stall_log;
pub(crate) mod stalls;
pub(crate) mod training;
pub(crate) mod workers;
