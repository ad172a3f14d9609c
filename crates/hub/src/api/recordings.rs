//! Recordings: uploads, the list, and what is in them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::chart::Chart;
use super::error::ApiError;
use super::parameters::Parameters;
use super::processes::{Course, Events};
use super::{App, blocking, json_text};
use crate::hub::to_text;
use crate::recording;
use crate::row::fold_into_steps;
use crate::shelf::{Entry, Kind, UploadError};

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    blocking(move || Ok(json_text(to_text(&json!({"recordings": app.shelf.list()}))))).await
}

pub(super) async fn add(
    State(app): State<Arc<App>>,
    parameters: Parameters,
    request: Request,
) -> Result<Response, ApiError> {
    let shelved = Arc::clone(&app);
    let _turn = app.uploading.try_acquire().map_err(|_| ApiError::busy("another recording is being uploaded"))?;
    let body = Bytes::from_request(request, &())
        .await
        .map_err(|_| ApiError::too_large("a recording may have 64 MiB, and must come whole"))?;
    let name = parameters.get("name").unwrap_or("recording").to_owned();
    blocking(move || match shelved.shelf.add(&name, &body) {
        Ok(entry) => Ok((StatusCode::CREATED, json_text(to_text(&entry))).into_response()),
        Err(UploadError::Unknown) => Err(ApiError::bad_request(
            "this is neither a trace of `neurogc run --trace` nor a run.json of `neurogc bench`",
        )),
        Err(UploadError::Full) => Err(ApiError::full("there is no room for another recording; delete one first")),
        Err(UploadError::Io(error)) => Err(ApiError::full(format!("the recording cannot be kept: {error}"))),
    })
    .await
}

pub(super) async fn remove(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    blocking(move || {
        let entry = find(&app, &id)?;
        if !entry.uploaded {
            return Err(ApiError::forbidden("only uploads can be deleted here"));
        }
        std::fs::remove_file(entry.path).map_err(|error| ApiError::gone(error.to_string()))?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

pub(super) async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    opened(app, id, |entry, bytes| {
        let head = json!({"id": entry.id, "name": entry.name, "kind": entry.kind});
        let body = match entry.kind {
            Kind::Bench => {
                let run: serde_json::Value = serde_json::from_slice(bytes).map_err(unreadable)?;
                json!({"run": run})
            }
            Kind::Trace => {
                let recording = recording::read(bytes).map_err(unreadable)?;
                let header = recording.header;
                json!({
                    "process": {"pid": header.pid, "command": header.command, "python": header.python,
                                "neurogc": header.neurogc, "policy": header.policy},
                    "from_ms": recording.from_ms,
                    "to_ms": recording.to_ms,
                    "damage": recording.damage.iter().map(ToString::to_string).collect::<Vec<_>>(),
                })
            }
        };
        let mut whole = head;
        if let (Some(whole), serde_json::Value::Object(body)) = (whole.as_object_mut(), body) {
            whole.extend(body);
        }
        Ok(json_text(to_text(&whole)))
    })
    .await
}

pub(super) async fn file(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    opened(app, id, |entry, bytes| {
        let kind = if entry.kind == Kind::Trace { "application/octet-stream" } else { "application/json" };
        Ok(([(header::CONTENT_TYPE, kind)], bytes.to_vec()).into_response())
    })
    .await
}

pub(super) async fn series(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (places, points) = (parameters.series()?, parameters.points()?);
    traced(app, id, move |entry, bytes| {
        let recording = recording::read(bytes).map_err(unreadable)?;
        let (from, to) = parameters.bounds((recording.from_ms, recording.to_ms))?;
        let step_ms = (to - from).div_ceil(points).div_ceil(1000).max(1) * 1000;
        // A row ends after what it tells of, so the last one may end after the recording.
        let rows = recording.rows.into_iter().filter(|row| row.t > from && row.t < to + 1000);
        let chart = Chart::of(&fold_into_steps(rows, step_ms), &places, (from, to), step_ms);
        Ok(json_text(to_text(&Course { id: &entry.id, chart })))
    })
    .await
}

pub(super) async fn events(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let wish = parameters.wish(parameters.bounds((0, u64::MAX))?)?;
    traced(app, id, move |entry, bytes| {
        let found = recording::events(bytes, &wish).map_err(unreadable)?;
        let (from_ms, to_ms) = (wish.from_ms, wish.to_ms.min(i64::MAX as u64));
        let events = Events { id: &entry.id, from_ms, to_ms, left_out: found.left_out, events: found.events };
        Ok(json_text(to_text(&events)))
    })
    .await
}

fn find(app: &App, id: &str) -> Result<Entry, ApiError> {
    app.shelf
        .find(id)
        .ok_or_else(|| ApiError::not_found("there is no such recording; GET /api/v1/recordings lists them"))
}

fn unreadable(error: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("the recording cannot be read: {error}"))
}

async fn traced(
    app: Arc<App>,
    id: String,
    answer: impl FnOnce(&Entry, &[u8]) -> Result<Response, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    opened(app, id, |entry, bytes| match entry.kind {
        Kind::Trace => answer(entry, bytes),
        Kind::Bench => Err(ApiError::bad_request("a result of a benchmark has no course of time")),
    })
    .await
}

/// Reads a recording and answers from it. One at a time: each may be large.
async fn opened(
    app: Arc<App>,
    id: String,
    answer: impl FnOnce(&Entry, &[u8]) -> Result<Response, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let turn = Arc::clone(&app.reading).acquire_owned().await.map_err(|_| ApiError::busy("the hub is ending"))?;
    blocking(move || {
        let _turn = turn;
        let entry = find(&app, &id)?;
        let bytes = std::fs::read(&entry.path).map_err(unreadable)?;
        answer(&entry, &bytes)
    })
    .await
}
