//! Amounts of memory.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// An amount of memory in bytes. Counts of objects are plain numbers, so the two cannot be mixed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// More than there can be.
    pub const MAX: Self = Self(u64::MAX);

    /// So many bytes.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// So many times 1,048,576 bytes.
    #[must_use]
    pub const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
    }

    /// How many bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The same as a number with a fraction, for shares and rates.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// A share of it, or a multiple.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        Self((self.as_f64() * share) as u64)
    }

    /// By how much it is more than the other; nothing where it is less.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl Div<u64> for Bytes {
    type Output = Self;

    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences_stay_within_bounds() {
        assert_eq!(Bytes::MAX + Bytes::new(1), Bytes::MAX);
        assert_eq!(Bytes::new(3).saturating_sub(Bytes::new(5)), Bytes::ZERO);
        assert_eq!(Bytes::mebibytes(2).share(0.5), Bytes::mebibytes(1));
        assert_eq!(Bytes::MAX.share(2.0), Bytes::MAX);
        let seven = Bytes::new(7);
        assert_eq!([seven / 2, seven * 2, seven - Bytes::new(2)].map(Bytes::get), [3, 14, 5]);
    }
}
