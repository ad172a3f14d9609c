//! The program's end of a snapshot in flight: the clone, the looks at it, and its end.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use neurogc_policy::Scope;

use super::apart::Apart;
use super::child::{self, Needless};
use super::control::{STEPS, Shared};
use super::failure::SnapshotFailure;
use super::faults::FlightFaults;
use super::heap::{Destination, HeapFacts, TallyRoom};
use super::old_blocks::OldBlocks;
use super::system::{self, ChildEnd};
use super::walk::Lists;
use crate::cpython::collector::Collector;
use crate::cpython::layout::Layout;
use crate::cpython::tables::ObjectTables;
use crate::sys::page::page_size;
use crate::sys::writable;

/// A process that was cloned from this one and walks its heap.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) pid: c_int,
    pub(super) shared: Shared,
    pub(super) collector: Collector,
    /// When it was cloned, and how long the program stood still for that.
    pub(super) began: u64,
    pub(super) clone_ns: u64,
    deadline: u64,
    pub(super) faults: FlightFaults,
    /// Why it has been killed.
    given_up: Option<SnapshotFailure>,
    /// What it looks for that later ones can do without.
    pub(super) looks_for: Option<Needless>,
    /// Bytes of blocks that it does without.
    pub(super) without: u64,
    pub(super) scope: Scope,
    /// Full collections that there had been when it was cloned.
    pub(super) full: u64,
    /// What it does besides collecting, and where it counts.
    pub(super) errand: FlightErrand,
}

/// What a flight is for.
#[derive(Debug)]
pub(super) enum FlightErrand {
    /// It may also count what is reachable.
    Collect(Option<(Box<HeapFacts>, TallyRoom)>),
    Census(Box<HeapFacts>, TallyRoom),
    Count(Box<HeapFacts>, TallyRoom),
    Dump {
        facts: Box<HeapFacts>,
        to: Destination,
        urgent: bool,
        /// Whether what was written can be taken back, which is so for files.
        can_begin_anew: bool,
    },
}

impl FlightErrand {
    pub(super) fn collects(&self) -> bool {
        matches!(self, Self::Collect(_))
    }
}

/// How a flight stands.
pub(super) enum Standing {
    Flying,
    Landed,
    Failed(SnapshotFailure),
}

/// What it is sent out with.
pub(super) struct FlightPlan {
    pub(super) collector: Collector,
    pub(super) layout: &'static Layout,
    pub(super) tables: ObjectTables,
    pub(super) lists: Lists,
    pub(super) scope: Scope,
    /// Full collections so far.
    pub(super) full: u64,
    /// Whether it gives way to the program where the processor is short.
    pub(super) polite: bool,
    /// Where the program's stack began, if the kernel tells.
    pub(super) stack: Option<u64>,
    /// About how many objects there are.
    pub(super) objects: usize,
    /// Counts the program's page faults from here on.
    pub(super) faults: FlightFaults,
}

/// How much nicer than the program a polite walk is where there are several processors, and one that shares the only processor with
/// it, if it is polite or of new objects: the program then has two thirds of it, and walks that take half of it make requests wait for
/// longer. A walk of everything that drags makes the program copy too many pages.
const NICER: (c_int, c_int) = (10, 3);

/// A flight may take this long, and so much longer for each object. That is ten times what it takes.
const PATIENCE_NS: u64 = 2_000_000_000;
const PATIENCE_PER_OBJECT_NS: u64 = 5_000;

/// A dump may take longer: it visits objects that the collector does not know, and is written.
const DUMP_NS: u64 = 10_000_000_000;
const DUMP_PER_OBJECT_NS: u64 = 20_000;

/// A few long lists have as many references as many objects.
const DUMP_PER_KILOBYTE_NS: u64 = 20_000;

/// The walk looks at the clock itself. One that does not get there is killed a little later.
const GRACE_NS: u64 = 300_000_000;

/// How often the end of a killed process is looked for, and how long.
const END_LOOKS: u32 = 400;
const END_LOOK: std::time::Duration = std::time::Duration::from_micros(500);

impl Flight {
    /// Clones this process. The caller holds the GIL, and stands still meanwhile.
    pub(super) fn launch(
        plan: &FlightPlan,
        errand: FlightErrand,
        apart: &mut Apart,
        old: &OldBlocks,
    ) -> Result<Self, SnapshotFailure> {
        // The estimate leaves out what survived one young collection only, and what is frozen.
        let capacity = if errand.collects() { plan.objects + plan.objects / 4 + 1_000_000 } else { 0 };
        let shared = Shared::new(capacity).ok_or(SnapshotFailure::NoMemory)?;
        let stack = Stack::new().ok_or(SnapshotFailure::NoMemory)?;
        let old_blocks = plan.lists.since.map_or(Vec::new(), |since| old.without(since));
        // A walk of new objects leaves alone what others have to look at.
        let looks_for = match plan.scope {
            Scope::All => apart.is_look_due().then_some(Needless::LargeMemory),
            Scope::New => old.is_look_due().then_some(Needless::OldBlocks),
        };
        let before = system::now();
        let (patience, per_object) =
            if errand.collects() { (PATIENCE_NS, PATIENCE_PER_OBJECT_NS) } else { (DUMP_NS, DUMP_PER_OBJECT_NS) };
        let for_memory = match &errand {
            FlightErrand::Dump { facts, .. } => DUMP_PER_KILOBYTE_NS * (facts.resident >> 10),
            _ => 0,
        };
        let deadline = before + patience + per_object * plan.objects as u64 + for_memory;
        let guard = apart.set();
        let mission = child::Mission {
            errand: match &errand {
                FlightErrand::Collect(census) => {
                    child::WalkErrand::Collect(census.as_ref().map(|(facts, room)| (&**facts, room)))
                }
                FlightErrand::Census(facts, room) => child::WalkErrand::Census(facts, room),
                FlightErrand::Count(facts, room) => child::WalkErrand::Count(facts, room),
                FlightErrand::Dump { facts, to, .. } => child::WalkErrand::Dump(facts, *to),
            },
            lists: plan.lists,
            layout: plan.layout,
            tables: plan.tables,
            shared: &shared,
            parent: std::process::id() as c_int,
            stack: plan.stack,
            deadline,
            apart: guard.ranges(),
            old_blocks: &old_blocks,
            looks_for,
            nicer: nicer(plan.polite, plan.scope),
        };
        writable::clone_comes();
        let cloned = clone(&stack, &mission);
        drop(guard);
        let pid = cloned.inspect_err(|_| writable::clone_has_gone(false))?;
        let began = system::now();
        shared.control().pause_ns.store(began - before, Ordering::Relaxed);
        Ok(Self {
            pid,
            shared,
            collector: plan.collector,
            began,
            clone_ns: began - before,
            deadline,
            faults: plan.faults,
            given_up: None,
            looks_for,
            without: old_blocks.iter().map(|(from, to)| (to - from) as u64).sum(),
            scope: plan.scope,
            full: plan.full,
            errand,
        })
    }

    /// Looks at it without waiting. `full` is how many full collections there have been so far.
    pub(super) fn look(&mut self, full: u64) -> Standing {
        let end = system::wait(self.pid);
        if end != ChildEnd::No {
            writable::clone_has_gone(self.had_a_processor());
        }
        match end {
            ChildEnd::No => {
                if self.given_up.is_none() {
                    if full != self.full && self.errand.collects() {
                        self.give_up(SnapshotFailure::Collected);
                    } else if system::now() > self.deadline + GRACE_NS {
                        self.give_up(SnapshotFailure::Late);
                    }
                }
                Standing::Flying
            }
            ChildEnd::Exit(0) if self.shared.control().is_done() && self.given_up.is_none() => Standing::Landed,
            // Another thread that waits for any child (`waitpid(-1)`) has reaped it before us.
            ChildEnd::Unknown if self.shared.control().is_done() && self.given_up.is_none() => Standing::Landed,
            ended => Standing::Failed(self.why(ended)),
        }
    }

    fn why(&mut self, ended: ChildEnd) -> SnapshotFailure {
        if let Some(failure) = self.given_up.take() {
            return failure;
        }
        match (self.shared.control().trouble(), ended) {
            (Some(trouble), _) => SnapshotFailure::GaveUp(trouble),
            (None, ChildEnd::Signal(signal)) => SnapshotFailure::Killed(signal),
            (None, _) => SnapshotFailure::Vanished,
        }
    }

    /// Tells it to end, and makes it.
    pub(super) fn give_up(&mut self, why: SnapshotFailure) {
        self.shared.control().say_stop();
        // It has not been waited for, so the id is still its own.
        system::kill(self.pid);
        self.given_up = Some(why);
    }

    /// Ends it now, waiting a short while until it is gone.
    pub(super) fn end(mut self) -> Shared {
        self.give_up(SnapshotFailure::Cancelled);
        for _ in 0..END_LOOKS {
            if system::wait(self.pid) != ChildEnd::No {
                break;
            }
            std::thread::sleep(END_LOOK);
        }
        self.shared
    }

    /// Whether the walk had a processor for at least half of its time. Otherwise they are all busy.
    fn had_a_processor(&self) -> bool {
        let control = self.shared.control();
        let ended = control.ended[STEPS - 1].load(Ordering::Relaxed);
        2 * control.worked_ns.load(Ordering::Relaxed) >= ended.saturating_sub(self.began)
    }
}

/// How much nicer than the program a walk is.
fn nicer(polite: bool, scope: Scope) -> c_int {
    match (system::has_one_processor(), scope) {
        (false, _) if polite => NICER.0,
        (true, _) if polite => NICER.1,
        (true, Scope::New) => NICER.1,
        (_, Scope::New | Scope::All) => 0,
    }
}

/// The stack of the clone, with a guard page below it.
struct Stack {
    at: *mut u8,
}

impl Stack {
    const SIZE: usize = 1 << 20;

    fn new() -> Option<Self> {
        let at = system::map(Self::SIZE);
        if at.is_null() {
            return None;
        }
        let stack = Self { at };
        // SAFETY: the mapping is our own, and its first page is not used.
        (unsafe { libc::mprotect(at.cast(), page_size(), libc::PROT_NONE) } == 0).then_some(stack)
    }

    fn top(&self) -> *mut u8 {
        self.at.wrapping_add(Self::SIZE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the cloned process has a copy of its own.
        unsafe { system::unmap(self.at, Self::SIZE) };
    }
}

/// Clones the process with all signals blocked, so that no handler of the program ever runs in the clone. It sends no
/// signal when it ends, no handler for forks runs, and the table of files is only shared, not copied: the clone leaves it.
fn clone(stack: &Stack, mission: &child::Mission<'_>) -> Result<c_int, SnapshotFailure> {
    // SAFETY: all-zero sets are valid; the mask is put back below. The clone gets a copy of all memory with it, the
    // stack and the mission in it, and its function never returns.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let argument = (&raw const *mission).cast_mut().cast();
        // A table that is shared could change before the clone has its own.
        let files = if mission.errand.keeps_files() { 0 } else { libc::CLONE_FILES };
        let pid = libc::clone(child::main, stack.top().cast(), files, argument);
        let error = std::io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if pid > 0 { Ok(pid) } else { Err(SnapshotFailure::Clone(error.raw_os_error().unwrap_or(0))) }
    }
}
