//! The API: every path there is. docs/api.md describes it.

mod chart;
mod compare;
mod error;
mod gpu;
mod heaps;
mod heat;
mod orders;
mod own;
mod parameters;
mod processes;
mod recordings;
mod sites;
mod socket;
mod traces;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use neurogc_wire::report::INGEST_PATH;
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub(crate) use error::ApiError;
pub(crate) use orders::reached;
pub(crate) use sites::live_sites;

use crate::assets;
use crate::export::prometheus;
use crate::gate::Gate;
use crate::heaps::Heaps;
use crate::hub::Hub;
use crate::shelf::Shelf;

/// Bodies of requests that hold a few words.
const SHORT_BODY: usize = 64 * 1024;

/// How long a request may take, its body included.
const LONGEST_REQUEST: Duration = Duration::from_secs(120);

/// Everything that requests need.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) hub: Arc<Hub>,
    pub(crate) gate: Gate,
    pub(crate) shelf: Shelf,
    pub(crate) heaps: Heaps,
    pub(crate) dumping: Semaphore,
    pub(crate) analysing: Arc<Semaphore>,
    pub(crate) reading: Arc<Semaphore>,
    pub(crate) reading_snapshot: Arc<Semaphore>,
    pub(crate) uploading: Semaphore,
    pub(crate) downloading: Arc<Semaphore>,
    pub(crate) asking_sites: Semaphore,
}

impl App {
    /// Each recording may be large: one is read at a time, and one is uploaded. A download keeps a thread. The same is so
    /// of heap dumps: one is taken at a time, and one is analysed.
    pub(crate) fn new(hub: Arc<Hub>, gate: Gate, shelf: Shelf, heaps: Heaps) -> Self {
        Self {
            hub,
            gate,
            shelf,
            heaps,
            dumping: Semaphore::new(1),
            analysing: Arc::new(Semaphore::new(1)),
            reading: Arc::new(Semaphore::new(1)),
            reading_snapshot: Arc::new(Semaphore::new(1)),
            uploading: Semaphore::new(1),
            downloading: Arc::new(Semaphore::new(2)),
            asking_sites: Semaphore::new(4),
        }
    }
}

/// What every answer carries: nothing of it runs or is framed elsewhere.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// All paths, behind the gate. Tests call it without a port.
pub(crate) fn router(app: Arc<App>) -> Router {
    let one = "/api/v1/processes/{id}";
    let recording = "/api/v1/recordings/{id}";
    Router::new()
        .route("/api/v1/hub", get(own::hub))
        .route("/api/v1/alerts", get(own::alerts))
        .route("/api/v1/processes", get(processes::list))
        .route(one, get(processes::one))
        .route(&format!("{one}/series"), get(processes::series))
        .route(&format!("{one}/latency"), get(processes::latency))
        .route(&format!("{one}/events"), get(processes::events))
        .route(&format!("{one}/census"), get(processes::census))
        .route(&format!("{one}/sites"), get(sites::sites))
        .route(&format!("{one}/pprof"), get(sites::heap_of))
        .route(&format!("{one}/policy"), post(orders::policy))
        .route(&format!("{one}/collect"), post(orders::collect))
        .route(&format!("{one}/heap"), post(heaps::take))
        .route("/api/v1/heaps", get(heaps::list))
        .route("/api/v1/services/{name}/latency", get(processes::service_latency))
        .route("/api/v1/services/{name}/traces", get(traces::of_service))
        .route("/api/v1/traces/{id}/file", get(traces::file))
        .route("/api/v1/series", get(processes::catalogue))
        .route("/api/v1/policies", get(orders::policies))
        .route("/api/v1/compare", get(compare::compare))
        .route("/api/v1/live", get(socket::live))
        .route(recording, get(recordings::one))
        .route(recording, delete(recordings::remove))
        .route(&format!("{recording}/file"), get(recordings::file))
        .route(&format!("{recording}/series"), get(recordings::series))
        .route(&format!("{recording}/latency"), get(recordings::latency))
        .route(&format!("{recording}/events"), get(recordings::events))
        .merge(one_heap())
        .layer(DefaultBodyLimit::max(SHORT_BODY))
        .route("/api/v1/recordings", get(recordings::list).post(recordings::add))
        .route("/api/v1/gpu/snapshot", post(gpu::snapshot))
        .route(INGEST_PATH, post(own::ingest))
        .route("/metrics", get(prometheus::metrics))
        .route("/debug/pprof/heap", get(sites::heap))
        .route("/processes/{id}/debug/pprof/heap", get(sites::heap_of))
        .fallback(get(elsewhere).fallback(wrong_method))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(&app), guard))
        .with_state(app)
}

/// What is in a heap dump. Texts of the program are in it, so that the token for looking is not enough.
fn one_heap() -> Router<Arc<App>> {
    let heap = "/api/v1/heaps/{id}";
    Router::new()
        .route(heap, get(heaps::one).delete(heaps::remove))
        .route(&format!("{heap}/tree"), get(heaps::tree))
        .route(&format!("{heap}/path"), get(heaps::path))
        .route(&format!("{heap}/growth"), get(heaps::growth))
        .route_layer(from_fn(heaps::with_full_token))
}

/// The gate, and the headers of every answer. Refusals by the framework become errors of ours.
async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let checked = app.gate.check(request.method(), request.uri(), request.headers());
    let mut answer = match checked {
        Ok(role) => {
            request.extensions_mut().insert(role);
            timeout(LONGEST_REQUEST, next.run(request))
                .await
                .unwrap_or_else(|_| ApiError::timeout("the request timed out").into_response())
        }
        Err(error) => error.into_response(),
    };
    if answer.status() == StatusCode::PAYLOAD_TOO_LARGE && !is_json(&answer) {
        answer = ApiError::too_large("the body is over its limit").into_response();
    }
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn is_json(answer: &Response) -> bool {
    answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

async fn elsewhere(State(app): State<Arc<App>>, uri: Uri, headers: axum::http::HeaderMap) -> Response {
    // The token leaves the address, which browsers remember and show.
    match app.gate.cookie(&uri).filter(|_| uri.path() == "/") {
        Some(Ok(cookie)) => {
            return (StatusCode::SEE_OTHER, [(header::LOCATION, "/"), (header::SET_COOKIE, &cookie)]).into_response();
        }
        Some(Err(_)) => return (StatusCode::SEE_OTHER, [(header::LOCATION, "/?wrong-token")]).into_response(),
        None => {}
    }
    if uri.path().starts_with("/api") {
        return ApiError::not_found("there is nothing at this path; docs/api.md lists what there is").into_response();
    }
    assets::serve(uri.path(), &headers)
}

async fn wrong_method(method: Method) -> Response {
    ApiError::bad_request(format!("{method} is not for this path")).into_response()
}

/// Text that is JSON already.
fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], text).into_response()
}

/// Runs work that may take long in a thread that serves no connections.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(ApiError::unavailable("the question failed")))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod heap_tests;
#[cfg(test)]
mod hostile;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod site_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod trace_tests;
