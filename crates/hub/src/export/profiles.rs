//! Where programs allocate, as pprof profiles: pushed to Pyroscope or Parca every minute.

use std::sync::Arc;
use std::time::Duration;

use neurogc_sites::export::pprof;
use prost::Message;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Outage;
use crate::api::{App, live_sites};
use crate::clock::unix_ms;
use crate::facts::ProcessFacts;
use crate::post::{Outgoing, PostAddress, SendFailure, call, post};
use crate::process::Presence;

/// How often, and how long a server may take for one profile.
const EVERY: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(5);

/// Processes whose profiles are sent, the first by their ids: a table of sites may be large.
const MOST_PROCESSES: usize = 500;

/// What stands before the headers in the environment.
const HEADERS: &str = "NEUROGC_PROFILES_HEADERS";

const METHOD: &str = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";

/// Which server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    Pyroscope,
    Parca,
}

/// A server that keeps profiles.
#[derive(Clone, Debug)]
pub struct ProfileStore {
    store: Store,
    to: PostAddress,
}

impl std::str::FromStr for ProfileStore {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it must look like pyroscope:http://127.0.0.1:4040 or parca:http://127.0.0.1:7070".to_owned();
        let (store, port, rest) = match text.split_once(':') {
            Some(("pyroscope", rest)) => (Store::Pyroscope, 4040, rest),
            Some(("parca", rest)) => (Store::Parca, 7070, rest),
            _ => return Err(wrong()),
        };
        let to: PostAddress = rest.parse().map_err(|_| wrong())?;
        let headers = std::env::var(HEADERS).unwrap_or_default();
        let to = to.or(port, "/").with_headers(&headers).map_err(|error| format!("{HEADERS}: {error}"))?;
        Ok(Self { store, to })
    }
}

impl ProfileStore {
    async fn send(&self, facts: &ProcessFacts, profile: Vec<u8>, until_ms: u64) -> Result<(), SendFailure> {
        match self.store {
            Store::Pyroscope => {
                let path = ingest_path(self.to.path(), facts, until_ms);
                post(&self.to.clone().at(path), Outgoing::new("application/octet-stream", profile)).await
            }
            Store::Parca => call(&self.to, METHOD, &written(facts, profile).encode_to_vec(), false).await,
        }
    }
}

/// The path with what Pyroscope is told about a profile.
fn ingest_path(base: &str, facts: &ProcessFacts, until_ms: u64) -> String {
    // A name may hold anything, and braces and commas mean something here.
    let plain = |text: &str| -> String {
        text.chars().map(|it| if it.is_ascii_alphanumeric() || "._-".contains(it) { it } else { '_' }).collect()
    };
    let name = if facts.service.is_empty() { "python".to_owned() } else { plain(&facts.service) };
    let (host, role) = (plain(&facts.host), plain(&facts.role));
    let (from, until) = ((until_ms / 1000).saturating_sub(EVERY.as_secs()), until_ms / 1000);
    format!(
        "{}/ingest?name={name}%7Bhost%3D{host}%2Crole%3D{role}%7D&from={from}&until={until}&format=pprof&spyName=neurogc",
        base.trim_end_matches('/')
    )
}

#[derive(Clone, PartialEq, Message)]
struct WriteRawRequest {
    #[prost(message, repeated, tag = "2")]
    series: Vec<RawSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct RawSeries {
    #[prost(message, optional, tag = "1")]
    labels: Option<LabelSet>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelSet {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<ParcaLabel>,
}

#[derive(Clone, PartialEq, Message)]
struct ParcaLabel {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    raw_profile: Vec<u8>,
}

/// A profile as Parca takes it.
fn written(facts: &ProcessFacts, raw_profile: Vec<u8>) -> WriteRawRequest {
    let pid = facts.pid.to_string();
    let labels = [
        ("__name__", "memory"),
        ("job", "neurogc"),
        ("service", &facts.service),
        ("host", &facts.host),
        ("role", &facts.role),
        ("pid", &pid),
    ];
    let labels = labels
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| ParcaLabel { name: name.to_owned(), value: value.to_owned() })
        .collect();
    WriteRawRequest {
        series: vec![RawSeries { labels: Some(LabelSet { labels }), samples: vec![RawSample { raw_profile }] }],
    }
}

/// Sends for ever. A server that is away is told of on stderr once. A profile that it does not take is not kept.
pub(crate) async fn export(app: Arc<App>, to: ProfileStore) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut outage = Outage::new("profiles", &to.to);
    loop {
        ticks.tick().await;
        for facts in live(&app) {
            // A process whose allocations are not sampled, or that has ended, has none.
            let Some(table) = live_sites(&app, &facts.id, EVERY.as_secs() as u32).await else { continue };
            let Ok(profile) = tokio::task::spawn_blocking(move || pprof::encode(&table)).await else { continue };
            let sent = timeout(PATIENCE, to.send(&facts, profile, unix_ms())).await;
            let sent = sent.unwrap_or_else(|_| Err(SendFailure::Passing("it takes too long".to_owned())));
            let failed = sent.is_err();
            outage.note(sent);
            if failed {
                break;
            }
        }
    }
}

fn live(app: &App) -> Vec<Arc<ProcessFacts>> {
    let views = app.hub.views();
    let live = views.iter().filter(|view| view.state == Presence::Live);
    let mut facts: Vec<_> = live.map(|view| Arc::clone(&view.facts)).collect();
    facts.sort_by(|a, b| a.id.cmp(&b.id));
    facts.truncate(MOST_PROCESSES);
    facts
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn stores_are_read() {
        let read = |text: &str| text.parse::<ProfileStore>().map(|it| (it.store, it.to.url()));
        assert_eq!(read("pyroscope:http://a").unwrap(), (Store::Pyroscope, "http://a:4040/".to_owned()));
        assert_eq!(read("parca:https://a:1").unwrap(), (Store::Parca, "https://a:1/".to_owned()));
        assert!(read("http://a").is_err() && read("parca:a").is_err());
    }

    #[test]
    fn pyroscope_is_told_what_it_is() {
        let facts = ProcessFacts {
            service: "a b{".to_owned(),
            host: "h".to_owned(),
            role: "worker 1".to_owned(),
            ..ProcessFacts::default()
        };
        let path = ingest_path("/x/", &facts, 100_000);
        assert_eq!(
            path,
            "/x/ingest?name=a_b_%7Bhost%3Dh%2Crole%3Dworker_1%7D&from=40&until=100&format=pprof&spyName=neurogc"
        );
    }
}
