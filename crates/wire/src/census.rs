//! The part of the status report on what is in the heap.

use serde::{Deserialize, Serialize};

/// What is in the heap: the reachable objects that the collector tracks, by type, and the largest containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Census {
    /// When it was taken, in seconds since the agent was installed; zero where there is none.
    pub at_s: f64,
    /// How much older the census is that growth is measured from; zero for the first one.
    pub compared_s: f64,
    /// Objects.
    pub objects: u64,
    /// Their bytes, without those of objects that the collector does not track.
    pub bytes: u64,
    /// The types with the most bytes.
    pub types: Vec<CensusType>,
    /// The largest containers.
    pub containers: Vec<CensusContainer>,
    /// Objects in arenas of CPython's allocator of which little is in use; zero where there are few such arenas.
    pub pinned: u64,
    /// The types that most of them have.
    pub pins: Vec<CensusPin>,
}

/// Objects of one type that keep CPython from returning arenas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CensusPin {
    /// The type's name.
    pub r#type: String,
    /// How many there are.
    pub count: u64,
}

/// Objects of one type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CensusType {
    /// The type's name: `module.Class`, without the module for builtins.
    pub r#type: String,
    /// How many there are.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Growth of the bytes per hour; `None` where there is nothing to compare with.
    pub growth: Option<f64>,
}

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CensusContainer {
    /// Where it is: `module.name`, `module.object.attribute`; empty where that was not found.
    pub name: String,
    /// Its type.
    pub r#type: String,
    /// How many entries it has.
    pub length: u64,
    /// Its bytes, without those of what it holds.
    pub bytes: u64,
    /// Growth of the length per hour; `None` where there is nothing to compare with.
    pub growth: Option<f64>,
}
