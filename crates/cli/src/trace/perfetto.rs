//! A trace as Chrome trace events, which ui.perfetto.dev opens: slices, counters, and a track for each concern.

use std::collections::HashMap;
use std::io::{self, Write};

use neurogc_wire::trace::{Record, Trace};
use serde_json::{Value, json};

use super::end;

/// The tracks, in the order in which they are shown. Their numbers stand in for thread ids.
const TRACKS: [(u32, &str); 5] = [
    (REQUESTS, "requests"),
    (COLLECTIONS, "collections"),
    (STALLS, "stalls"),
    (GIL, "GIL held"),
    (FLIGHTS, "snapshots"),
];
const REQUESTS: u32 = 1;
const COLLECTIONS: u32 = 2;
const STALLS: u32 = 3;
const GIL: u32 = 4;
const FLIGHTS: u32 = 5;

/// Writes all events, one a line.
pub(crate) fn write(trace: &Trace, to: &mut dyn Write) -> io::Result<()> {
    let mut events = Events { pid: trace.header.pid, to, first: true };
    events.begin(trace)?;
    let mut open = HashMap::new();
    let mut processor = None;
    for record in &trace.records {
        match record {
            Record::RequestStart { at, id } => drop(open.insert(*id, *at)),
            Record::RequestEnd { at, id } => {
                if let Some(start) = open.remove(id) {
                    events.request(*id, start, *at, true)?;
                }
            }
            Record::Process { at, rss, cpu_us } => {
                events.counter("memory", *at, json!({"rss": rss}))?;
                if let Some((before, used)) = processor.replace((*at, *cpu_us))
                    && *at > before
                {
                    let percent = cpu_us.saturating_sub(used) as f64 * 1e5 / (at - before) as f64;
                    events.counter("cpu", *at, json!({"percent": percent}))?;
                }
            }
            record => events.other(record)?,
        }
    }
    let last = trace.records.iter().map(end).max().unwrap_or(0);
    let mut unfinished: Vec<_> = open.into_iter().collect();
    unfinished.sort_unstable();
    for (id, start) in unfinished {
        events.request(id, start, last, false)?;
    }
    writeln!(events.to, "\n]}}")
}

struct Events<'a> {
    pid: u32,
    to: &'a mut dyn Write,
    first: bool,
}

impl Events<'_> {
    fn begin(&mut self, trace: &Trace) -> io::Result<()> {
        let about = serde_json::to_string(&trace.header)?;
        write!(self.to, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[")?;
        let name = format!("{} ({})", trace.header.command, trace.header.python);
        self.event("M", 0, 0, json!({"name": "process_name", "args": {"name": name}}))?;
        for (track, name) in TRACKS {
            self.event("M", track, 0, json!({"name": "thread_name", "args": {"name": name}}))?;
            self.event("M", track, 0, json!({"name": "thread_sort_index", "args": {"sort_index": track}}))?;
        }
        Ok(())
    }

    /// Requests overlap, so they are asynchronous slices with an id.
    fn request(&mut self, id: u64, start: u64, end: u64, finished: bool) -> io::Result<()> {
        let about =
            json!({"name": "request", "cat": "request", "id": format!("{id:#x}"), "args": {"finished": finished}});
        self.event("b", REQUESTS, start, about.clone())?;
        self.event("e", REQUESTS, end.max(start), about)
    }

    fn other(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Collection { at, pause, kind, place, collected, uncollectable, order } => {
                let place = place.name();
                let about =
                    json!({"place": place, "collected": collected, "uncollectable": uncollectable, "order": order});
                self.slice(COLLECTIONS, kind.name(), *at, *pause, about)
            }
            Record::Stall { at, duration, cause, site } => {
                self.slice(STALLS, cause.name(), *at, *duration, json!({"site": site}))
            }
            Record::Gap { at, busy, .. } => self.slice(GIL, "held", *at, *busy, json!({})),
            Record::Counts { at, counts: [young, middle, full] } => {
                self.counter("collector counts", *at, json!({"young": young, "middle": middle, "full": full}))
            }
            Record::Dropped { at, count } => {
                let about = json!({"name": format!("{count} events lost"), "cat": "dropped", "s": "p"});
                self.event("i", REQUESTS, *at, about)
            }
            Record::Order { at, id, guard, what, reason } => {
                let about = json!({"id": id, "guard": guard, "reason": reason});
                self.instant("order", what.name(), *at, about)
            }
            Record::Policy { at, before, after } => {
                self.instant("policy", "policy", *at, json!({"before": before, "after": after}))
            }
            Record::Heap { at, tenured, pending, .. } => {
                self.counter("old heap", *at, json!({"tenured": tenured, "pending": pending}))
            }
            Record::Flight { at, lasted, faults, objects, found } => {
                let about = json!({"faults": faults, "objects": objects, "found": found});
                self.slice(FLIGHTS, "walk", at.saturating_sub(*lasted), *lasted, about)
            }
            Record::RequestWait { at, id, wait, source } => {
                let about = json!({"name": "wait", "cat": "request", "id": format!("{id:#x}"), "args": {"source": source.name()}});
                self.event("b", REQUESTS, at.saturating_sub(*wait), about.clone())?;
                self.event("e", REQUESTS, *at, about)
            }
            Record::RequestStart { .. } | Record::RequestEnd { .. } | Record::Process { .. } => Ok(()),
        }
    }

    /// A mark on the track of collections.
    fn instant(&mut self, category: &str, name: &str, at: u64, about: Value) -> io::Result<()> {
        self.event("i", COLLECTIONS, at, json!({"name": name, "cat": category, "s": "t", "args": about}))
    }

    fn slice(&mut self, track: u32, name: &str, at: u64, duration: u64, about: Value) -> io::Result<()> {
        self.event("X", track, at, json!({"name": name, "dur": microseconds(duration), "args": about}))
    }

    fn counter(&mut self, name: &str, at: u64, values: Value) -> io::Result<()> {
        self.event("C", 0, at, json!({"name": name, "args": values}))
    }

    fn event(&mut self, phase: &str, track: u32, at: u64, mut event: Value) -> io::Result<()> {
        event["ph"] = phase.into();
        event["pid"] = self.pid.into();
        event["tid"] = track.into();
        event["ts"] = microseconds(at);
        self.to.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut *self.to, &event).map_err(io::Error::from)
    }
}

/// The format counts in microseconds; the fraction keeps our nanoseconds.
fn microseconds(ns: u64) -> Value {
    (ns as f64 / 1000.0).into()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn events_read_back_as_json() {
        let mut text = Vec::new();
        write(&samples::trace(), &mut text).unwrap();
        let value: Value = serde_json::from_slice(&text).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        let phase = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        assert_eq!(
            (phase("b"), phase("e")),
            (4, 4),
            "every request begins and ends, the unfinished one too, and a wait"
        );
        assert_eq!(phase("X"), 2 + 2 + 2 + 1, "collections, stalls, spans with the GIL held and walks");
        assert_eq!(value["otherData"]["pid"], 4242);
        let full = events.iter().find(|event| event["name"] == "full").unwrap();
        assert_eq!(full["dur"], 40_000.0);
        assert_eq!(full["args"]["place"], "in_request");
        let order = events.iter().find(|event| event["cat"] == "order").unwrap();
        let collection = events.iter().find(|event| event["args"]["order"] == order["args"]["id"]).unwrap();
        assert_eq!((&order["name"], &collection["name"]), (&json!("young"), &json!("young")));
        assert_eq!(order["args"]["reason"], "memory: near its ceiling");
    }

    #[test]
    fn an_empty_trace_is_valid_json() {
        let mut text = Vec::new();
        let trace = Trace { records: Vec::new(), ..samples::trace() };
        write(&trace, &mut text).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap();
    }
}
