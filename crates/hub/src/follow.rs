//! Agents on this machine: found by their sockets, and followed.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neurogc_wire::control::{Answer, Ask, MAX_ANSWER, Question, encode};
use neurogc_wire::report::{announced, decode};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::facts::id_of;
use crate::hub::Hub;
use crate::process::Source;

/// How often sockets are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long an agent may take to answer, and to say something while it is followed.
const PATIENCE: Duration = Duration::from_secs(2);
const SILENCE: Duration = Duration::from_secs(30);

/// A connection that ends may be one that a fork of the program has ended: it is tried again, this often and so soon.
const RETRIES: u32 = 5;
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Finds sockets of agents.
pub type Sockets = Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>;

/// Looks for agents and follows them, for ever.
pub(crate) async fn follow_all(hub: Arc<Hub>, sockets: Sockets) {
    let followed: Arc<Mutex<HashSet<PathBuf>>> = Arc::default();
    loop {
        let look = Arc::clone(&sockets);
        let found = tokio::task::spawn_blocking(move || look()).await.unwrap_or_default();
        for path in found {
            if !followed.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone()) {
                continue;
            }
            let (hub, followed) = (Arc::clone(&hub), Arc::clone(&followed));
            tokio::spawn(async move {
                follow(&hub, &path).await;
                followed.lock().unwrap_or_else(PoisonError::into_inner).remove(&path);
            });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Follows one agent until it is gone for good.
async fn follow(hub: &Hub, path: &Path) {
    let mut id = None;
    let mut refusals = 0;
    while refusals < RETRIES {
        let before = id.clone();
        let end = follow_once(hub, path, &mut id).await;
        if id.is_none() {
            // Whatever listens there, the next look finds it again.
            return;
        }
        // The number of a process may be given again: that is another one.
        if let Some(before) = before.filter(|before| id.as_ref() != Some(before)) {
            hub.ended(&before);
        }
        refusals = if end == End::Nobody { refusals + 1 } else { 0 };
        tokio::time::sleep(if end == End::Silence { LOOK_EVERY } else { RETRY_AFTER }).await;
    }
    if let Some(id) = id {
        hub.ended(&id);
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No agent listens.
    Nobody,
    /// An agent listens and does not answer: the process may be stopped.
    Silence,
    /// Reports came, and then no more.
    HungUp,
}

async fn follow_once(hub: &Hub, path: &Path, id: &mut Option<String>) -> End {
    let Ok(mut stream) = put(path, Ask::Follow).await else { return End::Nobody };
    if !matches!(timeout(PATIENCE, receive(&mut stream)).await, Ok(Ok(Answer::Following))) {
        return End::Silence;
    }
    let source = Source::Socket { path: path.to_owned(), connection: hub.number() };
    let mut body = Vec::new();
    let mut end = End::Silence;
    while let Ok(Ok(())) = timeout(SILENCE, receive_frame(&mut stream, &mut body)).await {
        let Ok(frame) = decode(&body) else {
            hub.counts.refused.fetch_add(1, Ordering::Relaxed);
            break;
        };
        *id = Some(id_of(&frame.report));
        end = End::HungUp;
        if hub.take(frame, &source).is_err() {
            break;
        }
    }
    end
}

/// Puts a question to an agent on this machine and waits for the outcome of what it takes on.
pub(crate) async fn have_done(path: &Path, ask: Ask) -> io::Result<Answer> {
    const STEP: Duration = Duration::from_millis(20);
    let question = |ask| async {
        let mut stream = put(path, ask).await?;
        receive(&mut stream).await
    };
    let ticket = match timeout(PATIENCE, question(ask)).await?? {
        Answer::Ticket(ticket) => ticket,
        other => return Ok(other),
    };
    loop {
        match timeout(PATIENCE, question(Ask::Outcome(ticket))).await?? {
            Answer::Pending => tokio::time::sleep(STEP).await,
            other => return Ok(other),
        }
    }
}

async fn put(path: &Path, ask: Ask) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(path).await?;
    let question = encode(&Question::new(ask)).map_err(io::Error::other)?;
    stream.write_all(&question).await?;
    Ok(stream)
}

async fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let length = stream.read_u32_le().await? as usize;
    if length > MAX_ANSWER {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    serde_json::from_slice(&body).map_err(io::Error::other)
}

async fn receive_frame(stream: &mut UnixStream, body: &mut Vec<u8>) -> io::Result<()> {
    let mut first = [0; 4];
    stream.read_exact(&mut first).await?;
    body.resize(announced(first).map_err(io::Error::other)?, 0);
    stream.read_exact(body).await?;
    Ok(())
}
