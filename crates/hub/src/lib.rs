//! Collects from many agents, keeps their history, and serves it to people and programs.
#![forbid(unsafe_code)]
