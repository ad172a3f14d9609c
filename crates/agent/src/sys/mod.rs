//! What belongs to the operating system, not to CPython: clocks, descriptors, connections, memory of this process and how it is
//! mapped, and the agent's own allocator.

pub(crate) mod chunks;
pub(crate) mod copies;
pub(crate) mod heap;
pub(crate) mod huge;
pub(crate) mod libraries;
pub(crate) mod locks;
pub(crate) mod malloc;
pub(crate) mod maps;
pub(crate) mod memory;
pub(crate) mod native;
pub(crate) mod outlet;
pub(crate) mod pace;
pub(crate) mod page;
pub(crate) mod pagemap;
pub(crate) mod residency;
pub(crate) mod sockets;
pub(crate) mod threads;
pub(crate) mod ticks;
pub(crate) mod wake;
pub(crate) mod work;
pub(crate) mod writable;
