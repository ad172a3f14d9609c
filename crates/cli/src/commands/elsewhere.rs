//! Verbs that this processor does not have: they say so, and what to do instead.

use std::ffi::OsString;

use clap::Args;

use crate::failure::{CommandResult, Failure};

/// Not on this processor: only on x86-64
///
/// What attaches to a running process lays a signal frame of the processor on the stack of a thread, and is written for x86-64. Start the
/// program with `neurogc run`, or call neurogc.install() in it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What the verb takes on x86-64
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    _words: Vec<OsString>,
}

/// Refuses what was asked.
pub(crate) fn run(verb: &str) -> CommandResult {
    Err(Failure::failed(format!(
        "`neurogc {verb}` works on x86-64 only, and this is {}. Start the program with `neurogc run -- …`, or call \
         neurogc.install() and neurogc.uninstall() in it",
        std::env::consts::ARCH
    )))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        _rest: Arguments,
    }

    #[test]
    fn whatever_is_asked_the_answer_says_what_to_do_instead() {
        assert!(Line::try_parse_from(["attach", "4242", "--policy", "gap", "--json"]).is_ok());
        let told = run("attach").map_or_else(|failure| failure.to_string(), |()| String::new());
        assert!(told.contains("`neurogc attach` works on x86-64 only") && told.contains("neurogc run"), "{told}");
    }
}
