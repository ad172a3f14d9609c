//! What the agent knows, written down: the ledger, the log of orders, the batches for hubs and the status report.

pub(crate) mod books;
pub(crate) mod census;
pub(crate) mod growth;
pub(crate) mod hub_batch;
pub(crate) mod ledger;
pub(crate) mod order_log;
pub(crate) mod recent;
pub(crate) mod status;
pub(crate) mod troubles;
