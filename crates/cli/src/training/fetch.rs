//! Traces of a service that a hub has: fetched into a folder, each whole or not at all.

use std::env;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use neurogc_hub::{HubClient, HubClientError};
use serde::Deserialize;

use crate::failure::Failure;
use crate::figures::{bytes, plain, span};
use crate::notice::say;
use crate::own_hub;

/// What is fetched at most: all of it is in memory while a model is trained.
const MOST: u64 = 256 << 20;

/// Traces at most: a service may have many workers.
const MOST_TRACES: usize = 64;

/// How often the progress is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);

/// The variable with the token.
const TOKEN: &str = "NEUROGC_HUB_TOKEN";

/// Which traces are wanted, and of which hub.
#[derive(Debug)]
pub(crate) struct WantedTraces<'a> {
    pub(crate) url: &'a str,
    pub(crate) service: &'a str,
    pub(crate) since_s: u32,
}

/// What a hub says that it has.
#[derive(Debug, Deserialize)]
struct OfferedTraces {
    traces: Vec<OfferedTrace>,
}

/// One of them.
#[derive(Clone, Debug, Deserialize)]
struct OfferedTrace {
    id: String,
    bytes: u64,
    from_ms: u64,
    to_ms: u64,
    file: String,
}

impl WantedTraces<'_> {
    /// Fetches them, and says where they are. A trace that was fetched before is fetched anew: it may have grown.
    pub(crate) fn fetch(&self, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
        let client = HubClient::new(self.url, self.token().as_deref())
            .map_err(|reason| Failure::usage(format!("--from-hub {}: {reason}", without_token(self.url))))?;
        let offered = self.offered(&client)?;
        let (chosen, left_out) = choose(offered);
        if chosen.is_empty() {
            return Err(Failure::failed(format!(
                "the traces of {} are longer than {}, which is too much to train on. Choose a shorter time with --since",
                plain(self.service),
                bytes(MOST)
            )));
        }
        if left_out > 0 {
            say(format_args!(
                "the hub has {left_out} more traces of {}: the latest are used, {} and {MOST_TRACES} traces at most",
                plain(self.service),
                bytes(MOST)
            ));
        }
        fs::create_dir_all(folder)
            .map_err(|error| Failure::failed(format!("cannot make the folder {}: {error}", folder.display())))?;
        let all = chosen.len();
        let mut paths = Vec::new();
        for (number, trace) in chosen.iter().enumerate() {
            let path = folder.join(file_name(&trace.id));
            let length = fetch_one(&client, trace, &path, &format!("trace {} of {all}", number + 1))
                .map_err(|error| failure(error, &format!("{} is not fetched", path.display())))?;
            let lasted = span((trace.to_ms.saturating_sub(trace.from_ms)) as f64 / 1e3);
            say(format_args!("fetched {}: {}, {lasted}", path.display(), bytes(length)));
            paths.push(path);
        }
        Ok(paths)
    }

    /// The token for it: the one in the environment, or that of a hub of this user on this machine.
    fn token(&self) -> Option<String> {
        let own = || {
            let host = self.url.strip_prefix("http://")?.split(['/', '?', '#']).next()?;
            host.to_socket_addrs().ok()?.find_map(own_hub::read_token_of)
        };
        env::var(TOKEN).ok().filter(|token| !token.is_empty()).or_else(own)
    }

    fn offered(&self, client: &HubClient) -> Result<Vec<OfferedTrace>, Failure> {
        let (service, since) = (encoded(self.service), self.since_s);
        let path = format!("/api/v1/services/{service}/traces?range={since}s");
        let said = client.ask(&path).map_err(|error| failure(error, "nothing is fetched"))?;
        let offered: OfferedTraces = serde_json::from_value(said)
            .map_err(|error| Failure::failed(format!("the hub's answer cannot be read: {error}")))?;
        if offered.traces.is_empty() {
            let (service, since) = (plain(self.service), span(f64::from(self.since_s)));
            return Err(Failure::failed(format!(
                "the hub has recorded nothing of {service} in the last {since}. Start the program with hub_trace=true, under \
                 its usual load for ten minutes or more: neurogc run --set hub_trace=true -- CMD, or NEUROGC_HUB_TRACE=true \
                 in its environment. Or upload a trace of neurogc run --trace in the dashboard, under Replay"
            )));
        }
        Ok(offered.traces)
    }
}

/// The latest that fit, and how many do not. The hub names the latest first.
fn choose(offered: Vec<OfferedTrace>) -> (Vec<OfferedTrace>, usize) {
    let all = offered.len();
    let mut left = MOST;
    let mut chosen = Vec::new();
    for trace in offered {
        if chosen.len() < MOST_TRACES && trace.bytes <= left {
            left -= trace.bytes;
            chosen.push(trace);
        }
    }
    let left_out = all - chosen.len();
    (chosen, left_out)
}

/// Fetches a trace beside its place and puts it there when it is whole.
fn fetch_one(client: &HubClient, trace: &OfferedTrace, to: &Path, what: &str) -> Result<u64, HubClientError> {
    if !trace.file.starts_with("/api/v1/") {
        return Err(HubClientError::NoHub("the hub names a file that is none of its own".to_owned()));
    }
    let mut part = to.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PartFile(PathBuf::from(part));
    let mut file = File::create(&part.0)?;
    let mut progress = FetchProgress::new(what, trace.bytes);
    let length = client.fetch(&trace.file, &mut |piece| {
        progress.add(piece.len() as u64);
        // It may have grown a little since.
        if progress.done > 2 * MOST {
            return Err(io::Error::other(format!(
                "it is longer than {}. Choose a shorter time with --since",
                bytes(MOST)
            )));
        }
        file.write_all(piece)
    });
    progress.end();
    let length = length?;
    fs::rename(&part.0, to)?;
    Ok(length)
}

/// A file that is removed unless it has got its name.
struct PartFile(PathBuf);

impl Drop for PartFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// How far it is, on a terminal.
struct FetchProgress<'a> {
    what: &'a str,
    all: u64,
    done: u64,
    drawn: Option<Instant>,
}

impl<'a> FetchProgress<'a> {
    fn new(what: &'a str, all: u64) -> Self {
        Self { what, all, done: 0, drawn: io::stderr().is_terminal().then(Instant::now) }
    }

    fn add(&mut self, count: u64) {
        self.done += count;
        if self.drawn.is_some_and(|drawn| drawn.elapsed() >= DRAWN_EVERY) {
            self.drawn = Some(Instant::now());
            let all = bytes(self.all.max(self.done));
            let _ = write!(io::stderr(), "\r\x1b[2Kfetching {}: {} of {all}", self.what, bytes(self.done));
        }
    }

    fn end(&self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

/// What went wrong, and what to do about it.
fn failure(error: HubClientError, what: &str) -> Failure {
    let text = error.to_string();
    let why = text.trim_end_matches('.');
    let then = match error {
        HubClientError::Unreachable(_) => "Start the hub with `neurogc hub`, or check the address",
        HubClientError::Forbidden(_) => {
            "Set NEUROGC_HUB_TOKEN to its `read` or `full` token, which are in hub.tokens in the hub's folder"
        }
        HubClientError::BrokenOff(_) => "Try again",
        HubClientError::NotFound(_)
        | HubClientError::Refused(_)
        | HubClientError::NoHub(_)
        | HubClientError::Write(_) => return Failure::failed(format!("{what}: {why}")),
    };
    Failure::failed(format!("{what}: {why}. {then}"))
}

/// A name as it may stand in a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The name of the file of a trace: what the hub says must not lead elsewhere.
fn file_name(id: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() || "._-".contains(it) { it } else { '_' };
    let name: String = id.trim_end_matches(".ngct").chars().take(150).map(letter).collect();
    let name = name.trim_start_matches('.');
    format!("{}.ngct", if name.is_empty() { "trace" } else { name })
}

fn without_token(url: &str) -> String {
    plain(url.split(['?', '#']).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(id: usize, bytes: u64) -> OfferedTrace {
        OfferedTrace { id: id.to_string(), bytes, from_ms: 0, to_ms: 1, file: String::new() }
    }

    #[test]
    fn the_latest_that_fit_are_chosen() {
        let ids = |offered: Vec<OfferedTrace>| {
            let (chosen, left_out) = choose(offered);
            (chosen.into_iter().map(|trace| trace.id).collect::<Vec<_>>(), left_out)
        };
        assert_eq!(ids(vec![trace(1, 2 * MOST)]), (Vec::new(), 1));
        let offered = vec![trace(1, MOST / 2), trace(2, MOST), trace(3, MOST / 4)];
        assert_eq!(ids(offered), (vec!["1".to_owned(), "3".to_owned()], 1));
        assert_eq!(ids((0..100).map(|id| trace(id, 1)).collect()).1, 100 - MOST_TRACES);
    }

    #[test]
    fn names_of_a_hub_lead_nowhere_else() {
        for (id, name) in [
            ("web-1-7-99", "web-1-7-99.ngct"),
            ("u-17-a.ngct", "u-17-a.ngct"),
            ("../../etc/x", "_.._etc_x.ngct"),
            ("..", "trace.ngct"),
        ] {
            assert_eq!(file_name(id), name);
        }
        assert_eq!(encoded("web shop/é"), "web%20shop%2F%C3%A9");
        assert_eq!(without_token("http://x/?token=SECRET"), "http://x/");
    }
}
