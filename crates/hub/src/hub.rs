//! The hub itself: who reports, what they said last, and who is to be told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neurogc_wire::control::{Answer, Ask};
use neurogc_wire::report::{Frame, Reply, Report, Sample, Wanted};
use neurogc_wire::trace::{Header, Record};
use serde::Serialize;
use tokio::sync::{Semaphore, oneshot};

use crate::alerts::AlertsReport;
use crate::budget::{ARRIVING, FIGURES, FIGURES_EACH, Full, Held, Over, PROCESSES};
use crate::clock::{exact_unix_ms, unix_ms};
use crate::event::Event;
use crate::facts::{ProcessFacts, id_of};
use crate::history::{HistorySource, Past};
use crate::live::Clients;
use crate::message::LiveMessage;
use crate::process::{KnownProcess, Presence, ProcessSummary, Source, View};
use crate::services::services;
use crate::store::{Batch, StoreEntry, Write};
use crate::traces::{TracePiece, TraceStore, plain_header};
use crate::weight::weight;

/// Processes that have ended stay in the list for this long.
const REMEMBERED_MS: u64 = 60_000;

/// Everything that the parts of the hub share.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) host: String,
    pub(crate) started_ms: u64,
    pub(crate) history: HistorySource,
    pub(crate) clients: Clients,
    pub(crate) counts: ReceivedCounts,
    pub(crate) over: Over,
    /// Room for reports that are arriving, in kilobytes.
    pub(crate) arriving: Semaphore,
    processes: Mutex<BTreeMap<String, KnownProcess>>,
    /// What the latest figures of all processes take of memory.
    figures: AtomicU64,
    /// What waits to be written, of all processes.
    waiting_bytes: Arc<AtomicU64>,
    numbers: AtomicU64,
    /// Who was refused last, and why.
    refusal: Mutex<Option<String>>,
    /// How alerts stand.
    alerts: Mutex<Arc<AlertsReport>>,
    /// Processes that report to other hubs, where a server tells of them.
    elsewhere: Mutex<Arc<Vec<Past>>>,
    /// Traces of processes whose agents send them, where they are kept.
    pub(crate) traces: Option<TraceStore>,
}

/// What has come in.
#[derive(Debug, Default)]
pub(crate) struct ReceivedCounts {
    pub(crate) reports: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) missed: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Reports of a process that came from another one.
    pub(crate) impostors: AtomicU64,
}

/// Why a report was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no room for another process.
    TooMany,
    /// It came from another source than the process that it names.
    Impostor(String),
    /// What it says cannot be.
    Absurd(&'static str),
}

/// What a report changes, to be told and kept once the lock is free.
#[derive(Default)]
struct News {
    change: crate::process::SampleChange,
    sample: Option<Arc<Sample>>,
}

/// A process as far as its events need it.
struct Its {
    facts: Arc<ProcessFacts>,
    /// How its trace begins, where its agent sends one.
    trace: Option<Arc<Header>>,
    epoch_ms: f64,
    waiting_bytes: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
}

impl Hub {
    pub(crate) fn new(host: String, history: HistorySource) -> Self {
        let now = unix_ms();
        Self {
            host,
            started_ms: now,
            history,
            clients: Clients::default(),
            counts: ReceivedCounts::default(),
            over: Over::default(),
            arriving: Semaphore::new(ARRIVING >> 10),
            processes: Mutex::default(),
            figures: AtomicU64::new(0),
            waiting_bytes: Arc::default(),
            // An agent may still hold the answer to a number of the hub that ran before this one.
            numbers: AtomicU64::new(now.saturating_mul(1000)),
            refusal: Mutex::default(),
            alerts: Mutex::default(),
            elsewhere: Mutex::default(),
            traces: None,
        }
    }

    /// The same with a place for traces.
    pub(crate) fn keeping(self, traces: TraceStore) -> Self {
        Self { traces: Some(traces), ..self }
    }

    /// The processes that are there, and those that have just gone. What is long is not done while they are held.
    pub(crate) fn processes(&self) -> MutexGuard<'_, BTreeMap<String, KnownProcess>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them at this moment, to be told of without holding them.
    pub(crate) fn views(&self) -> Vec<View> {
        let now_ms = unix_ms();
        self.processes().values().map(|process| process.view(now_ms)).collect()
    }

    /// Bytes of memory that the figures of all processes take, and that wait to be written.
    pub(crate) fn used(&self) -> (u64, u64) {
        (self.figures.load(Ordering::Relaxed), self.waiting_bytes.load(Ordering::Relaxed))
    }

    /// Counts a report that came from another source than the process that it names.
    pub(crate) fn refuse_impostor(&self, why: &str) {
        self.counts.impostors.fetch_add(1, Ordering::Relaxed);
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
    }

    /// Who was refused last, and why.
    pub(crate) fn last_refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How alerts stand.
    pub(crate) fn alerts(&self) -> Arc<AlertsReport> {
        Arc::clone(&self.alerts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says how alerts stand.
    pub(crate) fn set_alerts(&self, report: AlertsReport) {
        *self.alerts.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(report);
    }

    /// Says which processes are there, wherever they report to.
    pub(crate) fn set_elsewhere(&self, present: Vec<Past>) {
        *self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(present);
    }

    /// Processes that report to other hubs now.
    pub(crate) fn elsewhere(&self) -> Arc<Vec<Past>> {
        Arc::clone(&self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a frame in and gives what its sender shall do.
    pub(crate) fn take(&self, frame: Frame<'_>, source: &Source) -> Result<Reply, Refusal> {
        let taken = self.take_frame(frame, source);
        match &taken {
            Err(Refusal::Impostor(why)) => self.refuse_impostor(why),
            Err(Refusal::Absurd(_)) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        taken
    }

    fn take_frame(&self, frame: Frame<'_>, source: &Source) -> Result<Reply, Refusal> {
        let Frame { mut report, records, blocks } = frame;
        self.counts.reports.fetch_add(1, Ordering::Relaxed);
        check(&report, &records)?;
        let (id, now) = (id_of(&report), exact_unix_ms());
        let sample = report.sample.take().map(|sample| {
            // The row that is made of it has the latencies once more.
            (weight(&*sample) + weight(&sample.latency), Arc::from(sample))
        });
        let header = report.trace.take().map(|header| Arc::new(plain_header(*header)));
        let (reply, its, news) = {
            let mut processes = self.processes();
            if processes.len() >= PROCESSES && !processes.contains_key(&id) {
                return Err(Refusal::TooMany);
            }
            let process =
                processes.entry(id).or_insert_with_key(|id| KnownProcess::new(id, &report, source.clone(), now));
            if !process.is_bound_to(source, &report.key, report.host == self.host) {
                let by =
                    source.owner().map_or("an agent that posts".to_owned(), |owner| format!("process {}", owner.pid));
                return Err(Refusal::Impostor(format!(
                    "{by} claims to be {}, which reports already",
                    process.facts.id
                )));
            }
            if process.is_heard_otherwise(source, now as u64) {
                return Ok(Reply::default());
            }
            process.source = source.clone();
            process.heard(&report, now);
            process.missed = process.missed.saturating_add(report.missed);
            let news = sample.map_or_else(News::default, |(weight, sample)| {
                self.take_sample(process, &report, (weight, sample), now as u64)
            });
            for settled in report.answers {
                process.wanted.retain(|wanted| wanted.number != settled.number);
                if let Some(waiting) = process.waiting.remove(&settled.number) {
                    let _ = waiting.send(settled.answer);
                }
            }
            if header.is_some() {
                process.trace = header;
            }
            let its = Its {
                facts: Arc::clone(&process.facts),
                trace: process.trace.clone(),
                epoch_ms: process.epoch_ms,
                waiting_bytes: Arc::clone(&process.waiting_bytes),
                dropped: Arc::clone(&process.dropped_events),
            };
            process.forget_unawaited();
            // A reply may be lost, so a command goes with every one until it is answered. Agents know it by its number.
            (Reply { wanted: process.wanted.clone() }, its, news)
        };
        let missed = &self.counts.missed;
        let _ =
            missed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| Some(sum.saturating_add(report.missed)));
        self.tell_and_keep(&its, news, report.at_s);
        let events: Vec<_> = records.iter().filter_map(|record| Event::of(record, its.epoch_ms)).collect();
        let batch = if events.len() == records.len() {
            Batch::of(&records, blocks, its.epoch_ms)
        } else {
            // The rest of a trace is too much for the history.
            let is_event = |record: &&Record| Event::of(record, its.epoch_ms).is_some();
            let told: Vec<_> = records.iter().filter(is_event).cloned().collect();
            Batch::of_records(&told, its.epoch_ms)
        };
        if let Some(batch) = batch {
            self.take_events(&its, &events, batch);
        }
        self.keep_trace(&its, blocks, (report.missed, (report.at_s * 1e9) as u64));
        Ok(reply)
    }

    /// Keeps what a trace records, where the agent sends it.
    fn keep_trace(&self, its: &Its, blocks: &[u8], lost: (u64, u64)) {
        let (Some(traces), Some(header)) = (&self.traces, &its.trace) else { return };
        if blocks.is_empty() && lost.0 == 0 {
            return;
        }
        match Held::take(blocks.len() as u64, &its.waiting_bytes, &self.waiting_bytes) {
            Ok(held) => traces.put(TracePiece {
                id: its.facts.id.clone(),
                header: Arc::clone(header),
                blocks: blocks.to_vec(),
                lost,
                held: Some(held),
            }),
            Err(_) => traces.drop_piece(),
        }
    }

    /// Takes figures over, if the budgets allow them.
    fn take_sample(
        &self,
        process: &mut KnownProcess,
        report: &Report,
        (weight, sample): (usize, Arc<Sample>),
        now_ms: u64,
    ) -> News {
        let others = self.figures.load(Ordering::Relaxed).saturating_sub(process.weight as u64);
        let over = if weight > FIGURES_EACH {
            Some(&self.over.figures_each)
        } else if others + weight as u64 > FIGURES as u64 {
            Some(&self.over.figures_all)
        } else {
            None
        };
        if let Some(over) = over {
            over.fetch_add(1, Ordering::Relaxed);
            process.dropped_figures += 1;
            return News::default();
        }
        self.figures.store(others + weight as u64, Ordering::Relaxed);
        process.weight = weight;
        News { change: process.take(report, Arc::clone(&sample), now_ms), sample: Some(sample) }
    }

    fn tell_and_keep(&self, its: &Its, news: News, at_s: f64) {
        if let Some((before, after)) = news.change.policy {
            let record = Record::Policy { at: (at_s * 1e9) as u64, before, after };
            if let Some(batch) = Batch::of_records(std::slice::from_ref(&record), its.epoch_ms) {
                let events: Vec<_> = Event::of(&record, its.epoch_ms).into_iter().collect();
                self.take_events(its, &events, batch);
            }
        }
        if let Some((t, census)) = news.change.census {
            let bytes = weight(&*census) as u64;
            self.keep(its, StoreEntry::Census(t, census), bytes, 0);
        }
        let Some(row) = news.change.row else { return };
        let conduct = news.sample.as_ref().map(|sample| &sample.status.conduct);
        let id = its.facts.id.as_str();
        self.clients.tell_watchers(id, || LiveMessage::Sample { id, t: row.t, values: &row, conduct }.text());
        let bytes = row.bytes();
        self.keep(its, StoreEntry::Row(row), bytes, 0);
    }

    fn take_events(&self, its: &Its, events: &[Event], batch: Batch) {
        self.counts.events.fetch_add(events.len() as u64, Ordering::Relaxed);
        let id = its.facts.id.as_str();
        self.clients.tell_watchers(id, || LiveMessage::Events { id, events }.text());
        let bytes = batch.bytes();
        self.keep(its, StoreEntry::Events(batch), bytes, events.len() as u64);
    }

    fn keep(&self, its: &Its, what: StoreEntry, bytes: u64, events: u64) {
        match Held::take(bytes, &its.waiting_bytes, &self.waiting_bytes) {
            Ok(held) => self.history.put(Write { facts: Arc::clone(&its.facts), what, held: Some(held) }),
            Err(full) => {
                let over = if full == Full::Each { &self.over.events_each } else { &self.over.events_all };
                over.fetch_add(events.max(1), Ordering::Relaxed);
                its.dropped.fetch_add(events, Ordering::Relaxed);
            }
        }
    }

    /// A process has ended.
    pub(crate) fn ended(&self, id: &str) {
        let known = self.processes().get_mut(id).map(end).is_some();
        if known {
            self.clients.tell_watchers(id, || LiveMessage::Gone { id }.text());
        }
    }

    /// No agent listens on a socket any more. Its process has ended, unless the hub follows it by another one: a program that
    /// has become another user has a new socket.
    pub(crate) fn unheard_at(&self, id: &str, path: &Path) {
        let by_this =
            |process: &KnownProcess| matches!(&process.source, Source::Socket { path: own, .. } if own == path);
        if self.processes().get(id).is_some_and(by_this) {
            self.ended(id);
        }
    }

    /// Once a second: those that are silent for long have gone, and those that are long gone are forgotten.
    pub(crate) fn tick(&self) {
        let now = unix_ms();
        let mut gone = Vec::new();
        {
            let mut processes = self.processes();
            for (id, process) in processes.iter_mut() {
                if !process.ended && process.state(now) == Presence::Gone {
                    end(process);
                    gone.push(id.clone());
                }
            }
            processes
                .retain(|_, process| !process.ended || now < process.seen_ms + REMEMBERED_MS + crate::process::LOST_MS);
            self.figures.store(processes.values().map(|process| process.weight as u64).sum(), Ordering::Relaxed);
        }
        for id in gone {
            self.clients.tell_watchers(&id, || LiveMessage::Gone { id: &id }.text());
        }
    }

    /// The list as browsers get it. It may be long: it is written in a thread that serves no connections.
    pub(crate) fn list(&self) -> String {
        let (views, elsewhere) = (self.views(), self.elsewhere());
        let processes = views.iter().map(ProcessSummary::of).chain(self.others(&views, &elsewhere)).collect();
        LiveMessage::Processes { now_ms: unix_ms(), processes, services: services(&views) }.text()
    }

    /// Processes with history that do not report here.
    pub(crate) fn others<'p>(
        &'p self,
        views: &[View],
        past: &'p [Past],
    ) -> impl Iterator<Item = ProcessSummary<'p>> + use<'p> {
        let known: BTreeSet<String> = views.iter().map(|view| view.facts.id.clone()).collect();
        let past = past.iter().filter(move |(facts, _)| !known.contains(&facts.id));
        past.map(|(facts, seen_ms)| ProcessSummary::of_history(facts, *seen_ms, self.history.presence(*seen_ms)))
    }

    /// A number that is given once, by this hub and those before it.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Has an agent that posts asked for something with its next replies. The answer comes with a later report. `None` where
    /// the process is gone or has too much to do already.
    pub(crate) fn want(&self, id: &str, ask: Ask) -> Option<oneshot::Receiver<Answer>> {
        let mut processes = self.processes();
        let process = processes.get_mut(id)?;
        process.forget_unawaited();
        if process.waiting.len() >= MOST_WANTED {
            return None;
        }
        let number = self.number();
        let (answer, waiting) = oneshot::channel();
        process.waiting.insert(number, answer);
        process.wanted.push(Wanted { number, ask });
        Some(waiting)
    }
}

/// Commands that one process may have to answer at once.
const MOST_WANTED: usize = 8;

/// Times that can be: ten years since the start of an agent, and a start before the year 2200.
const LONGEST_S: f64 = 10.0 * 366.0 * 86_400.0;
const LAST_START_MS: u64 = 7_258_118_400_000;

/// How much later than its report an event may be.
const AHEAD_NS: u64 = 10_000_000_000;

/// The longest key, and the answers that a report may carry.
const LONGEST_KEY: usize = 64;
const MOST_ANSWERS: usize = 256;

/// Numbers that no agent sends would spoil the history of others: what lies in the future never gets old.
fn check(report: &Report, records: &[Record]) -> Result<(), Refusal> {
    let at = report.at_s;
    if !(at.is_finite() && (0.0..=LONGEST_S).contains(&at)) || report.started_unix_ms > LAST_START_MS {
        return Err(Refusal::Absurd("its times cannot be"));
    }
    if i32::try_from(report.pid).is_err() || report.key.len() > LONGEST_KEY || report.answers.len() > MOST_ANSWERS {
        return Err(Refusal::Absurd("its process id, key or answers cannot be"));
    }
    let latest = (at * 1e9) as u64 + AHEAD_NS;
    if records.iter().any(|record| record.at() > latest) {
        return Err(Refusal::Absurd("its events are later than itself"));
    }
    Ok(())
}

fn end(process: &mut KnownProcess) {
    process.ended = true;
    process.waiting.clear();
    process.wanted.clear();
}

/// JSON of something that is always JSON.
pub(crate) fn to_text(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}
