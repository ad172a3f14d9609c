//! The process that the agent is in: what is settled when the agent is installed, and does not change.

pub(crate) mod identity;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use neurogc_policy::Name;
use neurogc_settings::Settings;

use self::identity::{Identity, command_line};
use crate::cpython::Interpreter;
use crate::sys::native::{monotonic_ns, unix_ns};

/// The process, and how the agent was installed in it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) settings: Settings,
    pub(crate) interpreter: Interpreter,
    pub(crate) start: ProcessStart,
    pub(crate) installed: u64,
    /// The same moment by the wall clock, which may be set anew later.
    pub(crate) installed_unix_ns: u64,
    /// Tells hubs that reports come from this agent and not from another process that claims its name.
    pub(crate) report_key: String,
    /// Whether the process came from a fork with the agent in it.
    pub(crate) forked: bool,
    pid: u32,
}

/// How the process was started, and what it had set before the agent came.
#[derive(Debug)]
pub(crate) struct ProcessStart {
    pub(crate) command: String,
    /// Its name. The uplink adds the number of a worker.
    pub(crate) identity: Identity,
    /// The collector's thresholds when the agent was installed.
    pub(crate) thresholds: [u32; 3],
    /// Whether this process records into the trace's own name, or adds its pid.
    pub(crate) owns_trace: bool,
}

impl Host {
    /// The calling process, in which the agent is installed now.
    pub(crate) fn new(settings: Settings, interpreter: Interpreter, start: ProcessStart) -> Self {
        Self {
            settings,
            interpreter,
            start,
            installed: monotonic_ns(),
            installed_unix_ns: unix_ns(),
            report_key: report_key(),
            forked: false,
            pid: std::process::id(),
        }
    }

    /// The calling process, a forked child of this one: a worker of a server or not, with the policy that is in force.
    pub(crate) fn in_child(&self, policy: Name, is_worker: bool) -> Self {
        let (parent, words) = (std::os::unix::process::parent_id(), command_line("self"));
        let start = ProcessStart {
            command: self.start.command.clone(),
            identity: self.start.identity.in_child(parent, &words, is_worker),
            thresholds: self.start.thresholds,
            owns_trace: false,
        };
        let settings = Settings { policy, ..self.settings.clone() };
        Self { forked: true, ..Self::new(settings, self.interpreter.clone(), start) }
    }

    /// Whether this is the memory of another process, from which native code has forked the calling one behind Python's back.
    pub(crate) fn is_foreign(&self) -> bool {
        self.pid != std::process::id()
    }
}

/// 128 bits that no other process can guess. The standard library takes the seed from the kernel without a descriptor.
fn report_key() -> String {
    let seed = RandomState::new();
    format!("{:016x}{:016x}", seed.hash_one(0), seed.hash_one(1))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_agent_has_a_key_of_its_own() {
        let keys = [super::report_key(), super::report_key()];
        assert!(keys[0] != keys[1] && keys.iter().all(|key| key.len() == 32));
    }
}
