//! System calls for a process that may neither allocate nor lock: nothing here touches libc's state but `errno`.

use std::ffi::{CStr, c_int, c_void};
use std::io::Write;

/// Memory from the kernel, zeroed, that costs nothing before it is touched. Null where there is none.
pub(super) fn map(bytes: usize) -> *mut u8 {
    map_as(bytes, libc::MAP_PRIVATE)
}

/// The same, shared with the processes that are cloned from this one.
pub(super) fn map_shared(bytes: usize) -> *mut u8 {
    map_as(bytes, libc::MAP_SHARED)
}

fn map_as(bytes: usize, kind: c_int) -> *mut u8 {
    let flags = kind | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no other.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if at == libc::MAP_FAILED { std::ptr::null_mut() } else { at.cast() }
}

/// Gives memory back.
///
/// # Safety
/// It must come from one of the functions above, and must not be used afterwards.
pub(super) unsafe fn unmap(at: *mut u8, bytes: usize) {
    // There may be a program at low addresses.
    if at.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at.cast(), bytes) };
}

/// The monotonic clock in nanoseconds.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and `time` is valid for the write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The parent's id, from the kernel: libc may remember another.
pub(super) fn parent() -> c_int {
    // SAFETY: it has no preconditions.
    unsafe { libc::syscall(libc::SYS_getppid) as c_int }
}

/// Where the stack of a process began when its program did. Another place means another program: a fork keeps it.
/// Nothing where the kernel does not tell.
pub(super) fn stack_of(pid: c_int) -> Option<u64> {
    /// Counted from the word after the name, which may hold anything.
    const FIELD: usize = 25;
    let (mut path, mut text) = ([0; 32], [0; 1024]);
    write!(&mut path[..], "/proc/{pid}/stat").ok()?;
    let length = read_all(CStr::from_bytes_until_nul(&path).ok()?, &mut text)?;
    let text = text.get(..length)?;
    let after_name = text.rsplit(|byte| *byte == b')').next()?;
    let word = after_name.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).nth(FIELD)?;
    std::str::from_utf8(word).ok()?.parse().ok().filter(|stack| *stack != 0)
}

/// Faults of this process that the kernel has served without reading a disk.
pub(super) fn minor_faults() -> u64 {
    // SAFETY: an all-zero `rusage` is valid, and the call only fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_minflt as u64
}

/// Whether this thread, and what it clones, may run on one processor only.
pub(super) fn has_one_processor() -> bool {
    // SAFETY: an all-zero set is valid, and the call only fills it.
    unsafe {
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut processors) == 0
            && libc::CPU_COUNT(&processors) == 1
    }
}

/// Ends the process without running anything of it.
pub(super) fn exit(code: c_int) -> ! {
    loop {
        // SAFETY: the call ends all threads of this process and does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
}

/// How a child that was waited for has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildEnd {
    /// It runs.
    No,
    /// By itself, with this code.
    Exit(c_int),
    /// By this signal.
    Signal(c_int),
    /// Another thread or library has waited for it, so its status is lost.
    Unknown,
}

/// Looks whether a child has ended. It is seen whatever its exit signal is.
pub(super) fn wait(pid: c_int) -> ChildEnd {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for the write.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::__WALL) };
        return match waited {
            0 => ChildEnd::No,
            -1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => continue,
            -1 => ChildEnd::Unknown,
            _ if libc::WIFEXITED(status) => ChildEnd::Exit(libc::WEXITSTATUS(status)),
            _ if libc::WIFSIGNALED(status) => ChildEnd::Signal(libc::WTERMSIG(status)),
            _ => ChildEnd::No,
        };
    }
}

/// Children that send no signal, or another one than usual, when they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clones {
    None,
    Running,
    /// This one has ended and can be waited for.
    Ended(c_int),
}

/// Looks for such children without waiting for any.
pub(super) fn clones() -> Clones {
    // SAFETY: an all-zero `siginfo_t` is valid, and the call only fills it.
    unsafe {
        let mut seen: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WCLONE;
        if libc::waitid(libc::P_ALL, 0, &raw mut seen, options) != 0 {
            return Clones::None;
        }
        match seen.si_pid() {
            0 => Clones::Running,
            pid => Clones::Ended(pid),
        }
    }
}

/// Kills a child that has not been waited for, so that the id is still its own.
pub(super) fn kill(pid: c_int) {
    // SAFETY: it has no preconditions.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Fills a buffer from a file, by raw calls, and says how much that is. Nothing where it cannot be read or is larger.
pub(super) fn read_all(path: &CStr, buffer: &mut [u8]) -> Option<usize> {
    let mut filled = 0_usize;
    // SAFETY: the path is a C string, no more is read than there is room for, and the descriptor is our own.
    unsafe {
        let file = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0);
        if file < 0 {
            return None;
        }
        let whole = loop {
            let left = buffer.get_mut(filled..).unwrap_or_default();
            let read = libc::syscall(libc::SYS_read, file, left.as_mut_ptr().cast::<c_void>(), left.len());
            match usize::try_from(read) {
                Ok(0) => break !left.is_empty(),
                Ok(read) => filled += read,
                Err(_) => break false,
            }
        };
        libc::syscall(libc::SYS_close, file);
        whole.then_some(filled)
    }
}

/// Puts a mapping that cannot be touched where a range is, whatever is there. False where the kernel refuses.
///
/// # Safety
/// What is there must not be used afterwards.
pub(super) unsafe fn wall_off((from, to): (usize, usize)) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller's promise.
    unsafe { libc::mmap(from as *mut c_void, to - from, libc::PROT_NONE, flags, -1, 0) != libc::MAP_FAILED }
}

/// Writes a few bytes to a file, by raw calls, and says whether that could be done.
pub(super) fn write_to(path: &CStr, bytes: &[u8]) -> bool {
    // SAFETY: the path is a C string, the buffer is as long as said, and the descriptor is our own.
    unsafe {
        let file = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC, 0);
        if file < 0 {
            return false;
        }
        let written = libc::syscall(libc::SYS_write, file, bytes.as_ptr().cast::<c_void>(), bytes.len());
        libc::syscall(libc::SYS_close, file);
        written == bytes.len() as libc::c_long
    }
}

/// Empties a file for a new beginning. False where the descriptor is none of a file, such as that of a pipe.
pub(super) fn empty_file(file: c_int) -> bool {
    // SAFETY: an all-zero struct is valid, and the calls only look at the descriptor or change the file behind it.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::fstat(file, &raw mut found) == 0
            && found.st_mode & libc::S_IFMT == libc::S_IFREG
            && libc::ftruncate(file, 0) == 0
            && libc::lseek(file, 0, libc::SEEK_SET) == 0
    }
}

/// Writes to a descriptor. The error is the kernel's number.
pub(super) fn write(file: c_int, bytes: &[u8]) -> Result<usize, c_int> {
    // SAFETY: the buffer is as long as said.
    let written = unsafe { libc::syscall(libc::SYS_write, file, bytes.as_ptr().cast::<c_void>(), bytes.len()) };
    usize::try_from(written).map_err(|_| errno())
}

/// Writes to a place in a file.
pub(super) fn write_at(file: c_int, bytes: &[u8], at: u64) -> Result<usize, c_int> {
    // SAFETY: as in `write`.
    let written =
        unsafe { libc::syscall(libc::SYS_pwrite64, file, bytes.as_ptr().cast::<c_void>(), bytes.len(), at as i64) };
    usize::try_from(written).map_err(|_| errno())
}

/// Waits until a descriptor takes something, at most so many milliseconds.
pub(super) fn wait_to_write(file: c_int, milliseconds: c_int) {
    let mut polled = libc::pollfd { fd: file, events: libc::POLLOUT, revents: 0 };
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(milliseconds) * 1_000_000 };
    let no_signals = std::ptr::null::<c_void>();
    // SAFETY: the structs live until the call returns.
    unsafe { libc::syscall(libc::SYS_ppoll, &raw mut polled, 1, &raw const time, no_signals, 0) };
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_thread_that_may_use_one_processor_knows_it() {
        let pinned = std::thread::spawn(|| {
            // SAFETY: an all-zero set is valid; only this thread, which ends, is kept to one of its processors.
            unsafe {
                let mut mask: libc::cpu_set_t = std::mem::zeroed();
                assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut mask), 0);
                let one = (0..libc::CPU_SETSIZE as usize).find(|number| libc::CPU_ISSET(*number, &mask)).unwrap();
                libc::CPU_ZERO(&mut mask);
                libc::CPU_SET(one, &mut mask);
                assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const mask), 0);
            }
            has_one_processor()
        });
        assert!(pinned.join().unwrap());
        let several = std::thread::available_parallelism().unwrap().get() > 1;
        assert!(!several || !has_one_processor());
    }

    #[test]
    fn a_file_is_begun_anew_and_a_pipe_cannot_be() {
        let path = std::env::temp_dir().join(format!("neurogc-anew-{}", std::process::id()));
        let mut file =
            std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.write_all(b"a part of the first").unwrap();
        assert!(empty_file(file.as_raw_fd()));
        assert_eq!(write(file.as_raw_fd(), b"the second"), Ok(10));
        let mut found = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut found).unwrap();
        assert_eq!(found, "the second");
        std::fs::remove_file(&path).unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        assert!(!empty_file(writer.as_raw_fd()) && !empty_file(-1));
    }
}
