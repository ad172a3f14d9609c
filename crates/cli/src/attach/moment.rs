//! Whether a stopped thread may run something now: what it was doing decides.

use nix::libc::user_regs_struct;

use super::frame::{FUTEX_WAIT_BITSET, INTERRUPTED};
use super::interpreter::RemotePython;

/// What a stopped thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadActivity {
    /// It waits in a system call in which it holds no lock of the C library.
    Waits,
    /// Anything else.
    Runs,
    /// It may be inside a function that holds the lock on pending calls.
    MayHoldLock,
}

const RESTART_SYSCALL: i64 = 219;
const FUTEX: i64 = 202;

/// Calls that wait, and that neither `malloc` nor the loader makes while it holds a lock: read, write, poll, select,
/// pause, nanosleep, connect to recvmsg, wait4, flock, rt_sigtimedwait, clock_nanosleep, epoll_wait, waitid, pselect6, ppoll,
/// epoll_pwait, accept4, recvmmsg, epoll_pwait2.
const WAITING: [i64; 24] =
    [0, 1, 7, 23, 34, 35, 42, 43, 44, 45, 46, 47, 61, 73, 128, 230, 232, 247, 270, 271, 281, 288, 299, 441];

/// How far up the stack return addresses into locking functions are looked for.
pub(super) const STACK_SEEN: usize = 768;

/// Judges a stopped thread by its registers, the seven bytes before its instruction, and the top of its stack.
pub(super) fn judge(
    registers: &user_regs_struct,
    before: [u8; 7],
    stack: &[u8],
    python: &RemotePython,
) -> ThreadActivity {
    if waits(registers, before, python) {
        return ThreadActivity::Waits;
    }
    let words = stack.chunks_exact(8).filter_map(|chunk| chunk.try_into().ok().map(u64::from_le_bytes));
    let is_locking = |address: u64| {
        python.locking.iter().any(|function| address.wrapping_sub(function.address) < function.size.max(64))
    };
    if std::iter::once(registers.rip).chain(words).any(is_locking) {
        ThreadActivity::MayHoldLock
    } else {
        ThreadActivity::Runs
    }
}

fn waits(registers: &user_regs_struct, before: [u8; 7], python: &RemotePython) -> bool {
    let was_interrupted = matches!(registers.rax.cast_signed(), -514..=-512 | -516 | INTERRUPTED);
    let call = match (registers.orig_rax.cast_signed(), before) {
        // A call that was restarted once before: its number is in `mov $number, %eax; syscall`.
        (RESTART_SYSCALL, [0xb8, a, b, c, d, 0x0f, 0x05]) => i64::from(i32::from_le_bytes([a, b, c, d])),
        (call, _) => call,
    };
    was_interrupted
        && match call {
            // Semaphores and conditions only: a plain wait is that of a mutex, which `malloc` and others use too. The
            // GIL's own condition lies in the runtime: a thread that waits there will run soon.
            FUTEX => {
                let at = registers.rdi;
                let (start, end) = python.c_library;
                registers.rsi & 0x7f == FUTEX_WAIT_BITSET
                    && at.wrapping_sub(python.runtime.address) >= python.runtime.size
                    && !(start..end).contains(&at)
            }
            call => WAITING.contains(&call),
        }
}
