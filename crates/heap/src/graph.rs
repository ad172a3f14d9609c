//! The heap in memory: what each object is and what it refers to.

use rustc_hash::FxHashMap;

use crate::array::Numbers;

/// No object.
pub const NONE: u32 = u32::MAX;

/// References of all objects, in the order of objects.
#[derive(Debug)]
pub struct Links {
    /// Where the references of each object begin; one more than there are objects.
    pub offsets: Numbers<u32>,
    /// What they refer to.
    pub targets: Numbers<u32>,
}

impl Links {
    /// How many objects there are.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.offsets.len() - 1
    }

    /// What an object refers to.
    #[must_use]
    pub fn of(&self, object: u32) -> &[u32] {
        let (from, to) = (self.offsets[object as usize], self.offsets[object as usize + 1]);
        &self.targets[from as usize..to as usize]
    }

    /// What an object refers to, to be changed.
    pub(crate) fn of_mut(&mut self, object: u32) -> &mut [u32] {
        let (from, to) = (self.offsets[object as usize], self.offsets[object as usize + 1]);
        &mut self.targets[from as usize..to as usize]
    }

    /// Whether an object refers to nothing.
    #[must_use]
    pub fn is_leaf(&self, object: u32) -> bool {
        self.offsets[object as usize] == self.offsets[object as usize + 1]
    }

    /// The objects that refer to `object`, each as often as it does.
    #[must_use]
    pub fn holders(&self, object: u32) -> Vec<u32> {
        let places = self.targets.iter().enumerate().filter(|(_, target)| **target == object);
        places.map(|(place, _)| self.source(place as u32)).collect()
    }

    /// The object whose reference stands at a place of `targets`.
    fn source(&self, place: u32) -> u32 {
        self.offsets.partition_point(|start| *start <= place) as u32 - 1
    }
}

/// Shallow sizes. The few of 4 GiB and more are kept apart, so that the others take four bytes.
#[derive(Debug)]
pub struct ShallowSizes {
    small: Numbers<u32>,
    large: FxHashMap<u32, u64>,
}

impl ShallowSizes {
    /// Sizes in which [`u32::MAX`] stands for an entry of `large`.
    #[must_use]
    pub fn new(small: Numbers<u32>, large: FxHashMap<u32, u64>) -> Self {
        Self { small, large }
    }

    /// The size of an object.
    #[must_use]
    pub fn of(&self, object: u32) -> u64 {
        match self.small[object as usize] {
            u32::MAX => self.large.get(&object).copied().unwrap_or(u32::MAX.into()),
            size => size.into(),
        }
    }
}

/// All objects of a dump.
#[derive(Debug)]
pub struct Graph {
    /// The type of each object: its place in the table of types.
    pub types: Numbers<u32>,
    /// Shallow sizes.
    pub sizes: ShallowSizes,
    /// What refers to what.
    pub links: Links,
}

impl Graph {
    /// How many objects there are.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.links.objects()
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (0..self.objects() as u32).map(|object| self.sizes.of(object)).sum()
    }
}
