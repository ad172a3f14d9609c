//! Everything that acts on the program: what orders are carried out with, what was asked for from outside, and the policy.

use std::sync::Mutex;

use neurogc_policy::Name;
use neurogc_settings::Settings;

use super::actor::Actor;
use super::census::OwnCensus;
use super::chosen_policy::ChosenPolicy;
use super::dumps::OwnDumps;
use super::loans::Loans;
use super::main_thread::MainThreadCalls;
use super::remote::{Remote, RemoteWork};
use super::trim::Trimming;
use crate::sense::hooks::Hooks;
use crate::snapshot::SnapshotRunner;
use crate::sys::native::monotonic_ns;

/// What acts.
#[derive(Debug)]
pub(crate) struct Acting {
    pub(crate) actor: Actor,
    pub(crate) policy: ChosenPolicy,
    pub(crate) snapshots: SnapshotRunner,
    pub(crate) remote: Remote,
    pub(crate) dumps: OwnDumps,
    /// When a census is due that no snapshot takes.
    pub(crate) census: OwnCensus,
    /// What was given back of free memory.
    pub(crate) trimming: Mutex<Trimming>,
    pub(crate) main_thread: MainThreadCalls,
}

impl Acting {
    /// Nothing is done yet. `can_act` says whether a policy can act in this interpreter.
    pub(crate) fn new(settings: &Settings, installed: u64, can_act: bool, main_thread: MainThreadCalls) -> Self {
        Self {
            actor: Actor::new(installed, settings.tuning.pause_budget, settings.snapshots, Loans::default()),
            policy: ChosenPolicy::new(settings.policy.clone(), can_act),
            snapshots: SnapshotRunner::new(settings.census.is_some()),
            remote: Remote::default(),
            dumps: OwnDumps::new(),
            census: OwnCensus::new(settings.census.filter(|_| settings.snapshots), installed),
            trimming: Mutex::default(),
            main_thread,
        }
    }

    /// That of a forked child, with its settings. What is not in the actor begins anew.
    pub(crate) fn in_child(&self, settings: &Settings, installed: u64) -> Self {
        let fresh = Self::new(settings, installed, self.policy.can_act, self.main_thread);
        Self { actor: self.actor.in_child(installed), ..fresh }
    }

    /// Whether the policy in force acts in this process.
    pub(crate) fn conducts(&self) -> bool {
        self.policy.in_force().acts() && self.policy.can_act && !self.actor.has_stood_down()
    }

    /// Whether a thread that has come to a gap, with so many young objects, should use it.
    pub(crate) fn is_due(&self, young: impl FnOnce() -> u32) -> bool {
        self.remote.is_waiting() || self.census.is_wanted() || self.actor.is_due(young())
    }

    /// Leaves something for the threads of the program to do, and gives the ticket for it. The caller needs no GIL.
    pub(crate) fn leave_for_program(&self, hooks: &Hooks, work: impl Into<RemoteWork>) -> Option<u64> {
        let taken = self.remote.take_on(work, monotonic_ns());
        self.main_thread.come_by(false);
        hooks.wake();
        taken
    }

    /// Puts another policy in force. The caller needs no GIL: what has to be changed in Python is changed by the next thread
    /// of the program that comes by.
    pub(crate) fn switch(&self, hooks: &Hooks, name: Name) -> Result<(), &'static str> {
        if self.actor.has_stood_down() && name.acts() {
            return Err("the program has set the collector's thresholds itself, so no policy acts in it");
        }
        let acts = name.acts();
        self.actor.direct(None);
        self.policy.change(name);
        self.main_thread.switched();
        if !acts {
            // No policy would look after it any more.
            self.snapshots.shut_down();
        }
        hooks.wake();
        self.main_thread.follow_switch();
        Ok(())
    }

    /// Has CPython collect by the program's own thresholds again. The caller needs no GIL: it is done by the program's main
    /// thread as soon as that is back in Python code, or by the next collection.
    pub(crate) fn leave_to_cpython(&self) {
        if !self.actor.has_stood_down() {
            self.actor.stand_down();
            self.main_thread.restore();
        }
    }
}
