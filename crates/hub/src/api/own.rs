//! The hub about itself, and what agents post to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use neurogc_wire::report::{Reply, announced, decode};
use serde_json::json;

use super::App;
use super::error::ApiError;
use crate::clock::unix_ms;
use crate::process::{Source, State as Presence};

pub(super) async fn hub(State(app): State<Arc<App>>) -> Response {
    let hub = &app.hub;
    let now_ms = unix_ms();
    let (live, known) = {
        let processes = hub.processes();
        let live = processes.values().filter(|process| process.state(now_ms) == Presence::Live).count();
        (live, processes.len())
    };
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    axum::Json(json!({
        "neurogc": env!("CARGO_PKG_VERSION"),
        "host": hub.host,
        "now_ms": now_ms,
        "started_ms": hub.started_ms,
        "token": app.gate.wants_token(),
        "processes": {"live": live, "known": known},
        "ingest": {
            "reports": count(&hub.counts.reports),
            "events": count(&hub.counts.events),
            "missed": count(&hub.counts.missed),
            "refused": count(&hub.counts.refused),
        },
        "store": hub.store.report(),
        "clients": {"connected": hub.clients.connected(), "skipped": hub.clients.skipped()},
        "cpu_ms": crate::own_cost::cpu_ms(),
        "rss": crate::own_cost::rss(),
    }))
    .into_response()
}

pub(super) async fn ingest(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let refuse = |reason: String| {
        app.hub.counts.refused.fetch_add(1, Ordering::Relaxed);
        ApiError::bad_request(reason)
    };
    let mut rest = body.as_ref();
    let mut reply = Reply::default();
    while let Some((first, after)) = rest.split_first_chunk() {
        let length = announced(*first).map_err(|error| refuse(error.to_string()))?;
        let (frame, after) = after.split_at_checked(length).ok_or_else(|| refuse("the frame is cut off".to_owned()))?;
        let frame = decode(frame).map_err(|error| refuse(error.to_string()))?;
        let its = app.hub.take(frame, &Source::Push).map_err(|_| ApiError::busy("too many processes report here"))?;
        reply.wanted.extend(its.wanted);
        rest = after;
    }
    if rest.is_empty() { Ok(axum::Json(reply).into_response()) } else { Err(refuse("the frame is cut off".to_owned())) }
}
