//! The stacks of this process's threads.
//!
//! A thread has told the kernel where its list of robust mutexes is, and that lies in glibc's record of the thread, at the
//! upper end of its stack. So one cheap system call for each thread finds its stack, without a lock of glibc.

use std::fs;
use std::ops::Range;

use super::maps::Mapping;
use super::page::page_size;

/// Threads that are asked for.
const MOST: usize = 4096;

/// What glibc keeps above the list at the end of a stack, at most.
const ABOVE: usize = 2048;

/// The stacks in these mappings, in the order of their addresses. The main thread's is the kernel's `[stack]`, and not here.
pub(crate) fn stacks(mappings: &[Mapping<'_>]) -> Vec<Range<usize>> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let main = std::process::id();
    let ids = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|id| *id != main);
    let mut stacks: Vec<Range<usize>> =
        ids.take(MOST).filter_map(robust_list).filter_map(|list| stack_of(list, mappings)).collect();
    stacks.sort_unstable_by_key(|stack| stack.start);
    stacks.dedup();
    stacks
}

/// The mapping that the end of a stack lies in begins with the stack: below it is a page that nothing may touch.
fn stack_of(list: usize, mappings: &[Mapping<'_>]) -> Option<Range<usize>> {
    let index = mappings.partition_point(|mapping| mapping.range.end <= list);
    let mapping = mappings.get(index).filter(|mapping| mapping.range.contains(&list) && mapping.is_plain_memory())?;
    let below = mappings.get(index.checked_sub(1)?)?;
    let is_guarded = below.range.end == mapping.range.start && !below.is_readable && !below.is_writable;
    let end = (list + ABOVE).next_multiple_of(page_size()).min(mapping.range.end);
    is_guarded.then_some(mapping.range.start..end)
}

fn robust_list(thread: u32) -> Option<usize> {
    let (mut head, mut length) = (0_usize, 0_usize);
    // SAFETY: the kernel writes two words into variables of this function.
    let done = unsafe { libc::syscall(libc::SYS_get_robust_list, thread, &raw mut head, &raw mut length) };
    (done == 0 && head != 0).then_some(head)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::maps;
    use super::*;

    #[test]
    fn the_stack_of_a_thread_is_found() {
        let (to, from) = std::sync::mpsc::channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let local = 0_u8;
            to.send(&raw const local as usize).unwrap();
            let _ = wait.recv();
        });
        let local = from.recv().unwrap();
        let text = maps::text().unwrap();
        let found = stacks(&maps::parse(&text));
        drop(release);
        thread.join().unwrap();
        let stack = found.iter().find(|stack| stack.contains(&local)).unwrap();
        assert!(stack.len() >= 2 << 20 && stack.len() < (2 << 20) + 16 * page_size(), "{stack:?}");
    }
}
