//! `neurogc man`: the manual pages, made from the same definitions as the help.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use crate::Cli;
use crate::failure::{CommandResult, Failure};

/// Print a manual page, or write all of them
///
/// Wheels have the pages in share/man/man1 of the environment, so that `man neurogc-run` finds them where `man` looks for
/// the pages of commands on PATH.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  neurogc man run | man -l -\n  neurogc man heap dump | man -l -\n  \
                        neurogc man --to ~/.local/share/man/man1")]
pub(crate) struct Arguments {
    /// The verb; without it, the page of the whole command
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
    /// Write the pages of all verbs to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "verb")]
    to: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> CommandResult {
    let mut command = Cli::command();
    command.build();
    if let Some(folder) = &arguments.to {
        fs::create_dir_all(folder)?;
        for (name, page) in pages(&command)? {
            fs::write(folder.join(format!("{name}.1")), page)?;
        }
        return Ok(());
    }
    let mut verb = &command;
    for word in &arguments.verb {
        let below = verb.find_subcommand(word);
        verb = below.ok_or_else(|| Failure::usage(format!("there is no verb {word}. `neurogc help` lists them")))?;
    }
    Ok(out.write_all(&page(verb)?)?)
}

/// The page of a verb and those of the verbs below it, by name.
fn pages(command: &Command) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut all = vec![(command.get_display_name().unwrap_or("neurogc").to_owned(), page(command)?)];
    for below in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        all.extend(pages(below)?);
    }
    Ok(all)
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    Ok(text)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page_with_its_name_and_examples() {
        let mut command = Cli::command();
        command.build();
        let pages = pages(&command).unwrap();
        let text = |name: &str| {
            let page = &pages.iter().find(|(known, _)| known == name).unwrap().1;
            String::from_utf8_lossy(page).into_owned()
        };
        assert!(text("neurogc").contains("neurogc"));
        assert!(text("neurogc-heap-dump").contains("before.ngch"));
        assert!(text("neurogc-run").contains("Record a trace"));
    }
}
