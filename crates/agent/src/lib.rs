//! The part of NeuroGC that lives in the user's process: an extension module that senses, and never gets in the way.
//!
//! `sense::hooks`, `act` and `python` run in the program's threads; `sampler` and `uplink` are threads of our own,
//! and neither ever takes the GIL. Every CPython fact is in `cpython`; unsafe lines stand there, in `alloc`, `snapshot` and `sys`.

mod act;
mod alloc;
mod book;
mod cpython;
mod decide;
mod host;
mod lifecycle;
mod python;
mod sampler;
mod sense;
mod snapshot;
mod sys;
mod threads;
mod uplink;
