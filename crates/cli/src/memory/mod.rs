//! Where memory was allocated: tables of sites from processes and files, and how they are shown.

pub(crate) mod breakdown;
pub(crate) mod listing;
pub(crate) mod subject;
