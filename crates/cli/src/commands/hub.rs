//! `neurogc hub`: collects from many processes, keeps history, serves the dashboard.

use std::env;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use neurogc_hub::alerts::{self, ChannelTest};
use neurogc_hub::{
    Access, Config, HistoryServer, HubError, Listening, ObjectStore, OtlpCollector, ProfileStore, RemoteWrite,
};
use neurogc_settings::HUB_PORT;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::agents::{Rendezvous, check_folder, sockets_in};
use crate::failure::{CommandResult, Failure};
use crate::notice::say;
use crate::{own_hub, process};

/// Collect from many processes: dashboard, history, metrics
///
/// Agents on this machine are found automatically; those on other machines report with `neurogc run --hub URL`. History
/// is kept for 7 days. Prometheus metrics are at /metrics.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc hub\n  neurogc hub --listen 0.0.0.0:7077\n  \
                        neurogc hub --otlp http://127.0.0.1:4318\n  \
                        neurogc hub --remote-write http://127.0.0.1:9090/api/v1/write --history prometheus:http://127.0.0.1:9090\n  \
                        neurogc hub --alerts alerts.toml --test-alert")]
pub(crate) struct Arguments {
    /// Where to listen: an address, a port, or both; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7077", value_parser = listen_address)]
    listen: SocketAddr,
    /// Full token, instead of the one that the first start made; use the environment variable, because other users can see
    /// command lines
    #[arg(long, value_name = "TOKEN", env = "NEUROGC_HUB_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Let every user of this machine look and order, without a token; on loopback only
    #[arg(long)]
    no_token: bool,
    /// Where history and uploads are kept [default: ~/.local/state/neurogc]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Maximum size of the history on disk, in megabytes; the oldest data is deleted first
    #[arg(long, value_name = "MB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    disk_mb: u64,
    /// Maximum size of the traces on disk that programs send with hub_trace=true, in megabytes; they are kept for 7 days, and the
    /// oldest of the largest are deleted first
    #[arg(long, value_name = "MB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    traces_mb: u64,
    /// Take history from a server like Prometheus instead of keeping it: prometheus:URL; headers are in
    /// NEUROGC_HISTORY_HEADERS. Hubs must write their metrics there, by --remote-write or by being scraped
    #[arg(long, value_name = "SERVER", conflicts_with = "disk_mb")]
    history: Option<HistoryServer>,
    /// Directory with traces and results of `neurogc bench` to replay
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,
    /// Send metrics to this OpenTelemetry collector every 10 s; the OTEL_ variables count, and `env` takes the address from
    /// them
    #[arg(long, value_name = "URL")]
    otlp: Option<OtlpCollector>,
    /// Write metrics to Prometheus or what is compatible with it every 15 s; headers are in NEUROGC_REMOTE_WRITE_HEADERS
    #[arg(long, value_name = "URL")]
    remote_write: Option<RemoteWrite>,
    /// Push profiles of allocations every minute: pyroscope:URL or parca:URL; headers are in NEUROGC_PROFILES_HEADERS
    #[arg(long, value_name = "STORE")]
    profiles: Option<ProfileStore>,
    /// Copy heap dumps, recordings and traces to object storage, s3://bucket/prefix, of which the AWS_ variables say how, or to a
    /// folder, file:///folder
    #[arg(long, value_name = "STORE")]
    objects: Option<ObjectStore>,
    /// Send alerts by the rules in this file (docs/alerts.md); it is read again when it changes
    #[arg(long, value_name = "FILE")]
    alerts: Option<PathBuf>,
    /// Check the file with the rules, show what is in it, and end
    #[arg(long, requires = "alerts")]
    check: bool,
    /// Send a test alert to every channel of the file with the rules, and end
    #[arg(long, requires = "alerts", conflicts_with = "check")]
    test_alert: bool,
    /// Follow the agents whose sockets are in this directory instead of those of this user; for containers
    #[arg(long, value_name = "DIR")]
    sockets: Option<PathBuf>,
    /// Do not follow agents on this machine, only accept reports
    #[arg(long, conflicts_with = "sockets")]
    no_local: bool,
    /// Print where it listens as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> CommandResult {
    if let Some(file) = arguments.alerts.as_deref().filter(|_| arguments.check || arguments.test_alert) {
        return if arguments.check { check_alerts(file, out) } else { test_alerts(file, out) };
    }
    let data = arguments
        .data
        .or_else(default_data)
        .ok_or_else(|| Failure::usage("there is no home folder to keep history in. Name a folder with --data"))?;
    if let Some(folder) = arguments.recordings.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::usage(format!("there is no folder {} with recordings", folder.display())));
    }
    let sockets: neurogc_hub::Sockets = match arguments.sockets {
        Some(folder) => {
            if !check_folder(&folder, process::own_uid()).map_err(Failure::usage)? {
                return Err(Failure::usage(format!("there is no folder {} with sockets", folder.display())));
            }
            Arc::new(move || sockets_in(&folder).into_iter().map(|(_, path)| path).collect())
        }
        None if arguments.no_local => Arc::new(Vec::new),
        None => Arc::new(|| Rendezvous::of_this_machine().sockets()),
    };
    let token = arguments.token.filter(|token| !token.is_empty());
    let access = match token {
        _ if arguments.no_token => Access::Open,
        Some(token) => Access::Given(token),
        None => Access::Tokens,
    };
    if arguments.no_token && process::own_uid() == 0 && !arguments.no_local {
        say(
            "every user of this machine can now look at the processes of all users and order them; leave --no-token out to prevent it",
        );
    }
    let config = Config {
        listen: arguments.listen,
        access,
        data,
        limit: arguments.disk_mb << 20,
        trace_limit: arguments.traces_mb << 20,
        history: arguments.history,
        recordings: arguments.recordings,
        collector: arguments.otlp,
        remote_write: arguments.remote_write,
        profiles: arguments.profiles,
        objects: arguments.objects,
        alerts: arguments.alerts,
        sockets,
    };
    have_descriptors();
    let mut told = Ok(());
    let mut announced = None;
    let ran = neurogc_hub::run(config, |hub| {
        announced = hub
            .tokens
            .as_ref()
            .and_then(|tokens| own_hub::announce(hub.address, tokens).inspect_err(|reason| say(reason)).ok());
        told = tell(hub, arguments.json, out);
    });
    ran.map_err(|error| match error {
        HubError::Open(_) | HubError::Token | HubError::Tokens(_) | HubError::Alerts(_) => {
            Failure::usage(error.to_string())
        }
        error => Failure::failed(error.to_string()),
    })?;
    Ok(told?)
}

/// Shows what is in a file with rules.
fn check_alerts(file: &Path, out: &mut dyn Write) -> CommandResult {
    for line in alerts::check(file).map_err(|error| Failure::usage(error.to_string()))? {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Tests every channel of a file with rules.
fn test_alerts(file: &Path, out: &mut dyn Write) -> CommandResult {
    let mut failed = 0;
    for ChannelTest { channel, failure } in alerts::test(file).map_err(|error| Failure::usage(error.to_string()))? {
        match failure {
            None => writeln!(out, "{channel}: sent")?,
            Some(reason) => {
                failed += 1;
                writeln!(out, "{channel}: not sent: {reason}")?;
            }
        }
    }
    if failed > 0 { Err(Failure::failed(format!("{failed} of the channels did not take the alert"))) } else { Ok(()) }
}

/// Says where it listens, with the token.
fn tell(hub: &Listening, json: bool, out: &mut dyn Write) -> io::Result<()> {
    let line = if json {
        let tokens = hub.tokens.as_ref();
        json!({
            "listen": hub.address.to_string(),
            "url": hub.url(),
            "read_url": hub.read_url(),
            "report_token": tokens.map(|tokens| &tokens.report),
            "token": tokens.is_some(),
        })
        .to_string()
    } else {
        format!("NeuroGC hub: {} (Ctrl-C ends it; programs go on without it)", hub.url())
    };
    writeln!(out, "{line}")?;
    out.flush()
}

/// Every agent and every browser takes one: the hub takes as many as it is allowed to.
fn have_descriptors() {
    let limits = getrlimit(Resource::Nofile);
    // If the kernel refuses, connections above the limit are refused.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

fn default_data() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("neurogc"))
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let ip = |text: &str| match text.trim_start_matches('[').trim_end_matches(']') {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        text => text.parse().ok(),
    };
    let parse = || {
        if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
            return Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        }
        if let Ok(address) = text.parse() {
            return Some(address);
        }
        if let Some(ip) = ip(text) {
            return Some(SocketAddr::new(ip, HUB_PORT));
        }
        let (name, port) = text.rsplit_once(':')?;
        Some(SocketAddr::new(ip(name)?, port.parse().ok()?))
    };
    parse().ok_or_else(|| "it must be an address such as 127.0.0.1:7077, or a port".to_owned())
}

/// The URL of a hub with its name looked up: agents do not do that, because it may take long.
pub(crate) fn with_address(url: &str) -> Result<String, String> {
    let Some(rest) = url.strip_prefix("http://") else { return Ok(url.to_owned()) };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if url.parse::<neurogc_settings::HubAddress>().is_ok() {
        return Ok(url.to_owned());
    }
    let named = if host.contains(':') { host.to_owned() } else { format!("{host}:{HUB_PORT}") };
    let found = named.to_socket_addrs().map_err(|error| format!("cannot resolve the host {host} of --hub: {error}"))?;
    let address =
        found.min_by_key(SocketAddr::is_ipv6).ok_or_else(|| format!("cannot resolve the host {host} of --hub"))?;
    Ok(format!("http://{address}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(listen_address(text).ok().map(|address| address.to_string()).as_deref(), expect, "{text}");
    }

    #[test]
    fn addresses_and_ports_are_read() {
        check("8000", Some("127.0.0.1:8000"));
        check(":8000", Some("127.0.0.1:8000"));
        check("0.0.0.0", Some("0.0.0.0:7077"));
        check("localhost:1", Some("127.0.0.1:1"));
        check("[::1]:5", Some("[::1]:5"));
        check("::1", Some("[::1]:7077"));
        check("hub.example:5", None);
        check("70000", None);
    }

    #[test]
    fn names_are_looked_up_for_agents() {
        assert_eq!(with_address("http://10.0.0.1/x").as_deref(), Ok("http://10.0.0.1/x"));
        assert_eq!(with_address("https://x").as_deref(), Ok("https://x"));
        assert!(with_address("http://no-such-machine.invalid").is_err());
    }
}
