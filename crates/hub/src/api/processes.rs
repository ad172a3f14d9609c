//! Processes: the list, one of them, its series, its latencies and its events.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use neurogc_wire::status::Status;
use serde::Serialize;
use serde_json::json;

use super::chart::Chart;
use super::error::ApiError;
use super::heat::LatencyHeat;
use super::parameters::QueryParameters;
use super::{App, blocking, json_text};
use crate::census::CensusCourse;
use crate::clock::unix_ms;
use crate::event::Event;
use crate::facts::ProcessFacts;
use crate::hub::to_text;
use crate::process::{Presence, ProcessSummary};
use crate::series::CATALOGUE;
use crate::services::{ServiceSummary, services};

#[derive(Serialize)]
struct List<'p> {
    now_ms: u64,
    processes: Vec<ProcessSummary<'p>>,
    services: Vec<ServiceSummary<'p>>,
}

#[derive(Serialize)]
struct One<'p> {
    #[serde(flatten)]
    summary: ProcessSummary<'p>,
    status: Option<&'p Status>,
    status_ms: Option<u64>,
}

/// Series as they are told, of processes and of recordings.
#[derive(Serialize)]
pub(crate) struct SeriesAnswer<'c> {
    pub(crate) id: &'c str,
    #[serde(flatten)]
    pub(crate) chart: Chart,
}

/// Latencies as they are told.
#[derive(Serialize)]
pub(super) struct HeatAnswer<'l> {
    pub(super) id: &'l str,
    #[serde(flatten)]
    pub(super) heat: LatencyHeat,
}

/// What was in the heap, as it is told.
#[derive(Serialize)]
struct CensusAnswer<'c> {
    id: &'c str,
    from_ms: u64,
    to_ms: u64,
    #[serde(flatten)]
    course: CensusCourse,
}

/// Events as they are told, of processes and of recordings.
#[derive(Serialize)]
pub(crate) struct Events<'e> {
    pub(crate) id: &'e str,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    pub(crate) left_out: u64,
    pub(crate) events: Vec<Event>,
}

pub(super) async fn list(State(app): State<Arc<App>>, parameters: QueryParameters) -> Result<Response, ApiError> {
    let gone = parameters.is_on("gone");
    let history = if gone { past(&app).await? } else { Vec::new() };
    blocking(move || {
        let now_ms = unix_ms();
        let views = app.hub.views();
        let there = views.iter().filter(|view| gone || view.state != Presence::Gone);
        let known: BTreeSet<_> = views.iter().map(|view| view.facts.id.as_str()).collect();
        let past = history.iter().filter(|(facts, _)| !known.contains(facts.id.as_str()));
        let past = past.map(|(facts, seen_ms)| ProcessSummary::of_history(facts, *seen_ms));
        let processes = there.map(ProcessSummary::of).chain(past).collect();
        Ok(json_text(to_text(&List { now_ms, processes, services: services(&views) })))
    })
    .await
}

pub(super) async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let now_ms = unix_ms();
    let view = app.hub.processes().get(&id).map(|process| process.view(now_ms));
    if let Some(view) = view {
        let status = view.sample.as_ref().map(|sample| &sample.status);
        let status_ms = status.map(|_| view.sample_ms);
        return Ok(json_text(to_text(&One { summary: ProcessSummary::of(&view), status, status_ms })));
    }
    let (facts, seen_ms) = of_history(&app, &id).await?;
    let summary = ProcessSummary::of_history(&facts, seen_ms);
    Ok(json_text(to_text(&One { summary, status: None, status_ms: None })))
}

pub(super) async fn series(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let (span, places) = (parameters.span()?, parameters.series()?);
    known(&app, &id).await?;
    blocking(move || {
        let course = app.hub.store.course(&id, span).map_err(ApiError::unavailable)?;
        let chart = Chart::of(&course.rows, &places, (span.from_ms, span.to_ms), course.step_ms);
        Ok(json_text(to_text(&SeriesAnswer { id: &id, chart })))
    })
    .await
}

pub(super) async fn latency(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let span = parameters.span()?;
    known(&app, &id).await?;
    blocking(move || {
        let course = app.hub.store.course(&id, span).map_err(ApiError::unavailable)?;
        let heat = LatencyHeat::of(&course.rows, (span.from_ms, span.to_ms), course.step_ms);
        Ok(json_text(to_text(&HeatAnswer { id: &id, heat })))
    })
    .await
}

/// Processes of one service whose history is merged at most.
const MOST_MERGED: usize = 64;

pub(super) async fn service_latency(
    State(app): State<Arc<App>>,
    Path(service): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let span = parameters.span()?;
    blocking(move || {
        let views = app.hub.views();
        let members = views.iter().filter(|view| view.state != Presence::Gone && view.facts.service == service);
        let (mut rows, mut step_ms) = (Vec::new(), None);
        for view in members.take(MOST_MERGED) {
            let course = app.hub.store.course(&view.facts.id, span).map_err(ApiError::unavailable)?;
            rows.extend(course.rows);
            step_ms = Some(course.step_ms);
        }
        let step_ms = step_ms.ok_or_else(|| ApiError::not_found("no process of this service reports"))?;
        let heat = LatencyHeat::merged(&rows, (span.from_ms, span.to_ms), step_ms);
        Ok(json_text(to_text(&HeatAnswer { id: &service, heat })))
    })
    .await
}

pub(super) async fn events(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let wish = parameters.wish(parameters.bounds_until_now()?)?;
    known(&app, &id).await?;
    blocking(move || {
        let found = app.hub.store.events(&id, &wish).map_err(ApiError::unavailable)?;
        let (from_ms, to_ms) = (wish.from_ms, wish.to_ms);
        Ok(json_text(to_text(&Events { id: &id, from_ms, to_ms, left_out: found.left_out, events: found.events })))
    })
    .await
}

pub(super) async fn census(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let (from_ms, to_ms) = parameters.bounds_until_now()?;
    known(&app, &id).await?;
    blocking(move || {
        let censuses = app.hub.store.censuses(&id, (from_ms, to_ms)).map_err(ApiError::unavailable)?;
        Ok(json_text(to_text(&CensusAnswer { id: &id, from_ms, to_ms, course: CensusCourse::of(&censuses) })))
    })
    .await
}

pub(super) async fn catalogue() -> Response {
    axum::Json(json!({"series": *CATALOGUE})).into_response()
}

/// The process, wherever it is known from.
pub(super) async fn known(app: &Arc<App>, id: &str) -> Result<ProcessFacts, ApiError> {
    if let Some(process) = app.hub.processes().get(id) {
        return Ok(ProcessFacts::clone(&process.facts));
    }
    Ok(of_history(app, id).await?.0)
}

async fn past(app: &Arc<App>) -> Result<Vec<(ProcessFacts, u64)>, ApiError> {
    let app = Arc::clone(app);
    blocking(move || app.hub.store.processes().map_err(ApiError::unavailable)).await
}

async fn of_history(app: &Arc<App>, id: &str) -> Result<(ProcessFacts, u64), ApiError> {
    let (app, id) = (Arc::clone(app), id.to_owned());
    blocking(move || {
        let found = app.hub.store.process(&id).map_err(ApiError::unavailable)?;
        found.ok_or_else(|| ApiError::no_process(&id))
    })
    .await
}
