//! Snapshot files of PyTorch's allocator: read and told, and not kept.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use neurogc_gpu::ReadLimits;

use super::error::ApiError;
use super::{App, blocking, json_text};
use crate::hub::to_text;

/// The largest file, and the memory for what is read of it.
const MOST_BYTES: usize = 64 << 20;
const MEMORY: usize = 768 << 20;

/// Reads the file that is the body, one at a time.
pub(super) async fn snapshot(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let turn = Arc::clone(&app.reading_snapshot).try_acquire_owned();
    let turn = turn.map_err(|_| ApiError::busy("another snapshot is being read"))?;
    let bytes = to_bytes(request.into_body(), MOST_BYTES).await.map_err(|_| {
        ApiError::too_large(
            "a snapshot may have 64 MiB here, and must come whole; `neurogc gpu show FILE` reads larger ones",
        )
    })?;
    blocking(move || {
        // Reading goes on where the browser has gone away; the next one waits for it.
        let _turn = turn;
        let report = neurogc_gpu::read(&bytes, ReadLimits { memory: MEMORY });
        let report = report.map_err(|error| ApiError::bad_request(error.to_string()))?;
        Ok(json_text(to_text(&report)))
    })
    .await
}
