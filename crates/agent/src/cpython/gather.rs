//! Arenas on small pages are put together to huge ones before a clone that was asked for, which is then as short as where
//! arenas are in huge pages from the beginning.
//!
//! A thread of the program asks and waits without the GIL; the uplink does it, with pauses, beside what else it does for huge
//! pages. A page that another process shares is left alone: it would be copied. So is one of which a part is not in use.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use super::arenas;
use crate::sys::native::monotonic_ns;
use crate::sys::pagemap::PageMap;
use crate::sys::wake::UPLINK;
use crate::sys::{huge, maps};

/// How long it may take. Then the clone is made of what there is.
pub(crate) const LONGEST_NS: u64 = 5_000_000_000;

/// A process with less memory is cloned quickly whatever its pages are.
const SMALL_PROCESS: u64 = 128 << 20;

/// So many pages are put together with one call to the kernel, which does something for all processors before the first.
const AT_ONCE: usize = 4;

/// The program has this time for itself for each page.
const PAUSE: Duration = Duration::from_millis(3);

/// So many small pages of a huge one may be missing: they get memory.
const MOST_MISSING: usize = 16;

/// After so many pages in a row that the kernel had no huge page for it is given up. Where its memory is in small pieces it
/// may have some again a moment later.
const MOST_REFUSED: u32 = 16;

/// Where in a huge page a pool is looked for. Arenas are four times as large, at least.
const STEP: usize = 256 << 10;

/// Address space is looked at for so long before other work of the uplink has its turn.
const LOOK_NS: u64 = 2_000_000;

/// Why pages were not put together, or not all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum GatherEnd {
    #[default]
    Complete,
    /// The process is small, which is no loss.
    Small,
    SwitchedOff,
    NotOffered,
    OldKernel,
    NoRoom,
    NoPages,
    OutOfTime,
}

impl GatherEnd {
    const ALL: [Self; 8] = [
        Self::Complete,
        Self::Small,
        Self::SwitchedOff,
        Self::NotOffered,
        Self::OldKernel,
        Self::NoRoom,
        Self::NoPages,
        Self::OutOfTime,
    ];

    /// In words, where the stop of the program may be longer than it could be.
    pub(crate) fn words(self) -> Option<&'static str> {
        match self {
            Self::Complete | Self::Small => None,
            Self::SwitchedOff => Some("the setting gather_pages is off"),
            Self::NotOffered => Some("the kernel offers the process no transparent huge pages of 2 MiB"),
            Self::OldKernel => Some("small pages can be put together from Linux 6.1 on"),
            Self::NoRoom => Some("memory is short"),
            Self::NoPages => Some("the kernel had no huge pages left"),
            Self::OutOfTime => Some("there was no time for more"),
        }
    }
}

/// What has become of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GatheredArenas {
    pub(crate) pages: u64,
    pub(crate) took: Duration,
    pub(crate) end: GatherEnd,
}

/// What is asked for, and how far it is. One at a time: a second thread that asks meanwhile gets the same number.
struct Desk {
    asked: AtomicU64,
    done: AtomicU64,
    /// When it was asked for, by the monotonic clock.
    since: AtomicU64,
    pages: AtomicU64,
    /// In thousandths.
    share: AtomicU64,
    took_ns: AtomicU64,
    end: AtomicU8,
}

static DESK: Desk = Desk {
    asked: AtomicU64::new(0),
    done: AtomicU64::new(0),
    since: AtomicU64::new(0),
    pages: AtomicU64::new(0),
    share: AtomicU64::new(0),
    took_ns: AtomicU64::new(0),
    end: AtomicU8::new(0),
};

/// Asks for it, and gives the number to ask for its end by. The caller holds the GIL, so that no two threads do this at once.
pub(crate) fn ask() -> u64 {
    let asked = DESK.asked.load(Ordering::Acquire);
    if DESK.done.load(Ordering::Acquire) < asked && is_in_time(monotonic_ns()) {
        return asked;
    }
    DESK.since.store(monotonic_ns(), Ordering::Relaxed);
    DESK.pages.store(0, Ordering::Relaxed);
    DESK.share.store(0, Ordering::Relaxed);
    DESK.asked.store(asked + 1, Ordering::Release);
    UPLINK.wake();
    asked + 1
}

/// What has become of it; nothing while it is under way.
pub(crate) fn told(number: u64) -> Option<GatheredArenas> {
    let is_done = DESK.done.load(Ordering::Acquire) >= number;
    let took = Duration::from_nanos(DESK.took_ns.load(Ordering::Relaxed));
    let pages = DESK.pages.load(Ordering::Relaxed);
    if !is_done {
        // The uplink may have been lost.
        let late = !is_in_time(monotonic_ns());
        return late.then_some(GatheredArenas {
            pages,
            took: Duration::from_nanos(LONGEST_NS),
            end: GatherEnd::OutOfTime,
        });
    }
    let end = GatherEnd::ALL.get(usize::from(DESK.end.load(Ordering::Relaxed))).copied().unwrap_or_default();
    Some(GatheredArenas { pages, took, end })
}

/// How far it is, while it is under way.
pub(crate) fn share() -> Option<f64> {
    let under_way = DESK.done.load(Ordering::Acquire) < DESK.asked.load(Ordering::Acquire);
    (under_way && is_in_time(monotonic_ns())).then(|| DESK.share.load(Ordering::Relaxed) as f64 / 1e3)
}

fn is_in_time(now: u64) -> bool {
    now.saturating_sub(DESK.since.load(Ordering::Relaxed)) < LONGEST_NS
}

/// The part of the uplink.
#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    run: Option<Run>,
}

/// One that is under way.
#[derive(Debug)]
struct Run {
    number: u64,
    ranges: Vec<Range<usize>>,
    /// The first range that is not done, and how far it is.
    range: usize,
    at: usize,
    bytes: usize,
    left: usize,
    pagemap: PageMap,
    refused: u32,
}

/// What the uplink knows of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GatherLimits {
    /// The setting.
    pub(crate) allowed: bool,
    pub(crate) resident: u64,
    pub(crate) has_room: bool,
}

impl Gatherer {
    /// Does a little of what was asked for, and says when to come again. Nothing where nothing is to be done.
    pub(crate) fn round(&mut self, limits: impl Fn() -> GatherLimits) -> Option<Duration> {
        let asked = DESK.asked.load(Ordering::Acquire);
        if DESK.done.load(Ordering::Acquire) == asked {
            self.run = None;
            return None;
        }
        if !is_in_time(monotonic_ns()) {
            self.end(asked, GatherEnd::OutOfTime);
            return None;
        }
        if self.run.as_ref().is_none_or(|run| run.number != asked) {
            match Run::begin(asked, limits()) {
                Ok(run) => self.run = Some(run),
                Err(end) => {
                    self.end(asked, end);
                    return None;
                }
            }
        }
        let step = self.run.as_mut().map_or(Step::Over, Run::step);
        if let Some(run) = &self.run {
            let done = 1.0 - run.left as f64 / run.bytes.max(1) as f64;
            DESK.share.store((done * 1e3) as u64, Ordering::Relaxed);
        }
        match step {
            Step::Put(pages) => Some(PAUSE * pages as u32),
            Step::Looked => Some(Duration::ZERO),
            Step::Over => {
                let refused = self.run.as_ref().is_some_and(|run| run.refused >= MOST_REFUSED);
                self.end(asked, if refused { GatherEnd::NoPages } else { GatherEnd::Complete });
                None
            }
        }
    }

    fn end(&mut self, number: u64, end: GatherEnd) {
        self.run = None;
        let took = monotonic_ns().saturating_sub(DESK.since.load(Ordering::Relaxed));
        DESK.took_ns.store(took, Ordering::Relaxed);
        DESK.end.store(end as u8, Ordering::Relaxed);
        DESK.done.store(number, Ordering::Release);
    }
}

enum Step {
    /// So many pages were put together.
    Put(usize),
    /// There was time to look only.
    Looked,
    Over,
}

impl Run {
    fn begin(number: u64, limits: GatherLimits) -> Result<Self, GatherEnd> {
        match () {
            () if limits.resident < SMALL_PROCESS => return Err(GatherEnd::Small),
            () if !limits.allowed => return Err(GatherEnd::SwitchedOff),
            () if !huge::are_possible() => return Err(GatherEnd::NotOffered),
            () if !huge::can_be_mended() => return Err(GatherEnd::OldKernel),
            () if !limits.has_room => return Err(GatherEnd::NoRoom),
            () => {}
        }
        let pagemap = PageMap::of(std::process::id()).ok_or(GatherEnd::NotOffered)?;
        let text = maps::text().ok_or(GatherEnd::NotOffered)?;
        let plain = maps::parse(&text).into_iter().filter(maps::Mapping::is_plain_memory);
        let ranges: Vec<Range<usize>> = plain.filter_map(|mapping| whole_pages(&mapping.range)).collect();
        let bytes = ranges.iter().map(Range::len).sum();
        let at = ranges.first().map_or(0, |range| range.start);
        Ok(Self { number, ranges, range: 0, at, bytes, left: bytes, pagemap, refused: 0 })
    }

    /// Looks for the next pages that are to be put together, and does it.
    fn step(&mut self) -> Step {
        let began = monotonic_ns();
        let mut found: Option<Range<usize>> = None;
        while let Some(range) = self.ranges.get(self.range) {
            if self.at >= range.end {
                self.range += 1;
                self.at = self.ranges.get(self.range).map_or(0, |range| range.start);
                // One call is for one mapping.
                if found.is_some() {
                    break;
                }
                continue;
            }
            let page = self.at;
            (self.at, self.left) = (page + huge::PAGE, self.left.saturating_sub(huge::PAGE));
            match (&mut found, self.is_wanted(page)) {
                (None, true) => found = Some(page..page + huge::PAGE),
                (Some(found), true) => found.end = page + huge::PAGE,
                (Some(_), false) => break,
                (None, false) if monotonic_ns() - began >= LOOK_NS => return Step::Looked,
                (None, false) => {}
            }
            if found.as_ref().is_some_and(|found| found.len() >= AT_ONCE * huge::PAGE) {
                break;
            }
        }
        let Some(found) = found else { return Step::Over };
        arenas::note_gathered();
        let pages = found.len() / huge::PAGE;
        if huge::mend(found.clone()) {
            self.refused = 0;
            DESK.pages.fetch_add(pages as u64, Ordering::Relaxed);
            return Step::Put(pages);
        }
        // One of them may be the reason, and the kernel does not say which.
        for page in found.step_by(huge::PAGE) {
            if huge::mend(page..page + huge::PAGE) {
                self.refused = 0;
                DESK.pages.fetch_add(1, Ordering::Relaxed);
            } else {
                self.refused += 1;
            }
        }
        if self.refused >= MOST_REFUSED { Step::Over } else { Step::Put(pages) }
    }

    /// Whether a page has small objects, is in use and is this process's alone. Those that our hook has handed out are
    /// maintained anyhow.
    fn is_wanted(&mut self, page: usize) -> bool {
        let pools: Vec<usize> = (page..page + huge::PAGE).step_by(STEP).collect();
        !arenas::are_within((page, page + huge::PAGE))
            && arenas::are_pools(&pools).filter(|is_pool| *is_pool).count() * 2 >= pools.len()
            && self.pagemap.is_full_and_alone(page..page + huge::PAGE, MOST_MISSING)
    }
}

/// The part of a mapping that consists of whole huge pages.
fn whole_pages(range: &Range<usize>) -> Option<Range<usize>> {
    let whole = range.start.next_multiple_of(huge::PAGE)..range.end & !(huge::PAGE - 1);
    (whole.start < whole.end).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_are_put_together() {
        const PAGE: usize = huge::PAGE;
        assert_eq!(whole_pages(&(PAGE + 4096..4 * PAGE + 4096)), Some(2 * PAGE..4 * PAGE));
        assert_eq!(whole_pages(&(3 * PAGE..4 * PAGE)), Some(3 * PAGE..4 * PAGE));
        assert_eq!(whole_pages(&(PAGE + 4096..2 * PAGE + 4096)), None);
    }

    #[test]
    fn every_end_has_its_number() {
        for (number, end) in GatherEnd::ALL.into_iter().enumerate() {
            assert_eq!(end as usize, number);
        }
    }

    #[test]
    fn a_process_that_may_not_or_need_not_is_told_so() {
        let limits = GatherLimits { allowed: true, resident: 1 << 30, has_room: true };
        let end = |limits| Run::begin(1, limits).err();
        assert_eq!(end(GatherLimits { resident: 1 << 20, ..limits }), Some(GatherEnd::Small));
        assert_eq!(end(GatherLimits { allowed: false, ..limits }), Some(GatherEnd::SwitchedOff));
        if huge::are_possible() && huge::can_be_mended() {
            assert_eq!(end(GatherLimits { has_room: false, ..limits }), Some(GatherEnd::NoRoom));
            assert_eq!(end(limits), None);
        }
    }

    #[test]
    fn a_run_comes_to_its_end_and_is_told() {
        let number = ask();
        assert_eq!(ask(), number, "one is under way");
        assert!(told(number).is_none() && share() == Some(0.0));
        let mut gatherer = Gatherer::default();
        let limits = || GatherLimits { allowed: true, resident: 1 << 30, has_room: true };
        let mut rounds = 0;
        while gatherer.round(limits).is_some() {
            rounds += 1;
            assert!(rounds < 1_000_000, "{gatherer:?}");
        }
        assert!(told(number).is_some() && share().is_none() && ask() == number + 1);
    }
}
