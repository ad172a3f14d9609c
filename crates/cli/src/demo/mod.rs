//! The demo: one service twice, without and with NeuroGC, under the same load, side by side.

pub(crate) mod dashboard;
pub(crate) mod leak;
pub(crate) mod lines;
pub(crate) mod report;
pub(crate) mod screen;
pub(crate) mod side;
