//! The library that stands between a program and its allocator: `neurogc run` has the dynamic linker load it first.
//!
//! In a program without an agent it passes every call on. It allocates nothing, holds no tables, and needs only libc.
//! The way that nearly every call takes is a few instructions of assembly, in `entry`; the rest is in `slow`.
//!
//! Processors other than x86-64 and aarch64 have no entry: there the library is empty, and the agent samples CPython's
//! allocators only.
#![no_std]

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod below;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod entry;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod interface;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod slow;

/// Nothing here panics; the language wants to know what would happen.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
