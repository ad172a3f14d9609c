//! Where history comes from: the store of this hub, or a server that many hubs write their metrics to.

mod answer;
mod counts;
mod prometheus;

use std::sync::Arc;

use neurogc_wire::census::Census;
use serde::Serialize;

pub use prometheus::HistoryServer;
pub(crate) use prometheus::PrometheusHistory;

use crate::clock::unix_ms;
use crate::facts::ProcessFacts;
use crate::process::Presence;
use crate::store::{Found, Span, Store, StoreReport, StoredRows, Wish, Write};

/// The history that the hub shows.
#[derive(Debug)]
pub(crate) enum HistorySource {
    /// What this hub has kept itself.
    Kept(Arc<Store>),
    /// What a server like Prometheus has. This hub keeps nothing then.
    Asked(PrometheusHistory),
}

/// Why history cannot be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryError {
    /// The store of this hub cannot be read.
    #[error("the store cannot be read now: {0}")]
    Store(#[from] rusqlite::Error),
    /// The server does not tell.
    #[error("the history cannot be read from {server}: {reason}")]
    Server {
        /// Its host and port.
        server: String,
        /// What it says, or what is wrong with it.
        reason: String,
    },
    /// The server tells more than is read.
    #[error(
        "the history cannot be read from {server}: its answer is longer than {most_mb} MB. Ask for less time or fewer series"
    )]
    TooLong {
        /// Its host and port.
        server: String,
        /// The longest answer.
        most_mb: usize,
    },
    /// The thread that was to read is gone.
    #[error("the question failed")]
    Ended,
}

/// What one kind of history has, if it has any of it.
#[derive(Debug)]
pub(crate) enum MaybeKept<T> {
    /// This.
    All(T),
    /// None of this kind is kept; why, in words.
    NotKept(&'static str),
}

impl<T: Default> MaybeKept<T> {
    /// What there is, and why there is none.
    pub(crate) fn split(self) -> (T, Option<&'static str>) {
        match self {
            Self::All(all) => (all, None),
            Self::NotKept(why) => (T::default(), Some(why)),
        }
    }
}

/// Which kind of history it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HistoryKind {
    Sqlite,
    Prometheus,
}

/// What a server with metrics does not have, in words.
const NO_EVENTS: &str = "Single collections, stalls and orders are shown from now on only: this hub takes its history from \
                         Prometheus, which has no events.";
const NO_CENSUSES: &str = "Earlier censuses are not shown: this hub takes its history from Prometheus, which has none.";
const LOCAL_FILES: &str = "Heap dumps and recordings are in the folder of the hub that took them, and other hubs do not \
                           show them; `--objects` copies them to object storage.";

/// A process with history, and when it was last seen.
pub(crate) type Past = (ProcessFacts, u64);

/// A process that a server has seen so shortly ago reports to another hub: hubs write every 15 s.
const ELSEWHERE_MS: u64 = 60_000;

impl HistorySource {
    /// Whether a process that does not report here is there, by when history has last seen it.
    pub(crate) fn presence(&self, seen_ms: u64) -> Presence {
        match self {
            Self::Asked(_) if unix_ms().saturating_sub(seen_ms) < ELSEWHERE_MS => Presence::Live,
            _ => Presence::Gone,
        }
    }

    /// Has something kept, where this hub keeps history. It never waits.
    pub(crate) fn put(&self, write: Write) {
        if let Self::Kept(store) = self {
            store.put(write);
        }
    }

    /// The latest processes with history.
    pub(crate) async fn processes(&self) -> Result<Vec<Past>, HistoryError> {
        match self {
            Self::Kept(store) => read(store, Store::processes).await,
            Self::Asked(server) => server.processes().await,
        }
    }

    /// One process with history.
    pub(crate) async fn process(&self, id: &str) -> Result<Option<Past>, HistoryError> {
        match self {
            Self::Kept(store) => {
                let id = id.to_owned();
                read(store, move |store| store.process(&id)).await
            }
            Self::Asked(server) => server.process(id).await,
        }
    }

    /// The course of a process over a while: the series at these places of the catalogue, and perhaps more.
    pub(crate) async fn course(&self, id: &str, span: Span, places: &[usize]) -> Result<StoredRows, HistoryError> {
        match self {
            Self::Kept(store) => {
                let id = id.to_owned();
                read(store, move |store| store.course(&id, span)).await
            }
            Self::Asked(server) => server.course(id, span, places).await,
        }
    }

    /// The latencies of a service over a while: of these processes, or of all that a server has of it.
    pub(crate) async fn latencies(
        &self,
        service: &str,
        members: Vec<String>,
        span: Span,
    ) -> Result<StoredRows, HistoryError> {
        match self {
            Self::Kept(store) => {
                read(store, move |store| {
                    let mut all = StoredRows::default();
                    for id in &members {
                        let course = store.course(id, span)?;
                        all.step_ms = course.step_ms;
                        all.rows.extend(course.rows);
                    }
                    Ok(all)
                })
                .await
            }
            Self::Asked(server) => server.latencies(service, span).await,
        }
    }

    /// What happened in a process.
    pub(crate) async fn events(&self, id: &str, wish: &Wish) -> Result<MaybeKept<Found>, HistoryError> {
        match self {
            Self::Kept(store) => {
                let (id, wish) = (id.to_owned(), wish.clone());
                read(store, move |store| store.events(&id, &wish)).await.map(MaybeKept::All)
            }
            Self::Asked(_) => Ok(MaybeKept::NotKept(NO_EVENTS)),
        }
    }

    /// The censuses of a process between two moments.
    pub(crate) async fn censuses(
        &self,
        id: &str,
        span: (u64, u64),
    ) -> Result<MaybeKept<Vec<(u64, Census)>>, HistoryError> {
        match self {
            Self::Kept(store) => {
                let id = id.to_owned();
                read(store, move |store| store.censuses(&id, span)).await.map(MaybeKept::All)
            }
            Self::Asked(_) => Ok(MaybeKept::NotKept(NO_CENSUSES)),
        }
    }

    /// How it is, as `GET /api/v1/hub` tells it.
    pub(crate) fn report(&self) -> StoreReport {
        match self {
            Self::Kept(store) => store.report(),
            Self::Asked(server) => StoreReport {
                kind: HistoryKind::Prometheus,
                path: server.to_string(),
                bytes: 0,
                limit_bytes: 0,
                written: 0,
                dropped: 0,
                trouble: server.trouble(),
                notice: None,
                not_kept: vec![NO_EVENTS, NO_CENSUSES, LOCAL_FILES],
                tiers: Vec::new(),
            },
        }
    }

    /// Writes that were not made.
    pub(crate) fn dropped(&self) -> u64 {
        match self {
            Self::Kept(store) => store.dropped(),
            Self::Asked(_) => 0,
        }
    }
}

/// Reads the store in a thread that serves no connections.
async fn read<T: Send + 'static>(
    store: &Arc<Store>,
    question: impl FnOnce(&Store) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, HistoryError> {
    let store = Arc::clone(store);
    let answer = tokio::task::spawn_blocking(move || question(&store)).await;
    Ok(answer.map_err(|_| HistoryError::Ended)??)
}

#[cfg(test)]
mod tests;
