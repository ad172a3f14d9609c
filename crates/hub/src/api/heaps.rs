//! Heap dumps: taking one, the list, and what is in them.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use neurogc_heap::views::{
    self, GrowthReport, HeapSummary, MergedPaths, ObjectLine, ObjectPath, Suspect, TreeLine, TypeLine, TypeOrder,
};
use neurogc_heap::{HeapTarget, Names};
use serde::{Deserialize, Serialize};

use super::error::ApiError;
use super::orders::body_error;
use super::parameters::QueryParameters;
use super::{App, blocking, json_text};
use crate::heaps::{self, AnalysedHeap, HeapEntry, HeapError, MOST_BYTES, MOST_DUMPS};
use crate::hub::to_text;
use crate::tokens::TokenRole;

/// Lines of a table, and the most that can be asked for.
const TOP: usize = 30;
const MOST_TOP: usize = 500;

/// The words for the order of types.
const ORDERS: [(TypeOrder, &str); 3] =
    [(TypeOrder::Bytes, "bytes"), (TypeOrder::Retained, "retained"), (TypeOrder::Objects, "objects")];

/// The dumps that the hub keeps.
#[derive(Serialize)]
struct HeapList {
    heaps: Vec<HeapEntry>,
    /// What all of them take on disk.
    bytes: u64,
    /// What they may take.
    most_bytes: u64,
    /// How many there may be.
    most_heaps: usize,
}

/// What is shown of a dump first.
#[derive(Serialize)]
struct HeapAnswer {
    entry: HeapEntry,
    summary: HeapSummary,
    types: Vec<TypeLine>,
    /// How many types there are.
    all_types: usize,
    suspects: Vec<Suspect>,
    largest: Vec<ObjectLine>,
}

/// One level of the tree of who holds what.
#[derive(Serialize)]
struct HeapBranches {
    rows: Vec<TreeLine>,
    /// How many objects the holder holds alone.
    all: usize,
}

/// Paths to one object, or to all objects of a type.
#[derive(Serialize)]
struct HeapPaths {
    what: String,
    object: Option<ObjectPath>,
    merged: Option<MergedPaths>,
}

/// What grew since an earlier dump.
#[derive(Serialize)]
struct HeapGrowth {
    before: HeapEntry,
    after: HeapEntry,
    growth: GrowthReport,
}

#[derive(Deserialize)]
pub(super) struct DumpOrder {
    /// Whether values of strings and integers are in the dump.
    #[serde(default = "with_text")]
    text: bool,
}

fn with_text() -> bool {
    true
}

/// Lets only the full token pass.
pub(super) async fn with_full_token(Extension(role): Extension<TokenRole>, request: Request, next: Next) -> Response {
    if role == TokenRole::Full {
        return next.run(request).await;
    }
    ApiError::forbidden("a heap dump has texts of the program in it; the full token is needed").into_response()
}

pub(super) async fn take(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    order: Result<Json<DumpOrder>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(order) = order.map_err(body_error)?;
    let _turn = app.dumping.try_acquire().map_err(|_| ApiError::busy("another heap dump is being taken"))?;
    let entry = heaps::take(&app, &id, order.text).await?;
    Ok((StatusCode::CREATED, json_text(to_text(&entry))).into_response())
}

/// All dumps, or those of one process.
pub(super) async fn list(State(app): State<Arc<App>>, parameters: QueryParameters) -> Result<Response, ApiError> {
    blocking(move || {
        let mut heaps = app.heaps.list();
        let bytes = heaps.iter().map(|entry| entry.bytes).sum();
        if let Some(process) = parameters.get("process") {
            heaps.retain(|entry| entry.process == process);
        }
        Ok(json_text(to_text(&HeapList { heaps, bytes, most_bytes: MOST_BYTES, most_heaps: MOST_DUMPS })))
    })
    .await
}

pub(super) async fn remove(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    blocking(move || {
        app.heaps.remove(&id)?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let (top, order) = (parameters.count("top", TOP, MOST_TOP)?, parameters.one_of("by", ORDERS)?);
    from_analysis(app, move |app| {
        let entry = app.heaps.find(&id)?;
        let AnalysedHeap { heap, paths } = &*app.heaps.analysed(&id)?;
        let mut types = views::types(heap, order);
        let all_types = types.len();
        types.truncate(top);
        Ok(to_text(&HeapAnswer {
            entry,
            summary: views::summary(heap),
            types,
            all_types,
            suspects: views::suspects(heap, paths),
            largest: views::largest(heap, paths, top),
        }))
    })
    .await
}

pub(super) async fn tree(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let (top, holder) = (parameters.count("top", TOP, MOST_TOP)?, parameters.number::<u32>("object")?);
    from_analysis(app, move |app| {
        let AnalysedHeap { heap, .. } = &*app.heaps.analysed(&id)?;
        if holder.is_some_and(|holder| holder as usize >= heap.graph.objects()) {
            return Err(ApiError::bad_request("there is no such object in the heap dump"));
        }
        let all = heap.tree.children(holder.unwrap_or(heap.tree.root())).len();
        Ok(to_text(&HeapBranches { rows: views::branches(heap, holder, top), all }))
    })
    .await
}

pub(super) async fn path(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let top = parameters.count("top", TOP, MOST_TOP)?;
    let Some(what) = parameters.get("what").map(str::to_owned) else {
        return Err(ApiError::bad_request("what must be a type, an address or an expression"));
    };
    from_analysis(app, move |app| {
        let AnalysedHeap { heap, paths } = &*app.heaps.analysed(&id)?;
        let found = Names::of(heap).find(&what).map_err(|error| ApiError::not_found(error.to_string()))?;
        let (object, merged) = match found {
            HeapTarget::Object(object) => (Some(views::object_path(heap, paths, object)), None),
            HeapTarget::Types(types) => {
                let is_meant = |object: &u32| types.contains(&heap.graph.types[*object as usize]);
                let objects: Vec<u32> = (0..heap.graph.objects() as u32).filter(is_meant).collect();
                (None, Some(views::merged_paths(heap, paths, &objects, top)))
            }
        };
        Ok(to_text(&HeapPaths { what, object, merged }))
    })
    .await
}

pub(super) async fn growth(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: QueryParameters,
) -> Result<Response, ApiError> {
    let top = parameters.count("top", TOP, MOST_TOP)?;
    let Some(since) = parameters.get("since").map(str::to_owned) else {
        return Err(ApiError::bad_request("since must be the id of another heap dump"));
    };
    from_analysis(app, move |app| {
        let (before, after) = (app.heaps.find(&since)?, app.heaps.find(&id)?);
        // One after the other: the later one is in memory if it was shown, and makes room for the other.
        let later = app.heaps.places(&id)?;
        let earlier = app.heaps.places(&since)?;
        let growth = views::growth(&earlier, &later, None, top);
        Ok(to_text(&HeapGrowth { before, after, growth }))
    })
    .await
}

/// Answers from an analysis: one at a time, in a thread that serves no connections.
async fn from_analysis(
    app: Arc<App>,
    answer: impl FnOnce(&App) -> Result<String, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let turn = Arc::clone(&app.analysing).acquire_owned().await.map_err(|_| ApiError::busy("the hub is ending"))?;
    let text = blocking(move || {
        let _turn = turn;
        answer(&app)
    });
    text.await.map(json_text)
}

impl From<HeapError> for ApiError {
    fn from(error: HeapError) -> Self {
        let message = error.to_string();
        match error {
            HeapError::Unknown => Self::not_found(message),
            HeapError::Full | HeapError::Disk(_) => Self::full(message),
            HeapError::TooLarge { .. } => Self::too_large(message),
            HeapError::Unreadable(_) => Self::bad_request(message),
        }
    }
}
