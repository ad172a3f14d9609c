//! Which thread of the target is the main thread of Python: the first one of the process, as a rule. A program that embeds
//! Python may have started it in another one, and only that one runs what is queued.

use std::fs;

use super::elf::SymbolPlace;
use super::memory::TargetMemory;

/// More of the runtime than any version has.
const MOST_OF_A_RUNTIME: u64 = 8 << 20;

/// The thread that is to be stopped.
#[derive(Debug)]
pub(super) struct MainThread {
    pub(super) tid: u32,
    /// It is known to be Python's.
    is_known: bool,
    /// Those that have not been looked at.
    others: Vec<u32>,
    /// What Python's runtime holds. Somewhere in it is the identifier of its main thread, at a place that differs between
    /// versions. An identifier is the address of the thread's own block, which is in a register of the thread.
    runtime: Vec<u8>,
}

impl MainThread {
    /// Begins with the first thread of the process. Reads the runtime, so no thread is to be stopped meanwhile.
    pub(super) fn new(memory: TargetMemory, pid: u32, runtime: SymbolPlace) -> Self {
        let mut bytes = vec![0; runtime.size.min(MOST_OF_A_RUNTIME) as usize];
        let is_read = !bytes.is_empty() && memory.read(runtime.address, &mut bytes).is_ok();
        Self { tid: pid, is_known: !is_read, others: threads(pid), runtime: bytes }
    }

    /// Whether the thread that was stopped is Python's main thread, by the address of its own block.
    pub(super) fn is_python(&mut self, block: u64) -> bool {
        self.is_known = self.is_known || holds(&self.runtime, block);
        self.is_known
    }

    /// Goes on to another thread. False where all have been looked at.
    pub(super) fn try_next(&mut self) -> bool {
        let next = self.others.pop();
        self.tid = next.unwrap_or(self.tid);
        next.is_some()
    }
}

/// The threads of a process but the first.
fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|tid| *tid != pid).collect()
}

/// Whether one of the words is this one.
pub(super) fn holds(bytes: &[u8], word: u64) -> bool {
    word != 0 && bytes.chunks_exact(8).any(|chunk| chunk == word.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_whose_block_the_runtime_names_is_the_one() {
        let runtime: Vec<u8> = [0_u64, 5, 0x7000].into_iter().flat_map(u64::to_le_bytes).collect();
        let mut thread = MainThread { tid: 1, is_known: false, others: vec![3, 2], runtime };
        assert!(!thread.is_python(0x6000) && !thread.is_python(0));
        assert!(thread.try_next() && thread.tid == 2);
        assert!(thread.is_python(0x7000));
        assert!(thread.try_next() && !thread.try_next() && thread.tid == 3);
    }

    #[test]
    fn the_first_thread_is_taken_where_the_runtime_cannot_be_read() {
        let nowhere = SymbolPlace { address: 8, size: 64 };
        let mut thread = MainThread::new(TargetMemory::of(std::process::id()), std::process::id(), nowhere);
        assert!(thread.is_python(1) && thread.tid == std::process::id());
    }
}
