//! Made-up programs, leaking and healthy, and what must be found in them.

mod aside;
mod healthy;
mod leaking;
mod recorded;
mod words;
mod workers;
mod world;
