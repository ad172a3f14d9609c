//! The way that nearly every call to a hook takes: a countdown or a test of the address, and a jump to the function
//! below. On x86-64 it is written in assembly, because each instruction here is paid for each object that is made.

#[cfg(target_arch = "x86_64")]
mod assembly {
    use std::arch::naked_asm;
    use std::ffi::c_void;

    use super::super::interface::{LARGE, MARK};
    use super::super::python::{
        BELOW_OBJECTS, BELOW_RAW, Below, OBJECTS, RAW, slow_object_calloc, slow_object_malloc, slow_object_realloc,
        slow_raw_calloc, slow_raw_free, slow_raw_malloc, slow_raw_realloc,
    };

    const CALLOC: usize = std::mem::offset_of!(Below, calloc);
    const REALLOC: usize = std::mem::offset_of!(Below, realloc);
    const FREE: usize = std::mem::offset_of!(Below, free);

    macro_rules! hooks {
        ($malloc:ident, $calloc:ident, $realloc:ident, $left:ident, $below:ident,
         $slow_malloc:ident, $slow_calloc:ident, $slow_realloc:ident, $($large:literal),*) => {
            #[unsafe(naked)]
            pub(crate) unsafe extern "C" fn $malloc(context: *mut c_void, size: usize) -> *mut c_void {
                naked_asm!(
                    "sub qword ptr [rip + {left}], rsi",
                    "js {slow}",
                    "jmp qword ptr [rip + {below}]",
                    left = sym $left,
                    slow = sym $slow_malloc,
                    below = sym $below,
                )
            }

            #[unsafe(naked)]
            pub(crate) unsafe extern "C" fn $calloc(context: *mut c_void, count: usize, size: usize) -> *mut c_void {
                naked_asm!(
                    "mov rax, rsi",
                    "imul rax, rdx",
                    "sub qword ptr [rip + {left}], rax",
                    "js {slow}",
                    "jmp qword ptr [rip + {below} + {offset}]",
                    left = sym $left,
                    slow = sym $slow_calloc,
                    below = sym $below,
                    offset = const CALLOC,
                )
            }

            #[unsafe(naked)]
            pub(crate) unsafe extern "C" fn $realloc(
                context: *mut c_void,
                block: *mut c_void,
                size: usize,
            ) -> *mut c_void {
                naked_asm!(
                    "sub qword ptr [rip + {left}], rdx",
                    "js {slow}",
                    "test esi, {mark}",
                    "je 2f",
                    $($large,)*
                    "3: jmp qword ptr [rip + {below} + {offset}]",
                    // No block has the mark, too: it is a new one that is wanted.
                    "2: test rsi, rsi",
                    "je 3b",
                    "jmp {slow}",
                    left = sym $left,
                    slow = sym $slow_realloc,
                    below = sym $below,
                    offset = const REALLOC,
                    mark = const MARK,
                )
            }
        };
    }

    hooks!(
        object_malloc,
        object_calloc,
        object_realloc,
        OBJECTS,
        BELOW_OBJECTS,
        slow_object_malloc,
        slow_object_calloc,
        slow_object_realloc,
    );
    hooks!(
        raw_malloc,
        raw_calloc,
        raw_realloc,
        RAW,
        BELOW_RAW,
        slow_raw_malloc,
        slow_raw_calloc,
        slow_raw_realloc,
        // A block without the mark is not at the beginning of a page, so the word before it can be read.
        "cmp qword ptr [rsi - 8], 0x800",
        "jae {slow}"
    );
    const _: () = assert!(LARGE == 0x800);

    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn raw_free(context: *mut c_void, block: *mut c_void) {
        naked_asm!(
            "test esi, {mark}",
            "je {slow}",
            // A block without the mark is not at the beginning of a page, so the word before it can be read.
            "cmp qword ptr [rsi - 8], {large}",
            "jae {slow}",
            "jmp qword ptr [rip + {below} + {offset}]",
            slow = sym slow_raw_free,
            below = sym BELOW_RAW,
            offset = const FREE,
            mark = const MARK,
            large = const LARGE,
        )
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use assembly::*;
#[cfg(not(target_arch = "x86_64"))]
pub(super) use portable::*;

#[cfg(not(target_arch = "x86_64"))]
mod portable {
    use std::ffi::c_void;
    use std::sync::atomic::Ordering::Relaxed;

    use super::super::interface::{LARGE, MARK, SamplePoints};
    use super::super::python::{
        BELOW_OBJECTS, BELOW_RAW, OBJECTS, RAW, slow_object_calloc, slow_object_malloc, slow_object_realloc,
        slow_raw_calloc, slow_raw_free, slow_raw_malloc, slow_raw_realloc,
    };

    /// Counts a block down, and says whether a point lies in it.
    fn has_point(points: &SamplePoints, size: usize) -> bool {
        let left = points.left.load(Relaxed).wrapping_sub(size as i64);
        points.left.store(left, Relaxed);
        left < 0
    }

    fn is_marked(block: *mut c_void) -> bool {
        block as usize & MARK == 0
    }

    /// Whether a block of libc may be a sampled one.
    fn may_be_sampled(block: *mut c_void) -> bool {
        // SAFETY: a block without the mark is not at the beginning of a page, so the word before it can be read.
        is_marked(block) || unsafe { *(block as *const usize).wrapping_sub(1) } >= LARGE
    }

    macro_rules! hooks {
        ($malloc:ident, $calloc:ident, $realloc:ident, $left:ident, $below:ident,
         $slow_malloc:ident, $slow_calloc:ident, $slow_realloc:ident, $may_be_sampled:ident) => {
            pub(crate) unsafe extern "C" fn $malloc(context: *mut c_void, size: usize) -> *mut c_void {
                // SAFETY: the caller's arguments are passed on.
                unsafe {
                    if has_point(&$left, size) { $slow_malloc(context, size) } else { $below.malloc(context, size) }
                }
            }

            pub(crate) unsafe extern "C" fn $calloc(context: *mut c_void, count: usize, size: usize) -> *mut c_void {
                // SAFETY: the caller's arguments are passed on.
                unsafe {
                    if has_point(&$left, count.wrapping_mul(size)) {
                        $slow_calloc(context, count, size)
                    } else {
                        $below.calloc(context, count, size)
                    }
                }
            }

            pub(crate) unsafe extern "C" fn $realloc(
                context: *mut c_void,
                block: *mut c_void,
                size: usize,
            ) -> *mut c_void {
                // SAFETY: the caller's arguments are passed on.
                unsafe {
                    if has_point(&$left, size) || $may_be_sampled(block) {
                        $slow_realloc(context, block, size)
                    } else {
                        $below.realloc(context, block, size)
                    }
                }
            }
        };
    }

    hooks!(
        object_malloc,
        object_calloc,
        object_realloc,
        OBJECTS,
        BELOW_OBJECTS,
        slow_object_malloc,
        slow_object_calloc,
        slow_object_realloc,
        is_marked
    );
    hooks!(
        raw_malloc,
        raw_calloc,
        raw_realloc,
        RAW,
        BELOW_RAW,
        slow_raw_malloc,
        slow_raw_calloc,
        slow_raw_realloc,
        may_be_sampled
    );

    pub(crate) unsafe extern "C" fn raw_free(context: *mut c_void, block: *mut c_void) {
        // SAFETY: the caller's arguments are passed on.
        unsafe { if may_be_sampled(block) { slow_raw_free(context, block) } else { BELOW_RAW.free(context, block) } }
    }
}
