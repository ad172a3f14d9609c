//! Where the resident memory of a process is.

use serde::{Deserialize, Serialize};

/// The resident set by what it is used for, in bytes. The first eight add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breakdown {
    /// Small Python objects, in the arenas of CPython's allocator.
    pub python_used: u64,
    /// Free memory in those arenas.
    pub python_free: u64,
    /// Blocks of the C library's `malloc` that are in use: large Python objects, buffers, native code.
    pub malloc_used: u64,
    /// Free memory that `malloc` keeps.
    pub malloc_free: u64,
    /// Memory that was mapped without `malloc`, and files that are no libraries.
    pub mapped: u64,
    /// Stacks of all threads.
    pub stacks: u64,
    /// Code and data of the interpreter and of libraries.
    pub libraries: u64,
    /// Everything else.
    pub other: u64,
    /// When this was read, in seconds since the agent was installed; 0 before the first time.
    pub at_s: f64,
    /// How long the reading took. The program went on meanwhile.
    pub took_ms: f64,
    /// The share of the resident set that is not `other`, from 0 to 1.
    pub explained: f64,
    /// Whose `malloc` it is.
    pub malloc: MallocKind,
    /// Arenas of `malloc`.
    pub malloc_arenas: u64,
    /// What those other than the main one keep free, a part of `malloc_free`.
    pub malloc_arenas_free: u64,
    /// Large blocks with a mapping of their own, a part of `malloc_used`.
    pub malloc_mapped: u64,
    /// Whole pages in free blocks, a part of `malloc_free`: `trim` can give them back.
    pub trimmable: u64,
    /// Arenas of CPython's allocator.
    pub python_arenas: u64,
    /// Those of which less than a quarter is in use.
    pub python_sparse_arenas: u64,
    /// Free memory in those, a part of `python_free`.
    pub python_sparse_free: u64,
    /// Files that are no libraries, and shared memory, a part of `mapped`.
    pub mapped_files: u64,
    /// The agent's own memory, without its library. It is a part of the others.
    pub ours: u64,
}

impl Breakdown {
    /// The parts that add up to the resident set, with the names people are shown.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 8] {
        [
            ("Python objects", self.python_used),
            ("pymalloc free", self.python_free),
            ("malloc in use", self.malloc_used),
            ("malloc free", self.malloc_free),
            ("mapped", self.mapped),
            ("libraries", self.libraries),
            ("stacks", self.stacks),
            ("other", self.other),
        ]
    }

    /// Their sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// An implementation of `malloc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MallocKind {
    /// Another one, of which the agent knows nothing: its memory is in `other`.
    #[default]
    Unknown,
    /// That of glibc.
    Glibc,
}

impl MallocKind {
    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Glibc => "glibc",
        }
    }
}

/// What `trim` has done so far: free memory that `malloc` kept was given back to the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trims {
    /// How often.
    pub count: u64,
    /// Memory given back, in bytes.
    pub saved_bytes: u64,
    /// How long it took in all. The program went on meanwhile.
    pub total_ms: f64,
    /// The longest time that one arena was locked: a thread that allocated from it had to wait.
    pub max_lock_ms: f64,
}

/// A breakdown in full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryReport {
    /// The resident set when it was read.
    pub rss: u64,
    /// Where it is.
    pub breakdown: Breakdown,
    /// The arenas of `malloc`, the largest first; at most 256.
    pub arenas: Vec<MallocArena>,
    /// Small Python objects by the size of their blocks.
    pub size_classes: Vec<SizeClass>,
    /// The largest blocks and mappings, at most 10.
    pub largest: Vec<LargeMapping>,
}

/// One arena of `malloc`, in bytes. All but `size` is what is resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MallocArena {
    /// Whether it is the main one.
    pub main: bool,
    /// Address space that it has taken.
    pub size: u64,
    /// What of that is in memory.
    pub resident: u64,
    /// Blocks in use, or kept by threads for their next small allocations.
    pub used: u64,
    /// Free blocks, without the one at the end.
    pub free: u64,
    /// The free block at the end.
    pub top: u64,
    /// Whole pages in both.
    pub trimmable: u64,
}

/// Blocks of one size in CPython's arenas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SizeClass {
    /// The size of a block.
    pub size: u64,
    /// Blocks in use, in bytes.
    pub used: u64,
    /// Free memory in the pools of this size.
    pub free: u64,
}

/// A large block or mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LargeMapping {
    /// `malloc`, `anonymous`, or the path of a file.
    pub what: String,
    /// What of it is in memory.
    pub resident: u64,
    /// Where it was allocated, as far as that was sampled; otherwise empty.
    pub site: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        let breakdown = Breakdown { python_used: 1, malloc_free: 2, other: 4, trimmable: 2, ..Breakdown::default() };
        assert_eq!(breakdown.total(), 7);
    }
}
