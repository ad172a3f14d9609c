//! The functions that programs call, for x86-64.

use core::arch::naked_asm;
use core::ffi::{c_int, c_void};

use crate::below;
use crate::interface::{LARGE, MARK, SamplePoints};
use crate::slow;

/// Where the calling thread's points are.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn points() -> *const SamplePoints {
    naked_asm!("mov rax, qword ptr fs:[0]", "add rax, qword ptr [rip + neurogc_points@GOTTPOFF]", "ret")
}

/// `malloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    naked_asm!(
        "mov rdx, qword ptr [rip + neurogc_points@GOTTPOFF]",
        "sub qword ptr fs:[rdx], rdi",
        "js {slow}",
        "jmp qword ptr [rip + {real}]",
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
        "mov rax, rdi",
        "imul rax, rsi",
        "mov rdx, qword ptr [rip + neurogc_points@GOTTPOFF]",
        "sub qword ptr fs:[rdx], rax",
        "js {slow}",
        "jmp qword ptr [rip + {real}]",
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
        "mov rdx, qword ptr [rip + neurogc_points@GOTTPOFF]",
        "sub qword ptr fs:[rdx], rsi",
        "js {slow}",
        "test edi, {mark}",
        "je 2f",
        // A block without the mark is not at the beginning of a page, so the word before it can be read.
        "cmp qword ptr [rdi - 8], {large}",
        "jae {slow}",
        "3: jmp qword ptr [rip + {real}]",
        // No block has the mark, too: it is a new one that is wanted.
        "2: test rdi, rdi",
        "je 3b",
        "jmp {slow}",
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
        "test edi, {mark}",
        "je {slow}",
        // As in `realloc`.
        "cmp qword ptr [rdi - 8], {large}",
        "jae {slow}",
        "jmp qword ptr [rip + {real}]",
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
    naked_asm!("jmp {slow}", slow = sym slow::memalign)
}

/// `aligned_alloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    naked_asm!("jmp {slow}", slow = sym slow::memalign)
}

/// `posix_memalign`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: usize, size: usize) -> c_int {
    naked_asm!("jmp {slow}", slow = sym slow::posix_memalign)
}

/// `valloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    naked_asm!("jmp {slow}", slow = sym slow::valloc)
}

/// `pvalloc`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    naked_asm!("jmp {slow}", slow = sym slow::pvalloc)
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
    // All registers for arguments are taken: the caller's address goes on the stack.
    naked_asm!("push qword ptr [rsp]", "call {slow}", "add rsp, 8", "ret", slow = sym slow::mmap)
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
    naked_asm!("push qword ptr [rsp]", "call {slow}", "add rsp, 8", "ret", slow = sym slow::mmap)
}
