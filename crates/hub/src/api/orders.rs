//! Asking a process to do something: another policy, or a collection now.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use neurogc_policy::{Name, NameError, POLICIES, PolicyEntry, names_a_file};
use neurogc_wire::control::{Answer, Ask, How, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::App;
use super::error::ApiError;
use super::processes::known;
use crate::follow::have_done;
use crate::process::{Presence, Source};

/// How long a process may take to come to it.
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
pub(super) struct PolicyOrder {
    policy: String,
}

#[derive(Deserialize)]
pub(super) struct CollectOrder {
    #[serde(default)]
    how: How,
}

/// A policy as it is offered.
#[derive(Serialize)]
struct PolicyOffer {
    name: &'static str,
    written: &'static str,
    example: &'static str,
    help: &'static str,
    acts: bool,
    snapshots: bool,
}

pub(super) async fn policies() -> Response {
    let offers = POLICIES.iter().map(|entry| {
        let PolicyEntry { name, written, example, help, acts, snapshots, .. } = *entry;
        PolicyOffer { name, written, example, help, acts, snapshots }
    });
    Json(json!({"policies": offers.collect::<Vec<_>>()})).into_response()
}

pub(super) async fn policy(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    order: Result<Json<PolicyOrder>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(order) = order.map_err(body_error)?;
    if names_a_file(&order.policy) {
        let message = "a model's file is named on its own machine: neurogc policy PID neural:FILE";
        return Err(ApiError::bad_request(message));
    }
    // What is wrong for all is told here; what a process cannot do, it tells itself.
    let name: Name = order.policy.parse().map_err(|error: NameError| ApiError::bad_request(error.to_string()))?;
    match have_it_done(&app, &id, Ask::Policy(name.to_string())).await? {
        Outcome::Policy { before, after } => Ok(Json(json!({"before": before, "after": after})).into_response()),
        other => Err(ApiError::refused(format!("the process gave an unexpected answer: {other:?}"))),
    }
}

pub(super) async fn collect(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    order: Result<Json<CollectOrder>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(order) = order.map_err(body_error)?;
    match have_it_done(&app, &id, Ask::Collect(order.how)).await? {
        Outcome::Collected { how, found, pause_ms } => {
            Ok(Json(json!({"how": how, "found": found, "pause_ms": pause_ms})).into_response())
        }
        other => Err(ApiError::refused(format!("the process gave an unexpected answer: {other:?}"))),
    }
}

pub(super) fn body_error(rejection: JsonRejection) -> ApiError {
    match rejection {
        JsonRejection::MissingJsonContentType(_) => {
            ApiError::bad_request("the body must be JSON, with `Content-Type: application/json`")
        }
        JsonRejection::BytesRejection(_) => ApiError::too_large("the body is over its limit"),
        other => ApiError::bad_request(other.body_text()),
    }
}

async fn have_it_done(app: &Arc<App>, id: &str, ask: Ask) -> Result<Outcome, ApiError> {
    match put_to(app, id, ask).await? {
        Answer::Outcome(Outcome::Failed(reason)) | Answer::Refused(reason) => Err(ApiError::refused(reason)),
        Answer::Outcome(outcome) => Ok(outcome),
        other => Err(ApiError::refused(format!("the agent gave an unexpected answer: {other:?}"))),
    }
}

/// How a live process is reached.
pub(crate) async fn reached(app: &Arc<App>, id: &str) -> Result<Source, ApiError> {
    let source = {
        let processes = app.hub.processes();
        processes.get(id).map(|process| (process.source.clone(), process.state(crate::clock::unix_ms())))
    };
    match source {
        Some((source, Presence::Live)) => Ok(source),
        Some(_) => Err(gone()),
        None => {
            known(app, id).await?;
            Err(gone())
        }
    }
}

/// Puts a question to the agent of a process, whichever way it is reached, and waits for the answer.
pub(super) async fn put_to(app: &Arc<App>, id: &str, ask: Ask) -> Result<Answer, ApiError> {
    let source = reached(app, id).await?;
    let answer = async {
        match source {
            Source::Socket { path, peer, .. } => have_done(&path, peer.owner, ask)
                .await
                .map_err(|error| if error.kind() == std::io::ErrorKind::TimedOut { late() } else { gone() }),
            Source::Push => app.hub.want(id, ask).ok_or_else(gone)?.await.map_err(|_| gone()),
        }
    };
    tokio::time::timeout(LONGEST, answer).await.map_err(|_| late())?
}

fn gone() -> ApiError {
    ApiError::gone("the process has ended, or does not answer")
}

fn late() -> ApiError {
    ApiError::timeout("the process did not run the command in time; it will when one of its threads runs Python code")
}
