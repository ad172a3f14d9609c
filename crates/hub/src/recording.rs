//! A recorded trace as if it had been reported: the same rows and the same events.

use std::collections::HashMap;

use neurogc_wire::report::Sample;
use neurogc_wire::status::Pauses;
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{Damage, Header, Place, Record, TraceError, walk};

use crate::event::Event;
use crate::row::{FigureRow, Steps};
use crate::series::TRACED;
use crate::store::{Choice, Found, Wish};

const SECOND_NS: u64 = 1_000_000_000;

/// Requests that have begun and not ended; more are forgotten, since a damaged trace may hold beginnings only.
const MOST_OPEN: usize = 100_000;

/// The longest recording, so that a damaged time does not make a row for each second of a century.
const LONGEST_S: u64 = 7 * 24 * 3600;

/// What a trace is, without what happened in it.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) header: Header,
    pub(crate) damage: Vec<Damage>,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

/// The moment that records count from.
fn epoch_ms(header: &Header) -> f64 {
    (header.started_unix_ns / 1000) as f64 / 1e3
}

/// Reads what a trace is, a block at a time.
pub(crate) fn read(bytes: &[u8]) -> Result<Recording, TraceError> {
    let header = header_of(bytes)?;
    let from_ms = header.started_unix_ns / 1_000_000;
    let mut last = 0;
    let (_, damage) = walk(bytes, &mut |block| {
        let times = block.records().into_iter().map(|record| record.at()).filter(|at| at / SECOND_NS <= LONGEST_S);
        last = times.fold(last, u64::max);
    })?;
    Ok(Recording { header, damage, from_ms, to_ms: from_ms + last / 1_000_000 + 1 })
}

/// The rows of a while, folded into steps as they are read: a trace of a week has many more than are drawn.
pub(crate) fn rows(bytes: &[u8], (from, to): (u64, u64), step_ms: u64) -> Result<Vec<FigureRow>, TraceError> {
    let from_ms = header_of(bytes)?.started_unix_ns / 1_000_000;
    let mut replay = Replay::new(from_ms, (from, to), step_ms);
    walk(bytes, &mut |block| block.records().iter().for_each(|record| replay.take(record)))?;
    replay.close_second();
    Ok(replay.steps.finish())
}

/// The events of a trace.
pub(crate) fn events(bytes: &[u8], wish: &Wish) -> Result<Found, TraceError> {
    let epoch = epoch_ms(&header_of(bytes)?);
    let mut choice = Choice::new(wish.limit);
    walk(bytes, &mut |block| {
        let records = block.records();
        let events = records.iter().filter_map(|record| Event::of(record, epoch));
        events.filter(|event| wish.grants(event)).for_each(|event| choice.offer(event));
    })?;
    Ok(choice.made())
}

/// The header alone; the rest is not read.
fn header_of(bytes: &[u8]) -> Result<Header, TraceError> {
    const LONGEST: usize = 64 * 1024;
    walk(&bytes[..bytes.len().min(LONGEST)], &mut drop).map(|(header, _)| header)
}

/// The figures that an agent would have reported.
#[derive(Debug)]
struct Replay {
    from_ms: u64,
    /// The while that is wanted.
    wanted: (u64, u64),
    now: Sample,
    before: Sample,
    /// When each request began, and how long it had waited.
    open: HashMap<u64, (u64, u64)>,
    /// The second that is being filled, and the time of the latest record.
    second: u64,
    cpu: Option<(u64, u64)>,
    steps: Steps,
}

impl Replay {
    fn new(from_ms: u64, wanted: (u64, u64), step_ms: u64) -> Self {
        Self {
            from_ms,
            wanted,
            now: Sample::default(),
            before: Sample::default(),
            open: HashMap::new(),
            second: 0,
            cpu: None,
            steps: Steps::new(step_ms),
        }
    }

    fn take(&mut self, record: &Record) {
        let at = record.at();
        if at / SECOND_NS > LONGEST_S {
            return;
        }
        if at / SECOND_NS > self.second {
            self.close_second();
            self.second = at / SECOND_NS;
        }
        let status = &mut self.now.status;
        match record {
            Record::RequestStart { at, id } if self.open.len() < MOST_OPEN => {
                self.open.insert(*id, (*at, 0));
                status.requests.in_flight += 1;
            }
            Record::RequestEnd { at, id } => {
                status.requests.count += 1;
                status.requests.in_flight = status.requests.in_flight.saturating_sub(1);
                if let Some((began, wait)) = self.open.remove(id) {
                    let lasted = at.saturating_sub(began);
                    let total = wait.saturating_add(lasted);
                    status.requests.max_ms = status.requests.max_ms.max(total as f64 / 1e6);
                    self.now.latency.buckets.add(total, 1);
                    self.now.wait.buckets.add(wait, 1);
                    self.now.service.buckets.add(lasted, 1);
                }
            }
            Record::RequestWait { id, wait, .. } => {
                if let Some(open) = self.open.get_mut(id) {
                    open.1 = *wait;
                }
            }
            Record::Collection { pause, kind, place, collected, .. } => {
                self.collection(*pause, *kind, *place, *collected);
            }
            Record::Gap { busy, idle, .. } => {
                self.now.gil_busy_ms += *busy as f64 / 1e6;
                self.now.gil_idle_ms += *idle as f64 / 1e6;
            }
            Record::Process { at, rss, cpu_us } => {
                status.memory.rss = *rss;
                if let Some((then, used)) = self.cpu.replace((*at, *cpu_us))
                    && *at > then
                {
                    status.cpu.percent = cpu_us.saturating_sub(used) as f64 * 1e5 / (*at - then) as f64;
                }
            }
            Record::Stall { duration, cause, .. } => {
                *status.stalls.by_cause.of(*cause) += 1;
                status.stalls.max_ms = status.stalls.max_ms.max(*duration as f64 / 1e6);
                self.now.stalls.buckets.add(*duration, 1);
            }
            Record::Dropped { count, .. } => status.agent.dropped += count,
            _ => {}
        }
    }

    fn collection(&mut self, pause: u64, kind: StopKind, place: Place, collected: u64) {
        let ms = pause as f64 / 1e6;
        let gc = &mut self.now.status.gc;
        let count = |pauses: &mut Pauses| {
            pauses.count += 1;
            pauses.max_ms = pauses.max_ms.max(ms);
        };
        match kind {
            StopKind::Young => count(&mut gc.young),
            StopKind::Middle => count(&mut gc.middle),
            StopKind::Full => count(&mut gc.full),
            StopKind::Reap => count(&mut gc.reap),
            StopKind::Clone => {
                gc.snapshot.count += 1;
                gc.snapshot.clone_max_ms = gc.snapshot.clone_max_ms.max(ms);
            }
        }
        let place = match place {
            Place::InRequest => &mut gc.in_request,
            Place::InGap => &mut gc.in_gap,
            Place::InGapArrivals => &mut gc.in_gap_arrivals,
            Place::Forced => &mut gc.forced,
        };
        place.total_ms += ms;
        gc.collected += collected;
        let pauses = &mut self.now.pauses[kind];
        pauses.total_ms += ms;
        pauses.buckets.add(pause, 1);
    }

    fn close_second(&mut self) {
        let t = self.from_ms + (self.second + 1) * 1000;
        let mut row = FigureRow::between(&self.before, &self.now, 1.0, t);
        row.keep_only(|name| TRACED.iter().any(|traced| name.starts_with(traced)));
        // A row ends after what it tells of, so the last one may end after the recording.
        if t > self.wanted.0 && t < self.wanted.1.saturating_add(1000) {
            self.steps.add(&row);
        }
        self.before = self.now.clone();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_wire::trace::{BlockWriter, encode_header};

    use super::*;
    use crate::series::position;

    const MS: u64 = 1_000_000;

    fn trace() -> Vec<u8> {
        let mut bytes = encode_header(&Header { started_unix_ns: 1_000_000 * MS, ..Header::default() });
        let mut writer = BlockWriter::new();
        let collection = |at, pause, place| Record::Collection {
            at,
            pause,
            kind: StopKind::Young,
            place,
            collected: 5,
            uncollectable: 0,
            order: None,
        };
        for record in [
            Record::Process { at: 0, rss: 100, cpu_us: 0 },
            Record::RequestStart { at: 10 * MS, id: 1 },
            collection(20 * MS, 8 * MS, Place::InRequest),
            Record::RequestEnd { at: 60 * MS, id: 1 },
            Record::Process { at: 1000 * MS, rss: 200, cpu_us: 250_000 },
            collection(3500 * MS, MS, Place::InGap),
        ] {
            writer.push(&record);
        }
        bytes.extend(writer.take());
        bytes
    }

    #[test]
    fn a_trace_becomes_rows() {
        let recording = read(&trace()).unwrap();
        assert_eq!((recording.from_ms, recording.to_ms), (1_000_000, 1_003_501));
        let rows = rows(&trace(), (recording.from_ms, recording.to_ms), 1000).unwrap();
        let times: Vec<_> = rows.iter().map(|row| row.t).collect();
        assert_eq!(times, [1_001_000, 1_002_000, 1_004_000]);
        let value = |row: usize, name: &str| rows[row].value(position(name).unwrap());
        assert!((value(0, "requests.p50_ms").unwrap() - 50.0).abs() < 2.0);
        assert_eq!((value(0, "gc.in_request_ms"), value(2, "gc.in_request_ms")), (Some(8.0), Some(0.0)));
        assert_eq!((value(1, "memory.rss"), value(1, "cpu.percent")), (Some(200.0), Some(25.0)));
        assert_eq!(value(0, "fds"), None);
    }

    #[test]
    fn events_of_a_trace_are_chosen_as_those_of_a_process() {
        let wish = Wish { from_ms: 0, to_ms: u64::MAX, kinds: Vec::new(), min_ms: 0.0, limit: 1 };
        let found = events(&trace(), &wish).unwrap();
        assert_eq!((found.events.len(), found.left_out, found.events[0].ms()), (1, 1, Some(8.0)));
        assert_eq!(found.events[0].t, 1_000_020.0);
    }
}
