//! Traces of a service, for those who train models: those that agents send, uploads, and those of the folder with recordings.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use neurogc_wire::trace::Header;
use serde::Serialize;

use super::error::ApiError;
use super::parameters::QueryParameters;
use super::recordings::{TRACE_TYPE, TracedProcess, streamed};
use super::{App, blocking, json_text};
use crate::clock::unix_ms;
use crate::hub::to_text;
use crate::process::Presence;
use crate::shelf::{Kind, ShelfEntry};
use crate::store::MAX_AGE_S;
use crate::traces::{KeptTrace, beginning};

/// The traces of a service in a while.
#[derive(Serialize)]
struct ServiceTraces<'s> {
    service: &'s str,
    from_ms: u64,
    to_ms: u64,
    traces: Vec<OfferedTrace>,
}

/// One of them, and where its file is.
#[derive(Serialize)]
struct OfferedTrace {
    id: String,
    source: TraceSource,
    bytes: u64,
    from_ms: u64,
    to_ms: u64,
    process: TracedProcess,
    file: String,
}

/// Where a trace is from.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum TraceSource {
    /// Its agent has sent it.
    Agent,
    Upload,
    Folder,
}

/// The traces of a service that were written to in the while that is asked for, the newest first.
pub(super) async fn of_service(
    State(app): State<Arc<App>>,
    Path(service): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let now = unix_ms();
    let (from_ms, to_ms) = parameters.bounds((now.saturating_sub(MAX_AGE_S * 1000), now))?;
    blocking(move || {
        let kept = app.hub.traces.as_ref().map(|traces| traces.list(from_ms)).unwrap_or_default();
        let entries = app.shelf.list().into_iter().filter(|entry| entry.kind == Kind::Trace);
        let shelved: Vec<_> =
            entries.filter_map(|entry| beginning(&entry.path).map(|beginning| (entry, beginning))).collect();
        let mut known: BTreeSet<String> = kept.iter().map(|trace| trace.header.service.clone()).collect();
        known.extend(shelved.iter().map(|(_, (header, _))| header.service.clone()));
        let mut traces: Vec<_> = kept
            .into_iter()
            .filter(|trace| trace.header.service == service)
            .map(|trace| OfferedTrace::kept(trace, from_ms))
            .collect();
        let of_this = shelved.into_iter().filter(|(_, (header, _))| header.service == service);
        traces.extend(of_this.map(|(entry, beginning)| OfferedTrace::shelved(&entry, beginning)));
        traces.retain(|trace| trace.to_ms >= from_ms && trace.from_ms <= to_ms);
        traces.sort_by_key(|trace| std::cmp::Reverse(trace.to_ms));
        if traces.is_empty() {
            let views = app.hub.views();
            let reporting = views.iter().filter(|view| view.state != Presence::Gone);
            known.extend(reporting.map(|view| view.facts.service.clone()));
            known.extend(app.hub.elsewhere().iter().map(|(facts, _)| facts.service.clone()));
            if !known.contains(&service) {
                return Err(no_service(&service, &known));
            }
        }
        Ok(json_text(to_text(&ServiceTraces { service: &service, from_ms, to_ms, traces })))
    })
    .await
}

fn no_service(service: &str, known: &BTreeSet<String>) -> ApiError {
    const MOST: usize = 20;
    let shown: String = service.chars().take(60).collect();
    let names: Vec<_> = known.iter().filter(|name| !name.is_empty()).take(MOST).map(String::as_str).collect();
    let there = if names.is_empty() { "none reports".to_owned() } else { format!("there are {}", names.join(", ")) };
    ApiError::not_found(format!("the hub knows no service {shown:?}; {there}"))
}

impl OfferedTrace {
    fn kept(trace: KeptTrace, wanted_from_ms: u64) -> Self {
        let KeptTrace { id, header, bytes, from_ms, to_ms } = trace;
        let file = format!("/api/v1/traces/{id}/file?from={wanted_from_ms}");
        Self { id, source: TraceSource::Agent, bytes, from_ms, to_ms, process: TracedProcess::of(header), file }
    }

    fn shelved(entry: &ShelfEntry, (header, from_ms): (Header, u64)) -> Self {
        let source = if entry.uploaded { TraceSource::Upload } else { TraceSource::Folder };
        Self {
            id: entry.id.clone(),
            source,
            bytes: entry.bytes,
            from_ms,
            // An upload was written before it came.
            to_ms: entry.added_ms.max(from_ms),
            process: TracedProcess::of(header),
            file: format!("/api/v1/recordings/{}/file", entry.id),
        }
    }
}

/// The trace that an agent has sent, as one file.
pub(super) async fn file(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let (from_ms, _) = parameters.bounds((0, u64::MAX))?;
    streamed(&app, TRACE_TYPE, {
        let app = Arc::clone(&app);
        move || {
            let found = app.hub.traces.as_ref().and_then(|traces| traces.read(&id, from_ms));
            found.ok_or_else(|| {
                ApiError::not_found("there is no such trace; GET /api/v1/services/NAME/traces lists them")
            })
        }
    })
    .await
}
