//! The sums of a counted section: what lives, the most that lived at a time, and which stacks held it then.
//!
//! A stack's bytes at the peak are not copied when a peak is reached, which would take a pass over all stacks. Peaks are
//! numbered, and a stack remembers the last one that it knows of. When its bytes change after a later peak, they are
//! first noted as those at that peak: they have not changed since.

/// What one stack has allocated. All zeros are a stack that has allocated nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StackCount {
    pub(super) live: i64,
    pub(super) live_blocks: i64,
    pub(super) made: u64,
    pub(super) made_blocks: u64,
    at_peak: i64,
    blocks_at_peak: i64,
    /// The last peak that the two above are of.
    peak: u64,
}

impl StackCount {
    /// Bytes and blocks that lived at the last peak.
    pub(super) fn at_peak(&self, totals: &SectionTotals) -> (i64, i64) {
        if self.peak < totals.peaks { (self.live, self.live_blocks) } else { (self.at_peak, self.blocks_at_peak) }
    }

    fn change(&mut self, totals: &SectionTotals, bytes: i64, blocks: i64) {
        if self.peak < totals.peaks {
            (self.at_peak, self.blocks_at_peak, self.peak) = (self.live, self.live_blocks, totals.peaks);
        }
        self.live += bytes;
        self.live_blocks += blocks;
    }
}

/// The sums of all stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SectionTotals {
    pub(super) live: i64,
    pub(super) peak: i64,
    pub(super) made: u64,
    pub(super) made_blocks: u64,
    /// How many peaks there were, each higher than the one before.
    peaks: u64,
}

impl SectionTotals {
    pub(super) const fn new() -> Self {
        Self { live: 0, peak: 0, made: 0, made_blocks: 0, peaks: 0 }
    }

    /// A stack has allocated a block.
    pub(super) fn add(&mut self, stack: &mut StackCount, size: u64) {
        stack.change(self, size as i64, 1);
        stack.made += size;
        stack.made_blocks += 1;
        self.made += size;
        self.made_blocks += 1;
        self.live += size as i64;
        if self.live > self.peak {
            self.peak = self.live;
            self.peaks += 1;
        }
    }

    /// A block that a stack has allocated is freed.
    pub(super) fn remove(&mut self, stack: &mut StackCount, size: u64) {
        stack.change(self, -(size as i64), -1);
        self.live -= size as i64;
    }

    /// A block that was counted a moment ago, by an allocator further below, is counted again from above.
    pub(super) fn correct(&mut self, stack: &mut StackCount, size: u64) {
        self.remove(stack, size);
        stack.made -= size;
        stack.made_blocks -= 1;
        self.made -= size;
        self.made_blocks -= 1;
    }

    /// From now on the peak is that of what follows.
    pub(super) fn begin_anew(&mut self) {
        self.peak = self.live;
        self.peaks += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_at_the_peak_are_as_copied_there() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..300 {
            let (mut totals, mut stacks) = (SectionTotals::new(), [StackCount::default(); 4]);
            let (mut copied, mut highest) = ([0; 4], 0);
            for _ in 0..random(200) {
                let stack = &mut stacks[random(4) as usize];
                let size = random(50);
                if random(5) < 3 {
                    totals.add(stack, size)
                } else {
                    totals.remove(stack, size)
                }
                if totals.live > highest {
                    highest = totals.live;
                    copied = stacks.map(|stack| stack.live);
                }
            }
            assert_eq!(totals.peak, highest);
            assert_eq!(stacks.map(|stack| stack.at_peak(&totals).0), copied);
        }
    }

    #[test]
    fn a_new_beginning_forgets_the_peak_before() {
        let (mut totals, mut stack) = (SectionTotals::new(), StackCount::default());
        totals.add(&mut stack, 100);
        totals.remove(&mut stack, 100);
        totals.begin_anew();
        totals.add(&mut stack, 30);
        totals.remove(&mut stack, 10);
        assert_eq!((totals.live, totals.peak, stack.at_peak(&totals)), (20, 30, (30, 1)));
    }
}
