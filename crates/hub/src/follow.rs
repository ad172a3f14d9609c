//! Agents on this machine: found by their sockets, and followed.

use std::collections::{HashMap, HashSet};
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

use crate::budget::{PROCESSES, PROCESSES_OF_USER};
use crate::facts::id_of;
use crate::hub::{Hub, Refusal};
use crate::peer::{Owner, Peer};
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
    let followed: Arc<Mutex<Followed>> = Arc::default();
    loop {
        let look = Arc::clone(&sockets);
        let found = tokio::task::spawn_blocking(move || look()).await.unwrap_or_default();
        for path in found {
            if !followed.lock().unwrap_or_else(PoisonError::into_inner).add(&path) {
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

/// The sockets that are followed, by folder: each belongs to one user.
#[derive(Debug, Default)]
struct Followed {
    folders: HashMap<PathBuf, HashSet<PathBuf>>,
    count: usize,
}

impl Followed {
    /// Adds a socket, if it is new and there is room in all and for its user.
    fn add(&mut self, path: &Path) -> bool {
        let folder = path.parent().unwrap_or(path).to_owned();
        let of_user = self.folders.entry(folder).or_default();
        let added = self.count < PROCESSES && of_user.len() < PROCESSES_OF_USER && of_user.insert(path.to_owned());
        self.count += usize::from(added);
        added
    }

    fn remove(&mut self, path: &Path) {
        let folder = path.parent().unwrap_or(path);
        if let Some(of_user) = self.folders.get_mut(folder)
            && of_user.remove(path)
        {
            self.count -= 1;
            if of_user.is_empty() {
                self.folders.remove(folder);
            }
        }
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
        refusals = if end == End::NoAgent { refusals + 1 } else { 0 };
        tokio::time::sleep(if end == End::Silence { LOOK_EVERY } else { RETRY_AFTER }).await;
    }
    if let Some(id) = id {
        hub.unheard_at(&id, path);
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No agent listens.
    NoAgent,
    /// An agent listens and does not answer: the process may be stopped.
    Silence,
    /// Reports came, and then no more.
    HungUp,
}

async fn follow_once(hub: &Hub, path: &Path, id: &mut Option<String>) -> End {
    let (mut stream, peer) = match put(path, Ask::Follow, None).await {
        Ok(put) => put,
        Err(PutError::Stranger(who)) => {
            hub.refuse_impostor(&format!("{} is not followed: {who}", path.display()));
            return End::Silence;
        }
        Err(PutError::Io(_)) => return End::NoAgent,
    };
    if !matches!(timeout(PATIENCE, receive(&mut stream)).await, Ok(Ok(Answer::Following))) {
        return End::Silence;
    }
    let source = Source::Socket { path: path.to_owned(), connection: hub.number(), peer: peer.clone() };
    let mut end = End::Silence;
    let mut own = None;
    while let Ok(Ok(body)) = timeout(SILENCE, receive_frame(hub, &mut stream)).await {
        let Ok(mut frame) = decode(&body) else {
            hub.counts.refused.fetch_add(1, Ordering::Relaxed);
            break;
        };
        if let Err(why) = peer.check(&mut frame.report, &hub.host) {
            hub.refuse_impostor(&why);
            return End::Silence;
        }
        let its = id_of(&frame.report);
        if *own.get_or_insert_with(|| its.clone()) != its {
            hub.refuse_impostor(&format!("process {} of user {} changes its name", frame.report.pid, peer.uid));
            return End::Silence;
        }
        match hub.take(frame, &source) {
            Ok(_) => *id = Some(its),
            Err(Refusal::TooMany) => {
                *id = Some(its);
                break;
            }
            Err(Refusal::Impostor(_) | Refusal::Absurd(_)) => return End::Silence,
        }
        end = End::HungUp;
    }
    end
}

/// Puts a question to the agent of a process on this machine and waits for the outcome of what it takes on.
pub(crate) async fn have_done(path: &Path, owner: Option<Owner>, ask: Ask) -> io::Result<Answer> {
    const STEP: Duration = Duration::from_millis(20);
    let question = |ask| async {
        let (mut stream, _) = put(path, ask, owner).await?;
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

/// Why a question could not be put.
enum PutError {
    Io(io::Error),
    /// Another process listens there.
    Stranger(String),
}

impl From<io::Error> for PutError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<PutError> for io::Error {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Io(error) => error,
            PutError::Stranger(who) => Self::new(io::ErrorKind::PermissionDenied, who),
        }
    }
}

/// Connects, looks who listens there, and asks only if it is the one that is meant. A path alone says little: the user who
/// owns its folder can put another socket there.
async fn put(path: &Path, ask: Ask, owner: Option<Owner>) -> Result<(UnixStream, Peer), PutError> {
    let mut stream = UnixStream::connect(path).await?;
    let peer = Peer::of(&stream, path).map_err(PutError::Stranger)?;
    if owner.is_some() && peer.owner != owner {
        return Err(PutError::Stranger("another process listens on its socket".to_owned()));
    }
    let question = encode(&Question::new(ask)).map_err(io::Error::other)?;
    stream.write_all(&question).await?;
    Ok((stream, peer))
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

/// Reads a frame, once there is room for it. What has begun must come soon: it keeps others out.
async fn receive_frame(hub: &Hub, stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut first = [0; 4];
    stream.read_exact(&mut first).await?;
    let length = announced(first).map_err(io::Error::other)?;
    let _room = hub.arriving.acquire_many(kilobytes(length)).await.map_err(io::Error::other)?;
    let mut body = vec![0; length];
    timeout(PATIENCE, stream.read_exact(&mut body)).await??;
    Ok(body)
}

/// Kilobytes of room for a frame.
pub(crate) fn kilobytes(length: usize) -> u32 {
    (length as u32).div_ceil(1024).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_does_not_take_all_places() {
        let mut followed = Followed::default();
        let path = |user: usize, pid: usize| PathBuf::from(format!("/tmp/neurogc-{user}/{pid}.sock"));
        let added = (0..2 * PROCESSES).filter(|pid| followed.add(&path(7, *pid))).count();
        assert_eq!(added, PROCESSES_OF_USER);
        assert!(followed.add(&path(8, 1)) && !followed.add(&path(8, 1)));
        let added = (0..PROCESSES).filter(|user| followed.add(&path(*user + 100, 1))).count();
        assert_eq!(added + PROCESSES_OF_USER + 1, PROCESSES);
        (0..PROCESSES_OF_USER).for_each(|pid| followed.remove(&path(7, pid)));
        assert!(!followed.folders.contains_key(Path::new("/tmp/neurogc-7")) && followed.add(&path(9, 1)));
    }
}
