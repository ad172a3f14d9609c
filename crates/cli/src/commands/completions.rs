//! `neurogc completions`: what a shell needs to complete the command's verbs and options.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;
use crate::failure::CommandResult;

/// Print completions for a shell
///
/// Wheels have them for bash, zsh and fish in the folders of the environment where these shells look.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  source <(neurogc completions bash)\n  \
                        neurogc completions zsh > ~/.zfunc/_neurogc\n  \
                        neurogc completions fish > ~/.config/fish/completions/neurogc.fish")]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    // The generator panics where it cannot write, for instance when a pipe is closed.
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "neurogc", &mut text);
    Ok(out.write_all(&text)?)
}
