//! The hub itself: who reports, what they said last, and who is to be told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use neurogc_wire::control::{Answer, Ask};
use neurogc_wire::report::{Frame, Reply, Report, Sample, Wanted};
use neurogc_wire::status::Conduct;
use neurogc_wire::trace::Record;
use serde::Serialize;
use serde_json::json;
use tokio::sync::oneshot;

use crate::clock::{exact_unix_ms, unix_ms};
use crate::event::Event;
use crate::facts::id_of;
use crate::live::Clients;
use crate::process::{Process, Source, State, Summary};
use crate::row::Row;
use crate::store::{Batch, Entry, Store, Write};

/// Processes that are held at once. More are refused, because a client that may report could invent processes.
const MOST: usize = 5000;

/// Processes that have ended stay in the list for this long.
const REMEMBERED_MS: u64 = 60_000;

/// Everything that the parts of the hub share.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) host: String,
    pub(crate) started_ms: u64,
    pub(crate) store: Store,
    pub(crate) clients: Clients,
    pub(crate) counts: Counts,
    processes: Mutex<BTreeMap<String, Process>>,
    numbers: AtomicU64,
}

/// What has come in.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) reports: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) missed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// Why a report was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Hub {
    pub(crate) fn new(host: String, store: Store) -> Self {
        Self {
            host,
            started_ms: unix_ms(),
            store,
            clients: Clients::default(),
            counts: Counts::default(),
            processes: Mutex::default(),
            numbers: AtomicU64::new(1),
        }
    }

    /// The processes that are there, and those that have just gone.
    pub(crate) fn processes(&self) -> MutexGuard<'_, BTreeMap<String, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a frame in and gives what its sender shall do.
    pub(crate) fn take(&self, frame: Frame<'_>, source: &Source) -> Result<Reply, TooMany> {
        let Frame { mut report, records, blocks } = frame;
        let (id, now) = (id_of(&report), exact_unix_ms());
        self.counts.reports.fetch_add(1, Ordering::Relaxed);
        let mut processes = self.processes();
        if processes.len() >= MOST && !processes.contains_key(&id) {
            return Err(TooMany);
        }
        let mut is_new = false;
        let process = processes.entry(id).or_insert_with_key(|id| {
            is_new = true;
            Process::new(id, &report, source.clone(), now)
        });
        if process.is_heard_otherwise(source, now as u64) {
            return Ok(Reply::default());
        }
        process.source = source.clone();
        process.heard(&report, now);
        self.counts.missed.fetch_add(report.missed, Ordering::Relaxed);
        process.missed = process.missed.saturating_add(report.missed);
        if let Some(sample) = report.sample.take() {
            self.take_sample(process, &report, sample, now as u64);
        }
        if let Some(batch) = Batch::of(&records, blocks, process.epoch_ms) {
            let events: Vec<_> = records.iter().filter_map(|record| Event::of(record, process.epoch_ms)).collect();
            self.take_events(process, &events, batch);
        }
        for settled in report.answers {
            if let Some(waiting) = process.waiting.remove(&settled.number) {
                let _ = waiting.send(settled.answer);
            }
        }
        let reply = Reply { wanted: std::mem::take(&mut process.wanted) };
        if is_new {
            self.tell_list(&processes);
        }
        Ok(reply)
    }

    fn take_sample(&self, process: &mut Process, report: &Report, sample: Box<Sample>, now_ms: u64) {
        let change = process.take(report, sample, now_ms);
        if let Some((before, after)) = change.policy {
            let record = Record::Policy { at: (report.at_s * 1e9) as u64, before, after };
            if let Some(batch) = Batch::of_records(std::slice::from_ref(&record), process.epoch_ms) {
                let events: Vec<_> = Event::of(&record, process.epoch_ms).into_iter().collect();
                self.take_events(process, &events, batch);
            }
        }
        let Some(row) = change.row else { return };
        let conduct = process.sample.as_ref().map(|(_, sample)| &sample.status.conduct);
        let id = process.facts.id.as_str();
        self.clients
            .tell_watchers(id, || to_text(&SampleMessage { r#type: "sample", id, t: row.t, values: &row, conduct }));
        self.store.put(Write { facts: process.facts.clone(), what: Entry::Row(row) });
    }

    fn take_events(&self, process: &Process, events: &[Event], batch: Batch) {
        self.counts.events.fetch_add(events.len() as u64, Ordering::Relaxed);
        let id = process.facts.id.as_str();
        self.clients.tell_watchers(id, || to_text(&json!({"type": "events", "id": id, "events": events})));
        self.store.put(Write { facts: process.facts.clone(), what: Entry::Events(batch) });
    }

    /// A process has ended.
    pub(crate) fn ended(&self, id: &str) {
        let mut processes = self.processes();
        if let Some(process) = processes.get_mut(id) {
            process.ended = true;
            process.waiting.clear();
            self.clients.tell_watchers(id, || to_text(&json!({"type": "gone", "id": id})));
            self.tell_list(&processes);
        }
    }

    /// Once a second: the list for those who watch it, without those that are long gone.
    pub(crate) fn tick(&self) {
        let now = unix_ms();
        let mut processes = self.processes();
        for (id, process) in processes.iter_mut() {
            if !process.ended && process.state(now) == State::Gone {
                process.ended = true;
                process.waiting.clear();
                self.clients.tell_watchers(id, || to_text(&json!({"type": "gone", "id": id})));
            }
        }
        processes
            .retain(|_, process| !process.ended || now < process.seen_ms + REMEMBERED_MS + crate::process::LOST_MS);
        self.tell_list(&processes);
    }

    /// The list as browsers get it.
    pub(crate) fn list(&self) -> String {
        list_message(&self.processes())
    }

    fn tell_list(&self, processes: &BTreeMap<String, Process>) {
        self.clients.tell_list(|| list_message(processes));
    }

    /// A number that is given once, from 1 on.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Has an agent that posts asked for something with its next reply. The answer comes with a later report.
    pub(crate) fn want(&self, id: &str, ask: Ask) -> Option<oneshot::Receiver<Answer>> {
        let mut processes = self.processes();
        let process = processes.get_mut(id)?;
        let number = self.number();
        let (answer, waiting) = oneshot::channel();
        process.waiting.retain(|_, other| !other.is_closed());
        process.waiting.insert(number, answer);
        process.wanted.push(Wanted { number, ask });
        Some(waiting)
    }
}

#[derive(Serialize)]
struct SampleMessage<'m> {
    r#type: &'static str,
    id: &'m str,
    t: u64,
    values: &'m Row,
    conduct: Option<&'m Conduct>,
}

#[derive(Serialize)]
struct ListMessage<'m> {
    r#type: &'static str,
    now_ms: u64,
    processes: Vec<Summary<'m>>,
}

fn list_message(processes: &BTreeMap<String, Process>) -> String {
    let now_ms = unix_ms();
    let processes = processes.values().map(|process| Summary::of(process, now_ms)).collect();
    to_text(&ListMessage { r#type: "processes", now_ms, processes })
}

/// JSON of something that is always JSON.
pub(crate) fn to_text(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}
