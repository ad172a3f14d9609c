//! Where a process allocated its memory: for the page Memory, and as pprof profiles for those who scrape them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use neurogc_sites::{Flame, GroupBy, Measure, SiteChoice, SiteFilter, SiteReport, export};
use neurogc_wire::control::{Answer, Ask};
use neurogc_wire::sites::{AllocationMode, SiteTable};
use serde::Serialize;

use super::error::ApiError;
use super::orders::put_to;
use super::parameters::QueryParameters;
use super::{App, blocking, json_text};
use crate::hub::to_text;
use crate::process::Presence;

/// Places in an answer, and the most that can be asked for.
const TOP: usize = 100;
const MOST_TOP: usize = 2000;

/// The places, and the tree that the page draws.
#[derive(Serialize)]
struct Sites<'s> {
    id: &'s str,
    #[serde(flatten)]
    report: SiteReport<'s>,
    flame: Flame,
}

pub(super) async fn sites(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let choice = SiteChoice {
        by: parameters.one_of("by", GroupBy::ALL)?,
        measure: parameters.one_of("measure", Measure::ALL)?,
        keep: if parameters.is_on("native") { SiteFilter::Native } else { SiteFilter::All },
        top: parameters.count("top", TOP, MOST_TOP)?,
    };
    let table = table_of(&app, &id, parameters.seconds("since")?).await?;
    blocking(move || {
        let report = SiteReport::of(&table, &choice);
        let flame = Flame::of(&table, choice.measure, choice.keep);
        Ok(json_text(to_text(&Sites { id: &id, report, flame })))
    })
    .await
}

/// `/debug/pprof/heap?process=…`
pub(super) async fn heap(State(app): State<Arc<App>>, parameters: QueryParameters) -> Result<Response, ApiError> {
    let id = named(&app, parameters.get("process"))?;
    profile(&app, &id, &parameters).await
}

/// `/processes/{id}/debug/pprof/heap`, for scrapers that put a prefix before the usual path.
pub(super) async fn heap_of(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let id = named(&app, Some(&name))?;
    profile(&app, &id, &parameters).await
}

/// The profile of a process. `seconds` has it count what was allocated in the last so many seconds.
async fn profile(app: &Arc<App>, id: &str, parameters: &QueryParameters) -> Result<Response, ApiError> {
    let table = table_of(app, id, parameters.seconds("seconds")?).await?;
    blocking(move || {
        let heads = [
            (header::CONTENT_TYPE, "application/octet-stream"),
            (header::CONTENT_DISPOSITION, "attachment; filename=\"heap.pb.gz\""),
            (header::CACHE_CONTROL, "no-store"),
        ];
        Ok((heads, export::pprof::encode(&table)).into_response())
    })
    .await
}

/// The sites of a live process, compared with so many seconds ago. None where there are none, or others are being read.
pub(crate) async fn live_sites(app: &Arc<App>, id: &str, since_s: u32) -> Option<SiteTable> {
    table_of(app, id, Some(since_s)).await.ok()
}

/// Asks a process. A table may be large, so that few are asked for at a time.
async fn table_of(app: &Arc<App>, id: &str, since_s: Option<u32>) -> Result<SiteTable, ApiError> {
    let busy = |_| ApiError::busy("other tables of sites are being read; try again");
    let _permit = app.asking_sites.try_acquire().map_err(busy)?;
    match put_to(app, id, Ask::Sites(since_s)).await? {
        Answer::Sites(table) if table.mode != AllocationMode::Off => Ok(*table),
        Answer::Sites(_) => Err(ApiError::refused("its setting `allocations` is off")),
        Answer::Refused(reason) => Err(ApiError::refused(reason)),
        other => Err(ApiError::refused(format!("the agent gave an unexpected answer: {other:?}"))),
    }
}

/// The id of a process that is named by its id or its pid; of the only one where none is named.
fn named(app: &App, name: Option<&str>) -> Result<String, ApiError> {
    let views = app.hub.views();
    let live = views.iter().filter(|view| view.state == Presence::Live);
    let pids: HashMap<&str, u32> = live.map(|view| (view.facts.id.as_str(), view.facts.pid)).collect();
    let is_meant = |(id, pid): &(&&str, &u32)| name.is_none_or(|name| **id == name || pid.to_string() == name);
    let meant: Vec<&str> = pids.iter().filter(is_meant).map(|(id, _)| *id).collect();
    match (meant.as_slice(), name) {
        ([id], _) => Ok((*id).to_owned()),
        ([], Some(name)) => Err(ApiError::no_process(name)),
        ([], None) => Err(ApiError::not_found("no process is observed")),
        _ => Err(ApiError::bad_request("name one process: ?process=ID; GET /api/v1/processes lists them")),
    }
}
