//! Courses as charts want them: one array of times, and one array of values for each series.

use serde::{Serialize, Serializer};

use crate::row::FigureRow;
use crate::series::CATALOGUE;

/// Values of several series at the same times.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    pub(crate) step_ms: u64,
    t: Vec<u64>,
    series: Columns<Vec<Option<f32>>>,
}

impl Chart {
    pub(crate) fn of(rows: &[FigureRow], places: &[usize], (from_ms, to_ms): (u64, u64), step_ms: u64) -> Self {
        let column = |place: &usize| (*place, rows.iter().map(|row| row.value(*place)).collect());
        let series = Columns(places.iter().map(column).collect());
        Self { from_ms, to_ms, step_ms, t: rows.iter().map(|row| row.t).collect(), series }
    }
}

/// Something for each of several series, written by their names.
#[derive(Debug)]
pub(crate) struct Columns<T>(pub(crate) Vec<(usize, T)>);

impl<T: Serialize> Serialize for Columns<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(place, column)| (CATALOGUE[*place].name, column)))
    }
}
