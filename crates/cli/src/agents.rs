//! Finding agents by their sockets, and asking them.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use neurogc_wire::breakdown::MemoryReport;
use neurogc_wire::control::{self, Answer, Ask, MAX_ANSWER, MessageError, Outcome, Question};
use neurogc_wire::memory_verdict::{MemoryChange, MemoryVerdict};
use neurogc_wire::sites::SiteTable;
use neurogc_wire::status::Status;
use neurogc_wire::workers::ChildrenReport;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::agent_socket::AgentSocket;
use crate::container::InnerIdentity;
use crate::nudge::Nudge;
use crate::process;

/// Where the socket folders of all users are. Tests bring their own.
#[derive(Clone, Debug)]
pub(crate) struct Rendezvous {
    above: PathBuf,
    uid: u32,
}

impl Rendezvous {
    /// The one that agents on this machine use.
    pub(crate) fn of_this_machine() -> Self {
        let uid = process::own_uid();
        let above = control::socket_folder(uid).parent().map_or_else(PathBuf::new, Path::to_owned);
        Self { above, uid }
    }

    /// One that a test filled.
    #[cfg(test)]
    pub(crate) fn at(above: &Path) -> Self {
        Self { above: above.to_owned(), uid: process::own_uid() }
    }

    /// The folder of one user.
    pub(crate) fn folder(&self, uid: u32) -> PathBuf {
        let folder = control::socket_folder(uid);
        folder.file_name().map_or_else(|| folder.clone(), |name| self.above.join(name))
    }

    /// The folders that this user may look into: its own, or those of all users for root.
    fn folders(&self) -> Vec<(u32, PathBuf)> {
        if self.uid != 0 {
            return vec![(self.uid, self.folder(self.uid))];
        }
        let Ok(entries) = fs::read_dir(&self.above) else { return Vec::new() };
        let uids =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.strip_prefix("neurogc-")?.parse().ok());
        let mut uids: Vec<u32> = uids.collect();
        uids.sort_unstable();
        uids.into_iter().map(|uid| (uid, self.folder(uid))).collect()
    }

    /// The sockets of all agents that this user may ask, of trusted folders only.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        let folders = self.folders().into_iter();
        let trusted = folders.filter(|(uid, folder)| check_folder(folder, *uid) == Ok(true));
        trusted.flat_map(|(_, folder)| sockets_in(&folder)).map(|(_, path)| path).collect()
    }

    /// Asks every agent there is. Gives the reports by process id, and what the user should know besides.
    pub(crate) fn ask_all(&self, patience: Duration) -> (Vec<Status>, Vec<String>) {
        let mut warnings = Vec::new();
        let mut sockets = Vec::new();
        for (uid, folder) in self.folders() {
            match check_folder(&folder, uid) {
                Ok(true) => sockets.extend(sockets_in(&folder).into_iter().map(|(pid, path)| (uid, pid, path))),
                Ok(false) => {}
                Err(flaw) => warnings.push(flaw),
            }
        }
        let answers = std::thread::scope(|scope| {
            let asked: Vec<_> = sockets.iter().map(|(_, _, path)| scope.spawn(|| ask(path, patience))).collect();
            asked.into_iter().map(|thread| thread.join().unwrap_or(Err(AskError::Silent(patience)))).collect::<Vec<_>>()
        });
        let mut reports = Vec::new();
        for ((uid, pid, path), answer) in sockets.into_iter().zip(answers) {
            match answer {
                Ok(status) => reports.push(status),
                // It ended before it answered, or left its socket behind. In another user's folder root removes
                // nothing: that user can swap the folder.
                Err(AskError::NoAgent) if process::look_up(pid).is_none() && uid == self.uid => {
                    let _ = fs::remove_file(path);
                }
                Err(_) if process::look_up(pid).is_none() => {}
                Err(error) => warnings.push(format!("process {pid}: {error}")),
            }
        }
        reports.sort_by_key(|status| status.pid);
        (reports, warnings)
    }

    /// Asks the agent of one process for a report; the error says what is wrong and what to do.
    pub(crate) fn ask(&self, pid: u32, patience: Duration) -> Result<Status, String> {
        self.ask_since(pid, None, patience)
    }

    /// The same, without waiting for an agent that may be away for a moment.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn ask_at_once(&self, pid: u32, patience: Duration) -> Result<Status, String> {
        ask(&self.socket(pid)?.path(), patience).map_err(|error| unheard(pid, &error))
    }

    /// A report with the figures of the last so many seconds as its window.
    pub(crate) fn ask_since(&self, pid: u32, since_s: Option<u32>, patience: Duration) -> Result<Status, String> {
        match self.put(pid, since_s.map_or(Ask::Status, Ask::StatusSince), patience)? {
            Answer::Status(status) => Ok(*status),
            other => Err(foreign(pid, &other)),
        }
    }

    /// Asks the agent of one process what is the matter with its memory. None where it is of an older NeuroGC, or has no answer.
    pub(crate) fn verdict(&self, pid: u32, patience: Duration) -> Result<Option<MemoryVerdict>, String> {
        match self.socket(pid)?.put(Ask::Verdict, patience) {
            Ok(Answer::Verdict(report)) => Ok(Some(*report)),
            Ok(other) => Err(foreign(pid, &other)),
            Err(AskError::Refused(_)) => Ok(None),
            Err(error) => Err(unheard(pid, &error)),
        }
    }

    /// Asks the agent of one process how the figures of its memory have changed in the last so many seconds. None where it is
    /// of an older NeuroGC.
    pub(crate) fn memory_change(
        &self,
        pid: u32,
        since_s: u32,
        patience: Duration,
    ) -> Result<Option<MemoryChange>, String> {
        match self.socket(pid)?.put(Ask::MemoryChange(since_s), patience) {
            Ok(Answer::MemoryChange(change)) => Ok(Some(*change)),
            Ok(other) => Err(foreign(pid, &other)),
            Err(AskError::Refused(_)) => Ok(None),
            Err(error) => Err(unheard(pid, &error)),
        }
    }

    /// Asks the agent of one process where live memory was allocated, compared with so many seconds ago.
    pub(crate) fn sites(&self, pid: u32, since_s: Option<u32>, patience: Duration) -> Result<SiteTable, String> {
        match self.socket(pid)?.put(Ask::Sites(since_s), patience) {
            Ok(Answer::Sites(table)) => Ok(*table),
            Ok(other) => Err(foreign(pid, &other)),
            Err(AskError::Refused(reason)) => Err(format!(
                "there are no allocation sites of process {pid}: {reason}. `neurogc status {pid}` shows what its agent does"
            )),
            Err(error) => Err(unheard(pid, &error)),
        }
    }

    /// Asks the agent of one process for the memory of everything below it.
    pub(crate) fn children(&self, pid: u32, patience: Duration) -> Result<ChildrenReport, String> {
        match self.socket(pid)?.put(Ask::Children, patience) {
            Ok(Answer::Children(report)) => Ok(*report),
            Ok(other) => Err(foreign(pid, &other)),
            Err(AskError::Refused(_)) => Err(format!("the agent of process {pid} is of an older NeuroGC")),
            Err(error) => Err(unheard(pid, &error)),
        }
    }

    /// Asks the agent of one process where its resident memory is.
    pub(crate) fn memory(&self, pid: u32, patience: Duration) -> Result<MemoryReport, String> {
        match self.socket(pid)?.put(Ask::Memory, patience) {
            Ok(Answer::Memory(report)) => Ok(*report),
            Ok(other) => Err(foreign(pid, &other)),
            Err(error) => Err(unheard(pid, &error)),
        }
    }

    /// Has the agent of one process do something, and waits for the outcome. `patience` is for each answer, and
    /// `longest` for the work itself: a process that computes in native code may take a while to come to it.
    pub(crate) fn have_done(
        &self,
        pid: u32,
        ask: Ask,
        patience: Duration,
        longest: Duration,
    ) -> Result<Outcome, String> {
        const STEP: Duration = Duration::from_millis(20);
        let ticket = self.have_begun(pid, ask, patience)?;
        let deadline = Instant::now() + longest;
        let mut nudge = Nudge::new(pid);
        loop {
            match self.outcome(pid, ticket, patience)? {
                Some(outcome) => return Ok(outcome),
                None if Instant::now() < deadline => {
                    std::thread::sleep(STEP);
                    nudge.try_now();
                }
                None => {
                    return Err(format!(
                        "process {pid} did not run the command within {} s; it will when one of its threads runs Python \
                         code. `neurogc status {pid}` shows what it does",
                        longest.as_secs()
                    ));
                }
            }
        }
    }

    /// Has the agent of one process take something on, and gives the ticket for its outcome.
    pub(crate) fn have_begun(&self, pid: u32, ask: Ask, patience: Duration) -> Result<u64, String> {
        match self.put(pid, ask, patience)? {
            Answer::Ticket(ticket) => Ok(ticket),
            other => Err(foreign(pid, &other)),
        }
    }

    /// The outcome of a ticket, or nothing while it is under way. A failure is an error.
    pub(crate) fn outcome(&self, pid: u32, ticket: u64, patience: Duration) -> Result<Option<Outcome>, String> {
        match self.put(pid, Ask::Outcome(ticket), patience)? {
            Answer::Outcome(Outcome::Failed(reason)) => {
                Err(format!("process {pid}: {}", crate::figures::plain(&reason)))
            }
            Answer::Outcome(outcome) => Ok(Some(outcome)),
            Answer::Pending => Ok(None),
            other => Err(foreign(pid, &other)),
        }
    }

    /// How far a process is with putting small pages together before a dump; nothing where it is not at that, or too old to say.
    pub(crate) fn gathering(&self, pid: u32, patience: Duration) -> Option<f64> {
        match self.put(pid, Ask::Gathering, patience) {
            Ok(Answer::Gathering(share)) => share,
            _ => None,
        }
    }

    /// Puts one question to the agent of one process.
    fn put(&self, pid: u32, question: Ask, patience: Duration) -> Result<Answer, String> {
        self.socket(pid)?.put(question, patience).map_err(|error| unheard(pid, &error))
    }

    /// The socket of one process, where this user may ask it. The process may run in a container.
    pub(crate) fn socket(&self, pid: u32) -> Result<AgentSocket, String> {
        let Some(process) = process::look_up(pid) else {
            return Err(format!("there is no process {pid}. `neurogc ps` lists those with an agent"));
        };
        if self.uid != 0 && process.uid != self.uid {
            let user = process::user_name(process.uid);
            return Err(format!(
                "process {pid} belongs to user {user}, whose processes you may not ask. \
                 Run `sudo -u {user} neurogc status {pid}`, or become root"
            ));
        }
        let inner = InnerIdentity::of(pid, process.uid);
        let socket = if inner.is_elsewhere {
            AgentSocket::in_container(pid, inner)
        } else {
            Some(AgentSocket::here(self.folder(inner.uid), pid))
        };
        match socket {
            Some(socket) if check_folder(socket.folder(), process.uid)? => Ok(socket),
            _ => Err(unheard(pid, &AskError::NoAgent)),
        }
    }

    /// Asks an agent that has just been put into a process, and waits until it listens.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn ask_newcomer(&self, pid: u32, patience: Duration) -> Result<Status, String> {
        const STEP: Duration = Duration::from_millis(5);
        let deadline = Instant::now() + patience;
        loop {
            let asked = self.ask(pid, patience);
            if asked.is_ok() || Instant::now() > deadline {
                return asked;
            }
            std::thread::sleep(STEP);
        }
    }
}

/// Why a process gave no answer, in words.
fn unheard(pid: u32, error: &AskError) -> String {
    match error {
        AskError::NoAgent => {
            format!("process {pid} has no agent. Start it with `neurogc run -- …`, or call neurogc.install() in it")
        }
        error => format!("process {pid}: {error}"),
    }
}

/// An answer to another question.
fn foreign(pid: u32, answer: &Answer) -> String {
    format!("process {pid}: {}", AskError::Foreign(format!("{answer:?}").chars().take(40).collect()))
}

/// Whether there is a folder, and whether its owner alone can put sockets there.
pub(crate) fn check_folder(folder: &Path, uid: u32) -> Result<bool, String> {
    let metadata = match fs::symlink_metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(format!("cannot look at {}: {error}", folder.display())),
    };
    let flaw = if !metadata.is_dir() {
        "it is not a folder".to_owned()
    } else if metadata.uid() != uid {
        format!("it belongs to user {}", process::user_name(metadata.uid()))
    } else if metadata.mode() & 0o077 != 0 {
        format!("others may enter it (mode {:04o})", metadata.mode() & 0o7777)
    } else {
        return Ok(true);
    };
    Err(format!(
        "{} is not trusted: {flaw}. It must be a folder of user {} with mode 0700; remove it and start the programs again",
        folder.display(),
        process::user_name(uid)
    ))
}

/// Sockets that are named for processes.
pub(crate) fn sockets_in(folder: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| Some((control::socket_pid(&entry.path())?, entry.path()))).collect()
}

/// Why an agent gave no report.
#[derive(Debug)]
pub(crate) enum AskError {
    /// No socket, or no agent listens on it.
    NoAgent,
    /// It did not answer in time.
    Silent(Duration),
    /// It answered that it will not.
    Refused(String),
    /// It answered something that this version cannot read.
    Foreign(String),
    /// The connection failed.
    Broken(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAgent => write!(to, "no agent listens on its socket"),
            Self::Silent(patience) => write!(
                to,
                "its agent did not answer within {} ms; the process may be stopped or starved of CPU time",
                patience.as_millis()
            ),
            Self::Refused(reason) => write!(
                to,
                "its agent refused: {reason}. If the versions differ, use the `neurogc` that the process was started with"
            ),
            Self::Foreign(what) => write!(
                to,
                "its agent speaks another protocol ({what}). Use the `neurogc` that the process was started with"
            ),
            Self::Broken(what) => write!(to, "the connection to its agent failed: {what}"),
        }
    }
}

/// Asks one socket for a report.
pub(crate) fn ask(path: &Path, patience: Duration) -> Result<Status, AskError> {
    match put(path, Ask::Status, patience)? {
        Answer::Status(status) => Ok(*status),
        _ => Err(AskError::Foreign("no report".to_owned())),
    }
}

/// Puts one question to one socket.
pub(crate) fn put(path: &Path, question: Ask, patience: Duration) -> Result<Answer, AskError> {
    let deadline = Instant::now() + patience;
    let stream = open(path).map_err(|error| match error {
        Errno::ENOENT | Errno::ECONNREFUSED | Errno::ENOTSOCK => AskError::NoAgent,
        Errno::EAGAIN => AskError::Silent(patience),
        error => AskError::Broken(error.to_string()),
    })?;
    let mut exchange = Exchange { stream, deadline };
    let answer = exchange.ask(&Question::new(question)).map_err(|error| match error {
        MessageError::Broken(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AskError::Silent(patience),
            io::ErrorKind::UnexpectedEof => AskError::Broken("it closed the connection without an answer".to_owned()),
            _ => AskError::Broken(error.to_string()),
        },
        error => AskError::Foreign(error.to_string()),
    })?;
    match answer {
        Answer::Refused(reason) => Err(AskError::Refused(crate::figures::plain(&reason))),
        answer => Ok(answer),
    }
}

/// Connects without waiting: a listener with a full queue would otherwise hold us up for ever.
fn open(path: &Path) -> Result<UnixStream, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false).map_err(|_| Errno::EIO)?;
    Ok(stream)
}

/// One question and its answer, over before the deadline however slowly the bytes come.
struct Exchange {
    stream: UnixStream,
    deadline: Instant,
}

impl Exchange {
    fn ask(&mut self, question: &Question) -> Result<Answer, MessageError> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        control::write(&mut self.stream, question)?;
        control::read(self, MAX_ANSWER)
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Exchange {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(to)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::samples;

    const PATIENCE: Duration = Duration::from_millis(300);

    /// A rendezvous of its own with this user's folder in it.
    struct Scene {
        root: tempfile::TempDir,
        folder: PathBuf,
    }

    impl Scene {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let folder = Rendezvous::at(root.path()).folder(process::own_uid());
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
            Self { root, folder }
        }

        fn rendezvous(&self) -> Rendezvous {
            Rendezvous::at(self.root.path())
        }

        fn listen(&self, pid: u32) -> UnixListener {
            UnixListener::bind(control::socket_path(&self.folder, pid)).unwrap()
        }

        /// An agent that answers one question.
        fn agent(&self, pid: u32, answer: Vec<u8>) {
            let listener = self.listen(pid);
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let question: Question = control::read(&mut stream, control::MAX_QUESTION).unwrap();
                assert_eq!(question.ask, Ask::Status);
                io::Write::write_all(&mut stream, &answer).unwrap();
            });
        }
    }

    /// A process of ours that lives until it is dropped.
    struct Living(Child);

    impl Living {
        fn new() -> Self {
            Self(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
        }
    }

    impl Drop for Living {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn report() -> Vec<u8> {
        control::encode(&Answer::Status(Box::new(samples::service()))).unwrap()
    }

    fn check_error(scene: &Scene, pid: u32, expect: &str) {
        let error = scene.rendezvous().ask(pid, PATIENCE).unwrap_err();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn an_agent_is_asked() {
        let scene = Scene::new();
        let process = Living::new();
        scene.agent(process.0.id(), report());
        assert_eq!(scene.rendezvous().ask(process.0.id(), PATIENCE), Ok(samples::service()));
    }

    #[test]
    fn a_listing_holds_all_agents_and_removes_stale_sockets() {
        let scene = Scene::new();
        let process = Living::new();
        scene.agent(process.0.id(), report());
        let mut ended = Living::new();
        ended.0.kill().unwrap();
        ended.0.wait().unwrap();
        drop(scene.listen(ended.0.id()));
        let (reports, warnings) = scene.rendezvous().ask_all(PATIENCE);
        assert_eq!(reports, [samples::service()]);
        assert_eq!(warnings, Vec::<String>::new());
        assert!(!control::socket_path(&scene.folder, ended.0.id()).exists());
    }

    #[test]
    fn the_socket_of_a_living_process_is_kept() {
        let scene = Scene::new();
        let process = Living::new();
        drop(scene.listen(process.0.id()));
        let (reports, warnings) = scene.rendezvous().ask_all(PATIENCE);
        assert_eq!(reports, []);
        assert!(warnings[0].contains("no agent listens"), "{warnings:?}");
        assert!(control::socket_path(&scene.folder, process.0.id()).exists());
    }

    #[test]
    fn a_missing_agent_is_said_with_the_way_to_get_one() {
        check_error(&Scene::new(), std::process::id(), "Start it with `neurogc run -- …`");
    }

    #[test]
    fn a_dead_process_is_said() {
        check_error(&Scene::new(), 4_190_000, "there is no process 4190000");
    }

    #[test]
    fn another_users_process_is_said_with_its_user() {
        let mut rendezvous = Scene::new().rendezvous();
        rendezvous.uid = 3_999_999_999;
        let error = rendezvous.ask(std::process::id(), PATIENCE).unwrap_err();
        assert!(error.contains("belongs to user"), "{error}");
        assert!(error.contains("sudo -u"), "{error}");
    }

    #[test]
    fn a_silent_agent_is_not_waited_for() {
        let scene = Scene::new();
        let process = Living::new();
        let _silent = scene.listen(process.0.id());
        check_error(&scene, process.0.id(), "did not answer within 300 ms");
    }

    #[test]
    fn a_full_queue_counts_as_silence() {
        let scene = Scene::new();
        let process = Living::new();
        let _silent = scene.listen(process.0.id());
        let path = control::socket_path(&scene.folder, process.0.id());
        let _waiting: Vec<_> = std::iter::from_fn(|| open(&path).ok()).collect();
        check_error(&scene, process.0.id(), "did not answer");
    }

    #[test]
    fn another_protocol_is_said() {
        let scene = Scene::new();
        let process = Living::new();
        scene.agent(process.0.id(), control::encode(&serde_json::json!({"song": 1})).unwrap());
        check_error(&scene, process.0.id(), "speaks another protocol");
    }

    #[test]
    fn a_refusal_is_passed_on() {
        let scene = Scene::new();
        let process = Living::new();
        scene.agent(process.0.id(), control::encode(&Answer::Refused("protocol 1 is not spoken here".into())).unwrap());
        check_error(&scene, process.0.id(), "refused: protocol 1 is not spoken here");
    }

    #[test]
    fn a_folder_that_others_may_enter_is_not_trusted() {
        let scene = Scene::new();
        fs::set_permissions(&scene.folder, fs::Permissions::from_mode(0o755)).unwrap();
        let (reports, warnings) = scene.rendezvous().ask_all(PATIENCE);
        assert_eq!(reports, []);
        assert!(warnings[0].contains("others may enter it (mode 0755)"), "{warnings:?}");
        check_error(&scene, std::process::id(), "is not trusted");
    }
}
