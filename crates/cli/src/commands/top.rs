//! `neurogc top`: the live view of one process.

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::agents::Rendezvous;
use crate::columns::Column;
use crate::failure::{CommandResult, Failure};
use crate::live::draw::draw;
use crate::live::poller::Poller;
use crate::live::screen::{Action, Screen};
use crate::process;

/// How long the first answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a key or news may lie before they are seen.
const STEP: Duration = Duration::from_millis(100);

/// Watch a process live: latency, GC pauses, memory, stalls
///
/// Without PID, choose from the processes that have an agent.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  neurogc top\n  neurogc top 4242\n  neurogc top 4242 --columns bound.over,gc.snapshot.failed\n\nKeys: q quit, p pause, ↑↓ and Enter select, h help"
)]
pub(crate) struct Arguments {
    /// The process, as listed by `neurogc ps`
    #[arg(value_parser = process::number)]
    pid: Option<u32>,
    /// Also show these figures of the status report, by their paths in it, separated by commas
    #[arg(long, value_name = "PATH,…", value_delimiter = ',')]
    columns: Vec<Column>,
}

pub(crate) fn run(arguments: &Arguments) -> CommandResult {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let instead = match arguments.pid {
            Some(pid) => format!("`neurogc status {pid}`"),
            None => "`neurogc ps` and `neurogc status PID`".to_owned(),
        };
        return Err(Failure::failed(format!("top needs a terminal. For a report in a file or a pipe, use {instead}")));
    }
    let rendezvous = Rendezvous::of_this_machine();
    let mut screen = first_screen(&rendezvous, arguments.pid)?;
    screen.columns.clone_from(&arguments.columns);
    let poller = Poller::start(rendezvous, screen.watched);
    // From here on a panic gives the terminal back before it prints.
    let mut terminal = ratatui::try_init()?;
    let outcome = show(screen, &poller, &mut terminal);
    ratatui::restore();
    Ok(outcome?)
}

fn first_screen(rendezvous: &Rendezvous, pid: Option<u32>) -> Result<Screen, Failure> {
    if let Some(pid) = pid {
        return rendezvous.ask(pid, PATIENCE).map(Screen::watching).map_err(Failure::failed);
    }
    let (mut processes, _) = rendezvous.ask_all(PATIENCE);
    match processes.len() {
        0 => Err(Failure::failed("no process with an agent is running. Start one with `neurogc run -- python app.py`")),
        1 => Ok(Screen::watching(processes.remove(0))),
        _ => Ok(Screen::choosing(processes)),
    }
}

fn show(mut screen: Screen, poller: &Poller, terminal: &mut DefaultTerminal) -> io::Result<()> {
    loop {
        while let Some(news) = poller.news() {
            screen.take(news);
        }
        terminal.draw(|frame| draw(&screen, frame))?;
        if !event::poll(STEP)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match screen.key(key) {
                Action::Nothing => {}
                Action::Quit => return Ok(()),
                Action::Watch(watched) => poller.watch(watched),
            }
        }
    }
}
