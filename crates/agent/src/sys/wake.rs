//! Waking a thread of ours that waits in `poll`, from threads that do not share its table of descriptors.
//!
//! The waiting thread has a descriptor on which it sees signals that are sent to itself alone. The signal is blocked
//! there, so no handler of the program ever runs for it, and everywhere else it is ignored by default.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering, fence};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::unistd::gettid;

use super::native::Descriptors;

/// Wakes the uplink's thread. There is one per process.
pub(crate) static UPLINK: Waker = Waker::new();

/// Wakes the sampler's thread, likewise.
pub(crate) static SAMPLER: Waker = Waker::new();

/// Its default is to be ignored, and programs that send it to threads of their own do not know ours.
const SIGNAL: Signal = Signal::SIGURG;

/// How long is waited at most where the thread is not woken by descriptors.
pub(crate) const LONGEST_PARK: Duration = Duration::from_millis(200);

/// No wake-up is under way; a thread is sending one; one has been sent and not been seen.
const QUIET: u8 = 0;
const SENDING: u8 = 1;
const SENT: u8 = 2;

/// The way to one thread, for all others.
#[derive(Debug)]
pub(crate) struct Waker {
    /// The kernel's number of the thread, zero while there is none that can be woken.
    thread: AtomicI32,
    /// Where the last wake-up has come to. By this the thread knows which signal is its own: one that was sent to the
    /// whole process is to be left to the program.
    state: AtomicU8,
}

impl Waker {
    pub(crate) const fn new() -> Self {
        Self { thread: AtomicI32::new(0), state: AtomicU8::new(QUIET) }
    }

    /// Ends the thread's wait, or the next one if it does not wait now. It takes no lock and does not allocate.
    pub(crate) fn wake(&self) {
        // What the thread is woken for is written before; the thread looks for it after it has made the state quiet.
        fence(Ordering::SeqCst);
        let thread = self.thread.load(Ordering::SeqCst);
        if thread == 0 || self.state.compare_exchange(QUIET, SENDING, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        self.state.store(if send(thread) { SENT } else { QUIET }, Ordering::SeqCst);
    }
}

/// Sends the signal to one thread of this process. A number that is no thread of it is refused by the kernel.
fn send(thread: i32) -> bool {
    // SAFETY: the call takes three numbers and no pointers.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL as libc::c_int) == 0 }
}

/// The waiting thread's own end. It stays in that thread.
#[derive(Debug)]
pub(crate) struct Waiter {
    waker: &'static Waker,
    signals: Option<SignalFd>,
}

impl Waiter {
    /// The calling thread is the one that is woken from now on. Where signals cannot be waited for it waits by
    /// `park_timeout`, and looks for itself what there is to do.
    pub(crate) fn new(waker: &'static Waker, descriptors: Descriptors) -> Self {
        // In a shared table the program could close the descriptor and open a file of its own under its number.
        let signals = (descriptors == Descriptors::Private).then(open).flatten();
        // A forked child may have found it in any state.
        waker.state.store(QUIET, Ordering::SeqCst);
        if signals.is_some() {
            waker.thread.store(gettid().as_raw(), Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        Self { waker, signals }
    }

    /// Waits until one of these is ready, the thread is woken, or so much time has passed. The caller finds out what is
    /// ready by trying.
    pub(crate) fn wait<'a>(&'a self, mut polled: Vec<PollFd<'a>>, most: Duration) {
        let Some(signals) = &self.signals else { return park(&polled, most) };
        polled.push(PollFd::new(signals.as_fd(), PollFlags::POLLIN));
        let ready = ppoll(&mut polled, Some(TimeSpec::from_duration(most)), None);
        let signalled = polled.pop().is_some_and(|signals| signals.any().unwrap_or(false));
        match self.waker.state.load(Ordering::SeqCst) {
            SENT => {
                // The kernel gives the thread's own signals first, and there is never more than one of them.
                let _ = signals.read_signal();
                self.waker.state.store(QUIET, Ordering::SeqCst);
                fence(Ordering::SeqCst);
            }
            QUIET if signalled && ready != Ok(0) => park(&polled, most),
            _ => {}
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // A later thread may have taken its place.
        let own = gettid().as_raw();
        let _ = self.waker.thread.compare_exchange(own, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// A signal for the whole process waits to be taken by the program, or there is no descriptor for signals. The thread
/// that ends this one unparks it.
fn park(polled: &[PollFd<'_>], most: Duration) {
    if !polled.is_empty() && poll(&mut polled.to_vec(), PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
        return;
    }
    std::thread::park_timeout(most.min(LONGEST_PARK));
}

/// A descriptor for the signal, if it is blocked here and arrives: sandboxes allow less than kernels can do.
fn open() -> Option<SignalFd> {
    SigSet::thread_get_mask().ok().filter(|blocked| blocked.contains(SIGNAL))?;
    let mut wanted = SigSet::empty();
    wanted.add(SIGNAL);
    let signals = SignalFd::with_flags(&wanted, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).ok()?;
    if !send(gettid().as_raw()) {
        return None;
    }
    let mut polled = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, PollTimeout::ZERO) {
        Ok(1) => signals.read_signal().ok().flatten().map(|_| signals),
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::time::Instant;

    use nix::sys::signal::SigmaskHow;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn in_a_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
        std::thread::spawn(move || {
            SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).unwrap();
            body()
        })
    }

    #[test]
    fn each_wake_up_ends_a_wait() {
        static WAKER: Waker = Waker::new();
        static ROUNDS: AtomicU32 = AtomicU32::new(0);
        let waiting = in_a_thread(|| {
            let waiter = Waiter::new(&WAKER, Descriptors::Private);
            assert!(waiter.signals.is_some());
            let began = Instant::now();
            while ROUNDS.fetch_add(1, Ordering::SeqCst) < 1_000 {
                waiter.wait(Vec::new(), LONG);
            }
            began.elapsed()
        });
        let mut seen = 0;
        while ROUNDS.load(Ordering::SeqCst) <= 1_000 {
            // One for each round: none is lost, whether the thread waits already or not.
            if ROUNDS.load(Ordering::SeqCst) > seen {
                seen = ROUNDS.load(Ordering::SeqCst);
                WAKER.wake();
            }
        }
        assert!(waiting.join().unwrap() < LONG);
        assert_eq!(WAKER.thread.load(Ordering::SeqCst), 0);
        WAKER.wake();
    }

    #[test]
    fn a_wait_ends_with_its_descriptor_or_its_time() {
        static WAKER: Waker = Waker::new();
        in_a_thread(|| {
            let waiter = Waiter::new(&WAKER, Descriptors::Private);
            let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            let began = Instant::now();
            waiter.wait(vec![PollFd::new(far.as_fd(), PollFlags::POLLIN)], Duration::from_millis(30));
            assert!(began.elapsed() >= Duration::from_millis(30));
            std::io::Write::write_all(&mut near, b"x").unwrap();
            waiter.wait(vec![PollFd::new(far.as_fd(), PollFlags::POLLIN)], LONG);
            assert!(began.elapsed() < LONG);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_does_not_block_the_signal_parks() {
        static WAKER: Waker = Waker::new();
        let waiter = Waiter::new(&WAKER, Descriptors::Private);
        assert!(waiter.signals.is_none() && WAKER.thread.load(Ordering::SeqCst) == 0);
        let began = Instant::now();
        waiter.wait(Vec::new(), LONG);
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn a_signal_for_the_whole_process_is_left_to_the_program() {
        static WAKER: Waker = Waker::new();
        in_a_thread(|| {
            let waiter = Waiter::new(&WAKER, Descriptors::Private);
            // As if it were not ours: it is pending, and nothing was sent by the waker.
            assert!(send(gettid().as_raw()));
            let began = Instant::now();
            waiter.wait(Vec::new(), LONG);
            assert!(began.elapsed() >= LONGEST_PARK / 2 && began.elapsed() < LONG);
            assert!(waiter.signals.as_ref().unwrap().read_signal().unwrap().is_some(), "it was taken");
        })
        .join()
        .unwrap();
    }
}
