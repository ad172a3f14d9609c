//! One thread of another process, stopped for a moment: its registers, and two ways to let it go.
//!
//! Nothing is ever called while the thread is traced. It goes on either as if it had never been stopped, or in a signal
//! frame that leads back by itself. So this command may be killed at any time: the kernel then lets the thread go.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{self, c_long, c_void, user_regs_struct};

use super::frame::{self, SignalFrame};
use super::memory::TargetMemory;
use super::stub;

/// `PTRACE_EVENT_STOP`: the stop that was asked for, and not one for a signal.
const EVENT_STOP: i32 = 128;
/// `NT_X86_XSTATE`: the floating-point and vector registers.
const VECTOR_STATE: usize = 0x202;
const PEEK_SIGNALS: u32 = 0x4209;
const GET_SIGNAL_MASK: u32 = 0x420a;
const SET_SIGNAL_MASK: u32 = 0x420b;
const GET_RSEQ_CONFIGURATION: u32 = 0x420f;
/// More than the vector registers of any processor need.
const MOST_VECTOR_STATE: usize = 16 * 1024;

/// Why a thread was not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopError {
    Gone,
    NotPermitted,
    /// It did not stop in time: it waits in the kernel and cannot be interrupted.
    Unstoppable,
    /// Job control has stopped the whole process.
    Suspended,
}

/// A thread that is stopped. Dropping it lets it go.
#[derive(Debug)]
pub(super) struct StoppedThread {
    memory: TargetMemory,
    tid: i32,
    since: Instant,
    pub(super) registers: user_regs_struct,
    released: bool,
}

impl StoppedThread {
    /// Stops a thread. No signal is sent.
    pub(super) fn stop(memory: TargetMemory, tid: u32, patience: Duration) -> Result<Self, StopError> {
        let tid = tid.cast_signed();
        ask(libc::PTRACE_SEIZE, tid, 0, 0).map_err(|error| match error {
            Errno::ESRCH => StopError::Gone,
            _ => StopError::NotPermitted,
        })?;
        let result = interrupt(tid, patience);
        if result == Err(StopError::Suspended) {
            let _ = ask(libc::PTRACE_DETACH, tid, 0, 0);
        }
        result?;
        let since = Instant::now();
        let mut thread = Self { memory, tid, since, registers: no_registers(), released: false };
        let place = &raw mut thread.registers as usize;
        ask(libc::PTRACE_GETREGS, tid, 0, place).map_err(|_| StopError::Gone)?;
        Ok(thread)
    }

    /// Whether it is inside a restartable sequence, which must not be left and entered again.
    pub(super) fn is_in_restartable_sequence(&self) -> bool {
        let mut configuration = [0_u64; 3];
        let place = configuration.as_mut_ptr() as usize;
        let known = ask(GET_RSEQ_CONFIGURATION, self.tid, size_of_val(&configuration), place);
        if known.is_err() || configuration[0] == 0 {
            return false;
        }
        match self.memory.word(configuration[0] + 8) {
            Ok(0) | Err(_) => false,
            Ok(section) => match (self.memory.word(section + 8), self.memory.word(section + 16)) {
                (Ok(start), Ok(length)) => self.registers.rip.wrapping_sub(start) < length,
                _ => true,
            },
        }
    }

    /// Lets it go on as if it had not been stopped. Gives how long it was.
    pub(super) fn let_go(mut self) -> Duration {
        let stopped = self.since.elapsed();
        self.release();
        stopped
    }

    /// Lets it run `entry` with these registers (the first arguments of a call or a system call), and then go on where it was: the frame on its
    /// stack is the one of a signal handler. With `returns`, the entry is left by a `ret` to that address.
    pub(super) fn enter(mut self, entry: &Entry) -> Result<(SignalFrame, Duration), Errno> {
        let frame = self.frame()?;
        self.memory.write(frame.vectors_at, &frame.vectors)?;
        self.memory.write(frame.context_at, &frame.context)?;
        let mut registers = self.registers;
        registers.rsp = frame.context_at;
        if let Some(returns) = entry.returns {
            registers.rsp -= 8;
            self.memory.write(registers.rsp, &returns.to_le_bytes())?;
        }
        registers.rip = entry.address;
        registers.rax = entry.rax;
        // No system call is to be restarted in this frame.
        registers.orig_rax = u64::MAX;
        // The direction flag and the trap flag.
        registers.eflags &= !0x500;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = entry.arguments;
        ask(libc::PTRACE_SETREGS, self.tid, 0, &raw const registers as usize)?;
        // From here on the frame restores the mask, whatever becomes of this command. A thread that cannot be told blocks
        // no signal in the frame.
        let _ = self.block(stub::held_back());
        let stopped = self.since.elapsed();
        self.released = true;
        ask(libc::PTRACE_DETACH, self.tid, 0, 0)?;
        Ok((frame, stopped))
    }

    /// Puts the thread back to where an earlier frame was to lead, although it has not come to its end.
    pub(super) fn abandon(mut self, frame: &SignalFrame) -> Result<Duration, Errno> {
        let vectors = frame.plain_vectors.as_slice();
        let part = libc::iovec { iov_base: vectors.as_ptr() as *mut c_void, iov_len: vectors.len() };
        ask(libc::PTRACE_SETREGSET, self.tid, VECTOR_STATE, &raw const part as usize)?;
        self.block(frame.mask)?;
        let mut registers = frame.leads_to;
        registers.orig_rax = u64::MAX;
        ask(libc::PTRACE_SETREGS, self.tid, 0, &raw const registers as usize)?;
        let stopped = self.since.elapsed();
        self.released = true;
        ask(libc::PTRACE_DETACH, self.tid, 0, 0)?;
        Ok(stopped)
    }

    /// The frame that leads back to where the thread is now.
    fn frame(&self) -> Result<SignalFrame, Errno> {
        let mut vectors = vec![0_u8; MOST_VECTOR_STATE];
        let mut part = libc::iovec { iov_base: vectors.as_mut_ptr().cast(), iov_len: vectors.len() };
        ask(libc::PTRACE_GETREGSET, self.tid, VECTOR_STATE, &raw mut part as usize)?;
        vectors.truncate(part.iov_len);
        let mut mask = 0_u64;
        ask(GET_SIGNAL_MASK, self.tid, size_of_val(&mask), &raw mut mask as usize)?;
        SignalFrame::new(&self.registers, mask, vectors, frame::component).ok_or(Errno::EPROTO)
    }

    fn block(&self, mask: u64) -> Result<c_long, Errno> {
        ask(SET_SIGNAL_MASK, self.tid, size_of_val(&mask), &raw const mask as usize)
    }

    /// Whether a signal has come for it while it was stopped. Its call then ends as the kernel says.
    fn has_signals(&self) -> bool {
        [0_u64, 1].into_iter().any(|shared| {
            // `struct ptrace_peeksiginfo_args`: from the first one on, of the thread or of the process, one of them.
            let wanted = [0_u64, shared | (1 << 32)];
            let mut signal = [0_u64; 16];
            ask(PEEK_SIGNALS, self.tid, wanted.as_ptr() as usize, signal.as_mut_ptr() as usize)
                .is_ok_and(|seen| seen > 0)
        })
    }

    fn release(&mut self) {
        if !std::mem::replace(&mut self.released, true) {
            let again = frame::entered_again(&self.registers).filter(|_| !self.has_signals());
            if let Some(registers) = again {
                let _ = ask(libc::PTRACE_SETREGS, self.tid, 0, &raw const registers as usize);
            }
            let _ = ask(libc::PTRACE_DETACH, self.tid, 0, 0);
        }
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        self.release();
    }
}

/// Where a stopped thread is to go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) address: u64,
    pub(super) rax: u64,
    /// In the order of a system call.
    pub(super) arguments: [u64; 6],
    pub(super) returns: Option<u64>,
}

fn no_registers() -> user_regs_struct {
    // SAFETY: the struct consists of integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Stops a seized thread. Signals that come first are passed on.
fn interrupt(tid: i32, patience: Duration) -> Result<(), StopError> {
    ask(libc::PTRACE_INTERRUPT, tid, 0, 0).map_err(|_| StopError::Gone)?;
    let deadline = Instant::now() + patience;
    loop {
        let status = wait(tid, deadline)?;
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        match event {
            EVENT_STOP if signal == libc::SIGTRAP => return Ok(()),
            EVENT_STOP => return Err(StopError::Suspended),
            0 => ask(libc::PTRACE_CONT, tid, 0, signal as usize),
            _ => ask(libc::PTRACE_CONT, tid, 0, 0),
        }
        .map_err(|_| StopError::Gone)?;
    }
}

/// Waits for a traced thread to stop. Short sleeps, because it usually takes some microseconds.
fn wait(tid: i32, deadline: Instant) -> Result<i32, StopError> {
    let mut pause = Duration::from_micros(10);
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one integer to the place it is given.
        match unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
            0 if Instant::now() > deadline => return Err(StopError::Unstoppable),
            0 => std::thread::sleep(pause),
            found if found == tid && libc::WIFSTOPPED(status) => return Ok(status),
            _ => return Err(StopError::Gone),
        }
        pause = (pause * 2).min(Duration::from_micros(500));
    }
}

/// One request to `ptrace`.
fn ask(request: u32, tid: i32, address: usize, data: usize) -> Result<c_long, Errno> {
    // SAFETY: callers pass null, an integer, or the address of a value of theirs that is as large as the request needs.
    let answer = unsafe { libc::ptrace(request, tid, address as *mut c_void, data as *mut c_void) };
    Errno::result(answer)
}
