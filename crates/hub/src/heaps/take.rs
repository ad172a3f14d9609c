//! Taking a heap dump of a process on this machine: its clone writes to a pipe beside its socket, and the hub to its folder.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use neurogc_heap::Intake;
use neurogc_wire::control::{Answer, Ask, Outcome, dump_pipe};

use super::{HeapDraft, HeapEntry, HeapError};
use crate::api::{ApiError, App, blocking, reached};
use crate::clock::unix_ms;
use crate::follow::have_done;
use crate::process::Source;

/// How long a dump may take. A request may take a little longer.
const LONGEST: Duration = Duration::from_secs(110);

/// How much of a dump waits in memory for the disk at most.
const WAITING: usize = 64 << 20;

/// Takes a dump of a process and keeps it. There is one at a time.
pub(crate) async fn take(app: &Arc<App>, id: &str, text: bool) -> Result<HeapEntry, ApiError> {
    let Source::Socket { path, peer, .. } = reached(app, id).await? else {
        let why = "the hub takes heap dumps on its own machine: run `neurogc heap dump PID` on that of the process";
        return Err(ApiError::refused(why));
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let (pipe, at) = dump_pipe(folder, peer.owner.map_or(0, |owner| owner.pid), std::process::id());
    let (tell, told) = channel();
    let (keeper, process, taken_ms) = (Arc::clone(app), id.to_owned(), unix_ms());
    let (ready, begun) = tokio::sync::oneshot::channel();
    let keeping = blocking(move || {
        let draft = keeper.heaps.begin()?;
        let intake = Intake::make(&at)
            .map_err(|error| ApiError::refused(format!("no pipe for the heap dump beside its socket: {error}")))?;
        let _ = ready.send(());
        receive(intake, draft, &told, &process, taken_ms)
    });
    let asking = async {
        // Without a pipe nothing is asked for. The other side says why, and ends in every case.
        if begun.await.is_ok() {
            let answer = have_done(&path, peer.owner, Ask::Dump { pipe, text }).await;
            let _ = tell.send(match answer {
                Ok(Answer::Outcome(Outcome::Dumped { .. })) => Ended::Written,
                Ok(Answer::Outcome(Outcome::Failed(reason)) | Answer::Refused(reason)) => Ended::Failed(reason),
                Ok(other) => Ended::Failed(format!("the agent gave an unexpected answer: {other:?}")),
                Err(_) => Ended::Failed("the process has ended, or does not answer".to_owned()),
            });
        }
    };
    // Also of a dump that is complete the agent's answer is waited for: until then it refuses another one.
    let both = async { tokio::join!(keeping, asking).0 };
    tokio::time::timeout(LONGEST, both).await.map_err(|_| late())?
}

/// What the agent says of a dump.
enum Ended {
    /// All of it is written. Some of it may still be in the pipe.
    Written,
    Failed(String),
}

/// Reads a dump from its pipe and keeps it when it is complete.
fn receive(
    mut intake: Intake,
    draft: HeapDraft,
    told: &Receiver<Ended>,
    process: &str,
    taken_ms: u64,
) -> Result<HeapEntry, ApiError> {
    let (file, room) = (draft.file.try_clone().map_err(HeapError::from)?, draft.room);
    let mut written = false;
    let (stream, outcome) = intake.copy_to(file, WAITING, |stream| {
        if stream.bytes > room {
            return Err(HeapError::Full.to_string());
        }
        match told.try_recv() {
            Ok(Ended::Failed(reason)) => Err(reason),
            Ok(Ended::Written) => {
                written = true;
                Ok(true)
            }
            // Nothing was in the pipe this time: nothing comes any more.
            Err(TryRecvError::Empty) => Ok(!written),
            Err(TryRecvError::Disconnected) => Err("the request was given up".to_owned()),
        }
    });
    if stream.bytes > room {
        return Err(HeapError::Full.into());
    }
    outcome.map_err(ApiError::refused)?;
    if !stream.is_complete() {
        return Err(ApiError::refused("the clone of the process has ended before the heap dump was complete"));
    }
    Ok(draft.finish(process, taken_ms)?)
}

fn late() -> ApiError {
    ApiError::timeout(format!(
        "the heap dump was not complete after {} s: no thread of the program came by to make the clone, or it is too large \
         for the hub. `neurogc heap dump PID` waits longer",
        LONGEST.as_secs()
    ))
}
