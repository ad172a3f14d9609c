//! Recordings: uploads, the list, and what is in them.

use std::io::Read;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use neurogc_wire::trace::Header;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::chart::Chart;
use super::error::ApiError;
use super::heat::LatencyHeat;
use super::parameters::QueryParameters;
use super::processes::{Events, HeatAnswer, SeriesAnswer};
use super::{App, blocking, json_text};
use crate::hub::to_text;
use crate::recording;
use crate::row::FigureRow;
use crate::shelf::{Kind, ShelfEntry, UploadError, is_run};

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    blocking(move || Ok(json_text(to_text(&json!({"recordings": app.shelf.list()}))))).await
}

pub(super) async fn add(
    State(app): State<Arc<App>>,
    parameters: QueryParameters,
    request: Request,
) -> Result<Response, ApiError> {
    let _turn = app.uploading.try_acquire().map_err(|_| ApiError::busy("another recording is being uploaded"))?;
    let name = parameters.get("name").unwrap_or("recording").to_owned();
    let mut body = request.into_body();
    let cut_off = |_| ApiError::bad_request("the recording must come whole");
    let mut keeping: Option<Keeping> = None;
    while let Some(part) = body.frame().await {
        let Ok(data) = part.map_err(cut_off)?.into_data() else { continue };
        let keeping = keeping.get_or_insert_with(|| Keeping::begin(Arc::clone(&app), name.clone()));
        if keeping.parts.send(Part::Data(data)).await.is_err() {
            break;
        }
    }
    let Some(keeping) = keeping else { return Err(unknown()) };
    let _ = keeping.parts.send(Part::End).await;
    let kept = keeping.done.await.unwrap_or_else(|_| Err(UploadError::Io(std::io::ErrorKind::Interrupted.into())));
    match kept {
        Ok(entry) => Ok((StatusCode::CREATED, json_text(to_text(&entry))).into_response()),
        Err(UploadError::Unknown) => Err(unknown()),
        Err(UploadError::TooLong) => Err(ApiError::too_large("a recording may have 64 MiB")),
        Err(UploadError::Full) => Err(ApiError::full("there is no room for another recording; delete one first")),
        Err(UploadError::Io(error)) => Err(ApiError::full(format!("the recording cannot be kept: {error}"))),
    }
}

fn unknown() -> ApiError {
    ApiError::bad_request("this is neither a trace of `neurogc run --trace` nor a run.json of `neurogc bench`")
}

/// Parts of an upload that may wait for the disk.
const PARTS: usize = 4;

enum Part {
    Data(Bytes),
    /// All of it has come. Without it the upload was broken off.
    End,
}

/// An upload that a thread writes to the disk while it comes.
struct Keeping {
    parts: Sender<Part>,
    done: JoinHandle<Result<ShelfEntry, UploadError>>,
}

impl Keeping {
    fn begin(app: Arc<App>, name: String) -> Self {
        let (parts, mut coming) = channel(PARTS);
        let done = tokio::task::spawn_blocking(move || {
            let mut upload = app.shelf.begin()?;
            loop {
                match coming.blocking_recv() {
                    Some(Part::Data(data)) => upload.write(&data)?,
                    Some(Part::End) => return upload.finish(&name),
                    None => return Err(UploadError::Unknown),
                }
            }
        });
        Self { parts, done }
    }
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

/// What all recordings have. The result of a benchmark follows as `run`, as it was written.
#[derive(Serialize)]
struct RecordingHead<'r> {
    id: &'r str,
    name: &'r str,
    kind: Kind,
}

/// A trace.
#[derive(Serialize)]
struct TraceAnswer<'r> {
    #[serde(flatten)]
    head: RecordingHead<'r>,
    process: TracedProcess,
    from_ms: u64,
    to_ms: u64,
    /// What could not be read, in words.
    damage: Vec<String>,
}

/// The process that wrote a trace.
#[derive(Serialize)]
pub(super) struct TracedProcess {
    pid: u32,
    command: String,
    python: String,
    neurogc: String,
    policy: String,
    service: String,
}

impl TracedProcess {
    pub(super) fn of(header: Header) -> Self {
        let Header { pid, command, python, neurogc, policy, service, .. } = header;
        Self { pid, command, python, neurogc, policy, service }
    }
}

pub(super) async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    opened(app, id, |entry, bytes| {
        let (id, name, kind) = (&*entry.id, &*entry.name, entry.kind);
        let text = match entry.kind {
            Kind::Bench => {
                // It is passed on as it is: read into a tree it would take many times its size.
                if !is_run(&entry.path).map_err(unreadable)? {
                    return Err(unreadable("it is no whole result of a benchmark"));
                }
                let head = to_text(&RecordingHead { id, name, kind });
                let run = std::str::from_utf8(bytes).map_err(unreadable)?;
                format!("{},\"run\":{run}}}", head.trim_end_matches('}'))
            }
            Kind::Trace => {
                let recording = recording::read(bytes).map_err(unreadable)?;
                to_text(&TraceAnswer {
                    head: RecordingHead { id, name, kind },
                    process: TracedProcess::of(recording.header),
                    from_ms: recording.from_ms,
                    to_ms: recording.to_ms,
                    damage: recording.damage.iter().map(ToString::to_string).collect(),
                })
            }
        };
        Ok(json_text(text))
    })
    .await
}

/// What the file of a trace is.
pub(super) const TRACE_TYPE: &str = "application/octet-stream";

/// The file as it is, part by part.
pub(super) async fn file(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let entry = blocking({
        let app = Arc::clone(&app);
        move || find(&app, &id)
    })
    .await?;
    let kind = if entry.kind == Kind::Trace { TRACE_TYPE } else { "application/json" };
    streamed(&app, kind, move || std::fs::File::open(&entry.path).map_err(unreadable)).await
}

/// Answers with what is read, part by part. There are few such answers at a time.
pub(super) async fn streamed<R: Read + Send + 'static>(
    app: &App,
    kind: &'static str,
    open: impl FnOnce() -> Result<R, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let turn = Arc::clone(&app.downloading).try_acquire_owned();
    let turn = turn.map_err(|_| ApiError::busy("other recordings are being downloaded"))?;
    let mut file = blocking(open).await?;
    let (to, parts) = channel(PARTS);
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let mut part = vec![0; 64 << 10];
        loop {
            let read = file.read(&mut part).map(|length| Bytes::copy_from_slice(&part[..length]));
            let is_data = read.as_ref().is_ok_and(|data| !data.is_empty());
            let is_end = read.is_ok() && !is_data;
            if is_end || to.blocking_send(read).is_err() || !is_data {
                break;
            }
        }
    });
    Ok(([(header::CONTENT_TYPE, kind)], Body::new(Parts(parts))).into_response())
}

/// The body of an answer that a thread reads from the disk.
struct Parts(Receiver<std::io::Result<Bytes>>);

impl axum::body::HttpBody for Parts {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| part.map(hyper::body::Frame::data)))
    }
}

pub(super) async fn series(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let places = parameters.series()?;
    rows(app, id, parameters, move |id, rows, span, step_ms| {
        to_text(&SeriesAnswer { id, chart: Chart::of(rows, &places, span, step_ms) })
    })
    .await
}

pub(super) async fn latency(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    rows(app, id, parameters, |id, rows, span, step_ms| {
        to_text(&HeatAnswer { id, heat: LatencyHeat::of(rows, span, step_ms) })
    })
    .await
}

/// Answers with the rows of a trace in the while that is wanted. `text` gets its id, the rows, the while and the step.
async fn rows(
    app: Arc<App>,
    id: String,
    parameters: QueryParameters,
    text: impl FnOnce(&str, &[FigureRow], (u64, u64), u64) -> String + Send + 'static,
) -> Result<Response, ApiError> {
    let points = parameters.points()?;
    traced(app, id, move |entry, bytes| {
        let recording = recording::read(bytes).map_err(unreadable)?;
        let (from, to) = parameters.bounds((recording.from_ms, recording.to_ms))?;
        let step_ms = (to - from).div_ceil(points).div_ceil(1000).max(1) * 1000;
        let rows = recording::rows(bytes, (from, to), step_ms).map_err(unreadable)?;
        Ok(json_text(text(&entry.id, &rows, (from, to), step_ms)))
    })
    .await
}

pub(super) async fn events(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let wish = parameters.wish(parameters.bounds((0, u64::MAX))?)?;
    traced(app, id, move |entry, bytes| {
        let found = recording::events(bytes, &wish).map_err(unreadable)?;
        let (from_ms, to_ms) = (wish.from_ms, wish.to_ms.min(i64::MAX as u64));
        let (left_out, events) = (found.left_out, found.events);
        let events = Events { id: &entry.id, from_ms, to_ms, left_out, not_kept: None, events };
        Ok(json_text(to_text(&events)))
    })
    .await
}

fn find(app: &App, id: &str) -> Result<ShelfEntry, ApiError> {
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
    answer: impl FnOnce(&ShelfEntry, &[u8]) -> Result<Response, ApiError> + Send + 'static,
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
    answer: impl FnOnce(&ShelfEntry, &[u8]) -> Result<Response, ApiError> + Send + 'static,
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
