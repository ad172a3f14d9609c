//! How a command ends when it does not end well: a message and an exit code.

use std::fmt;
use std::io;

/// A command's result. Nothing is returned on success: what there is to say was written already.
pub(crate) type CommandResult = Result<(), Failure>;

/// The exit code of a command that could not do its work.
const FAILED: u8 = 1;
/// The exit code of wrong usage, the same as the argument parser's.
const USAGE: u8 = 2;

/// Why a command failed, and the exit code that tells.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    reason: anyhow::Error,
}

impl Failure {
    /// The command could not do its work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::with_code(FAILED, message)
    }

    /// The command was called wrongly.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::with_code(USAGE, message)
    }

    /// A failure whose exit code others rely on.
    pub(crate) fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self { code, reason: anyhow::Error::msg(message.into()) }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Whether the reader of our output went away, as `head` does: that is not a failure.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        self.reason.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(broken))
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: FAILED, reason: error.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:#}", self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_broken_pipe_is_forgiven() {
        assert!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).is_broken_pipe());
        assert!(!Failure::from(io::Error::from(io::ErrorKind::NotFound)).is_broken_pipe());
        assert!(!Failure::failed("no").is_broken_pipe());
    }
}
