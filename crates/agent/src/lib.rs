//! The part of NeuroGC that lives in the user's process: an extension module that senses, and never gets in the way.
//!
//! `hooks` runs in the program's threads; `conductor` and `uplink` are threads of our own; neither takes the GIL.
//! Only `hand`, which acts for policies and for people who ask, takes it. Every CPython fact is in `cpython`, and every
//! unsafe line there or in `snapshot`.

mod act;
mod book;
mod cpython;
mod decide;
mod lifecycle;
mod python;
mod sense;
mod snapshot;
mod sys;
mod uplink;
