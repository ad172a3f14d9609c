//! pprof's format, gzip around it: for `go tool pprof`, Pyroscope, Parca and others, and read again by us.
//!
//! `inuse_*` is the live memory at the moment of the table. `alloc_*` is what was allocated in the time that the profile
//! names as its duration: since the moment of comparison, or since sampling began.

use std::collections::HashMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use neurogc_wire::sites::{AllocationDomain, AllocationMode, NO_PARENT, SiteCounts, SiteTable};
use prost::Message;

use super::profile::{Function, Label, Location, Profile, ProfileLine, ProfileSample, ValueType};
use crate::builder::{TableBuilder, add};
use crate::place::{CodeLine, DEEPEST, NO_FRAME, TableStacks};

/// Bytes of a profile that are read, unpacked: a small file may unpack to any size.
const LONGEST: u64 = 256 << 20;

const TYPES: [(&str, &str); 4] =
    [("inuse_objects", "count"), ("inuse_space", "bytes"), ("alloc_objects", "count"), ("alloc_space", "bytes")];

const DOMAIN: &str = "domain";

/// Why bytes are no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It cannot be unpacked.
    #[error("it cannot be unpacked: {0}")]
    Packing(std::io::Error),
    /// It is too long.
    #[error("it is longer than {} MB, unpacked", LONGEST >> 20)]
    TooLong,
    /// It is no message of that format.
    #[error("it is no pprof profile: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// It counts something else.
    #[error("it has no values of live memory (inuse_space), so it is no profile of memory")]
    NotMemory,
}

/// The profile of a table, packed.
#[must_use]
pub fn encode(table: &SiteTable) -> Vec<u8> {
    let message = Writer::default().profile(table).encode_to_vec();
    // Writing to memory does not fail.
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    let _ = packer.write_all(&message);
    packer.finish().unwrap_or_default()
}

/// The table of a profile, packed or not. Profiles of other tools are read as far as they hold live memory.
pub fn decode(bytes: &[u8]) -> Result<SiteTable, ProfileError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return table_of(&Profile::decode(bytes)?);
    }
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(LONGEST + 1).read_to_end(&mut plain).map_err(ProfileError::Packing)?;
    if read as u64 > LONGEST {
        return Err(ProfileError::TooLong);
    }
    table_of(&Profile::decode(plain.as_slice())?)
}

#[derive(Default)]
struct Writer<'t> {
    strings: Vec<String>,
    texts: HashMap<String, i64>,
    functions: Vec<Function>,
    function_ids: HashMap<(&'t str, &'t str, u32), u64>,
    locations: Vec<Location>,
    location_ids: HashMap<CodeLine<'t>, u64>,
}

impl<'t> Writer<'t> {
    fn profile(mut self, table: &'t SiteTable) -> Profile {
        self.text("");
        let sample_types = TYPES.map(|(kind, unit)| ValueType { kind: self.text(kind), unit: self.text(unit) });
        let period_type = ValueType { kind: self.text("space"), unit: sample_types[1].unit };
        let key = self.text(DOMAIN);
        let mut samples = Vec::with_capacity(table.sites.len());
        for site in &table.sites {
            let mut locations: Vec<u64> =
                TableStacks(table).stack(site.node).map(|place| self.location(place)).collect();
            if locations.is_empty() {
                locations.push(self.location(TableStacks(table).place(NO_PARENT)));
            }
            let made = |now: u64, before: u64| number(now.saturating_sub(before));
            let values = vec![
                number(site.now.live_blocks),
                number(site.now.live_bytes),
                made(site.now.made_blocks, site.before.made_blocks),
                made(site.now.made_bytes, site.before.made_bytes),
            ];
            let labels = vec![Label { key, text: self.text(site.domain.name()) }];
            samples.push(ProfileSample { locations, values, labels });
        }
        let facts = [
            format!("pid={}", table.pid),
            format!("allocations={}", table.mode.name()),
            format!("lost={}", table.lost),
        ];
        let comments = facts.iter().map(|fact| self.text(fact)).collect();
        let from = table.compared_unix_ms.unwrap_or(table.since_unix_ms);
        let nanos = |ms: u64| number(ms.saturating_mul(1_000_000));
        Profile {
            sample_types: sample_types.to_vec(),
            samples,
            locations: self.locations,
            functions: self.functions,
            time_nanos: nanos(table.taken_unix_ms),
            duration_nanos: nanos(table.taken_unix_ms.saturating_sub(from)),
            period_type: Some(period_type),
            period: number(table.sample_bytes),
            comments,
            default_sample_type: sample_types[1].kind,
            strings: self.strings,
        }
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(index) = self.texts.get(text) {
            return *index;
        }
        let index = self.strings.len() as i64;
        self.strings.push(text.to_owned());
        self.texts.insert(text.to_owned(), index);
        index
    }

    fn location(&mut self, place: CodeLine<'t>) -> u64 {
        if let Some(id) = self.location_ids.get(&place) {
            return *id;
        }
        let key = (place.file, place.function, place.first_line);
        let function = match self.function_ids.get(&key) {
            Some(id) => *id,
            None => {
                let id = self.functions.len() as u64 + 1;
                let (name, file) = (self.text(place.function), self.text(place.file));
                self.functions.push(Function {
                    id,
                    name,
                    system_name: name,
                    file,
                    first_line: place.first_line.into(),
                });
                self.function_ids.insert(key, id);
                id
            }
        };
        let id = self.locations.len() as u64 + 1;
        self.locations.push(Location { id, lines: vec![ProfileLine { function, line: place.line.into() }] });
        self.location_ids.insert(place, id);
        id
    }
}

/// Counts of more than 2^63 are not met; they become the largest there is.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn table_of(profile: &Profile) -> Result<SiteTable, ProfileError> {
    let text =
        |index: i64| usize::try_from(index).ok().and_then(|index| profile.strings.get(index)).map_or("", |text| text);
    let column = |name: &str| profile.sample_types.iter().position(|kind| text(kind.kind) == name);
    let columns = TYPES.map(|(name, _)| column(name));
    if columns[1].is_none() {
        return Err(ProfileError::NotMemory);
    }
    let functions: HashMap<u64, &Function> = profile.functions.iter().map(|it| (it.id, it)).collect();
    let place = |line: &ProfileLine| {
        let function = functions.get(&line.function);
        CodeLine {
            file: function.map_or("", |it| text(it.file)),
            function: function.map_or("", |it| text(it.name)),
            line: u32::try_from(line.line).unwrap_or(0),
            first_line: function.map_or(0, |it| u32::try_from(it.first_line).unwrap_or(0)),
        }
    };
    let locations: HashMap<u64, &Location> = profile.locations.iter().map(|it| (it.id, it)).collect();
    let mut builder = TableBuilder::like(&head(profile, text));
    for sample in &profile.samples {
        let lines = sample.locations.iter().filter_map(|id| locations.get(id)).flat_map(|it| &it.lines);
        let mut stack: Vec<CodeLine<'_>> = lines.take(DEEPEST).map(place).collect();
        if matches!(stack[..], [CodeLine { file: "", function: NO_FRAME, .. }]) {
            stack.clear();
        }
        stack.reverse();
        let node = builder.node(stack);
        let label = sample.labels.iter().find(|label| text(label.key) == DOMAIN).map(|label| text(label.text));
        let domain = AllocationDomain::ALL.into_iter().find(|domain| Some(domain.name()) == label).unwrap_or_default();
        let value = |column: Option<usize>| {
            let value = column.and_then(|column| sample.values.get(column)).copied().unwrap_or(0);
            u64::try_from(value).unwrap_or(0)
        };
        let [live_blocks, live_bytes, made_blocks, made_bytes] = columns.map(value);
        add(&mut builder.site(node, domain).now, &SiteCounts { live_bytes, live_blocks, made_bytes, made_blocks });
    }
    Ok(builder.finish())
}

/// The facts about a profile. What it counts as allocated is counted from the start of its duration.
fn head<'p>(profile: &'p Profile, text: impl Fn(i64) -> &'p str) -> SiteTable {
    let facts: HashMap<&str, &str> = profile.comments.iter().filter_map(|index| text(*index).split_once('=')).collect();
    let fact = |name: &str| facts.get(name).copied().unwrap_or_default();
    let ms = |nanos: i64| u64::try_from(nanos / 1_000_000).unwrap_or(0);
    let taken_unix_ms = ms(profile.time_nanos);
    let mode = AllocationMode::ALL.into_iter().find(|mode| mode.name() == fact("allocations"));
    SiteTable {
        pid: fact("pid").parse().unwrap_or(0),
        taken_unix_ms,
        since_unix_ms: taken_unix_ms.saturating_sub(ms(profile.duration_nanos)),
        mode: mode.unwrap_or(AllocationMode::Native),
        sample_bytes: u64::try_from(profile.period).unwrap_or(0),
        lost: fact("lost").parse().unwrap_or(0),
        ..SiteTable::default()
    }
}
