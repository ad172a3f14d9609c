//! What an agent tells a hub: who it is, figures once a second, and what has happened meanwhile.
//!
//! ```text
//! frame = length:u32 json-length:u32 json:Report block*
//! ```
//!
//! Integers are little-endian; `length` counts what follows it. The blocks are those of a trace and hold collections,
//! stalls, orders and losses. Figures are sums since the agent was installed, so that a report that is lost loses
//! nothing but resolution.

use serde::{Deserialize, Serialize};

use crate::buckets::Distribution;
use crate::control::{Answer, Ask, MessageError};
use crate::status::Status;
use crate::stop::ByStop;
use crate::trace::{Header, Record, read_block};

/// Longest frame that a hub reads.
pub const MAX_FRAME: usize = 1024 * 1024;

/// The path to which agents post frames.
pub const INGEST_PATH: &str = "/api/v1/ingest";

/// One report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The machine's name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// A secret that the agent made when it was installed. A hub takes reports of a process only with the key that it
    /// saw first, and shows it nowhere.
    pub key: String,
    /// When the agent was installed: milliseconds since 1970, by the clock of its machine.
    pub started_unix_ms: u64,
    /// Now, in seconds since then. Records count from the same moment.
    pub at_s: f64,
    /// Events that found no room on their way to this hub, since the report before this one.
    pub missed: u64,
    /// Figures, about once a second.
    pub sample: Option<Box<Sample>>,
    /// What has become of what the hub asked for.
    pub answers: Vec<Settled>,
    /// How a trace of the process begins. An agent that sends it also sends every record of a trace in its blocks, so that the
    /// hub can keep one. It comes with figures.
    pub trace: Option<Box<Header>>,
}

/// Figures of one moment. All counts are since the agent was installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// The report that people get.
    pub status: Status,
    /// How long requests took, from arrival to last byte.
    pub latency: Distribution,
    /// The part of that before the application saw them.
    pub wait: Distribution,
    /// The part of that afterwards.
    pub service: Distribution,
    /// How long collections and other stops took.
    pub pauses: ByStop<Distribution>,
    /// How long stalls lasted.
    pub stalls: Distribution,
    /// For how long a thread held the GIL, and for how long no thread did.
    pub gil_busy_ms: f64,
    /// See `gil_busy_ms`.
    pub gil_idle_ms: f64,
}

/// What a hub answers to frames that were posted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// What the process shall do.
    pub wanted: Vec<Wanted>,
}

/// Something that a hub asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// The hub's number for it.
    pub number: u64,
    /// What.
    pub ask: Ask,
}

/// What has become of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// The hub's number for it.
    pub number: u64,
    /// The outcome, or a refusal.
    pub answer: Answer,
}

/// A report with what has happened since the one before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame<'a> {
    /// The report.
    pub report: Report,
    /// Records, in the order in which they were booked.
    pub records: Vec<Record>,
    /// The same as they came: whole blocks of a trace.
    pub blocks: &'a [u8],
}

/// The bytes of a frame; `blocks` are whole blocks of a trace.
pub fn encode(report: &Report, blocks: &[u8]) -> Result<Vec<u8>, MessageError> {
    let mut bytes = vec![0; 8];
    serde_json::to_writer(&mut bytes, report)?;
    let json = bytes.len() - 8;
    bytes.extend_from_slice(blocks);
    let length = bytes.len() - 4;
    if length > MAX_FRAME {
        return Err(MessageError::TooLong { length, limit: MAX_FRAME });
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&(json as u32).to_le_bytes());
    Ok(bytes)
}

/// The length of the frame whose first four bytes these are, those not counted.
pub fn announced(first: [u8; 4]) -> Result<usize, MessageError> {
    let length = u32::from_le_bytes(first) as usize;
    if length > MAX_FRAME { Err(MessageError::TooLong { length, limit: MAX_FRAME }) } else { Ok(length) }
}

/// Reads a frame without its first four bytes.
pub fn decode(body: &[u8]) -> Result<Frame<'_>, MessageError> {
    let malformed =
        |what: &'static str| MessageError::Broken(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
    let (json, rest) = body.split_first_chunk().ok_or_else(|| malformed("the frame is cut off"))?;
    let length = u32::from_le_bytes(*json) as usize;
    let (json, blocks) = rest.split_at_checked(length).ok_or_else(|| malformed("the frame is cut off"))?;
    let report: Report = serde_json::from_slice(json)?;
    if let Some(sample) = &report.sample
        && ![&sample.latency, &sample.wait, &sample.service, &sample.stalls]
            .into_iter()
            .chain(sample.pauses.values())
            .all(|it| it.buckets.is_sound())
    {
        return Err(malformed("its histograms have buckets that do not exist"));
    }
    let records = read_blocks(blocks).map_err(malformed)?;
    Ok(Frame { report, records, blocks })
}

/// The records of blocks that follow each other, or what is wrong with them.
pub fn read_blocks(mut blocks: &[u8]) -> Result<Vec<Record>, &'static str> {
    let mut records = Vec::new();
    while !blocks.is_empty() {
        let (length, more) = read_block(blocks)?;
        records.extend(more);
        blocks = &blocks[length..];
    }
    Ok(records)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace::BlockWriter;

    fn frame() -> Vec<u8> {
        let report = Report { host: "here".to_owned(), pid: 7, sample: Some(Box::default()), ..Report::default() };
        let mut writer = BlockWriter::new();
        writer.push(&Record::Dropped { at: 5, count: 1 });
        let mut blocks = writer.take();
        writer.push(&Record::Dropped { at: 6, count: 2 });
        blocks.extend(writer.take());
        encode(&report, &blocks).unwrap()
    }

    #[test]
    fn a_frame_survives_the_way() {
        let bytes = frame();
        assert_eq!(announced(*bytes.first_chunk().unwrap()).unwrap(), bytes.len() - 4);
        let read = decode(&bytes[4..]).unwrap();
        assert_eq!((read.report.pid, read.records.len()), (7, 2));
        assert_eq!(read.report.sample, Some(Box::default()));
    }

    #[test]
    fn a_long_frame_is_refused_before_it_is_read() {
        assert!(announced([0xff; 4]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_fail_badly(bytes: Vec<u8>, cut in 0_usize..400) {
            let _ = decode(&bytes);
            let whole = frame();
            let _ = decode(&whole[4..whole.len() - cut.min(whole.len() - 4)]);
        }
    }
}
