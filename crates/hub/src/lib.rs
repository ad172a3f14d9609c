//! Collects from many agents, keeps their history, and serves it to people and programs.
//!
//! `follow` and `api` bring reports in, `hub` knows who reports and tells browsers, `history` tells what was, from `store` or from another server, `heaps` takes
//! and analyses heap dumps, `export` has figures for other systems, `alerts` sends messages. Nothing here waits for an agent, a browser or a disk.

#![forbid(unsafe_code)]

pub mod alerts;
mod api;
mod assets;
mod budget;
mod census;
mod client;
mod clock;
mod event;
mod export;
mod facts;
mod follow;
mod gate;
mod heaps;
mod history;
mod hub;
mod live;
mod message;
mod own_cost;
mod patient;
mod peer;
mod post;
mod process;
mod recording;
mod row;
mod series;
mod server;
mod services;
mod shelf;
mod store;
mod tokens;
mod traces;
mod weight;

pub use client::{HubClient, HubClientError};
pub use export::objects::ObjectStore;
pub use export::otlp::OtlpCollector;
pub use export::profiles::ProfileStore;
pub use export::remote_write::RemoteWrite;
pub use follow::Sockets;
pub use history::HistoryServer;
pub use server::{Config, HubError, Listening, run};
pub use store::StoreError;
pub use tokens::{Access, Tokens};
