//! Waiting until the program has used its processors: a timer on the process's processor time, whose signal goes to the
//! waiting thread alone. An idle program does not move it, so it wakes the thread only when there is something to see.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::signal::{SigEvent, SigSet, SigevNotify, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::gettid;

use super::native::Descriptors;

/// No kernel and no library sends it. It is blocked in the waiting thread, and sent to no other.
const SIGNAL: Signal = Signal::SIGSTKFLT;

/// The timer, and the descriptor on which its signal is seen. It stays in the thread that made it.
#[derive(Debug)]
pub(crate) struct Work {
    timer: Timer,
    signals: SignalFd,
}

impl Work {
    /// For the calling thread; nothing where the kernel or a sandbox does not let it.
    pub(crate) fn new(descriptors: Descriptors) -> Option<Self> {
        let blocked = SigSet::thread_get_mask().is_ok_and(|blocked| blocked.contains(SIGNAL));
        // In a shared table the program could close the descriptor and open a file of its own under its number.
        if !blocked || descriptors != Descriptors::Private {
            return None;
        }
        let mut wanted = SigSet::empty();
        wanted.add(SIGNAL);
        let signals = SignalFd::with_flags(&wanted, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).ok()?;
        let notify = SigevNotify::SigevThreadId { signal: SIGNAL, thread_id: gettid().as_raw(), si_value: 0 };
        let timer = Timer::new(ClockId::CLOCK_PROCESS_CPUTIME_ID, SigEvent::new(notify)).ok()?;
        Some(Self { timer, signals })
    }

    /// Has the signal sent when the process has used so much processor time from now on. The kernel looks at its ticks, so
    /// it may be some milliseconds more.
    pub(crate) fn expect(&mut self, used: Duration) -> bool {
        self.timer.set(Expiration::OneShot(TimeSpec::from_duration(used)), TimerSetTimeFlags::empty()).is_ok()
    }

    /// Takes the signal, if it was sent. There is never more than one of a timer.
    pub(crate) fn forget(&self) {
        let _ = self.signals.read_signal();
    }

    /// Ready to be read when the signal was sent.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Instant;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::signal::SigmaskHow;

    use super::*;

    #[test]
    fn it_is_told_of_work() {
        std::thread::spawn(|| {
            SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).unwrap();
            let mut work = Work::new(Descriptors::Private).unwrap();
            assert!(work.expect(Duration::from_millis(20)));
            let busy = std::thread::spawn(|| {
                let until = Instant::now() + Duration::from_millis(500);
                while Instant::now() < until {}
            });
            let is_told = |most: u16| {
                let mut polled = [PollFd::new(work.descriptor(), PollFlags::POLLIN)];
                poll(&mut polled, PollTimeout::from(most)).unwrap() == 1
            };
            assert!(is_told(5_000));
            work.forget();
            assert!(!is_told(0), "once is enough");
            busy.join().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_does_not_block_the_signal_has_none() {
        assert!(Work::new(Descriptors::Private).is_none());
    }
}
