//! What stops a program: collections of CPython's generations, and the two pauses of a snapshot.

use std::array;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Deserializer, Serialize};

/// A kind of stop. The numbers stand in traces and must not change; a new kind goes to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StopKind {
    /// A collection of the youngest generation.
    Young = 0,
    /// A collection of the two younger generations.
    Middle = 1,
    /// A collection of everything.
    Full = 2,
    /// A slice that freed what a snapshot found.
    Reap = 3,
    /// The clone of a snapshot.
    Clone = 4,
}

impl StopKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Young, Self::Middle, Self::Full, Self::Reap, Self::Clone];

    /// The kinds that collect a generation, in the order of CPython's numbers.
    pub const GENERATIONS: [Self; 3] = [Self::Young, Self::Middle, Self::Full];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Young => "young",
            Self::Middle => "middle",
            Self::Full => "full",
            Self::Reap => "reap",
            Self::Clone => "clone",
        }
    }

    /// Its number in a trace.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The kind that has this number in a trace.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// CPython's number of the generation that was collected, if one was.
    #[must_use]
    pub fn generation(self) -> Option<u8> {
        match self {
            Self::Young | Self::Middle | Self::Full => Some(self.number()),
            Self::Reap | Self::Clone => None,
        }
    }

    /// The collection of a generation, by CPython's number; everything from 2 on is a full one.
    #[must_use]
    pub fn of_generation(generation: u8) -> Self {
        match generation {
            0 => Self::Young,
            1 => Self::Middle,
            _ => Self::Full,
        }
    }
}

/// One value for each kind of stop. In JSON it is a list in the order of the kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByStop<T>([T; StopKind::ALL.len()]);

impl<T> ByStop<T> {
    /// The value that `each` gives for every kind.
    pub fn from_fn(mut each: impl FnMut(StopKind) -> T) -> Self {
        Self(array::from_fn(|index| each(StopKind::ALL[index])))
    }

    /// The kinds with their values.
    pub fn iter(&self) -> impl Iterator<Item = (StopKind, &T)> {
        StopKind::ALL.into_iter().zip(&self.0)
    }

    /// The values alone.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T> Index<StopKind> for ByStop<T> {
    type Output = T;

    fn index(&self, kind: StopKind) -> &T {
        &self.0[usize::from(kind.number())]
    }
}

impl<T> IndexMut<StopKind> for ByStop<T> {
    fn index_mut(&mut self, kind: StopKind) -> &mut T {
        &mut self.0[usize::from(kind.number())]
    }
}

/// A list of another length is read as far as both sides know the kinds: agents and hubs may differ in their versions.
impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for ByStop<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut values = Vec::deserialize(from)?.into_iter();
        Ok(Self::from_fn(|_| values.next().unwrap_or_default()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_belong_to_one_kind_each() {
        for (number, kind) in (0..).zip(StopKind::ALL) {
            assert_eq!((kind.number(), StopKind::from_number(number)), (number, Some(kind)));
        }
        assert_eq!(StopKind::from_number(5), None);
        assert_eq!(StopKind::ALL.map(StopKind::name), ["young", "middle", "full", "reap", "clone"]);
        assert_eq!(StopKind::ALL.map(StopKind::generation), [Some(0), Some(1), Some(2), None, None]);
        assert_eq!([0, 1, 2, 3].map(StopKind::of_generation)[1..], [StopKind::Middle, StopKind::Full, StopKind::Full]);
    }

    #[test]
    fn a_list_of_another_version_is_read_as_far_as_it_is_known() {
        let mut counts = ByStop::<u64>::default();
        counts[StopKind::Full] = 7;
        assert_eq!(serde_json::to_string(&counts).unwrap(), "[0,0,7,0,0]");
        for text in ["[0,0,7]", "[0,0,7,0,0]", "[0,0,7,0,0,9]"] {
            assert_eq!(serde_json::from_str::<ByStop<u64>>(text).unwrap(), counts, "{text}");
        }
    }
}
