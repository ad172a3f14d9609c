//! The hub about itself, and what agents post to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use neurogc_wire::report::{MAX_FRAME, Reply, announced, decode};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::App;
use super::error::ApiError;
use crate::budget;
use crate::clock::unix_ms;
use crate::follow::kilobytes;
use crate::hub::Refusal;
use crate::process::{Presence, Source};
use crate::store::StoreReport;
use crate::tokens::TokenRole;
use crate::traces::{TraceStore, TraceStoreReport};

/// What the hub says about itself.
#[derive(Serialize)]
struct HubReport<'h> {
    neurogc: &'static str,
    host: &'h str,
    now_ms: u64,
    started_ms: u64,
    /// Whether it requires a token.
    token: bool,
    /// Whether the token that was sent may change a policy and have processes collect.
    may_order: bool,
    processes: ProcessCounts,
    ingest: IngestCounts,
    budget: BudgetReport,
    store: StoreReport,
    traces: Option<TraceStoreReport>,
    clients: ClientCounts,
    cpu_ms: f64,
    rss: u64,
}

#[derive(Serialize)]
struct ProcessCounts {
    live: usize,
    known: usize,
}

#[derive(Serialize)]
struct IngestCounts {
    reports: u64,
    events: u64,
    missed: u64,
    refused: u64,
    impostors: u64,
    last_impostor: Option<String>,
}

/// Each is an object of numbers, by the names of budgets.
#[derive(Serialize)]
struct BudgetReport {
    limits: Value,
    used: Value,
    dropped: Value,
}

#[derive(Serialize)]
struct ClientCounts {
    connected: usize,
    skipped: u64,
}

pub(super) async fn hub(State(app): State<Arc<App>>, Extension(role): Extension<TokenRole>) -> Response {
    let hub = &app.hub;
    let now_ms = unix_ms();
    let (live, known) = {
        let processes = hub.processes();
        let live = processes.values().filter(|process| process.state(now_ms) == Presence::Live).count();
        (live, processes.len())
    };
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (figures, waiting) = hub.used();
    let messages = hub.clients.waiting();
    axum::Json(HubReport {
        neurogc: env!("CARGO_PKG_VERSION"),
        host: &hub.host,
        now_ms,
        started_ms: hub.started_ms,
        token: app.gate.wants_token(),
        may_order: role == TokenRole::Full,
        processes: ProcessCounts { live, known },
        ingest: IngestCounts {
            reports: count(&hub.counts.reports),
            events: count(&hub.counts.events),
            missed: count(&hub.counts.missed),
            refused: count(&hub.counts.refused),
            impostors: count(&hub.counts.impostors),
            last_impostor: hub.last_refusal(),
        },
        budget: BudgetReport {
            limits: budget::limits(),
            used: json!({"figures_of_all": figures, "events_of_all": waiting, "messages_of_all": messages}),
            dropped: hub.over.report(),
        },
        store: hub.history.report(),
        traces: hub.traces.as_ref().map(TraceStore::report),
        clients: ClientCounts { connected: hub.clients.connected(), skipped: hub.clients.skipped() },
        cpu_ms: crate::own_cost::cpu_ms(),
        rss: crate::own_cost::rss(),
    })
    .into_response()
}

/// How alerts stand.
pub(super) async fn alerts(State(app): State<Arc<App>>) -> Response {
    axum::Json(&*app.hub.alerts()).into_response()
}

/// The length before each frame.
const LENGTH: usize = 4;

/// How long a frame may take to come: it keeps others out.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes frames as they come. No more of the body is held than one frame and what came with its end.
pub(super) async fn ingest(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let refuse = |reason: String| {
        app.hub.counts.refused.fetch_add(1, Ordering::Relaxed);
        ApiError::bad_request(reason)
    };
    let mut body = request.into_body();
    let (mut came, mut total) = (BytesMut::new(), 0);
    let mut reply = Reply::default();
    // Room for the frame that is coming.
    let mut room = None;
    loop {
        while let Some(first) = came.first_chunk::<LENGTH>() {
            let length = announced(*first).map_err(|error| refuse(error.to_string()))?;
            if room.is_none() {
                let free = app.hub.arriving.acquire_many(kilobytes(length)).await;
                room = Some((free.map_err(|_| ApiError::busy("the hub is ending"))?, Instant::now() + PATIENCE));
            }
            let Some(frame) = came.get(LENGTH..LENGTH + length) else { break };
            let frame = decode(frame).map_err(|error| refuse(error.to_string()))?;
            let its = app.hub.take(frame, &Source::Push).map_err(refusal)?;
            reply.wanted.extend(its.wanted);
            came.advance(LENGTH + length);
            room = None;
        }
        let part = match &room {
            Some((_, deadline)) => timeout_at(*deadline, body.frame())
                .await
                .map_err(|_| ApiError::timeout("the report took too long to come"))?,
            None => body.frame().await,
        };
        let Some(part) = part else { break };
        let part = part.map_err(|_| refuse("the body is cut off".to_owned()))?;
        let Some(data) = part.data_ref() else { continue };
        total += data.len();
        if total > LENGTH + MAX_FRAME {
            return Err(ApiError::too_large("the body is over its limit"));
        }
        came.extend_from_slice(data);
    }
    if came.is_empty() { Ok(axum::Json(reply).into_response()) } else { Err(refuse("the frame is cut off".to_owned())) }
}

fn refusal(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::TooMany => ApiError::busy("too many processes report here"),
        Refusal::Impostor(why) => ApiError::forbidden(format!("the report is refused: {why}")),
        Refusal::Absurd(what) => ApiError::bad_request(format!("the report is refused: {what}")),
    }
}
