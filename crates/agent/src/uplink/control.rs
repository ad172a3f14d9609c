//! The control socket: one question and one answer per connection, for the same user and root alone. A connection
//! that asks to follow is handed on.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use neurogc_policy::{Name, NameError};
use neurogc_wire::control::{self, Answer, Ask, Outcome};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt::PeerCredentials,
};
use nix::unistd::{Uid, geteuid};

use super::connections::Connections;
use crate::act::acting::Acting;
use crate::act::dumps::OwnDumps;
use crate::act::remote::RemoteWork;
use crate::book::recent::LONGEST_NS;
use crate::book::status::{ReportSources, Stops};
use crate::cpython::gather;
use crate::sense::hooks::Hooks;
use crate::sys::locks::lock;
use crate::sys::native::monotonic_ns;
use crate::sys::outlet::Outlet;
use crate::threads::ThreadControl;

/// Connections accepted in one round.
const ACCEPTED: usize = 512;

/// How long none is accepted after the kernel had no descriptor for one.
const DEAF_NS: u64 = 200_000_000;

/// A listening control socket; it is removed when dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    user: Uid,
    connections: Connections,
    /// Until then no connection can be accepted; zero where one can.
    deaf_until: u64,
}

impl ControlSocket {
    /// Opens the socket of this process, or says in words why it cannot.
    pub(crate) fn open() -> Result<Self, String> {
        let user = geteuid();
        let folder = control::socket_folder(user.as_raw());
        make_private_folder(&folder).map_err(|reason| format!("no control socket: {} {reason}", folder.display()))?;
        remove_orphans(&folder);
        let path = control::socket_path(&folder, std::process::id());
        listen(&path)
            .map(|listener| Self {
                listener,
                path: path.clone(),
                user,
                connections: Connections::default(),
                deaf_until: 0,
            })
            .map_err(|error| format!("no control socket: {}: {error}", path.display()))
    }

    /// Whether the process still runs as the user whose folder this is: servers start as root and become another.
    pub(crate) fn is_of_this_user(&self) -> bool {
        self.user == geteuid()
    }

    /// Serves the open connections, and returns those that want to follow. `look` is called before the first report is
    /// made, so that its figures are fresh.
    pub(crate) fn serve(
        &mut self,
        sources: ReportSources<'_>,
        threads: &ThreadControl,
        now: u64,
        mut look: impl FnMut(),
    ) -> Vec<UnixStream> {
        if !threads.stopping() {
            self.accept_all(now);
        }
        let mut looked = None;
        self.connections.serve(now, |ask| {
            if threads.stopping() {
                return None;
            }
            let length = match ask {
                Ask::Status => LONGEST_NS,
                Ask::StatusSince(seconds) => u64::from(seconds) * 1_000_000_000,
                other => return Some(answer_to(other, sources, threads)),
            };
            let in_flight = *looked.get_or_insert_with(|| {
                let in_flight = sources.sensors.hooks.in_flight();
                look();
                in_flight
            });
            Some(Answer::Status(Box::new(sources.report_with(in_flight, Stops::All, length))))
        })
    }

    /// Accepts every waiting connection, also those that send nothing: they would fill the queue of the socket.
    fn accept_all(&mut self, now: u64) {
        for _ in 0..ACCEPTED {
            if !self.connections.have_room() || now < self.deaf_until {
                return;
            }
            self.deaf_until = 0;
            match self.listener.accept() {
                // Whatever goes wrong with one is the peer's loss.
                Ok((stream, _)) if is_allowed(&stream) => drop(self.connections.add(stream, now)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                // There are no descriptors left. The next accept would say the same at once.
                Err(_) if self.connections.drop_silent() => {}
                Err(_) => self.deaf_until = now + DEAF_NS,
            }
        }
    }

    /// When something is to be done, whether a peer moves or not. Zero is at once.
    pub(crate) fn due(&self) -> Option<u64> {
        let deaf_until = (self.deaf_until != 0).then_some(self.deaf_until);
        [self.connections.due(), deaf_until].into_iter().flatten().min()
    }

    /// What to wait for.
    pub(crate) fn poll_on<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) {
        if self.connections.have_room() && self.deaf_until == 0 {
            polled.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        self.connections.poll_on(polled);
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    if has_listener(path) {
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

/// Whether a socket is in use. The kernel knows, whatever processes can be seen from here; this does not block.
fn has_listener(path: &Path) -> bool {
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
        if unseen && !has_listener(&path) {
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

/// Whether the peer is of this user or root.
fn is_allowed(peer: &UnixStream) -> bool {
    getsockopt(peer, PeerCredentials).is_ok_and(|peer| peer.uid() == geteuid().as_raw() || peer.uid() == 0)
}

/// The answer to a question, from a connection or from a hub.
pub(super) fn answer_to(ask: Ask, sources: ReportSources<'_>, threads: &ThreadControl) -> Answer {
    let ReportSources { host, sensors, acting, books } = sources;
    match ask {
        // The windows of hubs are their own.
        Ask::Status | Ask::StatusSince(_) => Answer::Status(Box::new(sources.report())),
        Ask::Policy(name) => match name.parse() {
            Ok(name) => ticket(acting.remote.settle(change(acting, &sensors.hooks, name), monotonic_ns())),
            Err(error) => Answer::Refused(NameError::to_string(&error)),
        },
        Ask::Collect(how) => take_on(sources, how),
        Ask::Gpu => take_on(sources, RemoteWork::Gpu),
        Ask::Dump { pipe, text } => match Outlet::pipe(&control::socket_folder(geteuid().as_raw()), &pipe) {
            Ok(to) => take_on(sources, RemoteWork::Dump { to, texts: text, urgent: false }),
            Err(reason) => Answer::Refused(reason),
        },
        Ask::Outcome(ticket) => match acting.remote.outcome(ticket) {
            Ok(outcome) => outcome.map_or(Answer::Pending, Answer::Outcome),
            Err(reason) => Answer::Refused(reason.to_owned()),
        },
        Ask::Gathering => Answer::Gathering(gather::share()),
        Ask::Follow => Answer::Following,
        Ask::Children => Answer::Children(Box::new(lock(&books.growth).children(sensors, host.installed))),
        Ask::Verdict => Answer::Verdict(Box::new(lock(&books.growth).report())),
        Ask::MemoryChange(since_s) => Answer::MemoryChange(Box::new(lock(&books.growth).change(since_s))),
        Ask::Sites(since) => match sensors.sites.table(host.installed_unix_ns, since) {
            Ok(table) => Answer::Sites(Box::new(table)),
            Err(reason) => Answer::Refused(reason),
        },
        Ask::Memory => match sensors.read_memory(|| threads.stopping()) {
            Some(report) => Answer::Memory(Box::new(report)),
            None => Answer::Refused("/proc cannot be read, or the program ends".to_owned()),
        },
    }
}

/// Leaves something for the threads of the program to do.
fn take_on(sources: ReportSources<'_>, work: impl Into<RemoteWork>) -> Answer {
    ticket(sources.acting.leave_for_program(&sources.sensors.hooks, work))
}

/// Has the program write a dump of its own, unless there are enough. One that is urgent is tried also where memory is short.
pub(crate) fn leave_dump(sources: ReportSources<'_>, urgent: bool) {
    let ReportSources { host, sensors, acting, books } = sources;
    let Some(path) = acting.dumps.next(&host.settings) else { return };
    let texts = host.settings.heap_dump_text;
    let work = RemoteWork::Dump { to: Outlet::file(&path), texts, urgent };
    if acting.leave_for_program(&sensors.hooks, work).is_none() {
        OwnDumps::gives_up(&path);
        books.ledger().trouble("no heap dump was written: another command was under way".to_owned());
    }
}

/// Puts another policy in force.
fn change(acting: &Acting, hooks: &Hooks, name: Name) -> Outcome {
    let before = acting.policy.in_force().to_string();
    match acting.switch(hooks, name) {
        Ok(()) => Outcome::Policy { before, after: acting.policy.in_force().to_string() },
        Err(reason) => Outcome::Failed(reason.to_owned()),
    }
}

fn ticket(taken: Option<u64>) -> Answer {
    taken.map_or_else(
        || Answer::Refused("a collection or a dump that was asked for is still under way".to_owned()),
        Answer::Ticket,
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_without_a_listener_are_cleared_away() {
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
