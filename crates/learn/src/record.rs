//! A simulated run as a trace, such as the agent of a real program would have recorded.

use neurogc_policy::Flown;
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{Header, Place, Record, Trace, WaitSource};

use crate::machine::{SimulatedProgram, SimulatedStop};
use crate::workload::Workload;

/// How often memory is looked at.
const LOOK: u64 = 100_000_000;

/// Records what happens.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    records: Vec<Record>,
    served: u64,
    next_look: u64,
    /// Whether the kernel says when a request came.
    arrivals: bool,
}

impl Recorder {
    /// On a machine whose kernel says when a request came, or does not.
    pub(crate) fn new(arrivals: bool) -> Self {
        Self { arrivals, ..Self::default() }
    }

    /// A request that came, began and ended; when it came is recorded where the kernel says so.
    pub(crate) fn request(&mut self, came: u64, began: u64, ended: u64) {
        let id = self.served;
        self.served += 1;
        self.records.push(Record::RequestStart { at: began, id });
        if self.arrivals {
            let (wait, source) = (began.saturating_sub(came), WaitSource::Socket);
            self.records.push(Record::RequestWait { at: began, id, wait, source });
        }
        self.records.push(Record::RequestEnd { at: ended, id });
    }

    /// A stop that is just over.
    pub(crate) fn stop(&mut self, machine: &SimulatedProgram<'_>, stop: SimulatedStop, kind: StopKind, place: Place) {
        let (at, pause) = (machine.now - stop.lasted, stop.lasted);
        let collected = stop.freed as u64;
        let (uncollectable, order) = (0, None);
        self.records.push(Record::Collection { at, pause, kind, place, collected, uncollectable, order });
        if let Some(collected) = stop.collected {
            let (tenured, pending) = (machine.heap.tenured() as u64, machine.heap.pending() as u64);
            self.records.push(Record::Heap { at, gathered: u64::from(collected.gathered), tenured, pending });
        }
    }

    /// A walk that is over, with so many bytes copied meanwhile.
    pub(crate) fn flight(&mut self, flown: &Flown, faults: u64) {
        let nanoseconds = |duration: std::time::Duration| duration.as_nanos() as u64;
        self.records.push(Record::Flight {
            at: nanoseconds(flown.at),
            lasted: nanoseconds(flown.flight),
            faults,
            objects: flown.objects,
            found: flown.found,
        });
    }

    /// Looks at the process where it is time to. `worked` is processor time in nanoseconds.
    pub(crate) fn look(&mut self, machine: &SimulatedProgram<'_>, worked: u64) {
        if machine.now >= self.next_look {
            self.next_look = machine.now + LOOK;
            self.records.push(Record::Process { at: machine.now, rss: machine.rss() as u64, cpu_us: worked / 1000 });
        }
    }

    pub(crate) fn trace(mut self, workload: &Workload, policy: &str) -> Trace {
        self.records.sort_by_key(Record::at);
        let header = Header {
            command: "simulated".to_owned(),
            policy: policy.to_owned(),
            thresholds: workload.thresholds,
            ..Header::default()
        };
        Trace { header, records: self.records, sites: Vec::new(), damage: Vec::new() }
    }
}
