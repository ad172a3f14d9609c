//! From a Python thread state to the kernel's thread.

use nix::unistd::gettid;

use super::gil::ThreadState;
use super::layout::Layout;
use crate::sys::{memory, native};

/// How the kernel's id of a thread is found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ThreadIds {
    /// CPython keeps it at this offset of the thread state.
    Kept(usize),
    /// CPython keeps the `pthread_t` at the first offset; libc keeps the id at the second one inside that.
    Inside(usize, usize),
}

impl ThreadIds {
    /// Finds the way by the calling thread, whose ids are known. Must run in a thread that Python knows.
    pub(crate) fn learn(layout: &Layout) -> Option<Self> {
        if let Some(offset) = layout.thread_native_thread_id {
            return Some(Self::Kept(offset));
        }
        let mine = id_offset_in(native::pthread_self(), gettid().as_raw())?;
        // A process that may have no more threads goes without.
        let find = || id_offset_in(native::pthread_self(), gettid().as_raw());
        let other = std::thread::Builder::new().stack_size(64 * 1024).spawn(find).ok()?.join().ok()??;
        (mine == other).then_some(Self::Inside(layout.thread_thread_id, mine))
    }

    /// The kernel's id of a thread.
    pub(crate) fn of(self, thread: ThreadState) -> Option<i32> {
        match self {
            Self::Kept(offset) => memory::int(thread.0 + offset),
            Self::Inside(pthread, id) => memory::int(memory::word(thread.0 + pthread)? + id),
        }
    }
}

/// Where libc's thread descriptor holds the id. No header says so, but the value can be looked for.
fn id_offset_in(descriptor: usize, id: i32) -> Option<usize> {
    let mut bytes = [0; 1536];
    let length = memory::read_some(descriptor, &mut bytes);
    bytes[..length]
        .chunks_exact(4)
        .position(|four| i32::from_ne_bytes([four[0], four[1], four[2], four[3]]) == id)
        .map(|index| index * 4)
}
