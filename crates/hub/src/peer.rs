//! The process at the other end of a socket, as the kernel tells it: whatever it says about itself is held against this.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use neurogc_wire::report::Report;
use tokio::net::UnixStream;

/// How much earlier than its process an agent may have been installed, by clocks that are not exact.
const SLACK_MS: u64 = 10_000;

/// A process, whatever its number is given to later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// When it began, in ticks since the machine did.
    began: u64,
}

/// Who listens on a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    /// `None` where the kernel shows no process: it lives in a container whose processes cannot be seen from here.
    pub(crate) owner: Option<Owner>,
    /// Its number in its own container, and here.
    numbers: Vec<u32>,
    /// When it began, in milliseconds since 1970.
    began_ms: u64,
    /// Whether it calls the machine by the same name as the hub does.
    same_name: bool,
}

impl Peer {
    /// The process that listens at the other end. The error says why it is not believed.
    pub(crate) fn of(stream: &UnixStream, path: &Path) -> Result<Self, String> {
        let credentials =
            stream.peer_cred().map_err(|error| format!("the kernel does not say who listens: {error}"))?;
        let uid = credentials.uid();
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
        let Some(pid) = pid else {
            // It cannot be told apart from others. In a folder of our own only our user can have put it.
            let folder = path.parent().and_then(|folder| fs::symlink_metadata(folder).ok());
            if folder.is_some_and(|folder| Some(folder.uid()) == own_uid()) {
                return Ok(Self { uid, owner: None, numbers: Vec::new(), began_ms: 0, same_name: false });
            }
            return Err(format!("a process of user {uid} that cannot be seen from here"));
        };
        let found = look_up(pid).map_err(|_| format!("process {pid} of user {uid}, which has ended"))?;
        // Credentials are those of the moment at which the socket was made. Since then the number may have been given to
        // another process, or the process may have gained rights. One that has given up root's is still the same.
        if found.uid != uid && uid != 0 {
            return Err(format!("process {pid} made the socket as user {uid} and is of user {} now", found.uid));
        }
        let owner = Some(Owner { pid, began: found.began });
        let began_ms = boot_ms().unwrap_or(0) + found.began * 1000 / TICKS_A_SECOND;
        Ok(Self { uid, owner, numbers: found.numbers, began_ms, same_name: has_our_name(pid) })
    }

    /// Holds what a report says about its process against what the kernel says. The error says what is wrong; the number
    /// of a container and a time before the process began are put right.
    pub(crate) fn check(&self, report: &mut Report, own_host: &str) -> Result<(), String> {
        let Some(owner) = self.owner else { return Ok(()) };
        let who = || format!("process {} of user {}", owner.pid, self.uid);
        if !self.numbers.contains(&report.pid) {
            return Err(format!("{} claims to be process {}", who(), report.pid));
        }
        if self.same_name && report.host != own_host && report.host != host_name() {
            let claimed: String = report.host.chars().take(64).collect();
            return Err(format!("{} claims to be on the machine {claimed:?}", who()));
        }
        if self.same_name || report.host == own_host {
            // The number in a container of its own may be that of another process here.
            report.pid = owner.pid;
        }
        if report.started_unix_ms.saturating_add(SLACK_MS) < self.began_ms {
            // A clock that was set anew, or the name of a process that had this number before.
            report.started_unix_ms = self.began_ms;
        }
        Ok(())
    }
}

#[cfg(test)]
impl Peer {
    /// A process that a test makes up.
    pub(crate) fn of_test(pid: u32, began: u64) -> Self {
        let owner = Some(Owner { pid, began });
        Self { uid: 0, owner, numbers: vec![pid], began_ms: 0, same_name: false }
    }
}

/// The kernel counts starts in hundredths of a second on every machine that we know.
const TICKS_A_SECOND: u64 = 100;

#[derive(Debug)]
struct Found {
    uid: u32,
    began: u64,
    numbers: Vec<u32>,
}

fn look_up(pid: u32) -> io::Result<Found> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let began = begin_of(&stat).ok_or_else(wrong)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let (uid, numbers) = user_and_numbers(&status).ok_or_else(wrong)?;
    Ok(Found { uid, began, numbers })
}

/// The beginning of a process, from its `stat`. Its name may hold anything, brackets included.
fn begin_of(stat: &str) -> Option<u64> {
    stat.rsplit_once(") ")?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The user whose rights a process has, and its numbers: the one here first, then those in its containers.
fn user_and_numbers(status: &str) -> Option<(u32, Vec<u32>)> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let uid = field("Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let numbers = field("NSpid:").or_else(|| field("Pid:"))?;
    Some((uid, numbers.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()))
}

fn has_our_name(pid: u32) -> bool {
    let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/uts")).ok();
    space("self").is_some_and(|own| space(&pid.to_string()) == Some(own))
}

/// When the machine began, in milliseconds since 1970.
fn boot_ms() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(seconds.trim().parse::<u64>().ok()? * 1000)
}

/// The machine's name.
pub(crate) fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The user that the hub runs as.
fn own_uid() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|own| own.uid())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    async fn own_peer() -> Peer {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).await.unwrap();
        Peer::of(&stream, &path).unwrap()
    }

    #[tokio::test]
    async fn a_process_is_known_by_its_credentials() {
        let peer = own_peer().await;
        assert_eq!((peer.owner.unwrap().pid, Some(peer.uid)), (std::process::id(), own_uid()));
        let now = crate::clock::unix_ms();
        assert!(peer.began_ms <= now + SLACK_MS && peer.began_ms + 3_600_000 > now, "{peer:?}");
        assert_eq!(own_peer().await.owner, peer.owner);
    }

    #[tokio::test]
    async fn a_report_says_no_more_than_the_kernel() {
        let peer = own_peer().await;
        let (host, pid) = (host_name(), std::process::id());
        let own = Report { host: host.clone(), pid, started_unix_ms: crate::clock::unix_ms(), ..Report::default() };
        assert_eq!(peer.check(&mut own.clone(), &host), Ok(()));
        let other = peer.check(&mut Report { pid: 1, ..own.clone() }, &host).unwrap_err();
        assert!(other.contains("claims to be process 1"), "{other}");
        let other = peer.check(&mut Report { host: "elsewhere".to_owned(), ..own.clone() }, &host).unwrap_err();
        assert!(other.contains("elsewhere"), "{other}");
        // The number of a process that has ended is given again: its name is not.
        let mut before = Report { started_unix_ms: 5, ..own };
        peer.check(&mut before, &host).unwrap();
        assert_eq!(before.started_unix_ms, peer.began_ms);
    }

    #[test]
    fn what_the_kernel_writes_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1000 1";
        assert_eq!(begin_of(stat), Some(4242));
        let status = "Name:\tx\nPid:\t900\nUid:\t1000\t33\t1000\t1000\nNSpid:\t900\t7\n";
        assert_eq!(user_and_numbers(status), Some((33, vec![900, 7])));
    }
}
