//! Memory that grows all of a sudden: young objects are collected because of what they hold, not of how many they are.
//!
//! CPython collects when so many objects have gathered, whatever they hold. So a thread of the agent looks at memory every
//! few milliseconds, and lowers that number where memory has grown a lot since the last collection. Where allocations are
//! sampled, it may become lower than CPython's own: a few objects that refer to each other may hold gigabytes. Then what is
//! allocated and not freed counts, not resident memory: that does not grow while the C library has free memory of its own.

use crate::bytes::Bytes;

/// Growth that counts as sudden: this share of resident memory, and at least so many bytes.
const SHARE: f64 = 0.05;
const LEAST: Bytes = Bytes::mebibytes(16);

/// The same between steps that the ranks of a job share: only what would soon be too much is worth a pause of one rank.
const SHARE_ALIGNED: f64 = 0.25;
const LEAST_ALIGNED: Bytes = Bytes::mebibytes(128);

/// The growth that is waited for is doubled after each collection that made no memory free, so often at most.
const MOST_DOUBLINGS: u32 = 2;

/// What a look at a program sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLook {
    /// Resident memory.
    pub resident: Bytes,
    /// Resident memory as a thread of the program last saw it, at the end of a collection or in a gap; zero before that.
    pub seen: Bytes,
    /// Bytes that are allocated now, where allocations are sampled.
    pub live: Option<Bytes>,
    /// Bytes that were allocated when the latest collection ended, likewise.
    pub left: Option<Bytes>,
    /// Whether ranks of one job collect at steps that they share. Then `seen` is the most that earlier steps took.
    pub aligned: bool,
    /// The collector's counters: net allocations since the last young collection, young collections since the last middle
    /// one, middle ones since the last full one.
    pub counts: [u32; 3],
    /// The threshold for young objects that the program runs with by itself, and the one in force.
    pub own: u32,
    /// See `own`.
    pub threshold: u32,
}

/// Looks at memory between collections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SuddenGrowth {
    /// Collections since the last middle and the last full one, by which a new one is noticed.
    collections: [u32; 2],
    /// The least that was allocated at the end of the last collection, or at a look since then.
    least: Option<Bytes>,
    /// What was allocated when a collection was asked for because of bytes alone, and the least before that.
    asked: Option<(Bytes, Bytes)>,
    /// Doublings of the growth that is waited for.
    doublings: u32,
    /// What was left at the end of an earlier collection than the last one, whose end no callback of ours has seen.
    stale: Option<Bytes>,
}

impl SuddenGrowth {
    /// The threshold for young objects that CPython should have now, where it should be lower than the one in force. The callback
    /// at the end of the collection that it brings about puts it back; where the program has taken that out, it is done here.
    pub fn threshold(&mut self, look: &MemoryLook) -> Option<u32> {
        let [young, collections @ ..] = look.counts;
        if collections != self.collections {
            self.collections = collections;
            let unseen = self.asked.is_some() && look.threshold < look.own;
            if unseen {
                self.stale = look.left;
            }
            // By now more may have been allocated.
            let left = look.left.filter(|left| Some(*left) != self.stale).or(look.live);
            self.learn(left);
            self.least = left;
            if unseen {
                return Some(look.own);
            }
        }
        let (share, least) = if look.aligned { (SHARE_ALIGNED, LEAST_ALIGNED) } else { (SHARE, LEAST) };
        let sudden = look.seen.share(share).max(least);
        let by_number = look.seen > Bytes::ZERO && look.resident > look.seen + sudden && young > look.own;
        let wanted = if by_number { Some(look.own) } else { self.by_bytes(look) };
        wanted.filter(|wanted| *wanted < look.threshold)
    }

    /// The threshold at which the next object has CPython collect, be there as few as there may.
    fn by_bytes(&mut self, look: &MemoryLook) -> Option<u32> {
        let live = look.live?;
        let least = self.least.map_or(live, |least| least.min(live));
        self.least = Some(least);
        let young = look.counts[0];
        let sudden = look.resident.share(SHARE).max(LEAST) * (1 << self.doublings);
        if young == 0 || live <= least + sudden {
            return None;
        }
        self.asked.get_or_insert((live, least));
        // None at all would switch collections off.
        Some((young - 1).clamp(1, look.own.max(1)))
    }

    /// A collection has ended: one that was asked for has been in vain where most of the growth is still there.
    fn learn(&mut self, live: Option<Bytes>) {
        let Some(((at, least), live)) = self.asked.take().zip(live) else { return };
        let in_vain = at.saturating_sub(live).as_f64() < 0.5 * (at - least).as_f64();
        self.doublings = if in_vain { (self.doublings + 1).min(MOST_DOUBLINGS) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MB: Bytes = Bytes::mebibytes(1);

    /// A look at a program of which threads saw 100 MB.
    fn look(resident: u64, young: u32, live: Option<u64>) -> MemoryLook {
        MemoryLook {
            resident: MB * resident,
            seen: MB * 100,
            live: live.map(|live| MB * live),
            left: None,
            aligned: false,
            counts: [young, 3, 1],
            own: 700,
            threshold: 10_000,
        }
    }

    /// What is said at the second look, after the first one at 100 MB with 80 of them allocated.
    fn check(resident: u64, young: u32, live: Option<u64>, expect: Option<u32>) {
        let mut growth = SuddenGrowth::default();
        assert_eq!(growth.threshold(&look(100, 0, live.map(|_| 80))), None);
        assert_eq!(growth.threshold(&look(resident, young, live)), expect, "{resident} {young} {live:?}");
    }

    #[test]
    fn many_objects_are_collected_where_cpython_would() {
        check(120, 701, None, Some(700));
        check(120, 701, Some(100), Some(700));
        check(110, 701, None, None);
    }

    #[test]
    fn ranks_that_share_steps_wait_for_more() {
        let aligned = |resident| {
            let look = MemoryLook { aligned: true, ..look(resident, 701, None) };
            SuddenGrowth::default().threshold(&look)
        };
        assert_eq!((aligned(220), aligned(230)), (None, Some(700)));
    }

    #[test]
    fn few_objects_are_collected_only_where_bytes_are_counted() {
        check(120, 5, None, None);
        check(120, 5, Some(100), Some(4));
        check(120, 1, Some(100), Some(1));
        check(120, 0, Some(100), None);
    }

    #[test]
    fn free_memory_that_is_used_again_counts() {
        check(100, 5, Some(100), Some(4));
    }

    #[test]
    fn pages_that_are_touched_late_say_nothing() {
        check(200, 5, Some(85), None);
    }

    #[test]
    fn a_threshold_is_never_raised() {
        let mut growth = SuddenGrowth::default();
        let at = |live| MemoryLook { threshold: 3, ..look(150, 600, Some(live)) };
        assert_eq!((growth.threshold(&at(80)), growth.threshold(&at(150))), (None, None));
    }

    #[test]
    fn without_the_callback_the_threshold_is_put_back_here_and_growth_counts_from_look_to_look() {
        let mut growth = SuddenGrowth::default();
        let left = Some(MB * 80);
        let at = |live, collections, threshold| MemoryLook {
            left,
            counts: [9, collections, 0],
            threshold,
            ..look(100, 9, Some(live))
        };
        assert_eq!(growth.threshold(&at(80, 1, 700)), None);
        assert_eq!(growth.threshold(&at(100, 1, 700)), Some(8));
        // CPython has collected at each ninth object since then, and no callback has raised the threshold.
        assert_eq!(growth.threshold(&at(104, 5, 8)), Some(700));
        let asked = (6..60).filter(|look| growth.threshold(&at(100 + u64::from(*look), *look, 700)).is_some());
        assert_eq!(asked.count(), 0);
        // The callback is back.
        let told = MemoryLook { left: Some(MB * 150), ..at(160, 60, 700) };
        assert_eq!(growth.threshold(&told), None);
        assert_eq!(growth.threshold(&MemoryLook { left: Some(MB * 150), ..at(250, 60, 700) }), Some(8));
    }

    #[test]
    fn what_stays_alive_is_asked_about_less_often() {
        let (mut growth, mut asked) = (SuddenGrowth::default(), 0);
        // From 100 to 1,100 MB, and all of it is alive.
        for more in 0..1_000 {
            let seen = MemoryLook { counts: [9, asked, 0], ..look(100 + more, 9, Some(80 + more)) };
            asked += u32::from(growth.threshold(&seen).is_some());
        }
        assert!((6..=14).contains(&asked), "{asked}");
    }

    proptest! {
        /// Cycles of a few objects hold much memory and die at once. What they hold stays below what is sudden, and what is
        /// allocated between looks.
        #[test]
        fn garbage_of_few_objects_is_bounded(
            base in 20_u64..2_000, each in 1_u64..40, between in 1_u64..200, looks in 100_usize..400, told in any::<bool>(),
        ) {
            let mut growth = SuddenGrowth::default();
            let (mut garbage, mut young, mut collections, mut threshold, mut resident) = (0, 0, 0_u32, 700, base);
            let mut most = 0;
            for _ in 0..looks {
                for _ in 0..between.div_ceil(each) {
                    (young, garbage) = (young + 1, garbage + each);
                    most = most.max(garbage);
                    // What was resident once stays.
                    resident = resident.max(base + garbage);
                    if young > threshold {
                        (young, garbage, collections, threshold) = (0, 0, collections + 1, 700);
                    }
                }
                let seen = MemoryLook {
                    resident: MB * resident,
                    seen: MB * resident,
                    live: Some(MB * (base + garbage)),
                    left: (told && collections > 0).then_some(MB * base),
                    aligned: false,
                    counts: [young, collections, 0],
                    own: 700,
                    threshold,
                };
                threshold = growth.threshold(&seen).unwrap_or(threshold);
            }
            // Two looks: one that comes late after a collection, whose memory counts as what is left, and one that is just
            // below the limit. The next object collects; a doubling is due to chance at most once. Where collections tell
            // what they leave there is neither a late look nor a doubling.
            let one_look = between + each;
            let sudden = ((base + most) as f64 * SHARE).max(16.0);
            let (times, looks) = if told { (1.0, 2.0) } else { (2.0, 3.0) };
            let bound = times * sudden + looks * one_look as f64 + 2.0 * each as f64;
            prop_assert!(most as f64 <= bound, "{most} MB above {base}, {one_look} in a look");
        }

        /// Where bytes are not counted, it is the rule by numbers and nothing else.
        #[test]
        fn without_bytes_only_numbers_count(resident in 1_u64..4_000, young in 0_u32..3_000, before in 0_u64..4_000) {
            let mut growth = SuddenGrowth::default();
            let of = |resident| MemoryLook { seen: MB * before, ..look(resident, young, None) };
            growth.threshold(&of(before));
            let grown = before > 0 && resident as f64 > before as f64 + (before as f64 * SHARE).max(16.0);
            prop_assert_eq!(growth.threshold(&of(resident)), (grown && young > 700).then_some(700));
        }
    }
}
