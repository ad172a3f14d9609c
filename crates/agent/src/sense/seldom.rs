//! Figures that are expensive to read: a caller that asks often gets the last one again.

use crate::sys::native::monotonic_ns;

/// A figure is read again after this many times what its last read took, so it costs a thousandth of a core at most.
const RARITY: u64 = 1000;

/// A figure and when it may be read again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seldom<T> {
    value: T,
    due: u64,
}

impl<T: Copy> Seldom<T> {
    /// The figure, read anew with the last one at hand where that is due.
    pub(crate) fn get(&mut self, read: impl FnOnce(T) -> T) -> T {
        let now = monotonic_ns();
        if now >= self.due {
            self.value = read(self.value);
            let after = monotonic_ns();
            self.due = after + after.saturating_sub(now).saturating_mul(RARITY);
        }
        self.value
    }

    /// The next read is due now.
    pub(crate) fn expire(&mut self) {
        self.due = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_read_is_not_repeated_at_once() {
        let mut figure = Seldom::default();
        let slowly = |last: u32| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            last + 1
        };
        assert_eq!((figure.get(slowly), figure.get(slowly)), (1, 1));
        figure.expire();
        assert_eq!(figure.get(slowly), 2);
    }
}
