//! What a snapshot has found, while it is being freed: which components are next, and which are too large for a slice.

use std::ops::Range;
use std::sync::atomic::Ordering;

use neurogc_policy::Scope;

use super::control::{Candidate, Shared};
use super::pools::Pools;
use crate::cpython::collector::Collector;
use crate::cpython::generations::GcHead;

/// So many candidates have their pools noted with each slice, beside its own.
const NOTED_AHEAD: usize = 20_000;

/// The candidates that are left.
#[derive(Debug)]
pub(super) struct Harvest {
    pub(super) shared: Shared,
    pub(super) collector: Collector,
    /// The component that comes next, and its first candidate.
    component: usize,
    candidate: usize,
    /// Components that were too large for the slice that came to them.
    postponed: Vec<Range<usize>>,
    left: usize,
    components_left: usize,
    largest: usize,
    pub(super) freed: usize,
    /// What was walked, and how many full collections there had been when it was cloned.
    pub(super) scope: Scope,
    pub(super) full: u64,
    /// Where small candidates lie, of the first so many candidates.
    pub(super) pools: Pools,
    noted: usize,
}

/// What may be freed at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portion {
    /// Objects, all components together.
    pub(super) most: usize,
    /// Whether a single component may be larger than that.
    pub(super) whole: bool,
}

impl Harvest {
    pub(super) fn new(shared: Shared, collector: Collector, scope: Scope, full: u64) -> Self {
        let (candidates, components) = shared.found();
        let (left, components_left) = (candidates.len(), components.len());
        let largest = shared.control().largest.load(Ordering::Relaxed) as usize;
        Self {
            shared,
            collector,
            component: 0,
            candidate: 0,
            postponed: Vec::new(),
            left,
            components_left,
            largest,
            freed: 0,
            scope,
            full,
            pools: Pools::default(),
            noted: 0,
        }
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    pub(super) fn components(&self) -> usize {
        self.components_left
    }

    /// The size of the largest component that is left, or a little more.
    pub(super) fn largest(&self) -> usize {
        let passed = self.postponed.iter().map(Range::len).max().unwrap_or(0);
        if self.component < self.shared.found().1.len() { self.largest } else { passed }
    }

    /// Whether only components are left that were too large for the slices that came to them.
    pub(super) fn only_large(&self) -> bool {
        self.component >= self.shared.found().1.len() && !self.postponed.is_empty()
    }

    pub(super) fn candidates(&self, range: Range<usize>) -> &[Candidate] {
        self.shared.found().0.get(range).unwrap_or(&[])
    }

    /// Notes the pools of some more candidates: neighbours of a slice's candidates lie in the pools of later ones.
    pub(super) fn note_ahead(&mut self, pools: &mut Pools) {
        let until = (self.noted + NOTED_AHEAD).min(self.shared.found().0.len());
        let candidates = self.candidates(self.noted..until);
        let small = candidates.iter().filter(|candidate| candidate.is_small());
        small.for_each(|candidate| pools.note(candidate.object() - GcHead::SIZE));
        self.noted = until;
    }

    /// Takes whole components out, as many as the portion allows. One that is too large waits until a portion that may
    /// be whole finds nothing smaller, and then comes alone.
    pub(super) fn take(&mut self, portion: Portion) -> Vec<Range<usize>> {
        let sizes = self.shared.found().1.len();
        let (mut taken, mut count) = (Vec::<Range<usize>>::new(), 0);
        while self.component < sizes {
            let size = self.shared.found().1.get(self.component).map_or(0, |size| *size as usize);
            let range = self.candidate..self.candidate + size;
            if size > portion.most {
                self.postponed.push(range.clone());
            } else if count + size > portion.most {
                break;
            } else {
                count += size;
                self.components_left -= 1;
                match taken.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => taken.push(range.clone()),
                }
            }
            self.component += 1;
            self.candidate = range.end;
        }
        // Portions may have grown since it was put off.
        self.postponed.retain(|range| {
            let fits = count + range.len() <= portion.most;
            if fits {
                count += range.len();
                self.components_left -= 1;
                taken.push(range.clone());
            }
            !fits
        });
        if taken.is_empty()
            && portion.whole
            && let Some(range) = self.postponed.pop()
        {
            count += range.len();
            self.components_left -= 1;
            taken.push(range);
        }
        self.left = self.left.saturating_sub(count);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harvest(sizes: &[u32]) -> Harvest {
        let total: u32 = sizes.iter().sum();
        let Some(shared) = Shared::new(total as usize + 1) else { panic!("no memory") };
        for (number, size) in sizes.iter().enumerate() {
            // SAFETY: there is room for more components than candidates.
            unsafe { *shared.sizes().add(number) = *size };
        }
        let control = shared.control();
        control.candidates.store(u64::from(total), Ordering::Relaxed);
        control.components.store(sizes.len() as u64, Ordering::Relaxed);
        control.largest.store(u64::from(sizes.iter().copied().max().unwrap_or(0)), Ordering::Relaxed);
        Harvest::new(shared, Collector::nowhere(), Scope::All, 0)
    }

    fn check(harvest: &mut Harvest, most: usize, whole: bool, expected: &[(usize, usize)]) {
        let taken = harvest.take(Portion { most, whole });
        assert_eq!(taken.iter().map(|range| (range.start, range.end)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn components_stay_whole_and_neighbours_come_together() {
        let mut harvest = harvest(&[2, 3, 2, 4]);
        check(&mut harvest, 6, false, &[(0, 5)]);
        assert_eq!((harvest.left(), harvest.components()), (6, 2));
        check(&mut harvest, 6, false, &[(5, 11)]);
        check(&mut harvest, 6, true, &[]);
        assert_eq!((harvest.left(), harvest.components()), (0, 0));
    }

    #[test]
    fn a_large_component_waits_and_then_comes_alone() {
        let mut harvest = harvest(&[2, 100, 2]);
        check(&mut harvest, 10, true, &[(0, 2), (102, 104)]);
        assert_eq!((harvest.left(), harvest.largest()), (100, 100));
        check(&mut harvest, 10, false, &[]);
        check(&mut harvest, 10, true, &[(2, 102)]);
        assert_eq!((harvest.left(), harvest.largest()), (0, 0));
    }

    #[test]
    fn a_larger_portion_takes_what_was_put_off() {
        let mut harvest = harvest(&[50, 2]);
        check(&mut harvest, 10, false, &[(50, 52)]);
        check(&mut harvest, 60, false, &[(0, 50)]);
    }
}
