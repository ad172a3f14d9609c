//! Where the resident memory is: a reading of the whole address space, made seldom and in a thread that the program does not
//! wait for.
//!
//! A reading takes no lock of CPython's or of `malloc`, and holds the kernel's lock on the address space for at most 16 MB at a
//! time. What threads do meanwhile makes its figures a little wrong, not unsafe.

mod memory;
mod pools;

use neurogc_wire::breakdown::{Breakdown, LargeMapping, MallocArena, MallocKind, MemoryReport};

use self::memory::PlainMemory;
use super::process::resident;
use super::rest::Rest;
use crate::alloc;
use crate::cpython::arenas;
use crate::sys::libraries::Libraries;
use crate::sys::malloc::{HeapUse, find_heaps};
use crate::sys::maps::{self, Mapping};
use crate::sys::native::{monotonic_ns, thread_cpu_ns};
use crate::sys::residency::{Residency, ResidencyReader};
use crate::sys::{heap, threads};

/// A reading is repeated no sooner than after this long, and than after so many times the processor time that it took, so it costs at most a
/// fifth of a percent of a core.
const SOONEST_NS: u64 = 30_000_000_000;
const RARITY: u64 = 500;

/// The first one is so long after the start: most processes that start do not live to see it.
const FIRST_NS: u64 = 15_000_000_000;

/// A client that asks for a status report gets a new reading where the last one took less than this.
const CHEAP_NS: u64 = 20_000_000;

/// And where the last one is older than so many times what it took, and than this.
const ASKED_RARITY: u64 = 200;
const ASKED_SOONEST_NS: u64 = 1_000_000_000;

/// So much free memory, and such a share of what is resident, is worth a closer look: so many readings in a row that show it are not followed
/// as rarely as others.
const MUCH_FREE: u64 = 64 << 20;
const MUCH_FREE_PERCENT: u64 = 25;
const CLOSER_LOOKS: u32 = 5;

/// What a report lists at most.
const MOST_ARENAS: usize = 256;
const MOST_LARGE: usize = 10;

/// Smaller ones are not listed.
const LARGE: usize = 1 << 20;

/// Reads the breakdown when that is due, and keeps the last one.
#[derive(Debug)]
pub(crate) struct BreakdownReader {
    installed: u64,
    rest: Rest,
    read_at: u64,
    took: u64,
    /// Readings in a row, of those that were due, that showed much free memory.
    free_in_a_row: u32,
    latest: Option<MemoryReport>,
    /// The program wants a new one.
    wanted: bool,
}

impl BreakdownReader {
    /// Has read nothing yet.
    pub(crate) fn new(installed: u64) -> Self {
        let rest = Rest::until(installed + FIRST_NS);
        Self { installed, rest, read_at: 0, took: 0, free_in_a_row: 0, latest: None, wanted: false }
    }

    /// Whether a reading is due.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.rest.is_over(now)
    }

    /// Whether a reading has been due for a while: for the verdict on memory alone it is made five times as rarely, unless the last few
    /// have shown much free memory.
    pub(crate) fn is_long_due(&self, now: u64) -> bool {
        let patience = if (1..CLOSER_LOOKS).contains(&self.free_in_a_row) { 0 } else { 4 };
        self.is_due(now) && now >= self.rest.soonest() + patience * self.distance()
    }

    /// Has the next round make a new reading.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// The reading that was wanted, where it has been made.
    pub(crate) fn wanted(&self) -> Option<MemoryReport> {
        self.latest.clone().filter(|_| !self.wanted)
    }

    /// The same for a client that has asked for a status report. It gets a new one where that is cheap and the last one is
    /// not too fresh: clients may ask all the time.
    pub(crate) fn is_due_when_asked(&self, now: u64) -> bool {
        self.wanted
            || self.latest.is_none()
            || self.took < CHEAP_NS && now >= self.read_at + (self.took * ASKED_RARITY).max(ASKED_SOONEST_NS)
    }

    /// The last reading.
    pub(crate) fn latest(&self) -> Option<&MemoryReport> {
        self.latest.as_ref()
    }

    /// What was due has been done. Readings that clients have asked for do not count.
    pub(crate) fn put_off(&mut self, now: u64) {
        let is_free = |report: &MemoryReport| {
            let free = report.breakdown.malloc_free + report.breakdown.python_free;
            free >= MUCH_FREE && free >= report.rss / 100 * MUCH_FREE_PERCENT
        };
        self.free_in_a_row = if self.latest.as_ref().is_some_and(is_free) { self.free_in_a_row + 1 } else { 0 };
        self.rest = Rest::after(self.took, now, now + self.distance());
    }

    fn distance(&self) -> u64 {
        (self.took * RARITY).max(SOONEST_NS)
    }

    /// Takes over a reading that was made at `now`.
    pub(crate) fn keep(&mut self, mut report: MemoryReport, now: u64, took: u64) -> MemoryReport {
        (self.read_at, self.took) = (now, took);
        report.breakdown.at_s = now.saturating_sub(self.installed) as f64 / 1e9;
        self.latest = Some(report.clone());
        self.wanted = false;
        report
    }
}

/// Reads where the resident memory is, and the processor time that this took in nanoseconds. None where `/proc` cannot be read, or `enough`
/// has become true meanwhile.
pub(crate) fn read(enough: impl Fn() -> bool) -> Option<(MemoryReport, u64)> {
    let (began, cpu_before) = (monotonic_ns(), thread_cpu_ns());
    // First of all: what the reading itself takes is in none of the mappings.
    let rss = resident()?;
    let text = maps::text()?;
    let parsed = maps::parse(&text);
    let mappings = maps::merged(&parsed);
    let is_glibc = alloc::malloc_is_glibc();
    let heaps = if is_glibc { find_heaps(&mappings) } else { Vec::new() };
    let mut reading = Reading {
        libraries: Libraries::of(&parsed),
        memory: PlainMemory::new(threads::stacks(&parsed), heaps, is_glibc)?,
        residency: ResidencyReader::new(),
        breakdown: Breakdown::default(),
        largest: Vec::new(),
    };
    for mapping in &mappings {
        if enough() {
            return None;
        }
        reading.look(mapping);
    }
    let took = monotonic_ns().saturating_sub(began);
    Some((reading.report(rss, took), thread_cpu_ns().saturating_sub(cpu_before)))
}

struct Reading {
    libraries: Libraries,
    memory: PlainMemory,
    residency: ResidencyReader,
    breakdown: Breakdown,
    largest: Vec<Large>,
}

/// A block or mapping that may be listed.
struct Large {
    what: String,
    resident: usize,
    /// The address that its site is looked up by.
    address: usize,
}

impl Reading {
    fn look(&mut self, mapping: &Mapping<'_>) {
        if mapping.inode != 0 {
            self.look_at_file(mapping);
        } else if mapping.is_plain_memory() || mapping.is_heap() {
            let Some(residency) = self.residency_of(mapping) else { return };
            let large = self.memory.add(mapping, &residency, &self.libraries);
            self.largest.extend(large.into_iter().map(|(resident, address, is_malloc)| Large {
                what: if is_malloc { "malloc" } else { "anonymous" }.to_owned(),
                resident,
                address,
            }));
        } else if mapping.name == "[stack]" {
            self.breakdown.stacks += self.residency_of(mapping).map_or(0, |residency| residency.total() as u64);
        } else if mapping.is_private && !mapping.name.starts_with('[') {
            // Memory that was written to once and can only be read now, such as relocated data of libraries.
            let Some(residency) = self.residency_of(mapping) else { return };
            let (total, mut linked) = (residency.total() as u64, 0);
            for part in self.libraries.within(&mapping.range) {
                linked += residency.bytes(part) as u64;
            }
            self.breakdown.libraries += linked.min(total);
            self.breakdown.mapped += total.saturating_sub(linked);
        }
    }

    fn look_at_file(&mut self, mapping: &Mapping<'_>) {
        let resident = self.residency.of_file(&mapping.range).map_or(0, |residency| residency.total());
        if self.libraries.have_file(mapping.inode) {
            self.breakdown.libraries += resident as u64;
            return;
        }
        self.breakdown.mapped += resident as u64;
        self.breakdown.mapped_files += resident as u64;
        if resident >= LARGE {
            self.largest.push(Large { what: mapping.name.to_owned(), resident, address: mapping.range.start });
        }
    }

    fn residency_of(&mut self, mapping: &Mapping<'_>) -> Option<Residency> {
        // Nothing can be in use in a mapping that was never allowed to be.
        let is_used = mapping.is_readable || mapping.is_writable || mapping.is_executable;
        if is_used { self.residency.of_memory(&mapping.range) } else { None }
    }

    fn report(self, rss: u64, took: u64) -> MemoryReport {
        let Self { memory, mut breakdown, mut largest, .. } = self;
        let mut arenas = arenas_of(&memory);
        memory.fill(&mut breakdown);
        arenas::note_sparse(memory.pools.sparse());
        breakdown.malloc_arenas = arenas.len() as u64;
        let others = arenas.iter().filter(|arena| !arena.main);
        breakdown.malloc_arenas_free = others.map(|arena| arena.free + arena.top).sum();
        breakdown.malloc_free = arenas.iter().map(|arena| arena.free + arena.top).sum();
        breakdown.malloc_used = breakdown.malloc_mapped + arenas.iter().map(|arena| arena.used).sum::<u64>();
        breakdown.trimmable = arenas.iter().map(|arena| arena.trimmable).sum();
        breakdown.malloc = if memory.is_glibc { MallocKind::Glibc } else { MallocKind::Unknown };
        breakdown.ours = heap::allocated() as u64 + alloc::resident();
        breakdown.other = 0;
        breakdown.other = rss.saturating_sub(breakdown.total());
        breakdown.explained = if rss == 0 { 0.0 } else { 1.0 - breakdown.other as f64 / rss as f64 };
        breakdown.took_ms = took as f64 / 1e6;
        arenas.truncate(MOST_ARENAS);
        largest.sort_unstable_by_key(|large| std::cmp::Reverse(large.resident));
        largest.truncate(MOST_LARGE);
        let listed = |large: Large| LargeMapping {
            site: alloc::site_at(large.address).unwrap_or_default(),
            what: large.what,
            resident: large.resident as u64,
        };
        let largest = largest.into_iter().map(listed).collect();
        MemoryReport { rss, breakdown, arenas, size_classes: memory.pools.size_classes(), largest }
    }
}

/// The arenas of `malloc`, the largest first.
fn arenas_of(memory: &PlainMemory) -> Vec<MallocArena> {
    let mut arenas: Vec<MallocArena> = memory
        .arenas
        .iter()
        .map(|(arena, seen): (&usize, &HeapUse)| MallocArena {
            main: *arena == 0,
            size: seen.size as u64,
            resident: seen.resident as u64,
            used: seen.used() as u64,
            free: seen.free as u64,
            top: seen.top as u64,
            trimmable: seen.trimmable as u64,
        })
        .collect();
    arenas.sort_unstable_by_key(|arena| std::cmp::Reverse((arena.resident, arena.main)));
    arenas
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_explained() {
        let held: Vec<Vec<u8>> = (0..64).map(|index| vec![1; 100_000 + index]).collect();
        let large = vec![1_u8; 40 << 20];
        let (report, took) = read(|| false).unwrap();
        let breakdown = report.breakdown;
        assert_eq!(breakdown.malloc, MallocKind::Glibc);
        assert!(breakdown.explained > 0.95, "{report:?}");
        assert!(breakdown.malloc_mapped >= large.len() as u64, "{report:?}");
        assert!(breakdown.malloc_used >= (large.len() + 64 * 100_000) as u64, "{report:?}");
        assert!(breakdown.libraries > 0 && breakdown.stacks > 0 && took > 0);
        assert_eq!(report.largest.first().map(|large| large.what.as_str()), Some("malloc"));
        drop(held);
    }

    #[test]
    fn a_reading_that_is_not_wanted_any_more_ends() {
        assert!(read(|| true).is_none());
    }

    #[test]
    fn much_free_memory_is_looked_at_more_closely_for_a_while() {
        let mut reader = BreakdownReader::new(0);
        let breakdown = Breakdown { malloc_free: MUCH_FREE, ..Breakdown::default() };
        let report = MemoryReport { rss: 2 * MUCH_FREE, breakdown, ..MemoryReport::default() };
        let mut distances = Vec::new();
        let mut now = FIRST_NS;
        for _ in 0..=CLOSER_LOOKS {
            reader.keep(report.clone(), now, 100_000);
            reader.put_off(now);
            let next = [now + SOONEST_NS, now + 5 * SOONEST_NS].into_iter().find(|at| reader.is_long_due(*at)).unwrap();
            distances.push((next - now) / SOONEST_NS);
            now = next;
        }
        assert_eq!(distances, [1, 1, 1, 1, 5, 5]);
    }

    #[test]
    fn an_expensive_reading_is_made_seldom() {
        let mut reader = BreakdownReader::new(0);
        assert!(!reader.is_due(0) && reader.is_due(FIRST_NS) && reader.is_due_when_asked(0));
        reader.keep(MemoryReport::default(), FIRST_NS, 100_000);
        assert!(reader.is_due(FIRST_NS), "a client had asked");
        reader.put_off(FIRST_NS);
        assert!(!reader.is_due(FIRST_NS + SOONEST_NS - 1) && reader.is_due(FIRST_NS + SOONEST_NS));
        assert!(!reader.is_due_when_asked(FIRST_NS) && reader.is_due_when_asked(FIRST_NS + ASKED_SOONEST_NS));
        reader.keep(MemoryReport::default(), FIRST_NS, 1_000_000_000);
        reader.put_off(FIRST_NS);
        assert!(!reader.is_due(FIRST_NS + 499_000_000_000) && reader.is_due(FIRST_NS + 500_000_000_000));
        assert!(!reader.is_due_when_asked(FIRST_NS + 499_000_000_000));
    }
}
