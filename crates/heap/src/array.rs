//! Arrays of numbers on huge pages: almost all of an analysis is random access to them.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::{Advice, MmapMut};

/// An array of fixed length that starts with zeros. Pages that are never touched take no memory.
#[derive(Debug)]
pub struct Numbers<T> {
    map: MmapMut,
    length: usize,
    kind: PhantomData<T>,
}

impl<T: Pod> Numbers<T> {
    /// Zeros.
    ///
    /// # Errors
    ///
    /// If the kernel has no room for them.
    pub fn zeroed(length: usize) -> std::io::Result<Self> {
        let bytes = length.checked_mul(size_of::<T>()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let map = MmapMut::map_anon(bytes.max(1))?;
        // A kernel without huge pages refuses the advice: the array is as good, only slower.
        let _ = map.advise(Advice::HugePage);
        Ok(Self { map, length, kind: PhantomData })
    }

    /// The same value everywhere.
    ///
    /// # Errors
    ///
    /// If the kernel has no room for them.
    pub fn filled(length: usize, value: T) -> std::io::Result<Self> {
        let mut numbers = Self::zeroed(length)?;
        numbers.fill(value);
        Ok(numbers)
    }
}

impl<T: Pod> Deref for Numbers<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map[..self.length * size_of::<T>()])
    }
}

impl<T: Pod> DerefMut for Numbers<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.map[..self.length * size_of::<T>()])
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn arrays_start_as_they_are_asked_for() {
        assert!(Numbers::<u64>::zeroed(0).unwrap().is_empty());
        let mut numbers = Numbers::<u32>::filled(1000, 7).unwrap();
        numbers[999] = 3;
        assert_eq!((numbers.len(), numbers[0], numbers[999]), (1000, 7, 3));
        assert!(Numbers::<u64>::zeroed(usize::MAX).is_err());
    }
}
