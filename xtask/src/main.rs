//! Checks of this repository that no compiler makes.
fn main() {}
