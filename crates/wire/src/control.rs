//! The control protocol: where an agent listens and how a message looks on its socket.
//!
//! A message is a little-endian `u32` length and that many bytes of JSON. One connection carries one question and
//! one answer, unless the question is `Follow`: then reports come until one side hangs up. Lengths are checked before anything is read, so that a peer cannot make the other side allocate.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::breakdown::MemoryReport;
use crate::gpu::GpuReport;
use crate::memory_verdict::{MemoryChange, MemoryVerdict};
use crate::sites::SiteTable;
use crate::status::Status;
use crate::workers::ChildrenReport;

/// Version of this protocol. Fields may be added within a version; anything else raises it.
pub const PROTOCOL: u32 = 1;

/// Longest question an agent reads.
pub const MAX_QUESTION: usize = 4 * 1024;

/// Longest answer a client reads.
pub const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// The folder that holds the sockets of one user's processes. It must be mode 0700 and belong to that user.
#[must_use]
pub fn socket_folder(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/neurogc-{uid}"))
}

/// The socket of one process.
#[must_use]
pub fn socket_path(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("{pid}.sock"))
}

/// The process whose socket this is, if the file is named like one.
#[must_use]
pub fn socket_pid(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_suffix(".sock")?.parse().ok()
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The protocol that the client speaks.
    pub protocol: u32,
    /// The question itself.
    pub ask: Ask,
}

impl Question {
    /// A question in this version of the protocol.
    #[must_use]
    pub fn new(ask: Ask) -> Self {
        Self { protocol: PROTOCOL, ask }
    }
}

/// The questions there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A status report.
    Status,
    /// A status report whose window is that of the last so many seconds, or as long as the agent keeps.
    StatusSince(u32),
    /// Another policy, by its name as written on a command line. The answer is a ticket.
    Policy(String),
    /// A collection now. The answer is a ticket.
    Collect(How),
    /// What has become of a ticket.
    Outcome(u64),
    /// How far the process is with putting small pages together, before a dump.
    Gathering,
    /// Reports from now on, see `report`.
    Follow,
    /// Where live memory was allocated, compared with this many seconds ago if a number is given.
    Sites(Option<u32>),
    /// Where the resident memory is, read now.
    Memory,
    /// The memory of everything below the process, read now.
    Children,
    /// What is the matter with the memory of the process.
    Verdict,
    /// How the figures of memory have changed in the last so many seconds.
    MemoryChange(u32),
    /// What holds the memory of GPUs. The answer is a ticket.
    Gpu,
    /// A heap dump, written to a pipe that the client reads. The answer is a ticket.
    Dump {
        /// The name of a FIFO beside the agent's socket.
        pipe: String,
        /// Whether values of strings and integers are in it.
        text: bool,
    },
}

/// A pipe for a heap dump, beside the sockets of one user's processes: its name, and where it is.
#[must_use]
pub fn dump_pipe(folder: &Path, pid: u32, client: u32) -> (String, PathBuf) {
    let name = format!("{pid}-{client}.dump");
    let path = folder.join(&name);
    (name, path)
}

/// Ways to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// What suits the process best.
    #[default]
    Auto,
    /// Young objects.
    Young,
    /// Everything, while the program waits.
    Full,
    /// Everything, from a copy-on-write snapshot.
    Snapshot,
}

impl How {
    /// All ways, with the names they are written by.
    pub const ALL: [(Self, &str); 4] =
        [(Self::Auto, "auto"), (Self::Young, "young"), (Self::Full, "full"), (Self::Snapshot, "snapshot")];
}

/// What has become of something that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The policy was changed.
    Policy {
        /// The one before.
        before: String,
        /// The one now.
        after: String,
    },
    /// A collection took place.
    Collected {
        /// How.
        how: How,
        /// Unreachable objects found.
        found: u64,
        /// How long the program was stopped in all.
        pause_ms: f64,
    },
    /// A heap dump was written.
    Dumped {
        /// Objects in it.
        objects: u64,
        /// Its length.
        bytes: u64,
        /// How long the program stood still.
        pause_ms: f64,
        /// How long the clone of the process was there.
        flight_ms: f64,
        /// What was done before the clone so that it is short.
        #[serde(default)]
        pages: GatheredPages,
    },
    /// What holds the memory of GPUs.
    Gpu(Box<GpuReport>),
    /// It could not be done; the text says why.
    Failed(String),
}

/// Small pages that were put together before a clone, which takes the longer the more pages there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GatheredPages {
    /// Huge pages that small objects lie in since then.
    pub huge: u64,
    /// How long that took, beside the program.
    pub took_ms: f64,
    /// Why it was not done, or not to the end.
    pub why_not: Option<String>,
}

/// What an agent answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The report.
    Status(Box<Status>),
    /// The agent will do it; ask for the outcome by this number.
    Ticket(u64),
    /// It is not done yet.
    Pending,
    /// It is done.
    Outcome(Outcome),
    /// The share of memory that was looked at while small pages are put together for a clone; nothing where none are.
    Gathering(Option<f64>),
    /// Reports follow on this connection.
    Following,
    /// Where live memory was allocated.
    Sites(Box<SiteTable>),
    /// Where the resident memory is.
    Memory(Box<MemoryReport>),
    /// The memory of everything below the process.
    Children(Box<ChildrenReport>),
    /// What is the matter with the memory of the process.
    Verdict(Box<MemoryVerdict>),
    /// How the figures of memory have changed.
    MemoryChange(Box<MemoryChange>),
    /// The question could not be answered; the text says why.
    Refused(String),
}

/// Why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The peer announced more than this side reads.
    #[error("a message of {length} bytes is over the limit of {limit}")]
    TooLong {
        /// What it announced.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The bytes are no message of this protocol.
    #[error("the message is not valid: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
}

/// The bytes of a message, length included.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, MessageError> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    let announced = u32::try_from(length).map_err(|_| MessageError::TooLong { length, limit: u32::MAX as usize })?;
    bytes[..4].copy_from_slice(&announced.to_le_bytes());
    Ok(bytes)
}

/// Reads one message of at most `limit` bytes.
pub fn read<T: DeserializeOwned>(from: &mut impl Read, limit: usize) -> Result<T, MessageError> {
    let mut announced = [0; 4];
    from.read_exact(&mut announced)?;
    let length = u32::from_le_bytes(announced) as usize;
    if length > limit {
        return Err(MessageError::TooLong { length, limit });
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Writes one message.
pub fn write(to: &mut impl Write, message: &impl Serialize) -> Result<(), MessageError> {
    to.write_all(&encode(message)?)?;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_question_survives_the_way() {
        let question = Question::new(Ask::Status);
        let bytes = encode(&question).unwrap();
        assert_eq!(read::<Question>(&mut bytes.as_slice(), MAX_QUESTION).unwrap(), question);
    }

    #[test]
    fn a_long_message_is_refused_before_it_is_read() {
        let bytes = [0xff, 0xff, 0xff, 0x7f];
        let error = read::<Question>(&mut bytes.as_slice(), MAX_QUESTION).unwrap_err();
        assert!(matches!(error, MessageError::TooLong { length: 0x7fff_ffff, .. }));
    }

    #[test]
    fn an_unknown_question_is_malformed() {
        let bytes = encode(&serde_json::json!({"protocol": 1, "ask": "sing"})).unwrap();
        let error = read::<Question>(&mut bytes.as_slice(), MAX_QUESTION).unwrap_err();
        assert!(matches!(error, MessageError::Malformed(_)));
    }

    #[test]
    fn only_socket_names_have_a_pid() {
        assert_eq!(socket_pid(Path::new("/tmp/neurogc-0/12.sock")), Some(12));
        assert_eq!(socket_pid(Path::new("/tmp/neurogc-0/x.sock")), None);
        assert_eq!(socket_pid(Path::new("/tmp/neurogc-0/12")), None);
    }
}
