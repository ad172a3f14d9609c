//! Whether walks of new objects are worth it: they are short, but objects that die late are only found by walks of
//! everything.

/// Where a walk of everything finds so many rooms, they may lie among the new objects. Where a walk of new objects finds so
/// many, or so many among those that it looks at, it was worth it.
const MUCH: f64 = 0.4;
const ENOUGH: (f64, f64) = (0.4, 0.25);

/// Where there is no memory for walks of everything, so many rooms will do.
const ENOUGH_WHERE_TIGHT: f64 = 0.1;

/// So many may follow each other. Only a walk of everything knows how many objects there are: what old ones do is not seen
/// until then.
const IN_A_ROW: u32 = 256;
const FEW: u32 = 2;

/// They rest for two walks of everything after one in vain, and twice as long after each further one, up to two to this
/// power.
const REST_MOST: u32 = 5;

/// How walks of new objects have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NewWalks {
    may_pay: bool,
    has_paid: bool,
    /// Whether one was tried. The first one is, as soon as there is garbage, or no memory for a walk of everything.
    tried: bool,
    /// Whether there is no memory for walks of everything.
    tight: bool,
    /// Walks of everything until another one is tried, and how often in a row one was in vain.
    rests: u32,
    in_vain: u32,
    /// How many there were since the last walk of everything.
    in_a_row: u32,
}

impl NewWalks {
    /// Whether the next walk may be one.
    pub(super) fn may_pay(self) -> bool {
        self.may_pay && self.in_a_row < IN_A_ROW
    }

    /// Whether the last one was worth it.
    pub(super) fn has_paid(self) -> bool {
        self.has_paid
    }

    /// Whether there were only a few since a walk of everything.
    pub(super) fn have_just_begun(self) -> bool {
        self.in_a_row <= FEW
    }

    /// A walk of everything, or a full collection, has found so many rooms of garbage, which was poor, or not.
    pub(super) fn walked_all(&mut self, found: f64, poor: bool) {
        self.may_pay |= self.rests == 0 && (found >= MUCH || !(poor || self.tried));
        self.rests = self.rests.saturating_sub(1);
        self.in_a_row = 0;
    }

    /// The next walk shall be one of everything, if there is memory for it.
    pub(super) fn rest_once(&mut self) {
        if !self.tight {
            self.in_a_row = IN_A_ROW;
        }
    }

    /// Takes note of whether there is memory for walks of everything.
    pub(super) fn note_memory(&mut self, tight: bool) {
        self.tight = tight;
    }

    /// Whether there is no memory for others.
    pub(super) fn are_all_there_is(self) -> bool {
        self.tight
    }

    /// There is no memory for a walk of everything. True if the next one should be one of new objects instead.
    pub(super) fn may_stand_in(&mut self) -> bool {
        let may = !self.may_pay && !self.tried;
        (self.may_pay, self.tried) = (self.may_pay || may, true);
        may
    }

    /// A walk of new objects has, which were this share of those that it looked at.
    pub(super) fn walked_new(&mut self, found: f64, share: f64) {
        self.in_a_row += 1;
        self.tried = true;
        if found >= ENOUGH.0 || share >= ENOUGH.1 || (self.tight && found >= ENOUGH_WHERE_TIGHT) {
            (self.may_pay, self.has_paid, self.in_vain, self.rests) = (true, true, 0, 0);
        } else {
            self.in_vain();
        }
    }

    /// The last one was not worth it.
    pub(super) fn in_vain(&mut self) {
        (self.may_pay, self.has_paid) = (false, false);
        self.in_vain = (self.in_vain + 1).min(REST_MOST);
        self.rests = 1 << self.in_vain;
    }
}
