//! The hub as a server: it listens, follows, exports, and ends when it is told to.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use crate::api::{App, router};
use crate::export::otlp::{Collector, export};
use crate::follow::{Sockets, follow_all};
use crate::gate::Gate;
use crate::hub::Hub;
use crate::patient::Patient;
use crate::shelf::Shelf;
use crate::store::{Store, StoreError};

/// Connections at once: agents that post, browsers and the rest.
const CONNECTIONS: usize = 2048;

/// How long a client may take to say what it wants, and how much it may say before the body.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_HEAD: usize = 32 * 1024;

/// Threads that read the store and recordings.
const READERS: usize = 4;

/// What a hub is told at its start.
#[derive(Clone)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The token that requests need, if they need one.
    pub token: Option<String>,
    /// The folder that holds history and uploads.
    pub data: PathBuf,
    /// What history may take on disk, in bytes.
    pub limit: u64,
    /// A folder with recordings.
    pub recordings: Option<PathBuf>,
    /// Where to send metrics.
    pub collector: Option<Collector>,
    /// How agents on this machine are found.
    pub sockets: Sockets,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not derived: the token is never shown.
        to.debug_struct("Config").field("listen", &self.listen).field("data", &self.data).finish_non_exhaustive()
    }
}

/// Why a hub does not run.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The address is reachable from other machines, and there is no token.
    #[error(
        "listening on {0} lets other machines in, so it needs a token: set NEUROGC_HUB_TOKEN, for instance to the output of \
         `openssl rand -hex 24`"
    )]
    Open(SocketAddr),
    /// A token that can be guessed, or that does not fit into a header.
    #[error("the token must be 16 to 256 letters, digits or -._~")]
    Token,
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}. Name another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// There is no store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine does not give what is needed.
    #[error("cannot begin: {0}")]
    Begin(#[from] std::io::Error),
}

/// Runs a hub until it gets a signal. `ready` is called with its address once it listens.
pub fn run(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), HubError> {
    let loopback = config.listen.ip().is_loopback();
    match &config.token {
        None if !loopback => return Err(HubError::Open(config.listen)),
        Some(token) if !is_fit(token) => return Err(HubError::Token),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(READERS).build()?;
    runtime.block_on(serve(config, ready))
}

fn is_fit(token: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (16..=256).contains(&token.len()) && token.bytes().all(plain)
}

async fn serve(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), HubError> {
    let store = Store::open(&config.data, config.limit)?;
    let listener =
        TcpListener::bind(config.listen).await.map_err(|source| HubError::Listen { address: config.listen, source })?;
    let address = listener.local_addr()?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let hub = Arc::new(Hub::new(host, store));
    let (gate, shelf) = (Gate::new(config.token, address), Shelf::new(&config.data, config.recordings));
    let app = Arc::new(App::new(Arc::clone(&hub), gate, shelf));
    ready(address);
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    // A file that may not grow is an error of a write, and no reason to end.
    let _quota = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(SIGXFSZ))?;
    let collector = config.collector;
    let exported = Arc::clone(&hub);
    tokio::select! {
        () = accept_all(listener, router(app)) => {}
        () = tick(&hub) => {}
        () = follow_all(Arc::clone(&hub), config.sockets) => {}
        () = async move { match collector {
            Some(collector) => export(exported, collector).await,
            None => std::future::pending().await,
        } } => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // Connections and followers are dropped with the runtime, and then the store, which writes what is left.
    Ok(())
}

/// The signal for a file that has grown to its limit, on every Linux that we know.
const SIGXFSZ: i32 = 25;

async fn tick(hub: &Hub) {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        hub.tick();
    }
}

async fn accept_all(listener: TcpListener, router: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(LONGEST_HEAD);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Probably out of descriptors; closed connections free some.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // A connection above the limit is closed at once.
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
        let _ = stream.set_nodelay(true);
        let connection = http
            .serve_connection(TokioIo::new(Patient::new(stream)), TowerToHyperService::new(router.clone()))
            .with_upgrades();
        tokio::spawn(async move {
            let _ = connection.await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_plain() {
        assert!(is_fit("0123456789abcdef") && !is_fit("short") && !is_fit("0123456789abcdef\r\nx"));
    }
}
