//! Processes: the list, one of them, its series, its latencies and its events.

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
use crate::history::Past;
use crate::hub::to_text;
use crate::process::{Presence, ProcessSummary};
use crate::series::{CATALOGUE, Fold};
use crate::services::{ServiceSummary, services};
use crate::store::Found;

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
    /// Why there are none of the past, in words, where none are kept.
    not_kept: Option<&'static str>,
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
    /// Why there are none of the past, in words, where none are kept.
    pub(crate) not_kept: Option<&'static str>,
    pub(crate) events: Vec<Event>,
}

pub(super) async fn list(State(app): State<Arc<App>>, parameters: QueryParameters) -> Result<Response, ApiError> {
    let gone = parameters.is_on("gone");
    let past = if gone { app.hub.history.processes().await? } else { app.hub.elsewhere().to_vec() };
    blocking(move || {
        let now_ms = unix_ms();
        let views = app.hub.views();
        let there = views.iter().filter(|view| gone || view.state != Presence::Gone);
        let processes = there.map(ProcessSummary::of).chain(app.hub.others(&views, &past)).collect();
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
    let summary = ProcessSummary::of_history(&facts, seen_ms, app.hub.history.presence(seen_ms));
    Ok(json_text(to_text(&One { summary, status: None, status_ms: None })))
}

pub(super) async fn series(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let (span, places) = (parameters.span()?, parameters.series()?);
    known(&app, &id).await?;
    let course = app.hub.history.course(&id, span, &places).await?;
    blocking(move || {
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
    let course = app.hub.history.course(&id, span, &percentiles()).await?;
    blocking(move || {
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
    let members: Vec<String> = {
        let views = app.hub.views();
        let members = views.iter().filter(|view| view.state != Presence::Gone && view.facts.service == service);
        members.take(MOST_MERGED).map(|view| view.facts.id.clone()).collect()
    };
    let of_none = members.is_empty();
    let course = app.hub.history.latencies(&service, members, span).await?;
    if of_none && course.rows.is_empty() {
        return Err(ApiError::not_found("no process of this service reports"));
    }
    blocking(move || {
        let heat = LatencyHeat::merged(&course.rows, (span.from_ms, span.to_ms), course.step_ms);
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
    let (Found { events, left_out }, not_kept) = app.hub.history.events(&id, &wish).await?.split();
    blocking(move || {
        let (from_ms, to_ms) = (wish.from_ms, wish.to_ms);
        Ok(json_text(to_text(&Events { id: &id, from_ms, to_ms, left_out, not_kept, events })))
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
    let (censuses, not_kept) = app.hub.history.censuses(&id, (from_ms, to_ms)).await?.split();
    blocking(move || {
        let course = CensusCourse::of(&censuses);
        Ok(json_text(to_text(&CensusAnswer { id: &id, from_ms, to_ms, not_kept, course })))
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

async fn of_history(app: &Arc<App>, id: &str) -> Result<Past, ApiError> {
    app.hub.history.process(id).await?.ok_or_else(|| ApiError::no_process(id))
}

/// Places of the series that are read from latencies.
fn percentiles() -> Vec<usize> {
    (0..CATALOGUE.len()).filter(|place| matches!(CATALOGUE[*place].fold, Fold::Quantile(_))).collect()
}
