//! How figures grow: series of fixed size, robust slopes, and the shape of a series.
//!
//! The hard part is to tell growth that stays from growth that ends. [`shape`] does that for one series, and says so
//! where it cannot be told yet.

mod load;
pub mod series;
pub mod shape;
pub mod tracks;
mod trend;

pub use series::{FigureSeries, Point};
pub use shape::{Growth, Scale, Shape, judge};
pub use tracks::Tracks;
pub use trend::Slope;
