//! The socket of one agent, also of one in a container.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use neurogc_wire::control::{self, Answer, Ask};

use crate::agents::{AskError, put};
use crate::container::{InnerIdentity, open_in, open_root};

/// Where the agent of one process listens.
#[derive(Debug)]
pub(crate) struct AgentSocket {
    /// The folder that it is in, as this command sees it.
    folder: PathBuf,
    /// The number that it is named for.
    pid: u32,
    /// Keeps a folder in a container open, so that no link in the container can lead elsewhere.
    _opened: Option<OwnedFd>,
}

impl AgentSocket {
    /// Of a process that sees the same files as this command.
    pub(crate) fn here(folder: PathBuf, pid: u32) -> Self {
        Self { folder, pid, _opened: None }
    }

    /// Of a process that sees another file system or has another number there.
    pub(crate) fn in_container(pid: u32, inner: InnerIdentity) -> Option<Self> {
        let opened = open_in(&open_root(pid).ok()?, &control::socket_folder(inner.uid)).ok()?;
        // The last link leads to the open folder itself.
        let folder = PathBuf::from(format!("/proc/self/fd/{}/.", opened.as_raw_fd()));
        Some(Self { folder, pid: inner.pid, _opened: Some(opened) })
    }

    /// The folder, to put something beside the socket.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self) -> PathBuf {
        control::socket_path(&self.folder, self.pid)
    }

    /// Puts a question. An agent is away for some milliseconds while its process forks, so it is asked again.
    pub(crate) fn put(&self, question: Ask, patience: Duration) -> Result<Answer, AskError> {
        const STEP: Duration = Duration::from_millis(2);
        let began = Instant::now();
        loop {
            let answer = put(&self.path(), question.clone(), patience);
            let Err(error) = &answer else { return answer };
            if began.elapsed() > away(error, &question) {
                return answer;
            }
            std::thread::sleep(STEP);
        }
    }
}

/// How long an agent may be away after this error. What changes something is not asked again once it has been sent.
fn away(error: &AskError, question: &Ask) -> Duration {
    let is_order = matches!(question, Ask::Collect(_) | Ask::Policy(_) | Ask::Dump { .. });
    match error {
        AskError::NoAgent => Duration::from_millis(60),
        AskError::Broken(_) if !is_order => Duration::from_millis(500),
        _ => Duration::ZERO,
    }
}
