//! The control socket: one question and one answer per connection, for the same user and root alone. Whoever asks to
//! follow is handed on.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use neurogc_policy::NameError;
use neurogc_wire::control::{self, Answer, Ask, MAX_QUESTION, PROTOCOL, Question};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt::PeerCredentials,
};
use nix::unistd::{Uid, geteuid};

use crate::act::remote::Command;
use crate::book::status;
use crate::lifecycle::agent::Agent;
use crate::python::moments::call_main_thread;
use crate::sys::native::monotonic_ns;

/// How long a peer may take to ask or to listen. A fork of the program may have to wait for that.
const PATIENCE: Duration = Duration::from_millis(20);

/// Connections answered in one round, so that nobody can keep the thread from its other work.
const PER_ROUND: usize = 16;

/// A listening control socket; it is removed when dropped.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
    user: Uid,
}

impl Control {
    /// Opens the socket of this process, or says in words why it cannot.
    pub(crate) fn open() -> Result<Self, String> {
        let user = geteuid();
        let folder = control::socket_folder(user.as_raw());
        make_private_folder(&folder).map_err(|reason| format!("no control socket: {} {reason}", folder.display()))?;
        remove_orphans(&folder);
        let path = control::socket_path(&folder, std::process::id());
        listen(&path)
            .map(|listener| Self { listener, path: path.clone(), user })
            .map_err(|error| format!("no control socket: {}: {error}", path.display()))
    }

    /// Whether the process still runs as the user whose folder this is: servers start as root and become another.
    pub(crate) fn is_of_this_user(&self) -> bool {
        self.user == geteuid()
    }

    /// Whether somebody has come to ask.
    pub(crate) fn somebody_waits(&self) -> bool {
        let mut polled = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Answers everybody who is waiting, and gives the connections of those who want to follow.
    pub(crate) fn answer_all(&self, agent: &Agent) -> Vec<UnixStream> {
        let mut followers = Vec::new();
        for _ in 0..PER_ROUND {
            if agent.stopping() {
                break;
            }
            let Ok((stream, _)) = self.listener.accept() else { break };
            // Whatever goes wrong here is the peer's loss.
            if let Ok(true) = answer(&stream, agent) {
                followers.push(stream);
            }
        }
        followers
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    if somebody_listens(path) {
        let reason = "a process of the same number listens there; is this /tmp shared between containers?";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    }
    // A socket left by an earlier process of this number, or by this one before it called exec.
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether a socket is in use. The kernel knows, whatever processes can be seen from here; nobody is waited for.
fn somebody_listens(path: &Path) -> bool {
    let connect = || {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(probe.as_raw_fd(), &UnixAddr::new(path)?)
    };
    !matches!(connect(), Err(Errno::ECONNREFUSED | Errno::ENOENT))
}

/// Removes sockets whose processes are gone: killed ones leave theirs behind. A few each time, so that it stays cheap.
fn remove_orphans(folder: &Path) {
    const AT_A_TIME: usize = 64;
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.take(AT_A_TIME).flatten().map(|entry| entry.path()) {
        // A process that cannot be seen from here may live in another container that shares this folder.
        let unseen = control::socket_pid(&path).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if unseen && !somebody_listens(&path) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Makes the folder, or checks that the one that is there is ours alone.
fn make_private_folder(folder: &Path) -> Result<(), String> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("cannot be made: {error}")),
    }
    let found = fs::symlink_metadata(folder).map_err(|error| format!("cannot be looked at: {error}"))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        return Err("is not a folder of this user".to_owned());
    }
    if found.mode() & 0o077 != 0 {
        return Err("is open to other users; make it mode 0700".to_owned());
    }
    Ok(())
}

/// Answers one peer. True where it wants to follow.
fn answer(stream: &UnixStream, agent: &Agent) -> Result<bool, control::MessageError> {
    let uid = getsockopt(stream, PeerCredentials).map_err(io::Error::from)?.uid();
    if uid != geteuid().as_raw() && uid != 0 {
        return Ok(false);
    }
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = Hurried { stream, deadline: Instant::now() + PATIENCE };
    let answer = match control::read::<Question>(&mut question, MAX_QUESTION) {
        Ok(Question { protocol: PROTOCOL, ask }) => answer_to(ask, agent),
        Ok(Question { protocol, .. }) => {
            Answer::Refused(format!("this agent speaks protocol {PROTOCOL}, the question is in {protocol}"))
        }
        Err(control::MessageError::Broken(error)) => return Err(error.into()),
        Err(error) => Answer::Refused(error.to_string()),
    };
    let mut stream = stream;
    control::write(&mut stream, &answer)?;
    Ok(answer == Answer::Following)
}

/// The answer to a question, whoever has asked it.
pub(super) fn answer_to(ask: Ask, agent: &Agent) -> Answer {
    match ask {
        Ask::Status => Answer::Status(Box::new(status::report(agent))),
        Ask::Policy(name) => match name.parse() {
            Ok(name) => take_on(agent, Command::Policy(name)),
            Err(error) => Answer::Refused(NameError::to_string(&error)),
        },
        Ask::Collect(how) => take_on(agent, Command::Collect(how)),
        Ask::Outcome(ticket) => match agent.remote.outcome(ticket) {
            Ok(outcome) => outcome.map_or(Answer::Pending, Answer::Outcome),
            Err(reason) => Answer::Refused(reason.to_owned()),
        },
        Ask::Follow => Answer::Following,
    }
}

fn take_on(agent: &Agent, command: Command) -> Answer {
    match agent.remote.take_on(command, monotonic_ns()) {
        Some(ticket) => {
            call_main_thread();
            agent.hooks.wake();
            Answer::Ticket(ticket)
        }
        None => Answer::Refused("somebody else has asked for something that is still under way".to_owned()),
    }
}

/// A peer to whom our patience is limited: it may not dole out its question byte by byte.
struct Hurried<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Read for Hurried<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if Instant::now() > self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.read(to)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_nobody_listens_on_are_cleared_away() {
        let folder = std::env::temp_dir().join(format!("neurogc-orphans-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // No process has such numbers here, as if both were from another container.
        let (live, dead) = (folder.join("4294967294.sock"), folder.join("4294967295.sock"));
        let listener = listen(&live).unwrap();
        drop(listen(&dead).unwrap());
        remove_orphans(&folder);
        assert_eq!((live.exists(), dead.exists()), (true, false));
        assert!(listen(&live).is_err());
        drop(listener);
        assert!(listen(&live).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }
}
