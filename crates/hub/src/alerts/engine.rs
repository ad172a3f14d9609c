//! The thread that looks at processes, keeps to the rules and has messages sent. The hub never waits for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fs, io, thread};

use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::file::{self, AlertFile};
use super::notice::AlertNotice;
use super::observe::{Observer, Watched};
use super::outbox::Outbox;
use super::report::{AlertState, AlertsReport, RuleReport};
use super::state::AlertBook;
use crate::clock::unix_ms;
use crate::hub::Hub;
use crate::process::Presence;

/// How often processes and the file are looked at.
const EVERY: Duration = Duration::from_secs(2);

/// How long messages that wait may take at the end of the hub.
const FAREWELL: Duration = Duration::from_secs(2);

/// Alerts that were told and are not over, kept for the next hub.
const KEPT: &str = "alerts.json";

/// The thread.
#[derive(Debug)]
pub(crate) struct AlertEngine {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl AlertEngine {
    /// Starts the thread, with the rules of a file that has been read.
    pub(crate) fn start(hub: Arc<Hub>, path: PathBuf, file: AlertFile, data: &Path) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build()?;
        let (hangup, mut watch) = {
            // Before the hub says that it listens: from then on the signal does not end it, and the API tells the rules.
            let _inside = runtime.enter();
            let hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
            (hangup, Watch::new(hub, path, file, data.join(KEPT)))
        };
        watch.tell();
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = watch.run(hangup) => {}
                    _ = stopped => {}
                }
                let _ = timeout(FAREWELL, watch.outbox.finish()).await;
            });
            // A look-up of a name that takes long is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("alerts".to_owned()).spawn(work)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for AlertEngine {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How a file looked: another one of these is another file.
type FileMark = Option<(SystemTime, u64)>;

fn mark(path: &Path) -> FileMark {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

struct Watch {
    hub: Arc<Hub>,
    path: PathBuf,
    mark: FileMark,
    file: AlertFile,
    file_error: Option<String>,
    kept: PathBuf,
    observer: Observer,
    book: AlertBook,
    outbox: Outbox,
}

impl Watch {
    fn new(hub: Arc<Hub>, path: PathBuf, file: AlertFile, kept: PathBuf) -> Self {
        let outbox = Outbox::new(&file.channels, file.per_minute);
        let book = AlertBook::from_text(&fs::read_to_string(&kept).unwrap_or_default());
        let mark = mark(&path);
        Self { hub, path, mark, file, file_error: None, kept, observer: Observer::default(), book, outbox }
    }

    async fn run(&mut self, mut hangup: tokio::signal::unix::Signal) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if mark(&self.path) != self.mark {
                        self.read_again();
                    }
                    self.look();
                }
                _ = hangup.recv() => self.read_again(),
            }
            self.tell();
        }
    }

    /// Reads the file again. One that is broken changes nothing.
    fn read_again(&mut self) {
        self.mark = mark(&self.path);
        match file::read(&self.path) {
            Ok(new) => {
                let same = |name: &str| {
                    let old = self.file.rules.iter().find(|rule| rule.name == name);
                    old.is_some() && old == new.rules.iter().find(|rule| rule.name == name)
                };
                // By the channels as they were: the new file may not have them.
                let ended = self.book.forget_rules(same, unix_ms());
                self.send(ended);
                let outbox = Outbox::new(&new.channels, new.per_minute);
                // What waits in the old queues goes out beside the new ones.
                tokio::spawn(std::mem::replace(&mut self.outbox, outbox).finish());
                self.file = new;
                self.file_error = None;
                eprintln!("neurogc: {} alert rules are in force from {}", self.file.rules.len(), self.path.display());
            }
            Err(error) => {
                eprintln!("neurogc: {error}. The alert rules that were read before stay in force");
                self.file_error = Some(error.to_string());
            }
        }
    }

    fn look(&mut self) {
        let views = self.hub.views();
        let watched: Vec<_> = views
            .iter()
            .filter(|view| view.state != Presence::Gone)
            .filter_map(|view| {
                let sample = view.sample.as_deref()?;
                Some(Watched {
                    facts: &view.facts,
                    findings: &sample.status.findings,
                    rss: sample.status.memory.rss,
                    limit: sample.status.memory.limit,
                    latency: &sample.latency.buckets,
                })
            })
            .collect();
        let now_ms = unix_ms();
        let observed = self.observer.look(&self.file.rules, &watched, now_ms);
        let notices = self.book.step(&self.file.rules, observed, now_ms);
        self.send(notices);
    }

    fn send(&mut self, notices: Vec<AlertNotice>) {
        if notices.is_empty() {
            return;
        }
        for notice in notices {
            let rule = self.file.rules.iter().find(|rule| rule.name == notice.alert.rule);
            // One that was kept by an earlier hub may be of a rule that is not there any more.
            if let Some(rule) = rule {
                self.outbox.put(&rule.to, &Arc::new(notice));
            }
        }
        self.keep();
    }

    fn keep(&self) {
        let new = self.kept.with_extension("new");
        let kept = fs::write(&new, self.book.to_text()).and_then(|()| fs::rename(&new, &self.kept));
        if let Err(error) = kept {
            eprintln!("neurogc: alerts cannot be kept in {}: {error}", self.kept.display());
        }
    }

    /// Has the API and the metrics tell how it stands.
    fn tell(&self) {
        let alerts = self.book.reports();
        let mut firing: BTreeMap<&str, usize> = BTreeMap::new();
        for alert in alerts.iter().filter(|alert| alert.state == AlertState::Firing) {
            *firing.entry(&alert.rule).or_default() += 1;
        }
        let rules = self.file.rules.iter().map(|rule| RuleReport {
            name: rule.name.clone(),
            condition: rule.condition_shown(),
            to: rule.to.clone(),
            firing: firing.get(rule.name.as_str()).copied().unwrap_or(0),
        });
        let rules = rules.collect();
        self.hub.set_alerts(AlertsReport {
            enabled: true,
            file: self.path.display().to_string(),
            file_error: self.file_error.clone(),
            rules,
            channels: self.outbox.reports(),
            alerts,
            resolved: self.book.resolved(),
            dropped: self.book.dropped(),
        });
    }
}
