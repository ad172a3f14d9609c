//! Reads of the clone's own memory, where objects are: an address that is not readable ends the clone, and only the clone.

use super::super::system;

/// A word at an address.
///
/// # Safety
/// The address must be that of a word of an object or struct whose layout is known.
#[inline(always)]
pub(super) unsafe fn word(address: usize) -> usize {
    // SAFETY: the caller's promise. Objects and structs are aligned to words.
    unsafe { *(address as *const usize) }
}

/// A signed word.
///
/// # Safety
/// As for `word`.
#[inline(always)]
pub(super) unsafe fn signed(address: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { *(address as *const isize) }
}

/// A 32-bit integer.
///
/// # Safety
/// As for `word`.
#[inline(always)]
pub(super) unsafe fn int(address: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { *(address as *const i32) }
}

/// A byte.
///
/// # Safety
/// As for `word`.
#[inline(always)]
pub(super) unsafe fn byte(address: usize) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { *(address as *const u8) }
}

/// Bytes.
///
/// # Safety
/// As for `word`; nothing may write to them.
#[inline(always)]
pub(super) unsafe fn bytes<'a>(address: usize, length: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(address as *const u8, length) }
}

/// A C string, of which no more than `most` bytes are taken.
///
/// # Safety
/// As for `bytes`.
pub(super) unsafe fn c_string<'a>(address: usize, most: usize) -> &'a [u8] {
    if address == 0 {
        return &[];
    }
    let mut length = 0;
    // SAFETY: the caller's promise: the string ends with a zero.
    unsafe {
        while length < most && byte(address + length) != 0 {
            length += 1;
        }
        bytes(address, length)
    }
}

/// An array in memory of its own, which grows. It is never given back: the process ends.
#[derive(Debug)]
pub(super) struct Array<T> {
    at: *mut T,
    length: usize,
    capacity: usize,
}

impl<T: Copy> Array<T> {
    /// Room for so many, or nothing where the kernel has no memory.
    pub(super) fn new(capacity: usize) -> Option<Self> {
        let at = system::map(capacity * size_of::<T>()).cast::<T>();
        (!at.is_null()).then_some(Self { at, length: 0, capacity })
    }

    /// Makes room for so many more. False where the kernel has no memory.
    #[inline(always)]
    pub(super) fn reserve(&mut self, more: usize) -> bool {
        self.capacity - self.length >= more || self.grow(more)
    }

    #[cold]
    fn grow(&mut self, more: usize) -> bool {
        let capacity = (self.length + more) * 2;
        let at = system::map(capacity * size_of::<T>()).cast::<T>();
        if at.is_null() {
            return false;
        }
        // SAFETY: both have room for `length`, and the old mapping is not used afterwards.
        unsafe {
            std::ptr::copy_nonoverlapping(self.at, at, self.length);
            system::unmap(self.at.cast(), self.capacity * size_of::<T>());
        }
        (self.at, self.capacity) = (at, capacity);
        true
    }

    /// Appends one. False where the kernel has no memory.
    #[inline(always)]
    pub(super) fn push(&mut self, value: T) -> bool {
        if !self.reserve(1) {
            return false;
        }
        // SAFETY: there is room.
        unsafe { *self.at.add(self.length) = value };
        self.length += 1;
        true
    }

    /// Takes the last one.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<T> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: what is below the length is filled.
        Some(unsafe { *self.at.add(self.length) })
    }

    /// Keeps the first so many.
    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Makes a new array so long: memory of the kernel is zero.
    pub(super) fn fill_fresh(&mut self, length: usize) {
        self.length = length.min(self.capacity);
    }

    /// All of them.
    #[inline(always)]
    pub(super) fn all(&self) -> &[T] {
        // SAFETY: what is below the length is filled.
        unsafe { std::slice::from_raw_parts(self.at, self.length) }
    }

    /// All of them, to change.
    #[inline(always)]
    pub(super) fn all_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and they are this array's own.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.length) }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.length
    }
}

/// Bytes in memory of their own. Room is made before they are written: without it they are dropped, and `reserve` has
/// said so.
impl neurogc_ngch::ByteSink for Array<u8> {
    #[inline(always)]
    fn push(&mut self, byte: u8) {
        let _ = Self::push(self, byte);
    }

    #[inline(always)]
    fn put_bytes(&mut self, bytes: &[u8]) {
        if self.reserve(bytes.len()) {
            // SAFETY: there is room.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(self.length), bytes.len()) };
            self.length += bytes.len();
        }
    }
}
