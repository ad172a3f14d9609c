//! Ctrl-C and its like: noted, so that what was started can be ended.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What a shell makes of a program that was interrupted.
pub(crate) const CODE: u8 = 130;

/// Whether the user has asked this command to end, by a signal or a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches from now on. A second signal ends the command at once.
    pub(crate) fn watch() -> io::Result<Self> {
        let noted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_shutdown(signal, CODE.into(), Arc::clone(&noted))?;
            signal_hook::flag::register(signal, Arc::clone(&noted))?;
        }
        Ok(Self(noted))
    }

    /// Whether the user has asked.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Records a key that means the same as a signal.
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
