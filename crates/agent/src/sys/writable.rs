//! Memory that a clone has shared is made writable again when the clone has gone.
//!
//! The kernel write-protects every page of a process that is cloned. When the clone has ended there is nothing to copy any
//! more, but the program's first write to each page still costs it a fault. A thread of the agent has the kernel do that for
//! many pages at a time. That takes a fraction of the time, and another processor does it. Where all processors are busy it
//! is not done: it would take the program's time, also for pages that the program does not write to.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::maps;
use super::pace::breathe;
use super::page::page_size;
use super::pagemap::PageMap;
use super::wake::UPLINK;

/// Has pages ready to be written to; since Linux 5.14.
const MADV_POPULATE_WRITE: i32 = 23;

/// As much is asked for at a time: a thread that maps memory waits meanwhile.
const PIECE: usize = 256 << 10;

/// How long one round lasts.
const BUDGET: Duration = Duration::from_millis(2);

/// How long it goes on after a clone has gone: by then the program has written to most of the pages that it writes to at all.
const LASTS: Duration = Duration::from_millis(300);

/// Shorter mappings are left alone: stacks, and what libraries have.
const LEAST: usize = 1 << 20;

/// Whether a clone has gone since the last round.
static GONE: AtomicBool = AtomicBool::new(false);

/// Whether a clone shares the memory, so that pages must be left alone.
static SHARED: AtomicBool = AtomicBool::new(false);

/// A clone is about to be made.
pub(crate) fn clone_comes() {
    SHARED.store(true, Ordering::Release);
    GONE.store(false, Ordering::Release);
}

/// Whether a clone shares the memory.
pub(crate) fn is_shared() -> bool {
    SHARED.load(Ordering::Acquire)
}

/// It has gone, and its memory with it. Its pages are made writable if a processor `is_spare` for that. No GIL is needed.
pub(crate) fn clone_has_gone(is_spare: bool) {
    if SHARED.swap(false, Ordering::AcqRel) && is_spare {
        GONE.store(true, Ordering::Release);
        UPLINK.wake();
    }
}

/// Makes pages writable, a little at a time. One thread does this.
#[derive(Debug, Default)]
pub(crate) struct Unprotecting {
    /// What is left to look at, from the end.
    left: Vec<Range<usize>>,
    pages: Option<PageMap>,
    began: Option<Instant>,
    /// The kernel cannot do it.
    is_refused: bool,
}

impl Unprotecting {
    /// Does a little of it. True where there is more. What `comes_first` says of is done before the rest.
    pub(crate) fn round(&mut self, comes_first: impl Fn(&Range<usize>) -> bool) -> bool {
        if GONE.swap(false, Ordering::AcqRel) && !self.is_refused {
            self.begin(comes_first);
        }
        let Some(began) = self.began else { return false };
        let round = Instant::now();
        while round.elapsed() < BUDGET {
            let is_over = round - began >= LASTS || SHARED.load(Ordering::Acquire) || self.is_refused;
            let Some(piece) = self.next_piece().filter(|_| !is_over) else {
                *self = Self { is_refused: self.is_refused, ..Self::default() };
                return false;
            };
            self.make_writable(&piece);
        }
        true
    }

    fn begin(&mut self, comes_first: impl Fn(&Range<usize>) -> bool) {
        let (Some(text), Some(pages)) = (maps::text(), PageMap::of(std::process::id())) else { return };
        let mappings = maps::merged(&maps::parse(&text));
        let is_memory =
            |mapping: &maps::Mapping<'_>| (mapping.is_plain_memory() || mapping.is_heap()) && mapping.len() >= LEAST;
        self.left = mappings.into_iter().filter(is_memory).map(|mapping| mapping.range).collect();
        self.left.sort_by_key(comes_first);
        (self.pages, self.began) = (Some(pages), Some(Instant::now()));
    }

    fn next_piece(&mut self) -> Option<Range<usize>> {
        let range = self.left.last_mut()?;
        let end = (range.start + 1).next_multiple_of(PIECE).min(range.end);
        let piece = range.start..end;
        range.start = end;
        if end >= range.end {
            self.left.pop();
        }
        Some(piece)
    }

    /// Pages that another process has, too, would be copied, and those that have no memory would get some: both are left alone.
    fn make_writable(&mut self, piece: &Range<usize>) {
        let Some(own) = self.pages.as_mut().and_then(|pages| pages.own(piece.clone())) else { return };
        for pages in own {
            breathe();
            let (at, bytes) = (piece.start + pages.start * page_size(), pages.len() * page_size());
            // SAFETY: what is in memory stays as it is, also where the range is no longer what it was.
            let done = unsafe { libc::madvise(at as *mut c_void, bytes, MADV_POPULATE_WRITE) } == 0;
            self.is_refused |= !done && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const PAGES: usize = 600;

    fn faults() -> i64 {
        // SAFETY: all-zero is valid, and the kernel fills it in.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            usage.ru_minflt
        }
    }

    /// Memory of which the last tenth was never touched.
    fn some_memory() -> Range<usize> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let bytes = PAGES * page_size();
        // SAFETY: a new mapping, which is written to.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE);
            at.cast::<u8>().write_bytes(1, bytes / 10 * 9);
            at as usize..at as usize + bytes
        }
    }

    /// Faults of this thread when it writes to each page of the first nine tenths.
    fn faults_when_written(range: &Range<usize>) -> i64 {
        let before = faults();
        for page in range.clone().step_by(page_size()).take(PAGES / 10 * 9) {
            // SAFETY: it is memory of this test's own.
            unsafe { (page as *mut u8).write_volatile(2) };
        }
        faults() - before
    }

    fn resident(range: &Range<usize>) -> usize {
        let runs = PageMap::of(std::process::id()).unwrap().own(range.clone()).unwrap();
        runs.iter().map(Range::len).sum()
    }

    /// All rounds for one range.
    fn unprotect(range: &Range<usize>) {
        let mut unprotecting = Unprotecting {
            left: vec![range.clone()],
            pages: PageMap::of(std::process::id()),
            began: Some(Instant::now()),
            is_refused: false,
        };
        while unprotecting.round(|_| false) {}
    }

    /// Shares the memory with a child while `act` runs.
    fn with_child(act: impl FnOnce()) {
        // SAFETY: the child calls nothing but the kernel.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::pause();
                libc::_exit(0);
            }
            child
        };
        act();
        // SAFETY: it is this test's own child.
        unsafe {
            assert_eq!(libc::kill(child, libc::SIGKILL), 0);
            assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
        }
    }

    #[test]
    fn pages_that_a_clone_has_had_are_written_to_without_a_fault() {
        let (mended, left) = (some_memory(), some_memory());
        with_child(|| ());
        unprotect(&mended);
        let (mended, left) = (faults_when_written(&mended), faults_when_written(&left));
        assert!(mended < 20 && left > 400, "{mended} {left}");
    }

    #[test]
    fn nothing_is_copied_or_added() {
        let range = some_memory();
        with_child(|| {
            unprotect(&range);
            assert_eq!(resident(&range), 0, "pages that a child has were copied");
        });
        unprotect(&range);
        assert_eq!(resident(&range), PAGES / 10 * 9);
    }
}
