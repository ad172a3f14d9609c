//! What of CPython's state is displaced for the time being, and how it is given back.
//!
//! Whatever ends the agent's work in a process (uninstall, the program setting thresholds itself, an error, the end of
//! its threads) repays here. A forked child repays what threads of its parent owed that do not exist in it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use neurogc_policy::Thresholds;

use super::vm::Vm;
use crate::sys::locks::lock;

/// The loans of one process. Only threads that hold the GIL take and repay them, and none lets go of the GIL meanwhile, so no
/// forked child finds a lock taken.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    /// The program's own thresholds, while ours are in force.
    thresholds: Mutex<Option<Thresholds>>,
    /// The first of them, for threads without the GIL; zero while the program's own are in force.
    own_young: AtomicU32,
    /// The policy has frozen the heap, which the program had not done.
    froze: AtomicBool,
    /// How many objects were frozen before the policy came; CPython 3.12 freezes some itself.
    frozen_before: AtomicU64,
}

impl Loans {
    /// Puts other thresholds in force, remembering those of the program.
    pub(crate) fn set_thresholds(&self, vm: &impl Vm, thresholds: Thresholds) -> Result<(), String> {
        let now = vm.thresholds()?;
        let own = *lock(&self.thresholds).get_or_insert(now);
        self.own_young.store(own[0], Ordering::SeqCst);
        if now != thresholds { vm.set_thresholds(thresholds) } else { Ok(()) }
    }

    /// Takes the thresholds as they are: a thread without the GIL may lower the first one from now on, also in a program that
    /// does not come to a moment for a long time.
    pub(crate) fn take_thresholds(&self, vm: &impl Vm) -> Result<(), String> {
        self.set_thresholds(vm, vm.thresholds()?)
    }

    /// The program's own thresholds, where others are in force.
    pub(crate) fn thresholds(&self) -> Option<Thresholds> {
        *lock(&self.thresholds)
    }

    /// The program's own threshold for young objects, where another one may be in force. Any thread may ask.
    pub(crate) fn own_young(&self) -> Option<u32> {
        Some(self.own_young.load(Ordering::SeqCst)).filter(|own| *own > 0)
    }

    /// Freezes the heap.
    pub(crate) fn freeze(&self, vm: &impl Vm) -> Result<(), String> {
        let frozen = vm.frozen();
        vm.freeze()?;
        // What an earlier order has frozen stays a loan.
        self.froze.fetch_or(frozen <= self.frozen_before.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(())
    }

    /// Takes note of what is frozen before the policy acts.
    pub(crate) fn note_frozen(&self, vm: &impl Vm) {
        self.frozen_before.store(vm.frozen(), Ordering::Relaxed);
    }

    /// Gives everything back.
    pub(crate) fn repay(&self, vm: &impl Vm) -> Result<(), String> {
        let thawed = if self.froze.swap(false, Ordering::Relaxed) { vm.unfreeze() } else { Ok(()) };
        // First: a thread that has lowered a threshold meanwhile sees this, or its number is overwritten below.
        self.own_young.store(0, Ordering::SeqCst);
        let thresholds = lock(&self.thresholds).take();
        thresholds.map_or(Ok(()), |thresholds| vm.set_thresholds(thresholds)).and(thawed)
    }

    /// Another policy comes into force, which may want other thresholds: the program has its own until then. They stay a loan: a
    /// thread without the GIL may be about to lower the first one, and what it writes must not pass for the program's own.
    pub(crate) fn hand_over(&self, vm: &impl Vm) -> Result<(), String> {
        let thawed = if self.froze.swap(false, Ordering::Relaxed) { vm.unfreeze() } else { Ok(()) };
        self.thresholds().map_or(Ok(()), |own| vm.set_thresholds(own)).and(thawed)
    }

    /// The loans of a forked child, where CPython is as it was in the parent.
    pub(crate) fn in_child(&self) -> Self {
        let loans = Self::default();
        *lock(&loans.thresholds) = self.thresholds();
        loans.own_young.store(self.own_young.load(Ordering::SeqCst), Ordering::SeqCst);
        loans.froze.store(self.froze.load(Ordering::Relaxed), Ordering::Relaxed);
        loans.frozen_before.store(self.frozen_before.load(Ordering::Relaxed), Ordering::Relaxed);
        loans
    }
}

/// In a forked child: `collecting` is the thread that was in a collection, or in the order that followed it, when the
/// process was forked, if one was. Where it is another one than the calling thread it does not exist here, and its
/// collection never ends.
pub(crate) fn repay_collecting(vm: &impl Vm, collecting: Option<usize>) {
    if vm.is_collecting() && collecting.is_some_and(|thread| thread != vm.thread()) {
        vm.set_collecting(false);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Rig;
    use super::*;

    const OWN: Thresholds = [700, 10, 10];

    #[test]
    fn the_program_s_own_thresholds_come_back() {
        let (rig, loans) = (Rig::new(1_000), Loans::default());
        let vm = rig.vm(1);
        for young in [5_000, 9_000] {
            assert_eq!(loans.set_thresholds(&vm, [young, 10, 10]), Ok(()));
        }
        assert_eq!((loans.thresholds(), vm.thresholds()), (Some(OWN), Ok([9_000, 10, 10])));
        assert_eq!((loans.own_young(), loans.in_child().own_young()), (Some(700), Some(700)));
        assert_eq!(loans.repay(&vm), Ok(()));
        assert_eq!((loans.thresholds(), loans.own_young(), vm.thresholds()), (None, None, Ok(OWN)));
    }

    #[test]
    fn thresholds_are_taken_as_they_are() {
        let (rig, loans) = (Rig::new(1_000), Loans::default());
        let vm = rig.vm(1);
        assert_eq!(loans.take_thresholds(&vm), Ok(()));
        assert_eq!((loans.own_young(), vm.thresholds()), (Some(700), Ok(OWN)));
        // A thread without the GIL has lowered the first one.
        assert_eq!(vm.set_thresholds([5, 10, 10]).and_then(|()| loans.repay(&vm)), Ok(()));
        assert_eq!((loans.own_young(), vm.thresholds()), (None, Ok(OWN)));
    }

    #[test]
    fn a_threshold_that_is_lowered_while_the_policy_is_changed_stays_a_loan() {
        let (rig, loans) = (Rig::new(1_000), Loans::default());
        let vm = rig.vm(1);
        assert_eq!(loans.set_thresholds(&vm, [9_000, 10, 10]).and_then(|()| loans.hand_over(&vm)), Ok(()));
        assert_eq!((vm.thresholds(), loans.own_young()), (Ok(OWN), Some(700)));
        // A thread without the GIL had looked at the program before that.
        assert_eq!(vm.set_thresholds([50, 10, 10]).and_then(|()| loans.take_thresholds(&vm)), Ok(()));
        assert_eq!((loans.thresholds(), loans.own_young()), (Some(OWN), Some(700)));
        assert_eq!(loans.repay(&vm), Ok(()));
        assert_eq!(vm.thresholds(), Ok(OWN));
    }

    #[test]
    fn what_is_not_lent_is_not_touched() {
        let (rig, loans) = (Rig::new(1_000), Loans::default());
        let vm = rig.vm(1);
        assert_eq!(vm.set_thresholds([1, 2, 3]).and_then(|()| loans.repay(&vm)), Ok(()));
        assert_eq!(vm.thresholds(), Ok([1, 2, 3]));
    }

    #[test]
    fn what_was_frozen_twice_is_thawed() {
        let (rig, loans) = (Rig::new(1_000), Loans::default());
        let vm = rig.vm(1);
        loans.note_frozen(&vm);
        assert_eq!(loans.freeze(&vm).and_then(|()| loans.freeze(&vm)), Ok(()));
        assert_eq!(vm.frozen(), 1_000);
        assert_eq!(loans.repay(&vm), Ok(()));
        assert_eq!(vm.frozen(), 0);
    }

    #[test]
    fn what_the_program_froze_stays_frozen() {
        let (rig, loans) = (Rig::new(1_000), Loans::default());
        let vm = rig.vm(1);
        assert_eq!(vm.freeze(), Ok(()));
        rig.vm(1).allocate(10, 0);
        assert_eq!(loans.freeze(&vm).and_then(|()| loans.repay(&vm)), Ok(()));
        assert_eq!(vm.frozen(), 1_010);
    }

    #[test]
    fn a_child_owes_what_its_parent_owed() {
        let (rig, loans) = (Rig::new(1_000), Loans::default());
        let vm = rig.vm(1);
        assert_eq!(loans.set_thresholds(&vm, [5_000, 10, 10]).and_then(|()| loans.freeze(&vm)), Ok(()));
        let childs = loans.in_child();
        assert_eq!(childs.repay(&vm), Ok(()));
        assert_eq!((vm.thresholds(), vm.frozen()), (Ok(OWN), 0));
    }

    /// `collecting` as a child has it that thread 1 has forked.
    fn in_child(collecting: Option<usize>) -> bool {
        let rig = Rig::new(1_000);
        lock(&rig.interpreter).collecting = true;
        repay_collecting(&rig.vm(1), collecting);
        rig.vm(1).is_collecting()
    }

    #[test]
    fn only_a_collection_of_a_thread_that_is_gone_is_over() {
        assert!(!in_child(Some(2)));
        assert!(in_child(Some(1)) && in_child(None));
    }
}
