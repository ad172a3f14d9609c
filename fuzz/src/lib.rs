//! What must hold for any bytes at all, one function per reader, for libFuzzer and for the random driver alike.

#![forbid(unsafe_code)]

mod gpu;
mod heap;
mod mend;

use neurogc_wire::control::{self, Ask, MAX_QUESTION, MessageError, Question};
use neurogc_wire::report::{self, Report};
use neurogc_wire::sites::{AllocationDomain, NO_PARENT, Site, SiteCounts, SiteFrame, SiteNode, SiteTable};
use neurogc_wire::status::Cause;
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{self, BlockWriter, Header, OrderKind, Place, Record};

pub use gpu::check_gpu;
use gpu::gpu_seeds;
pub use heap::check_heap;
use heap::heap_seeds;
pub use mend::put_right;

/// A reader under test: its name, what must hold, and well-formed bytes to start from.
pub struct FuzzTarget {
    /// The name of the target.
    pub name: &'static str,
    /// Panics when something does not hold.
    pub check: fn(&[u8]),
    /// Bytes that the reader accepts.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All readers.
pub const TARGETS: [FuzzTarget; 5] = [
    FuzzTarget { name: "control", check: check_control, seeds: control_seeds },
    FuzzTarget { name: "gpu", check: check_gpu, seeds: gpu_seeds },
    FuzzTarget { name: "heap", check: check_heap, seeds: heap_seeds },
    FuzzTarget { name: "report", check: check_report, seeds: report_seeds },
    FuzzTarget { name: "trace", check: check_trace, seeds: trace_seeds },
];

/// A question from a socket: a wrong one is refused, a right one survives being written again, and nothing beyond the
/// limit is read.
pub fn check_control(bytes: &[u8]) {
    let mut rest = bytes;
    match control::read::<Question>(&mut rest, MAX_QUESTION) {
        Ok(question) => {
            assert!(bytes.len() - rest.len() <= 4 + MAX_QUESTION, "more was read than the limit allows");
            let again = control::encode(&question).expect("what was read can be written");
            let back: Question = control::read(&mut again.as_slice(), MAX_QUESTION).expect("and read again");
            assert_eq!(back, question);
        }
        Err(MessageError::TooLong { length, limit }) => {
            assert!(length > limit);
            assert_eq!(bytes.len() - rest.len(), 4, "a message that is too long is not read");
        }
        Err(MessageError::Malformed(_) | MessageError::Broken(_)) => {}
    }
}

/// A report to a hub: it is refused, or what was read can be written and read again.
pub fn check_report(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first_chunk() else { return };
    let Ok(length) = report::announced(*first) else { return };
    let Ok(frame) = report::decode(body.get(..length).unwrap_or(body)) else { return };
    let again = report::encode(&frame.report, frame.blocks).expect("what was read can be written");
    let back = report::decode(&again[4..]).expect("and read again");
    assert_eq!((back.report, back.records), (frame.report, frame.records));
}

/// A trace file: it is refused, or what is damaged is named once, in order and within the file, and the readable
/// records survive being written again.
pub fn check_trace(bytes: &[u8]) {
    let Ok(trace) = trace::read(bytes) else { return };
    let mut end = 0;
    for damage in &trace.damage {
        assert!(damage.offset >= end, "damage is named in the order of the file, once");
        assert!(damage.length > 0);
        end = damage.offset + damage.length;
    }
    assert!(end <= bytes.len(), "damage lies within the file");

    let mut again = trace::encode(&trace.header, &trace.records);
    trace.sites.iter().for_each(|table| again.extend(trace::encode_sites(table)));
    let back = trace::read(&again).expect("what was read can be written and read again");
    assert!(back.damage.is_empty(), "{:?}", back.damage);
    assert_eq!(back.header, trace.header);
    assert_eq!(back.records, trace.records);
    // A table with more sites than matter is cut, but holds as much.
    let live = |tables: &[SiteTable]| -> Vec<u128> {
        tables.iter().map(|table| table.sites.iter().map(|site| u128::from(site.now.live_bytes)).sum()).collect()
    };
    let whole = live(&trace.sites).into_iter().zip(live(&back.sites));
    assert_eq!(back.sites.len(), trace.sites.len());
    whole.for_each(|(one, other)| assert!(one == other || one > u128::from(u64::MAX)));
}

fn control_seeds() -> Vec<Vec<u8>> {
    let question = control::encode(&Question::new(Ask::Status)).unwrap_or_default();
    let mut two = question.clone();
    two.extend_from_slice(&question);
    vec![question, two, vec![0; 4], vec![0xff; 4]]
}

fn report_seeds() -> Vec<Vec<u8>> {
    let mut writer = BlockWriter::new();
    one_of_each(0).iter().for_each(|record| writer.push(record));
    let mut sample = report::Sample::default();
    sample.latency.buckets.add(5_000_000, 3);
    let whole = Report { host: "here".into(), pid: 7, at_s: 1.5, sample: Some(Box::new(sample)), ..Report::default() };
    let encoded = |report: &Report, blocks: &[u8]| report::encode(report, blocks).unwrap_or_default();
    vec![encoded(&whole, &writer.take()), encoded(&Report::default(), &[])]
}

fn trace_seeds() -> Vec<Vec<u8>> {
    let header = Header { pid: 7, command: "python app.py".into(), thresholds: [700, 10, 10], ..Header::default() };
    let empty = trace::encode_header(&header);
    let mut full = empty.clone();
    let mut writer = BlockWriter::new();
    for round in 0..3_u64 {
        for record in one_of_each(round * 1_000_000_000) {
            writer.push(&record);
        }
        full.extend(writer.take());
        full.extend(trace::encode_sites(&sites()));
    }
    let version1 = include_bytes!("../../crates/wire/tests/fixtures/version1.ngct").to_vec();
    vec![empty, full, version1]
}

fn sites() -> SiteTable {
    let now = SiteCounts { live_bytes: 4 << 20, live_blocks: 900, made_bytes: 9 << 20, made_blocks: 2000 };
    SiteTable {
        pid: 7,
        taken_unix_ms: 1_790_000_000_000,
        since_unix_ms: 1_789_999_000_000,
        sample_bytes: 32 << 10,
        strings: vec!["app.py".into(), "load".into()],
        frames: vec![SiteFrame { file: 0, function: 1, line: 12, first_line: 10 }],
        nodes: vec![SiteNode { parent: NO_PARENT, frame: 0 }, SiteNode { parent: 0, frame: 0 }],
        sites: vec![
            Site { node: 1, domain: AllocationDomain::Object, now, before: SiteCounts::default() },
            Site { node: NO_PARENT, domain: AllocationDomain::Malloc, now, before: SiteCounts::default() },
        ],
        ..SiteTable::default()
    }
}

fn one_of_each(at: u64) -> [Record; 12] {
    [
        Record::RequestStart { at, id: 1 },
        Record::RequestEnd { at: at + 900, id: 1 },
        Record::Collection {
            at: at + 1_000,
            pause: 250_000,
            kind: StopKind::Full,
            place: Place::InRequest,
            collected: 10,
            uncollectable: 0,
            order: Some(3),
        },
        Record::Gap { at: at + 2_000, busy: 5_000_000, idle: 20_000_000 },
        Record::Counts { at: at + 3_000, counts: [512, 3, 1] },
        Record::Process { at: at + 4_000, rss: 80 << 20, cpu_us: 1_000_000 },
        Record::Stall { at: at + 5_000, duration: 9_000_000, cause: Cause::Python, site: "app.py:3 in f".into() },
        Record::Dropped { at: at + 6_000, count: 4 },
        Record::Heap { at: at + 7_000, gathered: 701, tenured: 300_000, pending: 20_000 },
        Record::Order { at: at + 7_500, id: 3, guard: true, what: OrderKind::Full, reason: "near its ceiling".into() },
        Record::Policy { at: at + 7_600, before: "observe".into(), after: "gap".into() },
        Record::Flight { at: at + 8_000, lasted: 90_000_000, faults: 40, objects: 320_000, found: 9_000 },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_holds() {
        for target in &TARGETS {
            (target.seeds)().iter().for_each(|seed| (target.check)(seed));
        }
    }
}
