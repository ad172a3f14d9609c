//! A hub of this user on this machine: it leaves a note for `neurogc run --hub` and `neurogc train --from-hub`, which need its tokens.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use neurogc_hub::Tokens;
use neurogc_wire::control::socket_folder;
use serde::{Deserialize, Serialize};

use crate::agents::check_folder;
use crate::process;

/// What the note says. It lies in the folder of the sockets, which belongs to this user alone.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    pid: u32,
    token: String,
    /// The token with which one may look.
    #[serde(default)]
    read: String,
}

/// The note of a hub that runs. It is removed with this.
#[derive(Debug)]
pub(crate) struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Leaves the note of a hub that listens here. Without it agents are given the token by hand; the error says what to do.
pub(crate) fn announce(address: SocketAddr, tokens: &Tokens) -> Result<Announced, String> {
    let folder = socket_folder(process::own_uid());
    announce_in(&folder, address, (&tokens.report, &tokens.read)).map_err(|error| {
        format!(
            "`neurogc run --hub` does not find the token of this hub by itself, because nothing can be written to {}: {error}. \
             Set NEUROGC_HUB_TOKEN for the programs",
            folder.display()
        )
    })
}

/// The token with which agents report to the hub at this address, if it is one of this user on this machine.
pub(crate) fn token_of(address: SocketAddr) -> Option<String> {
    note_in(&socket_folder(process::own_uid()), address).map(|note| note.token)
}

/// The token with which one may look at the hub at this address, under the same condition.
pub(crate) fn read_token_of(address: SocketAddr) -> Option<String> {
    note_in(&socket_folder(process::own_uid()), address).map(|note| note.read).filter(|token| !token.is_empty())
}

fn announce_in(folder: &Path, address: SocketAddr, (report, read): (&str, &str)) -> io::Result<Announced> {
    let _ = DirBuilder::new().mode(0o700).create(folder);
    if check_folder(folder, process::own_uid()) != Ok(true) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let path = path(folder, address);
    let _ = fs::remove_file(&path);
    let note = Note { pid: std::process::id(), token: report.to_owned(), read: read.to_owned() };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(&serde_json::to_vec(&note)?)?;
    Ok(Announced(path))
}

fn note_in(folder: &Path, address: SocketAddr) -> Option<Note> {
    // Another machine may have a hub at the same port, and is told nothing.
    if !address.ip().is_loopback() || check_folder(folder, process::own_uid()) != Ok(true) {
        return None;
    }
    let file = fs::File::open(path(folder, address)).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != process::own_uid() || metadata.mode() & 0o077 != 0 {
        return None;
    }
    let mut text = String::new();
    Read::take(file, 4096).read_to_string(&mut text).ok()?;
    let note: Note = serde_json::from_str(&text).ok()?;
    // A hub that was killed leaves its note behind, and another program may listen there now.
    process::look_up(note.pid).filter(|hub| hub.uid == process::own_uid())?;
    Some(note)
}

fn path(folder: &Path, address: SocketAddr) -> PathBuf {
    folder.join(format!("hub-{}", address.port()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_hub_of_this_user_is_found_while_it_runs() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("neurogc");
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let hub = announce_in(&folder, address("127.0.0.1:7077"), ("token-of-agents", "token-to-look")).unwrap();
        let find = |text: &str| note_in(&folder, address(text)).map(|note| (note.token, note.read));
        let both = ("token-of-agents".to_owned(), "token-to-look".to_owned());
        assert_eq!(find("127.0.0.1:7077"), Some(both));
        assert_eq!((find("127.0.0.1:7078"), find("10.0.0.1:7077")), (None, None));
        let note = folder.join("hub-7077");
        assert_eq!(fs::metadata(&note).unwrap().mode() & 0o777, 0o600);
        fs::write(&note, r#"{"pid": 4294967294, "token": "x"}"#).unwrap();
        assert_eq!(find("127.0.0.1:7077"), None);
        drop(hub);
        assert!(!note.exists());
    }
}
