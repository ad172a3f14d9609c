//! The policy in force, and how often it was changed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use neurogc_policy::Name;

use crate::sys::locks::{lock, try_lock};

/// The policy that the settings or a person have chosen.
#[derive(Debug)]
pub(crate) struct ChosenPolicy {
    name: Mutex<Name>,
    switches: AtomicU32,
    /// Whether a policy can act in this interpreter.
    pub(super) can_act: bool,
}

impl ChosenPolicy {
    pub(crate) fn new(name: Name, can_act: bool) -> Self {
        Self { name: Mutex::new(name), switches: AtomicU32::new(0), can_act }
    }

    /// The policy in force, which is never `auto`.
    pub(crate) fn in_force(&self) -> Name {
        self.set().resolve(self.can_act)
    }

    /// The policy as it was set, which may be `auto`.
    pub(crate) fn set(&self) -> Name {
        lock(&self.name).clone()
    }

    /// The same in a forked child; nothing where a thread of its parent had the lock when it was forked.
    pub(crate) fn set_in_parent(&self) -> Option<Name> {
        try_lock(&self.name).map(|name| name.clone())
    }

    /// Puts another policy in force. The sampler sees it in its next round.
    pub(super) fn change(&self, name: Name) {
        *lock(&self.name) = name;
        self.switches.fetch_add(1, Ordering::Release);
    }

    /// How often the policy was changed.
    pub(crate) fn switches(&self) -> u32 {
        self.switches.load(Ordering::Acquire)
    }
}
