//! The allocation sampler: where live memory was allocated, known at any moment.
//!
//! One point is drawn in every so many bytes that the program allocates. The block that it falls into is noted with the
//! Python stack of its thread, until it is freed. Such a block is an ordinary one of the allocator below, but lies at an
//! address that is a multiple of 512, or is large: only blocks like that are looked up when they are freed. So a block
//! that is freed behind our back does no harm, and hooks may stay when the agent goes.
//!
//! `points` says which blocks are sampled, `tables` holds what is known, `python` has the hooks on CPython's allocators
//! and `native` those of the preloaded library; `report` and `history` make tables of it for people. `exact` counts every
//! block for a while, instead of sampling.

pub(crate) mod exact;
mod fast;
mod history;
#[path = "../../../preload/src/interface.rs"]
mod interface;
mod lines;
mod live;
mod mappings;
mod native;
mod points;
mod python;
mod report;
mod sampler;
mod sites;
mod spares;
mod stacks;
mod tables;
mod texts;

use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Release;

use neurogc_settings::{AllocationSetting, Settings};
use neurogc_wire::sites::AllocationMode;

pub(crate) use lines::{LiveLine, OwnLines};
pub(crate) use native::ignore_this_thread;
pub(crate) use report::{large_blocks, site_at, weight_at};
pub(crate) use sites::AllocationSites;

use crate::cpython::allocators::{self, Allocators, Domain};
use crate::cpython::own_stack::OwnStack;
use crate::cpython::{Interpreter, arenas, symbol};
use crate::sys::heap::{self, Functions};
use crate::sys::memory;
use crate::sys::native::library_range;
use interface::{Interface, LARGE, Real, VERSION};
use sampler::{Sampler, sampler};
use tables::Tables;

/// What is sampled in this process, and why no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sampling {
    pub(crate) mode: AllocationMode,
    pub(crate) reason: Option<String>,
}

/// The code that CPython takes an arena with is no longer than this.
const ARENA_CODE: usize = 512;

/// Begins to sample as the settings say, or says why not; nothing is touched then. The caller holds the GIL.
pub(crate) fn start(settings: &Settings, interpreter: &Interpreter) -> Sampling {
    if settings.allocations == AllocationSetting::Off {
        stop();
        return Sampling::default();
    }
    let sampler = match sampler() {
        Some(sampler) => sampler,
        None => match hook_in(settings.allocations, interpreter) {
            Ok(sampler) => sampler,
            Err(reason) => {
                let reason = format!("allocations are not sampled: {reason}");
                return Sampling { mode: AllocationMode::Off, reason: Some(reason) };
            }
        },
    };
    sampler::activate(settings.sample_bytes);
    let is_less = settings.allocations == AllocationSetting::Native && sampler.mode != AllocationMode::Native;
    let reason = is_less.then(|| {
        "allocations of native code are not sampled: the process was started without libneurogc_preload.so; \
         start it with `neurogc run`"
            .to_owned()
    });
    Sampling { mode: sampler.mode, reason }
}

/// Samples no more. The hooks stay and pass on: blocks that were sampled may be freed at any time.
pub(crate) fn stop() {
    sampler::deactivate();
}

/// The live bytes that samples stand for, and the most since the last time that this was asked.
pub(crate) fn weights() -> Option<(i64, i64)> {
    sampler().map(|sampler| sampler.tables.live.weights())
}

/// Bytes that are allocated now, where allocations are sampled.
pub(crate) fn live() -> Option<u64> {
    sampler().filter(|_| sampler::is_active()).map(|sampler| sampler.tables.live.weight())
}

/// Where allocations are sampled, the thread of the agent that samples the GIL is woken when so many more bytes are allocated
/// than now or at the end of a collection.
pub(crate) fn wake_after(growth: u64) {
    if let Some(sampler) = sampler() {
        sampler.tables.wake_after(growth);
    }
}

/// Takes note of what is allocated at the end of a collection.
pub(crate) fn collection_ended() {
    if let Some(sampler) = sampler().filter(|_| sampler::is_active()) {
        sampler.tables.collection_ended();
    }
}

/// Bytes that were allocated when the latest collection ended, where allocations are sampled.
pub(crate) fn left() -> Option<u64> {
    sampler().filter(|_| sampler::is_active()).and_then(|sampler| sampler.tables.left())
}

/// The memory of the sampler's tables, in bytes.
pub(crate) fn resident() -> u64 {
    sampler().map_or(0, |sampler| sampler.tables.resident() as u64)
}

/// Whether `malloc` is that of glibc.
pub(crate) fn malloc_is_glibc() -> bool {
    static IS_GLIBC: OnceLock<bool> = OnceLock::new();
    *IS_GLIBC.get_or_init(|| symbol(c"gnu_get_libc_version").is_some() && has_sizes_in_front())
}

/// A forked child begins with empty tables, which most kernels see to.
pub(crate) fn after_fork_in_child() {
    if let Some(sampler) = sampler() {
        sampler.tables.wipe_in_child();
    }
}

/// Looks at what stands in the way, and only then puts the hooks in place.
fn hook_in(wanted: AllocationSetting, interpreter: &Interpreter) -> Result<&'static Sampler, String> {
    if symbol(c"gnu_get_libc_version").is_none() {
        return Err("the C library is not glibc".to_owned());
    }
    let frames = interpreter.frames.ok_or("the frames of this interpreter cannot be read")?;
    let missing = "the interpreter does not export the functions that are needed";
    let allocators = Allocators::find().ok_or(missing)?;
    let stack = OwnStack::new(frames).ok_or(missing)?;
    let pymalloc = match allocators::name().map(|name| name.to_string_lossy()) {
        Some(name) if name == "pymalloc" => true,
        Some(name) if name == "malloc" => false,
        Some(name) => return Err(format!("CPython uses its allocators of kind {name} (PYTHONMALLOC or -X dev)")),
        None => {
            return Err("tracemalloc or another tool stands over CPython's allocators. \
                        Start it after NeuroGC, or end it before"
                .to_owned());
        }
    };
    let preloaded = preloaded();
    let real = preloaded.map_or_else(below, |interface| interface.real);
    let preloaded = preloaded.filter(|_| wanted != AllocationSetting::Python);
    let none = 0..0;
    let arena = arenas::taken_by().map_or(none.clone(), |code| code..code + ARENA_CODE);
    let other = if real.is_glibc { None } else { library_range(real.malloc as *const () as usize) };
    let sampler = Sampler {
        tables: Tables::map().ok_or("there is no memory for its tables")?,
        stack,
        real,
        mode: if preloaded.is_some() { AllocationMode::Native } else { AllocationMode::Python },
        seed: RandomState::new().hash_one(std::process::id()),
        entries: preloaded.map(|interface| interface.entries),
        thread_points: preloaded.map(|interface| interface.points),
        own_code: library_range(hook_in as *const () as usize).unwrap_or(none.clone()),
        allocators: [arena, other.unwrap_or(none)],
    };
    let sampler = sampler::publish(sampler).ok_or("another thread is doing it")?;
    if let Some(interface) = preloaded {
        let Real { malloc, calloc, realloc, free, .. } = interface.real;
        heap::allocate_by(Functions { malloc, calloc, realloc, free });
        // SAFETY: the library keeps the place as long as the process lives, and so do the handlers.
        unsafe { (*interface.handlers).store((&raw const native::HANDLERS).cast_mut(), Release) };
    } else {
        let domains: &[Domain] = if pymalloc { &[Domain::Raw] } else { &[Domain::Raw, Domain::Mem, Domain::Object] };
        python::hook_raw(allocators, sampler, domains);
    }
    if pymalloc {
        allocators::go_over_pymalloc();
        python::hook_objects(allocators, sampler);
    }
    Ok(sampler)
}

/// The library's one function of its own: it fills an interface for a caller of the same version, and says whether it has.
type Entry = unsafe extern "C" fn(version: u32, to: *mut Interface) -> bool;

/// The preloaded library, where it is there and of this version.
fn preloaded() -> Option<Interface> {
    let entry = symbol(c"neurogc_preload_interface")?;
    let mut interface = MaybeUninit::<Interface>::uninit();
    // SAFETY: the symbol is this function of our own library, which fills the struct where the version is its own.
    unsafe {
        let entry = std::mem::transmute::<*mut c_void, Entry>(entry);
        entry(VERSION, interface.as_mut_ptr()).then(|| interface.assume_init())
    }
}

/// The allocator of a process without the preloaded library.
fn below() -> Real {
    Real {
        malloc: libc::malloc,
        calloc: libc::calloc,
        realloc: libc::realloc,
        free: libc::free,
        memalign: libc::memalign,
        // SAFETY: the symbol is jemalloc's function of this type.
        mallocx: symbol(c"mallocx").map(|function| unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(usize, i32) -> *mut c_void>(function)
        }),
        is_glibc: has_sizes_in_front(),
    }
}

/// Whether blocks have their size in front, as those of glibc do. The address of `malloc` does not tell: a program may have
/// an entry of its own that leads to it.
fn has_sizes_in_front() -> bool {
    const FLAGS: usize = 7;
    // Also a block that is a mapping of its own is no larger than this.
    const MOST_BEYOND: usize = 8192;
    [LARGE + 8, LARGE + 20_000].into_iter().all(|size| {
        // SAFETY: an allocation; the block is freed below, and its surroundings are read with care.
        let block = unsafe { libc::malloc(size) };
        let in_front = memory::word((block as usize).wrapping_sub(size_of::<usize>())).map(|word| word & !FLAGS);
        // SAFETY: the block from above.
        unsafe { libc::free(block) };
        in_front.is_some_and(|found| (size + 8..=size + MOST_BEYOND).contains(&found))
    })
}
