//! What happened while the command ran: collections and requests from traces, calls of marked functions from the file that
//! `profile_memory` writes.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{Record, Trace, read};
use serde::Serialize;

use crate::figures::plain;

/// What is drawn at most: the longest.
const MOST_COLLECTIONS: usize = 1500;
const MOST_SPANS: usize = 400;

/// A trace or a file of marks that is longer is not read.
const LARGEST_FILE: u64 = 256 << 20;

/// What the page marks. Times are seconds since the command began.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Marks {
    collections: Vec<CollectionMark>,
    collections_in_all: usize,
    spans: Vec<SpanMark>,
    spans_in_all: usize,
}

#[derive(Debug, PartialEq, Serialize)]
struct CollectionMark {
    at: f64,
    ms: f64,
    what: &'static str,
    pid: u32,
}

#[derive(Debug, PartialEq, Serialize)]
struct SpanMark {
    name: String,
    pid: u32,
    from: f64,
    to: f64,
}

impl Marks {
    /// Reads the traces that the processes have written, and the file of `profile_memory`. What is damaged is left out.
    pub(crate) fn gather(traces: &[&Path], calls: &Path, began_unix_ns: u64, ended_s: f64) -> Self {
        let mut marks = Self::default();
        for path in traces {
            let small = fs::metadata(path).is_ok_and(|it| it.len() <= LARGEST_FILE);
            let trace = if small { fs::read(path).ok().and_then(|bytes| read(&bytes).ok()) } else { None };
            if let Some(trace) = trace {
                marks.add_trace(&trace, began_unix_ns, ended_s);
            }
        }
        marks.add_calls(&fs::read_to_string(calls).unwrap_or_default(), began_unix_ns, ended_s);
        marks.choose();
        marks
    }

    fn add_trace(&mut self, trace: &Trace, began_unix_ns: u64, ended_s: f64) {
        let (pid, start) = (trace.header.pid, trace.header.started_unix_ns);
        let second = |at: u64| since(start.saturating_add(at), began_unix_ns);
        let mut requests: HashMap<u64, u64> = HashMap::new();
        let mut spans = Vec::new();
        let request = |from: f64, to: f64| SpanMark { name: "request".to_owned(), pid, from, to };
        for record in &trace.records {
            match record {
                Record::Collection { at, pause, kind, .. } => {
                    let (ms, what) = (*pause as f64 / 1e6, name(*kind));
                    self.collections.push(CollectionMark { at: second(*at), ms, what, pid });
                }
                Record::RequestStart { at, id } => drop(requests.insert(*id, *at)),
                Record::RequestEnd { at, id } => {
                    let began = requests.remove(id);
                    spans.extend(began.map(|began| request(second(began), second(*at))));
                }
                _ => {}
            }
        }
        // What was being served when the program ended.
        spans.extend(requests.values().map(|began| request(second(*began), ended_s)));
        self.spans.append(&mut spans);
    }

    /// Each line: `+` or `-`, the process, the number of the call, the time in nanoseconds since 1970, the function.
    fn add_calls(&mut self, text: &str, began_unix_ns: u64, ended_s: f64) {
        let mut open: HashMap<(u32, u64), (f64, String)> = HashMap::new();
        for line in text.lines() {
            let mut words = line.splitn(5, ' ');
            let (sign, pid, call, at) =
                (words.next(), number(words.next()), number(words.next()), number(words.next()));
            let (Some(sign), Some(pid), Some(call), Some(at)) = (sign, pid, call, at) else { continue };
            let (key, at) = ((pid as u32, call), since(at, began_unix_ns));
            match (sign, words.next()) {
                ("+", Some(name)) => drop(open.insert(key, (at, plain(name)))),
                _ => {
                    let began = open.remove(&key);
                    self.spans.extend(began.map(|(from, name)| SpanMark { name, pid: key.0, from, to: at }));
                }
            }
        }
        let cut = open.into_iter().map(|((pid, _), (from, name))| SpanMark { name, pid, from, to: ended_s });
        self.spans.extend(cut);
    }

    /// Keeps the longest.
    fn choose(&mut self) {
        (self.collections_in_all, self.spans_in_all) = (self.collections.len(), self.spans.len());
        self.collections.sort_by(|one, other| other.ms.total_cmp(&one.ms));
        self.collections.truncate(MOST_COLLECTIONS);
        self.collections.sort_by(|one, other| one.at.total_cmp(&other.at));
        let long = |span: &SpanMark| span.to - span.from;
        // Functions that were marked by hand come before requests.
        let key = |span: &SpanMark| (span.name == "request", -long(span));
        self.spans.sort_by(|one, other| key(one).0.cmp(&key(other).0).then(key(one).1.total_cmp(&key(other).1)));
        self.spans.truncate(MOST_SPANS);
    }
}

fn since(unix_ns: u64, began_unix_ns: u64) -> f64 {
    unix_ns.saturating_sub(began_unix_ns) as f64 / 1e9
}

fn number(word: Option<&str>) -> Option<u64> {
    word?.parse().ok()
}

/// The names that the page has colours for.
fn name(kind: StopKind) -> &'static str {
    match kind.name() {
        "young" => "young",
        "middle" => "middle",
        "full" => "full",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_trace_gives_collections_and_requests() {
        let mut marks = Marks::default();
        let trace = samples::trace();
        marks.add_trace(&trace, trace.header.started_unix_ns.saturating_sub(2_000_000_000), 1000.0);
        let count = |wanted: fn(&Record) -> bool| trace.records.iter().filter(|record| wanted(record)).count();
        assert_eq!(marks.collections.len(), count(|record| matches!(record, Record::Collection { .. })));
        assert_eq!(marks.spans.len(), count(|record| matches!(record, Record::RequestStart { .. })));
        assert!(marks.collections.iter().all(|mark| mark.at >= 2.0));
    }

    #[test]
    fn calls_are_paired_and_those_that_a_crash_cut_off_last_to_the_end() {
        let mut marks = Marks::default();
        let text = "+ 7 1 1000000000 load.data\n+ 7 2 2000000000 fit\n- 7 2 4000000000\nrubbish\n- 9 9 1\n";
        marks.add_calls(text, 500_000_000, 9.0);
        marks.choose();
        let span = |name: &str, from: f64, to: f64| SpanMark { name: name.to_owned(), pid: 7, from, to };
        assert_eq!(marks.spans, [span("load.data", 0.5, 9.0), span("fit", 1.5, 3.5)]);
    }

    #[test]
    fn only_the_longest_are_kept() {
        let mark = |at: usize| CollectionMark { at: at as f64, ms: at as f64, what: "young", pid: 1 };
        let mut marks = Marks { collections: (0..5000).map(mark).collect(), ..Marks::default() };
        marks.choose();
        assert_eq!((marks.collections.len(), marks.collections_in_all), (MOST_COLLECTIONS, 5000));
        assert_eq!(marks.collections[0].at, (5000 - MOST_COLLECTIONS) as f64);
    }
}
