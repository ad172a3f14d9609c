//! What will become old, and what of it is dead: learned while the program runs, from its requests and collections.

mod quantiles;
mod routes;

pub use quantiles::{LEVELS, Quantiles};
pub use routes::{MOST_ROUTES, RouteTables};

/// What the pacer is told to expect. It may use it to launch later, or to leave a launch out; memory stays within the
/// pacer's limits whatever it says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Objects that become old in a second: more than that in one case of a hundred.
    pub promoted: f64,
    /// The share that is dead of what has become old since the last cycle, where cycles have shown that.
    pub dead: Option<f64>,
}
