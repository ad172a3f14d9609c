//! The size of a page of memory: 4 KiB on x86-64, and 4, 16 or 64 KiB elsewhere, as the kernel was built.

/// What the kernel hands memory out in.
#[cfg(target_arch = "x86_64")]
pub(crate) const fn page_size() -> usize {
    4096
}

/// What the kernel hands memory out in. It was told to the process when it started: nothing here allocates or locks.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn page_size() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static PAGE: AtomicUsize = AtomicUsize::new(0);
    match PAGE.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: it has no preconditions.
            let told = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            let page = usize::try_from(told).ok().filter(|page| page.is_power_of_two()).unwrap_or(4096);
            PAGE.store(page, Ordering::Relaxed);
            page
        }
        page => page,
    }
}

#[cfg(test)]
mod tests {
    use super::page_size;

    #[test]
    fn it_is_what_the_kernel_says() {
        assert_eq!(nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE), Ok(i64::try_from(page_size()).ok()));
    }
}
