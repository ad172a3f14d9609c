//! What browsers are told by the WebSocket.

use neurogc_wire::status::Conduct;
use serde::Serialize;

use crate::event::Event;
use crate::process::ProcessSummary;
use crate::row::FigureRow;
use crate::services::ServiceSummary;

/// One message; docs/api.md says when each is sent.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum LiveMessage<'m> {
    Hello { neurogc: &'static str, now_ms: u64, started_ms: u64 },
    Processes { now_ms: u64, processes: Vec<ProcessSummary<'m>>, services: Vec<ServiceSummary<'m>> },
    Sample { id: &'m str, t: u64, values: &'m FigureRow, conduct: Option<&'m Conduct> },
    Events { id: &'m str, events: &'m [Event] },
    Gone { id: &'m str },
    Skipped { count: u64 },
    Error { message: String },
}

impl LiveMessage<'_> {
    /// The message as it is sent.
    pub(crate) fn text(&self) -> String {
        crate::hub::to_text(self)
    }
}
