//! PEP 768: how 3.14 and later run a file at the next safe moment, asked for by writing to their memory.

use nix::errno::Errno;

use super::elf::SymbolPlace;
use super::main_thread::holds;
use super::memory::TargetMemory;

/// What `_Py_DebugOffsets` begins with, in 3.13 and later.
const COOKIE: [u8; 8] = *b"xdebugpy";

/// Places in `_Py_DebugOffsets`, in words.
const VERSION: u64 = 1;
const FREE_THREADED: u64 = 2;
const RUNTIME_FINALIZING: u64 = 4;
const INTERPRETERS: u64 = 5;
const INTERPRETER_ID: u64 = 7;
const NEXT_INTERPRETER: u64 = 8;
const MAIN_THREAD: u64 = 10;

/// The length of a path that the interface takes, which says that the layout is the one that is known.
const PATH_SIZE: u64 = 512;

/// Bits of the word that makes a thread look up from its work. Those that other threads set (signals, pending calls, an
/// exception) are set as well: they are harmless where nothing is to be done, and so none of them can get lost between
/// reading and writing the word. The request for the GIL is not: a thread without rivals would wait for one for ever.
/// A thread that wants the GIL repeats that request every few milliseconds.
const STOP: u64 = 1 << 5;
const SET_BY_OTHERS: u64 = 0b1110;

/// The part of a thread's state in which its identifier is.
const FRONT_OF_A_STATE: usize = 512;

/// More interpreters than any process has.
const MOST_INTERPRETERS: u32 = 10_000;

/// What the runtime says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuntimeFacts {
    pub(super) is_free_threaded: bool,
    pub(super) is_finalizing: bool,
    /// What 3.14 and later say on remote debugging.
    pub(super) interface: Option<DebuggerInterface>,
    /// It is said, and it is off: by the environment, by an option or because it was built without.
    pub(super) is_disabled: bool,
}

/// Where the main thread of the main interpreter looks for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DebuggerInterface {
    thread: u64,
    breaker: u64,
    pending: u64,
    path: u64,
}

/// Reads the facts. None before 3.13, which says nothing about itself.
pub(super) fn look(memory: TargetMemory, runtime: SymbolPlace) -> Result<Option<RuntimeFacts>, Errno> {
    if memory.bytes::<8>(runtime.address)? != COOKIE {
        return Ok(None);
    }
    let word = |index: u64| memory.word(runtime.address + 8 * index);
    let version = word(VERSION)?;
    let mut facts = RuntimeFacts {
        is_free_threaded: word(FREE_THREADED)? != 0,
        is_finalizing: memory.word(runtime.address + word(RUNTIME_FINALIZING)?)? != 0,
        interface: None,
        is_disabled: false,
    };
    let first = match version >> 16 {
        0x030e => 89,
        0x030f => 105,
        _ => return Ok(Some(facts)),
    };
    let is_release = version & 0xf0 == 0xf0;
    if !is_release || word(first + 5)? != PATH_SIZE {
        return Ok(Some(facts));
    }
    // The newest interpreter comes first. The main one has number zero.
    let mut interpreter = memory.word(runtime.address + word(INTERPRETERS)?)?;
    for _ in 0..MOST_INTERPRETERS {
        if interpreter == 0 || memory.word(interpreter + word(INTERPRETER_ID)?)? == 0 {
            break;
        }
        interpreter = memory.word(interpreter + word(NEXT_INTERPRETER)?)?;
    }
    if interpreter == 0 {
        return Ok(Some(facts));
    }
    facts.is_disabled = memory.half(interpreter + word(first + 2)?)? != 1;
    let thread = memory.word(interpreter + word(MAIN_THREAD)?)?;
    let support = thread + word(first + 1)?;
    facts.interface = (thread != 0 && !facts.is_disabled).then_some(DebuggerInterface {
        thread,
        breaker: thread + word(first)?,
        pending: support + word(first + 3)?,
        path: support + word(first + 4)?,
    });
    Ok(Some(facts))
}

impl DebuggerInterface {
    /// Whether it belongs to the thread with this block of its own: its state in Python holds the address of the block.
    pub(super) fn is_of(&self, memory: TargetMemory, block: u64) -> bool {
        memory.bytes::<FRONT_OF_A_STATE>(self.thread).is_ok_and(|state| holds(&state, block))
    }

    /// Asks for a file to be run. The main thread must be stopped. False where another request is under way, or the path is too long.
    pub(super) fn request(&self, memory: TargetMemory, path: &str) -> Result<bool, Errno> {
        if path.len() as u64 >= PATH_SIZE || memory.half(self.pending)? != 0 {
            return Ok(false);
        }
        let mut bytes = path.as_bytes().to_vec();
        bytes.push(0);
        memory.write(self.path, &bytes)?;
        memory.write(self.pending, &1_u32.to_le_bytes())?;
        let breaker = memory.word(self.breaker)? | STOP | SET_BY_OTHERS;
        memory.write(self.breaker, &breaker.to_le_bytes())?;
        Ok(true)
    }

    /// Takes a request back. The main thread must be stopped. False where it has been taken up already.
    pub(super) fn withdraw(&self, memory: TargetMemory) -> Result<bool, Errno> {
        let waits = memory.half(self.pending)? != 0;
        if waits {
            memory.write(self.pending, &0_u32.to_le_bytes())?;
        }
        Ok(waits)
    }
}
