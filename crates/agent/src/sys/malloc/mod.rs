//! The heaps of glibc's `malloc`, read from outside: which memory of theirs is in use and which is free.
//!
//! `mallinfo2` and `malloc_info` go along all free blocks with an arena locked, and a thread that allocates waits that long.
//! Nor do they know which free memory is still in memory. So the agent goes along the blocks itself: each begins with its own
//! size, and says whether the one before it is free. It reads through the kernel, which returns an error where a direct read
//! would fault; it takes no lock and calls nothing of glibc. What it finds may be a moment old. Where the sizes make no
//! sense, because a thread has changed them meanwhile, it looks for the next block that does, and says how much it passed over.
//!
//! The format of blocks and heaps is the same in every glibc from 2.26 to 2.43; only blocks with a mapping of their own have
//! another size in their head from 2.43 on.

mod blocks;
mod heaps;
pub(crate) mod trim;

pub(crate) use blocks::HeapUse;
pub(crate) use heaps::{MallocHeap, find_heaps, mapped_block};
