//! The memory of one device at the ends of steps: the latest in full, the whole run folded to a fixed size.

use std::collections::VecDeque;

/// Steps that are kept in full, and points that the whole run is folded to.
const RECENT: usize = 256;
const FOLDED: usize = 256;

/// The memory of a device at the end of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepFigures {
    /// The number of the step.
    pub step: u64,
    /// When it ended, in seconds.
    pub at_s: f64,
    /// Bytes in use.
    pub allocated: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Bytes that the allocator has taken.
    pub reserved: u64,
    /// Free pieces of segments in use.
    pub inactive: u64,
    /// Retries of the allocator so far.
    pub retries: u64,
}

impl StepFigures {
    /// The lowest of both: what comes and goes within steps does not count.
    fn lower(self, other: Self) -> Self {
        let (low, late) = if other.allocated < self.allocated { (other, other) } else { (self, other) };
        Self {
            step: late.step.max(self.step),
            at_s: late.at_s.max(self.at_s),
            blocks: self.blocks.min(other.blocks),
            inactive: self.inactive.min(other.inactive),
            retries: self.retries.max(other.retries),
            ..low
        }
    }
}

/// The steps of one device. It takes 30 KB and never more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSeries {
    recent: VecDeque<StepFigures>,
    folded: Vec<StepFigures>,
    /// How many steps each folded point is the lowest of, and the one that is being made.
    stride: u64,
    open: Option<(StepFigures, u64)>,
}

impl StepSeries {
    /// Adds the end of a step.
    pub fn push(&mut self, figures: StepFigures) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(figures);
        let (low, count) = self.open.map_or((figures, 1), |(low, count)| (low.lower(figures), count + 1));
        if count < self.stride.max(1) {
            self.open = Some((low, count));
            return;
        }
        self.open = None;
        self.folded.push(low);
        if self.folded.len() == FOLDED {
            self.folded = self.folded.chunks(2).map(|pair| pair[0].lower(pair[pair.len() - 1])).collect();
            self.stride = 2 * self.stride.max(1);
        }
    }

    /// The latest steps, the oldest first.
    #[must_use]
    pub fn recent(&self) -> Vec<StepFigures> {
        self.recent.iter().copied().collect()
    }

    /// The whole run, in at most 256 points.
    #[must_use]
    pub fn whole(&self) -> &[StepFigures] {
        &self.folded
    }

    /// The latest step.
    #[must_use]
    pub fn last(&self) -> Option<StepFigures> {
        self.recent.back().copied()
    }
}
