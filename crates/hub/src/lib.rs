//! Collects from many agents, keeps their history, and serves it to people and programs.

#![forbid(unsafe_code)]

mod clock;
mod event;
mod facts;
mod follow;
mod hub;
mod live;
mod process;
mod row;
mod series;
mod store;

pub use follow::Sockets;
pub use store::StoreError;
