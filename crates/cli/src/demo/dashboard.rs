//! The dashboard beside the demo: a hub of its own, which follows both services and nothing else.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use neurogc_hub::{Access, Config, HubError, Listening};
use neurogc_load::{Target, get_with};
use neurogc_wire::control::socket_pid;
use serde_json::Value;

use crate::agents::Rendezvous;

/// What the history of a demo may take on disk.
const LIMIT: u64 = 64 << 20;

/// How long the hub may take to begin, to find both services, and to answer.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(100);

/// Whether the user has a screen to open a browser on.
pub(crate) fn has_screen() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    ["WAYLAND_DISPLAY", "DISPLAY"].into_iter().any(is_set)
}

/// Opens an address in the user's browser, where there is a screen.
pub(crate) fn browse(address: &str) {
    if has_screen() {
        let mut open = Command::new("xdg-open");
        open.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // If it fails, the printed address is enough. It may run as long as the browser, so a separate thread waits for
        // it.
        thread::spawn(move || open.status());
    }
}

/// A hub that runs.
#[derive(Debug)]
pub(crate) struct Dashboard {
    listening: Listening,
    hub: JoinHandle<Result<(), HubError>>,
}

impl Dashboard {
    /// Starts a hub for two processes, on a free port.
    pub(crate) fn start(data: PathBuf, pids: [u32; 2]) -> Result<Self, String> {
        let is_ours = move |path: &PathBuf| socket_pid(path).is_some_and(|pid| pids.contains(&pid));
        let config = Config {
            listen: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0),
            access: Access::Tokens,
            data,
            limit: LIMIT,
            trace_limit: 0,
            recordings: None,
            collector: None,
            remote_write: None,
            history: None,
            profiles: None,
            objects: None,
            alerts: None,
            sockets: Arc::new(move || Rendezvous::of_this_machine().sockets().into_iter().filter(is_ours).collect()),
        };
        let (to, begun) = channel();
        let hub = thread::spawn(move || {
            neurogc_hub::run(config, |listening| {
                // An error means that the receiver has stopped waiting.
                let _ = to.send(listening.clone());
            })
        });
        match begun.recv_timeout(PATIENCE) {
            Ok(listening) => Ok(Self { listening, hub }),
            Err(_) if hub.is_finished() => Err(match hub.join() {
                Ok(Err(error)) => error.to_string(),
                _ => "the hub ended before it had started".to_owned(),
            }),
            Err(_) => Err("the hub does not start".to_owned()),
        }
    }

    /// Where both are seen side by side, once the hub knows them.
    pub(crate) fn side_by_side(&self, pids: [u32; 2]) -> Result<String, String> {
        let [without, with] = pids;
        let (without, with) = (self.wait_for(without)?, self.wait_for(with)?);
        Ok(format!("{}#/compare?a={without}&b={with}&range=1m", self.listening.url()))
    }

    /// Where the memory of a process is seen, once the hub knows it.
    pub(crate) fn memory_of(&self, pid: u32) -> Result<String, String> {
        Ok(format!("{}#/memory?id={}", self.listening.url(), self.wait_for(pid)?))
    }

    fn wait_for(&self, pid: u32) -> Result<String, String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(id) = self.id_of(pid) {
                return Ok(id);
            }
            thread::sleep(STEP);
        }
        Err(format!("the hub has not found process {pid}"))
    }

    fn id_of(&self, pid: u32) -> Option<String> {
        let token = self.listening.tokens.as_ref().map(|tokens| format!("Bearer {}", tokens.full));
        let headers: Vec<_> = token.iter().map(|token| ("Authorization", token.as_str())).collect();
        let target = Target::port(self.listening.address.port());
        let text = get_with(target, "/api/v1/processes", &headers, PATIENCE).ok()?;
        let list: Value = serde_json::from_str(&text).ok()?;
        let process = list["processes"].as_array()?.iter().find(|process| process["pid"] == pid)?;
        Some(process["id"].as_str()?.to_owned())
    }

    /// Runs until Ctrl-C.
    pub(crate) fn stay(self) {
        // It ends by a signal, or because it fails; there is nothing more to do in either case.
        let _ = self.hub.join();
    }
}
