//! The heaps of glibc's `malloc`, read from outside: which memory of theirs is in use and which is free.
//!
//! `mallinfo2` and `malloc_info` go along all free blocks with an arena locked, and a thread that allocates waits that long.
//! Nor do they know which free memory is still in memory. So the agent goes along the blocks itself: each begins with its own
//! size, and says whether the one before it is free. It reads through the kernel, which returns an error where a direct read
//! would fault; it takes no lock and calls nothing of glibc. What it finds may be a moment old. Where the sizes make no
//! sense, because a thread has changed them meanwhile, it looks for the next block that does, and says how much it passed over.
//!
//! The format of blocks and heaps is the same in every glibc from 2.26 to 2.43; only blocks with a mapping of their own have
//! another size in their head from 2.43 on.

mod blocks;
mod heaps;
pub(crate) mod trim;

pub(crate) use blocks::HeapUse;
pub(crate) use heaps::{MallocHeap, find_heaps, mapped_block};

/// The versions 2.N of glibc whose arenas are known. In another one nothing is written or locked, whatever the signs say.
const KNOWN: std::ops::RangeInclusive<u32> = 31..=43;

/// Whether the arenas of the glibc that is loaded may be locked.
pub(crate) fn is_known_version() -> bool {
    // SAFETY: it gives a text that stays.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_str().is_ok_and(is_known)
}

fn is_known(version: &str) -> bool {
    let minor = version.strip_prefix("2.").and_then(|rest| rest.split('.').next());
    minor.and_then(|minor| minor.parse().ok()).is_some_and(|minor: u32| KNOWN.contains(&minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_and_foreign_versions_are_not_known() {
        let known: Vec<bool> = ["2.36", "2.43", "2.31.9", "2.44", "2.30", "3.36", "2", ""].map(is_known).into();
        assert_eq!(known, [true, true, true, false, false, false, false, false]);
    }
}
