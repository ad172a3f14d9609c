//! The functions that programs call, in assembly: a countdown or a test of the address, and a jump to the function below.
//! One file for each processor.
//!
//! The counter is a thread-local of the model "initial exec": one load gives its place, where the usual model calls a
//! function.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use core::arch::global_asm;
use core::ffi::{c_int, c_void};

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::points;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::points;

use crate::interface::SamplePoints;
use crate::slow;

global_asm!(
    ".pushsection .tbss.neurogc_points,\"awT\",@nobits",
    ".balign 8",
    ".globl neurogc_points",
    ".hidden neurogc_points",
    ".type neurogc_points, @tls_object",
    ".size neurogc_points, 32",
    "neurogc_points:",
    ".zero 32",
    ".popsection",
);

const _: () = assert!(size_of::<SamplePoints>() == 32);

/// `mremap`, whose last argument only some flags have. It comes in the same register then.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mremap(
    address: *mut c_void,
    size: usize,
    new_size: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's contract is passed on.
    unsafe { slow::mremap(address, size, new_size, flags, to) }
}

/// `munmap`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn munmap(address: *mut c_void, size: usize) -> c_int {
    // SAFETY: the caller's contract is passed on.
    unsafe { slow::munmap(address, size) }
}
