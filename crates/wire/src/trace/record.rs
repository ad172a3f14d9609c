//! The records of a trace and their bytes.

use super::{OrderKind, version1};
use crate::status::Cause;
use crate::stop::StopKind;
use crate::varint;

/// Where a collection fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// While at least one request was being served.
    InRequest,
    /// While none was, and none waited.
    InGap,
    /// A guard ordered it, wherever it fell.
    Forced,
    /// While none was being served, but at least one arrived and waited for its end.
    InGapArrivals,
}

/// How the wait of a request is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitSource {
    /// The kernel told when its data came.
    Socket,
    /// A proxy told when it sent it.
    Proxy,
    /// It came right after a stop.
    Estimated,
}

impl WaitSource {
    /// All sources, in the order of their numbers in a trace.
    pub const ALL: [Self; 3] = [Self::Socket, Self::Proxy, Self::Estimated];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Proxy => "proxy",
            Self::Estimated => "estimated",
        }
    }
}

impl Place {
    /// All places, in the order of their numbers in a trace.
    pub const ALL: [Self; 4] = [Self::InRequest, Self::InGap, Self::Forced, Self::InGapArrivals];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InRequest => "in_request",
            Self::InGap => "in_gap",
            Self::Forced => "forced",
            Self::InGapArrivals => "in_gap_arrivals",
        }
    }
}

/// One thing that happened. `at` is in nanoseconds since the trace began, durations are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A request or a training step began.
    RequestStart {
        /// When.
        at: u64,
        /// Its number within the process.
        id: u64,
    },
    /// Its last byte was sent.
    RequestEnd {
        /// When.
        at: u64,
        /// The number it began with.
        id: u64,
    },
    /// A request that begins has waited before the application saw it. It stands right after its start.
    RequestWait {
        /// When the request began.
        at: u64,
        /// Its number within the process.
        id: u64,
        /// How long it had waited.
        wait: u64,
        /// How that is known.
        source: WaitSource,
    },
    /// A collection, or another stop.
    Collection {
        /// When it began.
        at: u64,
        /// How long it stopped the program.
        pause: u64,
        /// What stopped it.
        kind: StopKind,
        /// Where it fell.
        place: Place,
        /// Objects freed.
        collected: u64,
        /// Objects found unreachable that could not be freed.
        uncollectable: u64,
        /// The id of the order that led to it, never 0; `None` where CPython or the program did, or where it is not
        /// known.
        order: Option<u64>,
    },
    /// The GIL was held from `at` for `busy`, and then free for `idle`.
    Gap {
        /// When the busy part began.
        at: u64,
        /// How long it was held.
        busy: u64,
        /// How long it was free afterwards.
        idle: u64,
    },
    /// The collector's counters: net allocations since the last young collection, young collections since the last
    /// middle one, middle collections since the last full one.
    Counts {
        /// When they were read.
        at: u64,
        /// By generation.
        counts: [u32; 3],
    },
    /// A look at the process.
    Process {
        /// When.
        at: u64,
        /// Resident set in bytes.
        rss: u64,
        /// Processor time so far, in microseconds.
        cpu_us: u64,
    },
    /// A stall.
    Stall {
        /// When it began.
        at: u64,
        /// How long it lasted.
        duration: u64,
        /// Why.
        cause: Cause,
        /// Where in the code.
        site: String,
    },
    /// Events that were lost before this moment because the queue was full.
    Dropped {
        /// When it was noticed.
        at: u64,
        /// How many.
        count: u64,
    },
    /// The policy, or a guard above it, ordered something that is more than a collection of young objects.
    Order {
        /// When.
        at: u64,
        /// Its number within the process, from 1 on; 0 where it has none.
        id: u64,
        /// Whether a guard ordered it.
        guard: bool,
        /// What was ordered.
        what: OrderKind,
        /// Why, in words.
        reason: String,
    },
    /// Another policy is in force from now on.
    Policy {
        /// When.
        at: u64,
        /// The policy that was in force.
        before: String,
        /// The policy that is in force now.
        after: String,
    },
    /// What a collection found and left, beside the record of the collection itself.
    Heap {
        /// When the collection began.
        at: u64,
        /// Net allocations that had gathered before it.
        gathered: u64,
        /// Objects that the last full collection left behind.
        tenured: u64,
        /// Objects that have reached the oldest generation since then.
        pending: u64,
    },
    /// A snapshot has been walked.
    Flight {
        /// When it was over.
        at: u64,
        /// How long the walk took.
        lasted: u64,
        /// Page faults of the program meanwhile: copies that it had to make, most of them.
        faults: u64,
        /// Objects that it saw.
        objects: u64,
        /// Objects that it found unreachable.
        found: u64,
    },
}

impl Record {
    /// When it happened, in nanoseconds since the trace began.
    #[must_use]
    pub fn at(&self) -> u64 {
        match *self {
            Self::RequestStart { at, .. }
            | Self::RequestEnd { at, .. }
            | Self::RequestWait { at, .. }
            | Self::Collection { at, .. }
            | Self::Gap { at, .. }
            | Self::Counts { at, .. }
            | Self::Process { at, .. }
            | Self::Stall { at, .. }
            | Self::Dropped { at, .. }
            | Self::Order { at, .. }
            | Self::Policy { at, .. }
            | Self::Heap { at, .. }
            | Self::Flight { at, .. } => at,
        }
    }

    fn tag(&self) -> u8 {
        match self {
            Self::RequestStart { .. } => 1,
            Self::RequestEnd { .. } => 2,
            Self::Gap { .. } => 4,
            Self::Counts { .. } => 5,
            Self::Process { .. } => 6,
            Self::Stall { .. } => 7,
            Self::Dropped { .. } => 8,
            Self::Heap { .. } => 10,
            Self::Flight { .. } => 11,
            Self::Collection { .. } => 12,
            Self::Order { .. } => 13,
            Self::Policy { .. } => 14,
            Self::RequestWait { .. } => 15,
        }
    }

    /// Appends the record; `previous` is the time of the one before it in the block.
    pub(super) fn encode(&self, to: &mut Vec<u8>, previous: u64) {
        to.push(self.tag());
        varint::put_signed(to, self.at().wrapping_sub(previous) as i64);
        match self {
            Self::RequestStart { id, .. } | Self::RequestEnd { id, .. } => varint::put(to, *id),
            Self::RequestWait { id, wait, source, .. } => {
                varint::put(to, *id);
                varint::put(to, *wait);
                to.push(*source as u8);
            }
            Self::Collection { pause, kind, place, collected, uncollectable, order, .. } => {
                to.push(kind.number() | (*place as u8) << 4);
                let order = &order.unwrap_or(0);
                [pause, collected, uncollectable, order].into_iter().for_each(|&number| varint::put(to, number));
            }
            Self::Gap { busy, idle, .. } => {
                varint::put(to, *busy);
                varint::put(to, *idle);
            }
            Self::Counts { counts, .. } => counts.iter().for_each(|&count| varint::put(to, u64::from(count))),
            Self::Process { rss, cpu_us, .. } => {
                varint::put(to, *rss);
                varint::put(to, *cpu_us);
            }
            Self::Stall { duration, cause, site, .. } => {
                varint::put(to, *duration);
                to.push(*cause as u8);
                put_text(to, site);
            }
            Self::Dropped { count, .. } => varint::put(to, *count),
            Self::Order { id, guard, what, reason, .. } => {
                to.push(what.number() | u8::from(*guard) << 4);
                varint::put(to, *id);
                put_text(to, reason);
            }
            Self::Policy { before, after, .. } => {
                put_text(to, before);
                put_text(to, after);
            }
            Self::Heap { gathered, tenured, pending, .. } => {
                [gathered, tenured, pending].into_iter().for_each(|&number| varint::put(to, number));
            }
            Self::Flight { lasted, faults, objects, found, .. } => {
                [lasted, faults, objects, found].into_iter().for_each(|&number| varint::put(to, number));
            }
        }
    }

    /// Takes a record off the front, or gives `None` where the bytes are no record.
    pub(super) fn decode(from: &mut &[u8], previous: u64) -> Option<Self> {
        let tag = take_byte(from)?;
        let at = previous.wrapping_add(varint::take_signed(from)? as u64);
        Some(match tag {
            1 => Self::RequestStart { at, id: varint::take(from)? },
            2 => Self::RequestEnd { at, id: varint::take(from)? },
            version1::COLLECTION => version1::collection(from, at)?,
            4 => Self::Gap { at, busy: varint::take(from)?, idle: varint::take(from)? },
            5 => {
                let mut count = || u32::try_from(varint::take(from)?).ok();
                Self::Counts { at, counts: [count()?, count()?, count()?] }
            }
            6 => Self::Process { at, rss: varint::take(from)?, cpu_us: varint::take(from)? },
            7 => {
                let duration = varint::take(from)?;
                let cause = *Cause::ALL.get(usize::from(take_byte(from)?))?;
                Self::Stall { at, duration, cause, site: take_text(from)? }
            }
            8 => Self::Dropped { at, count: varint::take(from)? },
            version1::ORDER => version1::order(from, at)?,
            10 => {
                let mut number = || varint::take(from);
                Self::Heap { at, gathered: number()?, tenured: number()?, pending: number()? }
            }
            11 => {
                let mut number = || varint::take(from);
                Self::Flight { at, lasted: number()?, faults: number()?, objects: number()?, found: number()? }
            }
            12 => {
                let byte = take_byte(from)?;
                Self::Collection {
                    at,
                    kind: StopKind::from_number(byte & 0xf)?,
                    place: place_of(byte >> 4)?,
                    pause: varint::take(from)?,
                    collected: varint::take(from)?,
                    uncollectable: varint::take(from)?,
                    order: Some(varint::take(from)?).filter(|&order| order != 0),
                }
            }
            13 => {
                let byte = take_byte(from)?;
                let (what, guard) = (OrderKind::from_number(byte & 0xf)?, byte >> 4 != 0);
                Self::Order { at, id: varint::take(from)?, guard, what, reason: take_text(from)? }
            }
            14 => Self::Policy { at, before: take_text(from)?, after: take_text(from)? },
            15 => {
                let (id, wait) = (varint::take(from)?, varint::take(from)?);
                Self::RequestWait { at, id, wait, source: *WaitSource::ALL.get(usize::from(take_byte(from)?))? }
            }
            _ => return None,
        })
    }
}

pub(super) fn take_byte(from: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = from.split_first()?;
    *from = rest;
    Some(byte)
}

/// The place that has this number.
pub(super) fn place_of(number: u8) -> Option<Place> {
    Place::ALL.get(usize::from(number)).copied()
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    varint::put(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

pub(super) fn take_text(from: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(varint::take(from)?).ok()?;
    let (text, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(String::from_utf8_lossy(text).into_owned())
}
