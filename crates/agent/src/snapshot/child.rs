//! The life of the process that is cloned from the program to look at its heap as it was at that moment.
//!
//! It shares nothing with the program but the control page and the candidates. It runs none of the program's code but
//! the functions by which types tell what their instances refer to. It may not allocate, lock, or panic: another thread
//! may have held any lock when it was cloned.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering;

use super::control::{Shared, WalkTrouble};
use super::heap::{Destination, HeapCensus, HeapFacts, HeapWalk, TallyRoom};
use super::walk::{Lists, Walk, WalkWatch};
use super::{candidates, locked, mappings, old_blocks, system};
use crate::cpython::layout::Layout;
use crate::cpython::tables::ObjectTables;
use crate::sys::native::process_cpu_ns;
use crate::sys::page::page_size;

/// What the process has to find out.
#[derive(Clone, Copy)]
pub(super) enum WalkErrand<'a> {
    /// Which objects are garbage, and what the others are, if that is wanted.
    Collect(Option<(&'a HeapFacts, &'a TallyRoom)>),
    /// What is reachable.
    Census(&'a HeapFacts, &'a TallyRoom),
    /// How many objects of each type there are.
    Count(&'a HeapFacts, &'a TallyRoom),
    /// All objects, for a dump.
    Dump(&'a HeapFacts, Destination),
}

impl WalkErrand<'_> {
    /// Whether the process needs descriptors of the program.
    pub(super) fn keeps_files(&self) -> bool {
        matches!(self, Self::Dump(..))
    }
}

/// Memory that the process can find out to be needless for later walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needless {
    /// Without Python objects.
    LargeMemory,
    /// Without new objects, for walks of new objects.
    OldBlocks,
}

/// What the process has to do.
pub(super) struct Mission<'a> {
    pub(super) errand: WalkErrand<'a>,
    pub(super) lists: Lists,
    pub(super) layout: &'static Layout,
    pub(super) tables: ObjectTables,
    pub(super) shared: &'a Shared,
    pub(super) parent: c_int,
    /// Where the program's stack began, if the kernel tells.
    pub(super) stack: Option<u64>,
    pub(super) deadline: u64,
    /// Memory that is not in the clone.
    pub(super) apart: &'a [(usize, usize)],
    /// Memory that it has to let go of.
    pub(super) old_blocks: &'a [(usize, usize)],
    /// What to look for, where it collects.
    pub(super) looks_for: Option<Needless>,
    /// How much nicer than the program it is.
    pub(super) nicer: c_int,
}

/// What the process is called.
pub(super) const NAME: &CStr = c"neurogc-walk";

/// How long after the deadline a process that cannot even look at the clock is ended by the kernel.
const LAST_SECONDS: u64 = 5;

/// The first function of the process, which never returns.
pub(super) extern "C" fn main(mission: *mut c_void) -> c_int {
    // SAFETY: `Flight::launch` passes a mission, and this process has a copy of it.
    let mission = unsafe { &*mission.cast::<Mission<'_>>() };
    // First, because the program copies pages until then.
    if !mission.old_blocks.is_empty() {
        locked::tell_missed(mission.shared.control());
    }
    // SAFETY: earlier walks have found out that a walk like this one reads nothing there.
    let has_gone = unsafe { old_blocks::let_go(mission.old_blocks) };
    let has_own_files = let_go_of_files(&mission.errand);
    // What is not in the clone must not be taken for zeros, and nothing of ours may come to lie there.
    // SAFETY: the program has set these ranges apart, so nothing is in them here.
    if !has_gone || !mission.apart.iter().all(|range| unsafe { system::wall_off(*range) }) {
        mission.shared.control().say_trouble(WalkTrouble::NoMemory);
        system::exit(1)
    }
    withdraw(mission.nicer);
    end_at_last(mission.deadline);
    let control = mission.shared.control();
    // Reading takes a descriptor.
    let (stack, looks_for) = if has_own_files { (mission.stack, mission.looks_for) } else { (None, None) };
    match work(mission, stack, looks_for) {
        Ok(()) => {
            control.own_bytes.store(system::minor_faults() * page_size() as u64, Ordering::Relaxed);
            control.worked_ns.store(process_cpu_ns(), Ordering::Relaxed);
            control.say_done();
            system::exit(0)
        }
        Err(trouble) => {
            control.say_trouble(trouble);
            system::exit(1)
        }
    }
}

fn work(mission: &Mission<'_>, stack: Option<u64>, looks_for: Option<Needless>) -> Result<(), WalkTrouble> {
    let Mission { lists, layout, tables, shared, parent, deadline, .. } = *mission;
    let control = shared.control();
    let ended = |step: usize| {
        if let Some(ended) = control.ended.get(step) {
            ended.store(system::now(), Ordering::Relaxed);
        }
    };
    let new_watch = || WalkWatch::new(control, parent, deadline, stack);
    let mut watch = new_watch();
    watch.look()?;
    // SAFETY: the heads are those of the lists of the interpreter with this layout. The program held the GIL when this
    // process was cloned, and the clone has only this thread, so nothing changes them.
    unsafe {
        match mission.errand {
            WalkErrand::Collect(census) => {
                let mut walk = Walk::new(layout, tables, watch)?;
                let mut has_locked = looks_for == Some(Needless::LargeMemory) && mappings::lock_away();
                // Without memory for it there is no census.
                walk.census = census.and_then(|(facts, _)| HeapCensus::new(facts, new_watch(), mission.apart).ok());
                walk.enlist(&lists)?;
                ended(0);
                has_locked |= looks_for == Some(Needless::OldBlocks) && old_blocks::lock_away(&walk.shadow);
                walk.subtract()?;
                ended(1);
                walk.mark()?;
                ended(2);
                candidates::write(&mut walk, &lists, layout, shared)?;
                ended(3);
                if let (Some(mut counted), Some((_, room))) = (walk.census.take(), census) {
                    // What was found stands without it.
                    let _ = counted.tell(room);
                }
                match looks_for.filter(|_| has_locked) {
                    Some(Needless::LargeMemory) => mappings::tell_untouched(control),
                    Some(Needless::OldBlocks) => old_blocks::tell_untouched(control),
                    None => {}
                }
                Ok(())
            }
            WalkErrand::Census(facts, room) => {
                let mut walk = Walk::new(layout, tables, watch)?;
                walk.census = Some(HeapCensus::new(facts, new_watch(), mission.apart)?);
                walk.enlist(&lists)?;
                walk.subtract()?;
                walk.mark()?;
                walk.census.take().map_or(Ok(()), |mut counted| counted.tell(room))
            }
            WalkErrand::Count(facts, room) => HeapWalk::new(facts, watch)?.count(&lists, room),
            WalkErrand::Dump(facts, to) => HeapWalk::new(facts, watch)?.dump(&lists, to),
        }
    }
}

/// The table of files is shared with the program until this call gives the process an empty one. Where that is refused,
/// it stays shared and is not touched. For a dump the process has a copy of the table from the start, of which it keeps the
/// descriptors that it writes to.
fn let_go_of_files(errand: &WalkErrand<'_>) -> bool {
    let own = match errand {
        WalkErrand::Dump(_, to) => {
            let kept = [to.first, to.rest.unwrap_or(to.first)];
            let (low, high) = (kept[0].min(kept[1]) as libc::c_uint, kept[0].max(kept[1]) as libc::c_uint);
            let mut closed = close_range(high + 1, libc::c_uint::MAX, 0);
            closed &= low == 0 || close_range(0, low - 1, 0);
            closed &= high <= low + 1 || close_range(low + 1, high - 1, 0);
            closed || close_one_by_one(low, high)
        }
        WalkErrand::Collect(_) | WalkErrand::Census(..) | WalkErrand::Count(..) => {
            const CLOSE_RANGE_UNSHARE: libc::c_uint = 2;
            close_range(0, libc::c_uint::MAX, CLOSE_RANGE_UNSHARE)
        }
    };
    if own {
        // When memory is short, this process goes first.
        system::write_to(c"/proc/self/oom_score_adj", b"1000");
    }
    own
}

fn close_range(from: libc::c_uint, to: libc::c_uint, flags: libc::c_uint) -> bool {
    // SAFETY: the callers close files of this process alone: the table is its own, or the flag has it copied first.
    unsafe { libc::syscall(libc::SYS_close_range, from, to, flags) == 0 }
}

/// What a kernel before 5.9 needs. The table is this process's own.
fn close_one_by_one(low: libc::c_uint, high: libc::c_uint) -> bool {
    const MOST: libc::c_uint = 1 << 16;
    for file in (0..MOST).filter(|file| *file != low && *file != high) {
        // SAFETY: only this process's own files are closed.
        unsafe { libc::syscall(libc::SYS_close, file) };
    }
    true
}

/// Lets go of the program's name, of dumps, and of its share of the machine.
fn withdraw(nicer: c_int) {
    // SAFETY: raw calls on this process alone.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        // Only now: what is not dumpable may not write to its own files below /proc.
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        let nice = 20 - libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) as c_int;
        libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, nice + nicer);
    }
}

/// Has the kernel end this process some time after the deadline, in case that it hangs and the program is gone. All
/// signals are blocked; the one of the timer is let through, with the program's handler taken off.
fn end_at_last(deadline: u64) {
    let seconds = deadline.saturating_sub(system::now()) / 1_000_000_000 + LAST_SECONDS;
    // SAFETY: all-zero structs are valid here, and the calls change this process alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        let mut alarm: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut alarm);
        libc::sigaddset(&raw mut alarm, libc::SIGALRM);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const alarm, std::ptr::null_mut());
        libc::alarm(seconds.min(3600) as libc::c_uint);
    }
}
