//! The hub as a server: it listens, follows, exports, and ends when it is told to.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use crate::alerts::{self, AlertEngine, AlertFileError};
use crate::api::{App, router};
use crate::budget::PROCESSES;
use crate::export::objects::{self, ObjectStore};
use crate::export::otlp::{self, OtlpCollector};
use crate::export::profiles::{self, ProfileStore};
use crate::export::remote_write::{self, RemoteWrite};
use crate::follow::{Sockets, follow_all};
use crate::gate::Gate;
use crate::heaps::Heaps;
use crate::history::{HistoryServer, HistorySource, PrometheusHistory};
use crate::hub::Hub;
use crate::patient::Patient;
use crate::peer::host_name;
use crate::shelf::Shelf;
use crate::store::{Store, StoreError, make_folder};
use crate::tokens::{Access, Tokens, is_fit};
use crate::traces::TraceStore;

/// Connections at once: every process that may report by posting has one; browsers and the rest have theirs.
const CONNECTIONS: usize = PROCESSES + 500;

/// How long a client may take to say what it wants, and how much it may say before the body.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_HEAD: usize = 32 * 1024;

/// Threads that read the store and recordings, write answers, take an upload and two downloads, and take and analyse a heap
/// dump.
const READERS: usize = 9;

/// How often the memory of an idle analysis is looked for.
const FORGET_EVERY: Duration = Duration::from_secs(20);

/// How often processes that report to other hubs are looked for: they are written every 15 s.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What a hub is told at its start.
#[derive(Clone)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Which requests need a token.
    pub access: Access,
    /// The folder that holds history and uploads.
    pub data: PathBuf,
    /// What history may take on disk, in bytes.
    pub limit: u64,
    /// What traces that agents send may take on disk, in bytes; none are kept where it is 0.
    pub trace_limit: u64,
    /// The server that history comes from, instead of the folder.
    pub history: Option<HistoryServer>,
    /// A folder with recordings.
    pub recordings: Option<PathBuf>,
    /// Where to send metrics.
    pub collector: Option<OtlpCollector>,
    /// Where to write metrics as Prometheus does.
    pub remote_write: Option<RemoteWrite>,
    /// Where to send profiles of allocations.
    pub profiles: Option<ProfileStore>,
    /// Where to copy heap dumps, recordings and traces.
    pub objects: Option<ObjectStore>,
    /// The file with rules of alerts.
    pub alerts: Option<PathBuf>,
    /// How agents on this machine are found.
    pub sockets: Sockets,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not derived: how agents are found is a function.
        to.debug_struct("Config").field("listen", &self.listen).field("data", &self.data).finish_non_exhaustive()
    }
}

/// A hub that listens.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Where.
    pub address: SocketAddr,
    /// The tokens that requests need, if they need one.
    pub tokens: Option<Tokens>,
}

impl Listening {
    /// The address of the page for one who may look and order.
    #[must_use]
    pub fn url(&self) -> String {
        self.with(self.tokens.as_ref().map(|tokens| tokens.full.as_str()))
    }

    /// The address of the page for one who may look.
    #[must_use]
    pub fn read_url(&self) -> String {
        self.with(self.tokens.as_ref().map(|tokens| tokens.read.as_str()))
    }

    fn with(&self, token: Option<&str>) -> String {
        let address = self.address;
        token.map_or_else(|| format!("http://{address}/"), |token| format!("http://{address}/?token={token}"))
    }
}

/// Why a hub does not run.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// Other machines could reach it, and no request would need a token.
    #[error("listening on {0} lets other machines in, so --no-token is only for loopback")]
    Open(SocketAddr),
    /// The file with the tokens cannot be used.
    #[error("{0}")]
    Tokens(String),
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
    /// The file with rules of alerts cannot be used.
    #[error(transparent)]
    Alerts(#[from] AlertFileError),
    /// There is no store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine does not give what is needed.
    #[error("cannot begin: {0}")]
    Begin(#[from] std::io::Error),
}

/// Runs a hub until it gets a signal. `ready` is called once it listens.
pub fn run(config: Config, ready: impl FnOnce(&Listening)) -> Result<(), HubError> {
    match &config.access {
        Access::Open if !config.listen.ip().is_loopback() => return Err(HubError::Open(config.listen)),
        Access::Given(token) if !is_fit(token) => return Err(HubError::Token),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(READERS).build()?;
    runtime.block_on(serve(config, ready))
}

/// The tokens of the folder, where requests need one.
fn tokens(access: Access, folder: &Path) -> Result<Option<Tokens>, HubError> {
    let of_folder = || Tokens::of_folder(folder).map_err(HubError::Tokens);
    Ok(match access {
        Access::Open => None,
        Access::Tokens => Some(of_folder()?),
        Access::Given(full) => Some(Tokens { full, ..of_folder()? }),
    })
}

async fn serve(config: Config, ready: impl FnOnce(&Listening)) -> Result<(), HubError> {
    let alerts = match config.alerts {
        Some(path) => Some((alerts::read(&path)?, path)),
        None => None,
    };
    let history = match config.history {
        Some(server) => {
            make_folder(&config.data)?;
            HistorySource::Asked(PrometheusHistory::new(server))
        }
        None => HistorySource::Kept(Arc::new(Store::open(&config.data, config.limit)?)),
    };
    let tokens = tokens(config.access, &config.data)?;
    let listener =
        TcpListener::bind(config.listen).await.map_err(|source| HubError::Listen { address: config.listen, source })?;
    let address = listener.local_addr()?;
    let traces = TraceStore::open(&config.data, config.trace_limit)?;
    let hub = Arc::new(Hub::new(host_name(), history).keeping(traces));
    let (gate, shelf) = (Gate::new(tokens.clone(), address), Shelf::new(&config.data, config.recordings));
    let app = Arc::new(App::new(Arc::clone(&hub), gate, shelf, Heaps::new(&config.data)));
    let start = |(file, path)| AlertEngine::start(Arc::clone(&hub), path, file, &config.data);
    let _alerts = alerts.map(start).transpose()?;
    ready(&Listening { address, tokens });
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    // A file that may not grow is an error of a write, and no reason to end.
    let _quota = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(SIGXFSZ))?;
    if let Some(store) = config.objects {
        objects::start(store, config.data.clone())?;
    }
    let collector = config.collector.map(|it| otlp::export(Arc::clone(&hub), it));
    let remote_write = config.remote_write.map(|it| remote_write::export(Arc::clone(&hub), it));
    let profiles = config.profiles.map(|it| profiles::export(Arc::clone(&app), it));
    tokio::select! {
        () = accept_all(listener, router(Arc::clone(&app))) => {}
        () = forget_heaps(app) => {}
        () = tick(&hub) => {}
        () = look_elsewhere(&hub) => {}
        () = follow_all(Arc::clone(&hub), config.sockets) => {}
        () = if_wanted(collector) => {}
        () = if_wanted(remote_write) => {}
        () = if_wanted(profiles) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // Connections and followers are dropped with the runtime, and then the store, which writes what is left.
    Ok(())
}

/// Runs what there is to run, and waits for ever where there is nothing.
async fn if_wanted(task: Option<impl Future<Output = ()>>) {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

/// The signal for a file that has grown to its limit, on every Linux that we know.
const SIGXFSZ: i32 = 25;

async fn tick(hub: &Arc<Hub>) {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        hub.tick();
        if hub.clients.want_list() {
            let told = Arc::clone(hub);
            if let Ok(list) = tokio::task::spawn_blocking(move || told.list()).await {
                hub.clients.tell_list(list);
            }
        }
    }
}

/// Asks the server that history comes from which processes report to other hubs, while a browser shows the list.
async fn look_elsewhere(hub: &Hub) {
    let HistorySource::Asked(server) = &hub.history else { return std::future::pending().await };
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut next = Instant::now();
    loop {
        ticks.tick().await;
        if Instant::now() < next || !hub.clients.want_list() {
            continue;
        }
        // What is wrong with the server is told by the hub's report.
        if let Ok(present) = server.present().await {
            hub.set_elsewhere(present);
        }
        next = Instant::now() + LOOK_EVERY;
    }
}

/// Gives back the memory of heap dumps that are not looked at any more.
async fn forget_heaps(app: Arc<App>) {
    loop {
        tokio::time::sleep(FORGET_EVERY).await;
        let app = Arc::clone(&app);
        let _ = tokio::task::spawn_blocking(move || app.heaps.forget_idle(Instant::now())).await;
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
