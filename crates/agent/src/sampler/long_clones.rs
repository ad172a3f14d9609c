//! Says where snapshots stop the program for long because its memory lies in small pages, and what to do about it.

/// A clone that takes longer than this is long, and so many of them are no chance.
const LONG_NS: u64 = 20_000_000;
const NO_CHANCE: u32 = 2;

/// The long clones so far.
#[derive(Debug, Default)]
pub(super) struct LongClones {
    seen: u32,
}

impl LongClones {
    /// A snapshot has landed. Gives what is to be said, once; `can_be_huge` is asked only then.
    pub(super) fn landed(&mut self, clone_ns: u64, can_be_huge: impl FnOnce() -> bool) -> Option<String> {
        if clone_ns < LONG_NS || self.seen == NO_CHANCE {
            return None;
        }
        self.seen += 1;
        if self.seen < NO_CHANCE || can_be_huge() {
            return None;
        }
        Some(format!(
            "the clone of a snapshot stops the program for {} ms: all its memory is in small pages, because this kernel offers \
             it no transparent huge pages. With them it would take a few milliseconds: \
             echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and start the program again",
            clone_ns / 1_000_000
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_clones_are_said_once_where_the_kernel_has_no_huge_pages() {
        let said = |can_be_huge: bool, clones: &[u64]| {
            let mut long = LongClones::default();
            let texts = clones.iter().filter_map(|ms| long.landed(ms * 1_000_000, || can_be_huge));
            texts.collect::<Vec<_>>()
        };
        let texts = said(false, &[90, 5, 91, 92, 93]);
        assert!(texts.len() == 1 && texts[0].contains("for 91 ms") && texts[0].len() <= 300, "{texts:?}");
        assert_eq!(said(true, &[90, 91, 92]), [""; 0], "they are long for another reason");
        assert_eq!(said(false, &[3, 90, 3]), [""; 0], "one alone may have waited for a processor");
    }
}
