//! What is being carried out, and by which thread.

use std::sync::atomic::Ordering;

use neurogc_policy::Order;

use super::Actor;
use crate::act::vm::Vm;
use crate::sys::locks::{lock, try_lock};

/// An order that is being carried out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) order: Order,
    pub(super) thread: usize,
}

impl Actor {
    /// The calling thread carries out an order until the answer is dropped; collections meanwhile are parts of it. The order gets
    /// its number, and is booked.
    pub(crate) fn begin(&self, vm: &impl Vm, order: Order) -> RunningGuard<'_> {
        let order = self.numbered(order);
        let _ = self.orders.push((vm.now(), order));
        let outer = lock(&self.running).replace(Running { order, thread: vm.thread() });
        self.acting.store(true, Ordering::Relaxed);
        RunningGuard { actor: self, outer }
    }

    /// The thread that carries out an order, if one does. In the callback of a collection it may have let go of the GIL, to
    /// hold its own program up: to CPython it still collects then. A child of a native fork may find the lock held.
    pub(crate) fn running_in(&self) -> Option<usize> {
        try_lock(&self.running)?.map(|running| running.thread)
    }
}

/// An order is being carried out while this lives.
#[derive(Debug)]
pub(crate) struct RunningGuard<'a> {
    actor: &'a Actor,
    outer: Option<Running>,
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.actor.running) = self.outer;
        self.actor.acting.store(self.outer.is_some(), Ordering::Relaxed);
    }
}

/// CPython's flag that a collection runs is lowered while this lives. Only the callback that tells of a collection's end
/// may do so: the lists are in order again.
#[derive(Debug)]
pub(crate) struct Lowered<'a, V: Vm> {
    vm: &'a V,
}

impl<'a, V: Vm> Lowered<'a, V> {
    /// For a callback that CPython has called: it says that it collects.
    pub(crate) fn new(vm: &'a V) -> Self {
        vm.set_collecting(false);
        Self { vm }
    }
}

impl<V: Vm> Drop for Lowered<'_, V> {
    fn drop(&mut self) {
        self.vm.set_collecting(true);
    }
}
