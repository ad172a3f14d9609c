//! The agent's threads: how they are started, and whether they are still there.
//!
//! One that fails in our own code ends in good order and its handle says so. One that was ended by something else leaves
//! no word behind, so the kernel is asked.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{Builder, JoinHandle, Thread};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, gettid};

use crate::alloc;
use crate::sys::heap;
use crate::sys::wake::SAMPLER;

/// A thread of ours.
#[derive(Debug)]
pub(crate) struct Member {
    handle: JoinHandle<()>,
    /// The kernel's number for it, once it has begun.
    id: Arc<AtomicI32>,
}

impl Member {
    /// Starts a thread whose panic ends nothing but itself.
    pub(crate) fn start(name: &str, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        if !heap::has_room() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let id = Arc::new(AtomicI32::new(0));
        let slot = Arc::clone(&id);
        let handle = Builder::new().name(name.to_owned()).stack_size(stack).spawn(move || {
            slot.store(gettid().as_raw(), Ordering::Release);
            heap::wait_for_memory();
            alloc::ignore_this_thread();
            let _ = catch(body);
        })?;
        Ok(Self { handle, id })
    }

    /// Whether it has ended in good order.
    pub(crate) fn has_ended(&self) -> bool {
        self.handle.is_finished()
    }

    /// Whether something else has ended it: the kernel knows no such thread any more.
    pub(crate) fn is_lost(&self) -> bool {
        let id = self.id.load(Ordering::Acquire);
        let gone = id != 0 && kill(Pid::from_raw(id), None) == Err(Errno::ESRCH);
        gone && !self.has_ended()
    }

    fn lives(&self) -> bool {
        !self.has_ended() && !self.is_lost()
    }

    /// Waits for its end. For one that is lost there is nothing to wait for.
    pub(crate) fn join(self) {
        if !self.is_lost() {
            let _ = self.handle.join();
        }
    }

    /// What wakes it.
    pub(crate) fn thread(&self) -> &Thread {
        self.handle.thread()
    }
}

/// The thread that the uplink starts and watches.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) sampler: Option<Member>,
}

impl Crew {
    /// Whether the sampler still runs.
    pub(crate) fn senses(&self) -> bool {
        self.sampler.as_ref().is_some_and(Member::lives)
    }

    /// Has the sampler look now.
    pub(crate) fn wake_sampler(&self) {
        SAMPLER.wake();
        if let Some(sampler) = &self.sampler {
            sampler.thread().unpark();
        }
    }

    /// What is lost with a thread that has ended while it was wanted.
    pub(crate) fn lost(&self) -> Option<&'static str> {
        (!self.senses()).then_some("the sampler thread has ended: nothing is sensed any more")
    }

    /// Waits for its end.
    pub(crate) fn join(self) {
        self.wake_sampler();
        if let Some(sampler) = self.sampler {
            sampler.join();
        }
    }
}

/// Runs something whose panic must go no further.
pub(crate) fn catch(body: impl FnOnce()) -> std::thread::Result<()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))
}
