//! What is in the heap, from one census to the next: the report, and the growth since an earlier one.

use std::collections::{HashMap, VecDeque};

use neurogc_wire::census::{Census, CensusContainer, CensusPin, CensusType};

use crate::snapshot::{CensusFound, Counted};

/// Rows of each list in the report.
const TOP: usize = 20;

/// Growth is that since a census that is at least so much older, where there is one: over a shorter time it tells little.
const APART_NS: u64 = 60_000_000_000;

/// Censuses that are kept for that.
const KEPT: usize = 2;

const HOUR_NS: f64 = 3.6e12;

/// The latest census as it is reported, and earlier ones.
#[derive(Debug, Default)]
pub(crate) struct CensusBook {
    report: Census,
    /// The oldest first, each `APART_NS` younger than the one before it.
    kept: VecDeque<Earlier>,
}

/// What is kept of a census.
#[derive(Debug)]
struct Earlier {
    at: u64,
    /// Bytes by type. Types with fewer bytes than all of these may have been left out, if there were so many.
    types: HashMap<String, u64>,
    is_cut: bool,
    /// Lengths of containers by name, and of those without one by address.
    named: HashMap<String, u64>,
    nameless: HashMap<u64, u64>,
}

impl CensusBook {
    /// The part of the status report.
    pub(crate) fn report(&self) -> Census {
        self.report.clone()
    }

    /// Takes in a census of an agent that was installed at this moment.
    pub(crate) fn add(&mut self, mut found: CensusFound, installed: u64) {
        found.types = merged(found.types);
        let before = self.kept.iter().rev().find(|kept| found.at.saturating_sub(kept.at) >= APART_NS);
        let before = before.or(self.kept.front()).filter(|kept| kept.at < found.at);
        let passed = before.map_or(0, |before| found.at - before.at);
        let per_hour = |now: u64, then: u64| (now as f64 - then as f64) * HOUR_NS / passed.max(1) as f64;
        let types = found.types.iter().take(TOP).map(|row| CensusType {
            r#type: row.name.clone(),
            count: row.objects,
            bytes: row.bytes,
            growth: before.and_then(|before| Some(per_hour(row.bytes, before.bytes_of(&row.name)?))),
        });
        let containers = found.containers.iter().take(TOP).map(|row| CensusContainer {
            name: row.name.clone(),
            r#type: row.kind.clone(),
            length: row.length,
            bytes: row.bytes,
            growth: before.and_then(|before| Some(per_hour(row.length, before.length_of(&row.name, row.address)?))),
        });
        self.report = Census {
            at_s: found.at.saturating_sub(installed) as f64 / 1e9,
            compared_s: passed as f64 / 1e9,
            objects: found.objects,
            bytes: found.bytes,
            types: types.collect(),
            containers: containers.collect(),
            pinned: found.pinned,
            pins: found.pins.iter().map(|row| CensusPin { r#type: row.name.clone(), count: row.objects }).collect(),
        };
        if self.kept.back().is_none_or(|last| found.at.saturating_sub(last.at) >= APART_NS) {
            self.kept.push_back(Earlier::from(found));
            if self.kept.len() > KEPT {
                self.kept.pop_front();
            }
        }
    }
}

/// Types of the same name are one row. The rows with the most bytes come first.
fn merged(rows: Vec<Counted>) -> Vec<Counted> {
    let mut by_name: HashMap<String, Counted> = HashMap::with_capacity(rows.len());
    for row in rows {
        match by_name.get_mut(&row.name) {
            Some(sum) => {
                sum.objects += row.objects;
                sum.bytes += row.bytes;
            }
            None => {
                by_name.insert(row.name.clone(), row);
            }
        }
    }
    let mut rows: Vec<_> = by_name.into_values().filter(|row| row.objects > 0).collect();
    rows.sort_unstable_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&other.name)));
    rows
}

impl From<CensusFound> for Earlier {
    fn from(found: CensusFound) -> Self {
        let told: u64 = found.types.iter().map(|row| row.objects).sum();
        let mut earlier = Self {
            at: found.at,
            is_cut: told < found.objects,
            types: found.types.into_iter().map(|row| (row.name, row.bytes)).collect(),
            named: HashMap::new(),
            nameless: HashMap::new(),
        };
        for row in found.containers {
            if row.name.is_empty() {
                earlier.nameless.insert(row.address, row.length);
            } else {
                earlier.named.insert(row.name, row.length);
            }
        }
        earlier
    }
}

impl Earlier {
    /// The bytes of a type, where they are known.
    fn bytes_of(&self, name: &str) -> Option<u64> {
        self.types.get(name).copied().or(if self.is_cut { None } else { Some(0) })
    }

    /// The length of a container, where it was among the largest.
    fn length_of(&self, name: &str, address: u64) -> Option<u64> {
        if name.is_empty() { self.nameless.get(&address).copied() } else { self.named.get(name).copied() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::CountedContainer;

    const SECOND: u64 = 1_000_000_000;

    fn found(at_s: u64, bytes: u64, length: u64) -> CensusFound {
        let of = |name: &str, bytes: u64| Counted { name: name.to_owned(), objects: 10, bytes };
        let container = |name: &str| CountedContainer {
            address: 16,
            name: name.to_owned(),
            kind: "dict".to_owned(),
            length,
            bytes: 8 * length,
            bound: None,
        };
        CensusFound {
            pause_ns: 1_000_000,
            at: at_s * SECOND,
            objects: 30,
            bytes: bytes + 300,
            types: vec![of("dict", 200), of("list", bytes), of("dict", 100)],
            containers: vec![container("app.cache"), container("")],
            ..CensusFound::default()
        }
    }

    fn growth(book: &CensusBook) -> (Option<f64>, Option<f64>, f64) {
        let report = book.report();
        (report.types[0].growth, report.containers[0].growth, report.compared_s)
    }

    #[test]
    fn types_of_one_name_are_one_row() {
        let mut book = CensusBook::default();
        book.add(found(100, 1000, 5), 10 * SECOND);
        let report = book.report();
        let rows: Vec<_> =
            report.types.iter().map(|row| (row.r#type.as_str(), row.count, row.bytes, row.growth)).collect();
        assert_eq!(rows, [("list", 10, 1000, None), ("dict", 20, 300, None)]);
        assert_eq!((report.at_s, report.compared_s, report.objects), (90.0, 0.0, 30));
    }

    #[test]
    fn growth_is_that_since_a_census_a_minute_older() {
        let mut book = CensusBook::default();
        book.add(found(0, 1000, 5), 0);
        book.add(found(10, 2000, 6), 0);
        // There is no older one yet.
        assert_eq!(growth(&book), (Some(360_000.0), Some(360.0), 10.0));
        book.add(found(60, 4000, 65), 0);
        assert_eq!(growth(&book), (Some(180_000.0), Some(3600.0), 60.0));
        book.add(found(100, 1000, 5), 0);
        assert_eq!(growth(&book), (Some(0.0), Some(0.0), 100.0));
        book.add(found(120, 4000, 65), 0);
        assert_eq!(growth(&book), (Some(0.0), Some(0.0), 60.0));
    }

    #[test]
    fn what_was_not_among_the_largest_has_no_growth() {
        let mut book = CensusBook::default();
        let mut first = found(0, 1000, 5);
        first.containers.clear();
        first.types.clear();
        book.add(first, 0);
        book.add(found(60, 1000, 5), 0);
        assert_eq!(growth(&book), (None, None, 60.0));
    }

    #[test]
    fn a_container_without_a_name_is_known_by_its_address() {
        let mut book = CensusBook::default();
        book.add(found(0, 1000, 5), 0);
        book.add(found(3600, 1000, 25), 0);
        assert_eq!(book.report().containers[1].growth, Some(20.0));
    }
}
