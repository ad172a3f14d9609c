//! Memory in huge pages, and what the kernel of this machine makes of it.
//!
//! A clone copies one entry for each page that is mapped. With pages of 2 MiB there is one entry where there would be
//! 512, so the heap of a large program is cloned in a fraction of the time.

use std::ffi::c_void;
use std::ops::Range;

/// The size of a huge page that this is made for; where the kernel has another, none are used.
pub(crate) const PAGE: usize = 2 << 20;

/// Makes huge pages of small ones; since Linux 6.1.
const MADV_COLLAPSE: i32 = 25;

/// Whether memory of this process can be in huge pages of our size.
pub(crate) fn are_possible() -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}"));
    let offered = read("enabled").is_ok_and(|text| text.contains("[always]") || text.contains("[madvise]"));
    let fits = read("hpage_pmd_size").is_ok_and(|text| text.trim().parse() == Ok(PAGE));
    // SAFETY: the call only answers, and takes no further arguments.
    offered && fits && unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } == 0
}

/// Maps so many bytes, a multiple of the page, at a multiple of the page. They cost nothing before they are touched.
pub(crate) fn map(bytes: usize) -> Option<usize> {
    let at = map_plainly(bytes)?;
    // Newer kernels align it by themselves.
    let at = if at.is_multiple_of(PAGE) {
        at
    } else {
        // SAFETY: it has just been mapped and is not used yet.
        unsafe { unmap(at, bytes) };
        map_aligned(bytes)?
    };
    // SAFETY: the range is our own mapping. Nothing in it changes.
    let told = unsafe { libc::madvise(at as *mut c_void, bytes, libc::MADV_HUGEPAGE) } == 0;
    if told && !is_resident(at + bytes - PAGE) {
        return Some(at);
    }
    // Without huge pages it is of no use; where all memory is locked, all of it would be taken at once.
    // SAFETY: it has just been mapped and is not used yet.
    unsafe { unmap(at, bytes) };
    None
}

fn map_plainly(bytes: usize) -> Option<usize> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of nothing at an address of the kernel's choice touches no other.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind | libc::MAP_NORESERVE, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at as usize)
}

/// Maps a page more than is wanted and gives back what sticks out at either end.
fn map_aligned(bytes: usize) -> Option<usize> {
    let start = map_plainly(bytes + PAGE)?;
    let at = start.next_multiple_of(PAGE);
    // SAFETY: both ends belong to the mapping that has just been made, and are not used yet.
    unsafe {
        unmap(start, at - start);
        unmap(at + bytes, start + PAGE - at);
    }
    Some(at)
}

/// Whether there is memory at an address that was mapped but not touched yet.
fn is_resident(at: usize) -> bool {
    let mut state = 0_u8;
    // SAFETY: the address is a mapped page's, and one page has a state of one byte.
    unsafe { libc::mincore(at as *mut c_void, 1, &raw mut state) == 0 && state & 1 != 0 }
}

/// # Safety
/// The range must be ours, and must not be used afterwards.
pub(crate) unsafe fn unmap(at: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(at as *mut c_void, bytes) };
    }
}

/// Gives memory back; the address stays.
///
/// # Safety
/// Its contents must no longer be needed.
pub(crate) unsafe fn discard(at: usize, bytes: usize) {
    // Where memory is locked this is refused, and the memory stays.
    // SAFETY: the caller's promise; the mapping itself is not changed.
    unsafe { libc::madvise(at as *mut c_void, bytes, libc::MADV_DONTNEED) };
}

/// The same for a part of a huge page.
///
/// # Safety
/// Its contents must no longer be needed.
pub(crate) unsafe fn discard_part(at: usize, bytes: usize) {
    // A part that is merely unmapped stays with the whole until memory is short. This makes small pages of it first.
    // SAFETY: the caller's promise.
    unsafe {
        libc::madvise(at as *mut c_void, bytes, libc::MADV_FREE);
        discard(at, bytes);
    }
}

/// Gets the memory of a page.
///
/// # Safety
/// The page must be mapped, and its first arena must be the caller's.
pub(crate) unsafe fn touch(page: usize) {
    // A fault locks this mapping only. `MADV_POPULATE_WRITE` would keep the whole process from growing its other memory.
    // SAFETY: the caller's promise; what is in an arena before it is used does not matter.
    unsafe { std::ptr::write_volatile(page as *mut u8, 0) };
}

/// Whether this kernel can put a page back together when asked.
pub(crate) fn can_be_mended() -> bool {
    // SAFETY: a range of no length is checked for its arguments only.
    unsafe { libc::madvise(PAGE as *mut c_void, 0, MADV_COLLAPSE) == 0 }
}

/// Puts the small pages of each huge one in a range together. A thread that touches one meanwhile waits, for as
/// long as 2 MiB take to be copied. False where there is no memory for it. A page that cannot be mended now stays as
/// it is.
pub(crate) fn mend(pages: Range<usize>) -> bool {
    // SAFETY: what is in memory stays as it is, also where the range is no longer ours.
    let mended = unsafe { libc::madvise(pages.start as *mut c_void, pages.len(), MADV_COLLAPSE) } == 0;
    // The second is what a control group's limit gives.
    mended || !matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOMEM | libc::EBUSY))
}
