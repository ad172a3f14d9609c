//! The collector's lists, for a caller that holds the GIL: what may be spliced, held back and set aside.

use std::marker::PhantomData;

use pyo3::Python;

use super::collector::Collector;
use super::layout::Layout;

/// `PyGC_Head`, which stands before every object that the collector tracks, and at the head of every generation.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct GcHead {
    pub(crate) next: usize,
    /// Its low bits are flags.
    pub(crate) previous: usize,
}

impl GcHead {
    /// The flags in the low bits of `previous`.
    pub(crate) const FLAGS: usize = 3;

    /// Bytes between the head and its object.
    pub(crate) const SIZE: usize = size_of::<Self>();
}

/// The four lists of an interpreter while the GIL is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generations<'py> {
    address: usize,
    layout: &'static Layout,
    /// Proof that this thread holds the GIL: no other thread changes the lists meanwhile.
    gil: PhantomData<Python<'py>>,
}

/// The youngest, the middle and the oldest one.
const YOUNG: usize = 0;
const MIDDLE: usize = 1;
const OLD: usize = 2;

impl Collector {
    /// The lists, which are those of the main interpreter: the token must be, too.
    pub(crate) fn generations(self, _: Python<'_>) -> Generations<'_> {
        Generations { address: self.address(), layout: self.layout(), gil: PhantomData }
    }
}

impl Generations<'_> {
    /// Whether a collection is running, which may be in another thread that waits for the GIL in a finalizer.
    pub(crate) fn is_collecting(self) -> bool {
        // SAFETY: the self-check has found this struct to be laid out so; it lives while the interpreter does.
        unsafe { *((self.address + self.layout.gc_collecting) as *const i32) != 0 }
    }

    /// CPython keeps a collection from beginning while one runs by this flag. In the callback that tells of the end of a
    /// collection its lists are in order again and nothing but the flag keeps another one from running.
    pub(crate) fn set_collecting(self, collecting: bool) {
        // SAFETY: as in `is_collecting`; it is a plain number that only threads with the GIL use.
        unsafe { *((self.address + self.layout.gc_collecting) as *mut i32) = i32::from(collecting) };
    }

    /// The heads in the order in which a full collection strings its objects together, then the frozen ones.
    pub(crate) fn heads(self) -> [usize; 4] {
        [self.head(OLD), self.head(YOUNG), self.head(MIDDLE), self.address + self.layout.gc_permanent_generation]
    }

    /// The first and the last frozen object.
    pub(crate) fn frozen_ends(self) -> (usize, usize) {
        let head = (self.address + self.layout.gc_permanent_generation) as *const GcHead;
        // SAFETY: as in `is_collecting`: it is the head of a list.
        unsafe { ((*head).next, (*head).previous) }
    }

    /// Makes everything old, as a full collection does, without a look at any object: collections of the younger
    /// generations then leave alone what is there now.
    pub(crate) fn make_all_old(self) {
        // SAFETY: both are heads of well-formed lists of this interpreter, and the GIL is held.
        unsafe {
            merge(self.head(MIDDLE) as *mut GcHead, self.head(OLD) as *mut GcHead);
            merge(self.head(YOUNG) as *mut GcHead, self.head(OLD) as *mut GcHead);
        }
        self.set_pending(self.pending() + self.young_count().max(0) as isize);
        self.set_count(YOUNG, 0);
        self.set_count(MIDDLE, 0);
    }

    /// Moves the last of the young objects to the end of the old ones, where there is one.
    pub(crate) fn make_last_old(self) {
        // SAFETY: as in `make_all_old`.
        unsafe { move_last(self.head(YOUNG) as *mut GcHead, self.head(OLD) as *mut GcHead) };
    }

    /// The counters by generation, as CPython compares them with its thresholds.
    pub(crate) fn counts(self) -> [u32; 3] {
        [YOUNG, MIDDLE, OLD].map(|generation| self.count(generation).max(0) as u32)
    }

    /// Net allocations since the last young collection.
    pub(crate) fn young_count(self) -> i32 {
        self.count(YOUNG)
    }

    /// Objects that wait for their first full collection. A full collection makes this zero.
    pub(crate) fn pending(self) -> isize {
        // SAFETY: as in `is_collecting`.
        unsafe { *((self.address + self.layout.gc_long_lived_pending) as *const isize) }
    }

    /// CPython begins no full collection by itself before a quarter of the tenured objects is pending.
    pub(crate) fn set_pending(self, pending: isize) {
        // SAFETY: as in `is_collecting`; it is a plain number.
        unsafe { *((self.address + self.layout.gc_long_lived_pending) as *mut isize) = pending };
    }

    /// Objects that the last full collection left.
    pub(crate) fn total(self) -> isize {
        // SAFETY: as in `is_collecting`.
        unsafe { *((self.address + self.layout.gc_long_lived_total) as *const isize) }
    }

    /// Notes what a full collection by other means has left.
    pub(crate) fn set_total(self, total: isize) {
        // SAFETY: as in `set_pending`.
        unsafe { *((self.address + self.layout.gc_long_lived_total) as *mut isize) = total };
        self.set_count(OLD, 0);
    }

    /// Empties the youngest generation into `aside`, so that a young collection sees only what is put there next.
    ///
    /// # Safety
    /// `aside` must stay where it is until `bring_back` has been called with it.
    pub(crate) unsafe fn set_aside(self, aside: *mut GcHead) -> Aside {
        // SAFETY: the caller's promise, and both are heads of lists.
        unsafe {
            (*aside).next = aside as usize;
            (*aside).previous = aside as usize;
            merge(self.head(YOUNG) as *mut GcHead, aside);
        }
        Aside { young: self.count(YOUNG), middle: self.count(MIDDLE) }
    }

    /// Puts the objects of `set_aside` back before those that have come since, and the counts with them.
    ///
    /// # Safety
    /// `aside` must be what `set_aside` has filled.
    pub(crate) unsafe fn bring_back(self, aside: *mut GcHead, counts: Aside) {
        let young = self.head(YOUNG) as *mut GcHead;
        // SAFETY: the caller's promise: both are heads of well-formed lists.
        unsafe {
            merge(young, aside);
            merge(aside, young);
        }
        self.set_count(YOUNG, self.count(YOUNG).saturating_add(counts.young));
        self.set_count(MIDDLE, counts.middle);
    }

    /// The same in a forked child, for objects that a thread of the parent had set aside: the thread and its counts are
    /// gone.
    ///
    /// # Safety
    /// `aside` must be what `set_aside` has filled.
    pub(crate) unsafe fn bring_back_in_child(self, aside: *mut GcHead) {
        // SAFETY: the caller's promise: both are heads of well-formed lists.
        unsafe { merge(aside, self.head(YOUNG) as *mut GcHead) };
    }

    fn head(self, generation: usize) -> usize {
        self.address + self.layout.gc_generations + generation * self.layout.gc_generation_size
    }

    fn count(self, generation: usize) -> i32 {
        // SAFETY: as in `is_collecting`.
        unsafe { *((self.head(generation) + self.layout.gc_generation_count) as *const i32) }
    }

    fn set_count(self, generation: usize, count: i32) {
        // SAFETY: as in `set_pending`.
        unsafe { *((self.head(generation) + self.layout.gc_generation_count) as *mut i32) = count };
    }
}

/// The counts of the two younger generations before a collection that they shall not notice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aside {
    young: i32,
    middle: i32,
}

/// Appends a list to another one; the first is empty afterwards.
///
/// # Safety
/// Both must be heads of well-formed lists that no other thread uses now.
unsafe fn merge(from: *mut GcHead, to: *mut GcHead) {
    // SAFETY: the caller's promise: every pointer in a well-formed list is that of a head.
    unsafe {
        let (first, last) = ((*from).next as *mut GcHead, (*from).previous as *mut GcHead);
        if first == from {
            return;
        }
        let tail = (*to).previous as *mut GcHead;
        (*tail).next = first as usize;
        (*first).previous = ((*first).previous & GcHead::FLAGS) | tail as usize;
        (*last).next = to as usize;
        (*to).previous = last as usize;
        (*from).next = from as usize;
        (*from).previous = from as usize;
    }
}

/// Moves the last member of a list, if there is one, to the end of another one.
///
/// # Safety
/// As in `merge`.
unsafe fn move_last(from: *mut GcHead, to: *mut GcHead) {
    // SAFETY: the caller's promise, as in `merge`.
    unsafe {
        let last = (*from).previous as *mut GcHead;
        if last == from {
            return;
        }
        let before = ((*last).previous & !GcHead::FLAGS) as *mut GcHead;
        (*before).next = from as usize;
        (*from).previous = before as usize;
        let tail = (*to).previous as *mut GcHead;
        (*tail).next = last as usize;
        *last = GcHead { next: to as usize, previous: ((*last).previous & GcHead::FLAGS) | tail as usize };
        (*to).previous = last as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(members: &mut [GcHead]) {
        let addresses: Vec<usize> = members.iter().map(|head| head as *const GcHead as usize).collect();
        let count = members.len();
        for (index, head) in members.iter_mut().enumerate() {
            head.next = addresses[(index + 1) % count];
            head.previous = addresses[(index + count - 1) % count] | usize::from(index > 0);
        }
    }

    fn length(head: &GcHead) -> usize {
        let start = head as *const GcHead as usize;
        let (mut at, mut count) = (head.next, 0);
        while at != start {
            count += 1;
            // SAFETY: the tests make well-formed lists.
            at = unsafe { (*(at as *const GcHead)).next };
        }
        count
    }

    fn heads(count: usize) -> Vec<GcHead> {
        (0..count).map(|_| GcHead { next: 0, previous: 0 }).collect()
    }

    #[test]
    fn merging_moves_all_members_and_keeps_their_flags() {
        let (mut from, mut to) = (heads(3), heads(4));
        list(&mut from);
        list(&mut to);
        // SAFETY: both are well-formed lists of this test.
        unsafe { merge(&raw mut from[0], &raw mut to[0]) };
        assert_eq!((length(&from[0]), length(&to[0])), (0, 5));
        assert_eq!(from[1].previous, &raw const to[3] as usize | 1);
        assert_eq!(to[0].previous, &raw const from[2] as usize);
    }

    #[test]
    fn the_last_one_moves_alone_and_keeps_its_flags() {
        let (mut from, mut to) = (heads(3), heads(4));
        list(&mut from);
        list(&mut to);
        // SAFETY: both are well-formed lists of this test.
        unsafe { move_last(&raw mut from[0], &raw mut to[0]) };
        assert_eq!((length(&from[0]), length(&to[0])), (1, 4));
        assert_eq!(from[2].previous, &raw const to[3] as usize | 1);
        assert_eq!((to[0].previous, from[0].previous), (&raw const from[2] as usize, &raw const from[1] as usize));
        // SAFETY: as above.
        unsafe { [(); 2].iter().for_each(|()| move_last(&raw mut from[0], &raw mut to[0])) };
        assert_eq!((length(&from[0]), length(&to[0])), (0, 5));
    }

    #[test]
    fn merging_nothing_changes_nothing() {
        let (mut from, mut to) = (heads(1), heads(2));
        list(&mut from);
        list(&mut to);
        // SAFETY: both are well-formed lists of this test.
        unsafe { merge(&raw mut from[0], &raw mut to[0]) };
        assert_eq!((length(&from[0]), length(&to[0])), (0, 1));
    }
}
