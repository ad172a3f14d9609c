//! The functions that programs call, for aarch64. A function may use the registers x9 to x15 as it likes.

use core::arch::naked_asm;
use core::ffi::{c_int, c_void};

use crate::below;
use crate::interface::{LARGE, MARK, SamplePoints};
use crate::slow;

/// Where the calling thread's points are.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn points() -> *const SamplePoints {
    naked_asm!(
        "mrs x0, tpidr_el0",
        "adrp x9, :gottprel:neurogc_points",
        "ldr x9, [x9, :gottprel_lo12:neurogc_points]",
        "add x0, x0, x9",
        "ret",
    )
}

/// `malloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    naked_asm!(
        "mrs x9, tpidr_el0",
        "adrp x10, :gottprel:neurogc_points",
        "ldr x10, [x10, :gottprel_lo12:neurogc_points]",
        "ldr x11, [x9, x10]",
        "subs x11, x11, x0",
        "str x11, [x9, x10]",
        "b.mi 2f",
        "adrp x9, {real}",
        "add x9, x9, :lo12:{real}",
        "ldar x9, [x9]",
        "br x9",
        "2: b {slow}",
        real = sym below::MALLOC,
        slow = sym slow::malloc,
    )
}

/// `calloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    naked_asm!(
        "mul x12, x0, x1",
        "mrs x9, tpidr_el0",
        "adrp x10, :gottprel:neurogc_points",
        "ldr x10, [x10, :gottprel_lo12:neurogc_points]",
        "ldr x11, [x9, x10]",
        "subs x11, x11, x12",
        "str x11, [x9, x10]",
        "b.mi 2f",
        "adrp x9, {real}",
        "add x9, x9, :lo12:{real}",
        "ldar x9, [x9]",
        "br x9",
        "2: b {slow}",
        real = sym below::CALLOC,
        slow = sym slow::calloc,
    )
}

/// `realloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    naked_asm!(
        "mrs x9, tpidr_el0",
        "adrp x10, :gottprel:neurogc_points",
        "ldr x10, [x10, :gottprel_lo12:neurogc_points]",
        "ldr x11, [x9, x10]",
        "subs x11, x11, x1",
        "str x11, [x9, x10]",
        "b.mi 4f",
        "mov x12, {mark}",
        "tst x0, x12",
        "b.eq 2f",
        // A block without the mark is not at the beginning of a page, so the word before it can be read.
        "ldur x11, [x0, #-8]",
        "cmp x11, {large}",
        "b.hs 4f",
        "3: adrp x9, {real}",
        "add x9, x9, :lo12:{real}",
        "ldar x9, [x9]",
        "br x9",
        // No block has the mark, too: it is a new one that is wanted.
        "2: cbz x0, 3b",
        "4: b {slow}",
        real = sym below::REALLOC,
        slow = sym slow::realloc,
        mark = const MARK,
        large = const LARGE,
    )
}

/// `free`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn free(block: *mut c_void) {
    naked_asm!(
        "mov x12, {mark}",
        "tst x0, x12",
        "b.eq 2f",
        // As in `realloc`.
        "ldur x11, [x0, #-8]",
        "cmp x11, {large}",
        "b.hs 2f",
        "adrp x9, {real}",
        "add x9, x9, :lo12:{real}",
        "ldar x9, [x9]",
        "br x9",
        "2: b {slow}",
        real = sym below::FREE,
        slow = sym slow::free,
        mark = const MARK,
        large = const LARGE,
    )
}

/// `memalign`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    naked_asm!("b {slow}", slow = sym slow::memalign)
}

/// `aligned_alloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    naked_asm!("b {slow}", slow = sym slow::memalign)
}

/// `posix_memalign`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: usize, size: usize) -> c_int {
    naked_asm!("b {slow}", slow = sym slow::posix_memalign)
}

/// `valloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    naked_asm!("b {slow}", slow = sym slow::valloc)
}

/// `pvalloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    naked_asm!("b {slow}", slow = sym slow::pvalloc)
}

/// `mmap`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn mmap(
    address: *mut c_void,
    size: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // The caller's address is the seventh argument.
    naked_asm!("mov x6, x30", "b {slow}", slow = sym slow::mmap)
}

/// `mmap64`, which is the same.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn mmap64(
    address: *mut c_void,
    size: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    naked_asm!("mov x6, x30", "b {slow}", slow = sym slow::mmap)
}
