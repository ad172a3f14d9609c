//! Censuses as the hub keeps them: types and containers of the heap at some moments, and their course over time.

use std::collections::BTreeMap;

use neurogc_wire::census::{Census, CensusContainer, CensusPin, CensusType};
use serde::Serialize;

use crate::facts::cut;

/// Rows of each list that are kept of a census, and the bytes of a name in it.
const MOST_ROWS: usize = 20;
const LONGEST_NAME: usize = 300;

/// One census of a process is kept in this time.
pub(crate) const KEEP_EVERY_MS: u64 = 300_000;

/// A census, cut to what is kept.
pub(crate) fn kept(census: &Census) -> Census {
    let name = |text: &str| cut(text, LONGEST_NAME).to_owned();
    let types = census.types.iter().take(MOST_ROWS);
    let containers = census.containers.iter().take(MOST_ROWS);
    Census {
        types: types.map(|row| CensusType { r#type: name(&row.r#type), ..row.clone() }).collect(),
        containers: containers
            .map(|row| CensusContainer { name: name(&row.name), r#type: name(&row.r#type), ..row.clone() })
            .collect(),
        pins: census.pins.iter().take(MOST_ROWS).map(|row| CensusPin { r#type: name(&row.r#type), ..*row }).collect(),
        ..*census
    }
}

/// The course of the largest types and containers: one array of times, and arrays of as many values.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CensusCourse {
    t: Vec<u64>,
    objects: Vec<u64>,
    bytes: Vec<u64>,
    types: Vec<TypeCourse>,
    containers: Vec<ContainerCourse>,
}

/// One type. A value is missing where it was not among the largest.
#[derive(Debug, Serialize)]
struct TypeCourse {
    r#type: String,
    count: Vec<Option<u64>>,
    bytes: Vec<Option<u64>>,
}

/// One container. Those without a name cannot be told apart, and are left out.
#[derive(Debug, Serialize)]
struct ContainerCourse {
    name: String,
    r#type: String,
    length: Vec<Option<u64>>,
    bytes: Vec<Option<u64>>,
}

impl CensusCourse {
    /// Of censuses in the order of time.
    pub(crate) fn of(censuses: &[(u64, Census)]) -> Self {
        let mut types: BTreeMap<&str, Course> = BTreeMap::new();
        let mut containers: BTreeMap<(&str, &str), Course> = BTreeMap::new();
        let course = || Course::new(censuses.len());
        for (at, (_, census)) in censuses.iter().enumerate() {
            for row in &census.types {
                types.entry(&row.r#type).or_insert_with(course).set(at, row.count, row.bytes);
            }
            for row in census.containers.iter().filter(|row| !row.name.is_empty()) {
                let key = (row.name.as_str(), row.r#type.as_str());
                containers.entry(key).or_insert_with(course).set(at, row.length, row.bytes);
            }
        }
        let types = largest(types).into_iter().map(|(type_name, Course { counts, bytes, .. })| TypeCourse {
            r#type: type_name.to_owned(),
            count: counts,
            bytes,
        });
        let containers = largest(containers).into_iter().map(|((name, type_name), course)| ContainerCourse {
            name: name.to_owned(),
            r#type: type_name.to_owned(),
            length: course.counts,
            bytes: course.bytes,
        });
        Self {
            t: censuses.iter().map(|(t, _)| *t).collect(),
            objects: censuses.iter().map(|(_, census)| census.objects).collect(),
            bytes: censuses.iter().map(|(_, census)| census.bytes).collect(),
            types: types.collect(),
            containers: containers.collect(),
        }
    }
}

/// Values at all moments, and the most bytes of them.
#[derive(Debug)]
struct Course {
    counts: Vec<Option<u64>>,
    bytes: Vec<Option<u64>>,
    most: u64,
}

impl Course {
    fn new(length: usize) -> Self {
        Self { counts: vec![None; length], bytes: vec![None; length], most: 0 }
    }

    fn set(&mut self, at: usize, count: u64, bytes: u64) {
        (self.counts[at], self.bytes[at]) = (Some(count), Some(bytes));
        self.most = self.most.max(bytes);
    }
}

/// Those that had the most bytes at some moment.
fn largest<K: Ord>(all: BTreeMap<K, Course>) -> Vec<(K, Course)> {
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(_, course)| std::cmp::Reverse(course.most));
    all.truncate(MOST_ROWS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(rows: &[(&str, u64)]) -> Census {
        let of = |(name, bytes): &(&str, u64)| CensusType {
            r#type: (*name).to_owned(),
            count: 1,
            bytes: *bytes,
            growth: None,
        };
        let container = |(name, bytes): &(&str, u64)| CensusContainer {
            name: (*name).to_owned(),
            r#type: "dict".to_owned(),
            length: 2,
            bytes: *bytes,
            growth: None,
        };
        Census {
            objects: rows.len() as u64,
            types: rows.iter().map(of).collect(),
            containers: rows.iter().map(container).collect(),
            ..Census::default()
        }
    }

    #[test]
    fn a_course_has_a_value_or_a_hole_for_every_moment() {
        let course = CensusCourse::of(&[(10, census(&[("a", 5), ("", 9)])), (20, census(&[("b", 7)]))]);
        let written = serde_json::to_value(&course).unwrap_or_default();
        assert_eq!(written["t"], serde_json::json!([10, 20]));
        assert_eq!(written["types"][1], serde_json::json!({"type": "b", "count": [null, 1], "bytes": [null, 7]}));
        let containers = serde_json::json!([
            {"name": "b", "type": "dict", "length": [null, 2], "bytes": [null, 7]},
            {"name": "a", "type": "dict", "length": [2, null], "bytes": [5, null]},
        ]);
        assert_eq!(written["containers"], containers);
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let long = "x".repeat(10_000);
        let kept = kept(&census(&[(long.as_str(), 5); 100]));
        assert_eq!((kept.types.len(), kept.containers.len(), kept.objects), (MOST_ROWS, MOST_ROWS, 100));
        assert_eq!((kept.types[0].r#type.len(), kept.containers[0].name.len()), (LONGEST_NAME, LONGEST_NAME));
    }
}
