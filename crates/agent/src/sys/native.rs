//! The few calls into libc that have no safe wrapper.

use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::os::raw::c_char;

/// The file name of the library that holds an address, for instance `_json.cpython-312-x86_64-linux-gnu.so`.
pub(crate) fn library_of(address: usize) -> Option<String> {
    let path = library_path(address)?;
    Some(path.rsplit('/').next().unwrap_or(&path).to_owned())
}

/// The path of the agent's own library.
pub(crate) fn own_library() -> Option<String> {
    library_path(own_library as *const () as usize)
}

fn library_path(address: usize) -> Option<String> {
    // SAFETY: an all-zero `Dl_info` is valid, and `dladdr` only fills it.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `dladdr` takes any address and writes to `info` alone.
    let found = unsafe { libc::dladdr(address as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: `dladdr` gave a C string that lives while the library is loaded, and it is copied at once.
    let path = unsafe { CStr::from_ptr(info.dli_fname as *const c_char) };
    path.to_str().ok().map(str::to_owned)
}

/// The addresses of the library, or of the program, that holds an address.
pub(crate) fn library_range(address: usize) -> Option<Range<usize>> {
    struct Search {
        address: usize,
        found: Option<Range<usize>>,
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> libc::c_int {
        // SAFETY: the linker passes a valid description, and our own pointer.
        let (info, search) = unsafe { (&*info, &mut *(search as *mut Search)) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the description says how many headers there are.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let start = info.dlpi_addr as usize + header.p_vaddr as usize;
            (start, start + header.p_memsz as usize)
        });
        let (start, end) = loaded.fold((usize::MAX, 0), |whole, (start, end)| (whole.0.min(start), whole.1.max(end)));
        let whole = start..end;
        if !whole.contains(&search.address) {
            return 0;
        }
        search.found = Some(whole);
        1
    }
    let mut search = Search { address, found: None };
    // SAFETY: the callback gets our pointer, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

/// Whose file descriptors the agent's threads use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptors {
    /// Their own.
    Private,
    /// The program's.
    Shared,
}

/// Gives the calling thread a file-descriptor table of its own, with nothing in it, so that neither side can close,
/// reuse or inherit the other's descriptors. False where the kernel refuses.
pub(crate) fn leave_shared_descriptors() -> bool {
    const CLOSE_RANGE_UNSHARE: libc::c_uint = 2;
    // SAFETY: the flag makes the kernel copy the table first, so only this thread's copies are closed.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX as libc::c_ulong, CLOSE_RANGE_UNSHARE) };
    result == 0 || leave_one_by_one()
}

/// The same for kernels before 5.9, which have no `close_range`.
fn leave_one_by_one() -> bool {
    // SAFETY: the call takes no pointers; from here on the table belongs to this thread alone.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return false;
    }
    let Ok(entries) = std::fs::read_dir("/proc/thread-self/fd") else { return false };
    let open: Vec<libc::c_int> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open {
        // SAFETY: the table is this thread's own and nothing in it is in use: the listing above was closed before.
        unsafe { libc::close(descriptor) };
    }
    true
}

/// The calling thread's `pthread_t`, as CPython stores it in `PyThreadState.thread_id`.
pub(crate) fn pthread_self() -> usize {
    // SAFETY: it has no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// Processor time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of the whole process in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// How long ago this process was made; exec does not change that.
pub(crate) fn process_age_ns() -> Option<u64> {
    Some(boot_ns().saturating_sub(started_ns("self")?))
}

/// The kernel tells when a process was started in steps of this.
pub(crate) const START_STEP_NS: u64 = 10_000_000;

/// When a process was started, in nanoseconds since the machine was.
pub(crate) fn started_ns(pid: &str) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let steps = stat.rsplit_once(") ")?.1.split_ascii_whitespace().nth(19)?.parse::<u64>().ok()?;
    Some(steps * START_STEP_NS)
}

/// Time since the machine was started, in nanoseconds.
pub(crate) fn boot_ns() -> u64 {
    clock(libc::CLOCK_BOOTTIME)
}

/// The wall clock: nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// The monotonic clock in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// The same in steps of about a tick of the kernel's clock.
pub(crate) fn monotonic_coarse_ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC_COARSE)
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clocks exist on every Linux, and `time` is valid for the write.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_table_leaves_the_others_alone() {
        let file = std::fs::File::open("/proc/self/stat").map(|file| (file.metadata().is_ok(), file));
        for leave in [leave_shared_descriptors, leave_one_by_one] {
            let left =
                std::thread::spawn(move || (leave(), std::fs::read_dir("/proc/thread-self/fd").map(Iterator::count)));
            // Only the listing itself is open.
            assert!(left.join().is_ok_and(|(left, open)| left && open.ok() == Some(1)));
        }
        assert!(file.is_ok_and(|(_, file)| file.metadata().is_ok()));
    }

    #[test]
    fn a_function_lies_in_its_library() {
        let own = library_range(library_range as *const () as usize);
        assert!(own.is_some_and(|own| own.contains(&(monotonic_ns as *const () as usize))));
        assert_eq!(library_range(8), None);
    }

    #[test]
    fn clocks_go_on() {
        let before = (monotonic_ns(), thread_cpu_ns());
        let sum: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
        assert!(sum > 0 && monotonic_ns() > before.0 && thread_cpu_ns() > before.1);
    }
}
