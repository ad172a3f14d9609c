//! What grew from one dump to the next, by place.
//!
//! A place whose number of objects grew while that of the place above did not is where something is added: a list of
//! sessions has the same number of lists as before and more sessions. One line for it says what is added, where, and
//! how much it retains with everything below; the places below it are its parts.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::places::{HeapPlaces, TOP};

/// Parts that are named below a line.
const PARTS: usize = 5;

/// A place and its figures, as far as a comparison needs them.
#[derive(Clone, Debug)]
struct Entry {
    parent: u32,
    name: String,
    class: String,
    objects: u64,
    bytes: u64,
    retained: u64,
}

/// The places of one dump, without the dump: two of these fit into memory where two dumps do not.
#[derive(Debug)]
pub struct PlaceTable {
    entries: Vec<Entry>,
    index: FxHashMap<(u32, String, String), u32>,
    /// The process.
    pub pid: u32,
    /// When it was taken.
    pub taken_unix_ms: u64,
    /// Objects of the dump.
    pub objects: u64,
    /// Bytes of the dump.
    pub bytes: u64,
}

impl PlaceTable {
    /// Keeps what a comparison needs.
    #[must_use]
    pub fn new(places: &HeapPlaces, summary: &super::HeapSummary) -> Self {
        let mut index: FxHashMap<(u32, String, String), u32> = FxHashMap::default();
        let (mut entries, mut homes): (Vec<Entry>, Vec<u32>) = (Vec::new(), Vec::new());
        for (place, node) in places.nodes.iter().enumerate() {
            let number = place as u32;
            let parent = if number == TOP { TOP } else { homes[node.parent as usize] };
            let (name, class) = (places.name(number), places.class(number).to_owned());
            // Two classes may have the same name: what a person cannot tell apart is one place.
            let next = entries.len() as u32;
            let home = *index.entry((parent, class.clone(), name.clone())).or_insert(next);
            homes.push(home);
            if home == next {
                entries.push(Entry { parent, name, class, objects: 0, bytes: 0, retained: 0 });
            }
            let entry = &mut entries[home as usize];
            entry.objects += node.objects;
            entry.bytes += node.bytes;
            entry.retained += node.retained;
        }
        Self {
            entries,
            index,
            pid: summary.pid,
            taken_unix_ms: summary.taken_unix_ms,
            objects: summary.objects,
            bytes: summary.bytes,
        }
    }

    /// For each place of this table the same one of another, if it is there.
    fn same_in(&self, other: &Self) -> Vec<Option<u32>> {
        let mut same: Vec<Option<u32>> = vec![Some(TOP)];
        for entry in self.entries.iter().skip(1) {
            let above = same[entry.parent as usize];
            let key = above.map(|above| (above, entry.class.clone(), entry.name.clone()));
            same.push(key.and_then(|key| other.index.get(&key).copied()));
        }
        same
    }
}

/// A part of what was added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrowthPart {
    /// Where, seen from what was added.
    pub place: String,
    /// The type.
    #[serde(rename = "type")]
    pub class: String,
    /// More objects.
    pub objects: i64,
    /// More bytes of their own.
    pub bytes: i64,
}

/// A place that grew.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrowthLine {
    /// What it is called.
    pub place: String,
    /// The type of what is there.
    #[serde(rename = "type")]
    pub class: String,
    /// More objects.
    pub objects: i64,
    /// More bytes that they retain.
    pub retained: i64,
    /// Objects before.
    pub objects_before: u64,
    /// Objects after.
    pub objects_after: u64,
    /// With three dumps: how many of the new objects are still there in the last.
    pub kept: Option<i64>,
    /// What else is new below.
    pub parts: Vec<GrowthPart>,
}

/// What grew.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GrowthReport {
    /// The process of the later dump.
    pub pid: u32,
    /// Milliseconds between the two.
    pub between_ms: i64,
    /// More objects in all.
    pub objects: i64,
    /// More bytes in all.
    pub bytes: i64,
    /// The places that grew, by what they retain more.
    pub rows: Vec<GrowthLine>,
    /// How many places grew.
    pub grown: usize,
    /// The two dumps are of different processes.
    pub other_process: bool,
}

/// Compares two dumps of a process; with a third one, what is new in the second and still there in the third.
#[must_use]
pub fn growth(before: &PlaceTable, after: &PlaceTable, last: Option<&PlaceTable>, top: usize) -> GrowthReport {
    let changes = Changes::new(before, after, last);
    let mut rows: Vec<(i64, u32)> = (1..after.entries.len() as u32)
        .filter(|place| changes.begins(*place))
        .map(|place| (changes.weight(place), place))
        .filter(|(weight, _)| *weight > 0)
        .collect();
    rows.sort_by_key(|(weight, place)| (std::cmp::Reverse(*weight), *place));
    let grown = rows.len();
    rows.truncate(top);
    GrowthReport {
        pid: after.pid,
        between_ms: after.taken_unix_ms as i64 - before.taken_unix_ms as i64,
        objects: after.objects as i64 - before.objects as i64,
        bytes: after.bytes as i64 - before.bytes as i64,
        rows: rows.into_iter().map(|(weight, place)| changes.line(place, weight)).collect(),
        grown,
        other_process: before.pid != after.pid,
    }
}

struct Changes<'t> {
    after: &'t PlaceTable,
    last: Option<&'t PlaceTable>,
    /// The figures before, by place of the later dump.
    before: Vec<(u64, u64, u64)>,
    /// The same of the last dump.
    kept: Vec<(u64, u64, u64)>,
    /// The nearest place above where something is added, or the place itself.
    added: Vec<u32>,
}

impl<'t> Changes<'t> {
    fn new(before: &'t PlaceTable, after: &'t PlaceTable, last: Option<&'t PlaceTable>) -> Self {
        let figures = |table: &PlaceTable| -> Vec<(u64, u64, u64)> {
            let same = after.same_in(table);
            let of = |place: Option<u32>| place.map(|it| &table.entries[it as usize]);
            same.into_iter().map(|it| of(it).map_or((0, 0, 0), |it| (it.objects, it.bytes, it.retained))).collect()
        };
        let mut changes = Self {
            after,
            last,
            before: figures(before),
            kept: last.map(figures).unwrap_or_default(),
            added: Vec::new(),
        };
        for place in 0..after.entries.len() as u32 {
            let parent = after.entries[place as usize].parent;
            let above = if place == TOP { TOP } else { changes.added[parent as usize] };
            let here = if above == TOP && changes.objects(place) > 0 { place } else { above };
            changes.added.push(here);
        }
        changes
    }

    /// More objects. With three dumps those that are still there.
    fn objects(&self, place: u32) -> i64 {
        let new = self.after.entries[place as usize].objects as i64 - self.before[place as usize].0 as i64;
        self.still(new, place, |it| it.0)
    }

    /// More bytes of their own.
    fn bytes(&self, place: u32) -> i64 {
        let new = self.after.entries[place as usize].bytes as i64 - self.before[place as usize].1 as i64;
        self.still(new, place, |it| it.1)
    }

    fn retained(&self, place: u32) -> i64 {
        let new = self.after.entries[place as usize].retained as i64 - self.before[place as usize].2 as i64;
        self.still(new, place, |it| it.2)
    }

    fn still(&self, new: i64, place: u32, figure: fn(&(u64, u64, u64)) -> u64) -> i64 {
        match self.kept.get(place as usize) {
            Some(kept) => new.min(figure(kept) as i64 - figure(&self.before[place as usize]) as i64),
            None => new,
        }
    }

    /// Whether something is added here, or an object grew by itself, and nothing above says so already.
    fn begins(&self, place: u32) -> bool {
        let added = self.added[place as usize];
        added == place || (added == TOP && self.objects(place) == 0 && self.bytes(place) > 0)
    }

    /// What a line is ordered by: all that was added with the objects, or by how much the object itself grew.
    fn weight(&self, place: u32) -> i64 {
        if self.added[place as usize] == place { self.retained(place) } else { self.bytes(place) }
    }

    fn line(&self, place: u32, weight: i64) -> GrowthLine {
        let entry = &self.after.entries[place as usize];
        let mut parts: Vec<GrowthPart> = Vec::new();
        if self.added[place as usize] == place {
            let below = (place + 1..self.after.entries.len() as u32).filter(|it| self.added[*it as usize] == place);
            parts = below.filter(|it| self.objects(*it) > 0).map(|it| self.part(place, it)).collect();
            parts.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.place.cmp(&other.place)));
            parts.truncate(PARTS);
        }
        GrowthLine {
            place: entry.name.clone(),
            class: entry.class.clone(),
            objects: self.objects(place),
            retained: weight,
            objects_before: self.before[place as usize].0,
            objects_after: entry.objects,
            kept: self.last.map(|_| self.objects(place)),
            parts,
        }
    }

    fn part(&self, above: u32, place: u32) -> GrowthPart {
        let entry = &self.after.entries[place as usize];
        let name = &self.after.entries[above as usize].name;
        GrowthPart {
            place: entry.name.strip_prefix(name.as_str()).unwrap_or(&entry.name).to_owned(),
            class: entry.class.clone(),
            objects: self.objects(place),
            bytes: self.bytes(place),
        }
    }
}
