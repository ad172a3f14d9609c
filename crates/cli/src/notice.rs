//! What is said beside the output, on standard error.

use std::io::{self, Write};

/// Says one line. A closed standard error is no reason to fail.
pub(crate) fn say(message: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "neurogc: {message}");
}
