//! What is the matter with memory, and where it was allocated: verdicts, tables of sites from processes and files, and how
//! they are shown.

pub(crate) mod breakdown;
pub(crate) mod changes;
pub(crate) mod children;
pub(crate) mod diagnosis;
pub(crate) mod listing;
pub(crate) mod since;
pub(crate) mod subject;
