//! What the live view shows, and how keys and news change it.

use neurogc_wire::status::Status;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::history::History;
use super::poller::PollResult;
use crate::columns::Column;

/// The state of the view.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    /// Every process with an agent, as far as the list is or was shown.
    pub(crate) processes: Vec<Status>,
    /// Figures that are shown beside the usual ones.
    pub(crate) columns: Vec<Column>,
    /// The selected line of the list.
    pub(crate) selected: usize,
    /// The process that is watched, if one was chosen.
    pub(crate) watched: Option<u32>,
    pub(crate) history: History,
    /// No news are taken in while it is set.
    pub(crate) paused: bool,
    pub(crate) help: bool,
    /// The watched process is gone.
    pub(crate) ended: bool,
    /// Why there are no news, in words.
    pub(crate) trouble: Option<String>,
}

/// What a key asks for beyond the view itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Quit,
    /// Ask for this process from now on, or for the list of all.
    Watch(Option<u32>),
}

impl Screen {
    /// A view that begins with one process.
    pub(crate) fn watching(status: Status) -> Self {
        let mut screen = Self { watched: Some(status.pid), ..Self::default() };
        screen.history.take(status);
        screen
    }

    /// A view that begins with a choice.
    pub(crate) fn choosing(processes: Vec<Status>) -> Self {
        Self { processes, ..Self::default() }
    }

    /// Takes in what the poller found.
    pub(crate) fn take(&mut self, news: PollResult) {
        if self.paused {
            return;
        }
        match news {
            PollResult::Processes(processes) if self.watched.is_none() => {
                self.selected = self.selected.min(processes.len().saturating_sub(1));
                self.processes = processes;
            }
            PollResult::Report(status) if self.watched == Some(status.pid) => {
                self.history.take(*status);
                self.trouble = None;
            }
            PollResult::Ended(pid) if self.watched == Some(pid) => self.ended = true,
            PollResult::Trouble(pid, trouble) if self.watched == Some(pid) => self.trouble = Some(trouble),
            // What was asked before the view changed.
            _ => {}
        }
    }

    /// Does what a key says.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Action {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Action::Quit,
            KeyCode::Char('h' | '?') => self.help = !self.help,
            // Help is closed first, as in any other program.
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Left | KeyCode::Backspace if self.watched.is_some() => {
                let processes = std::mem::take(&mut self.processes);
                let columns = std::mem::take(&mut self.columns);
                *self = Self { columns, selected: self.selected, ..Self::choosing(processes) };
                return Action::Watch(None);
            }
            _ if self.watched.is_none() => return self.choose(key.code),
            _ => {}
        }
        Action::Nothing
    }

    fn choose(&mut self, key: KeyCode) -> Action {
        let last = self.processes.len().saturating_sub(1);
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Enter | KeyCode::Right => {
                if let Some(chosen) = self.processes.get(self.selected) {
                    let pid = chosen.pid;
                    let processes = std::mem::take(&mut self.processes);
                    let chosen = processes[self.selected].clone();
                    let columns = std::mem::take(&mut self.columns);
                    *self = Self { processes, columns, selected: self.selected, ..Self::watching(chosen) };
                    return Action::Watch(Some(pid));
                }
            }
            _ => {}
        }
        Action::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn press(screen: &mut Screen, code: KeyCode) -> Action {
        screen.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_process_is_chosen_and_left_again() {
        let mut screen = Screen::choosing(vec![samples::service(), samples::idle()]);
        assert_eq!(press(&mut screen, KeyCode::Down), Action::Nothing);
        assert_eq!(press(&mut screen, KeyCode::Down), Action::Nothing);
        assert_eq!(press(&mut screen, KeyCode::Enter), Action::Watch(Some(77)));
        assert_eq!(screen.watched, Some(77));
        assert_eq!(press(&mut screen, KeyCode::Left), Action::Watch(None));
        assert_eq!((screen.watched, screen.selected), (None, 1));
    }

    #[test]
    fn every_way_out_works() {
        let mut screen = Screen::watching(samples::service());
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Action::Quit);
        assert_eq!(press(&mut screen, KeyCode::Esc), Action::Quit);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.key(control_c), Action::Quit);
        assert_eq!(press(&mut screen, KeyCode::Char('h')), Action::Nothing);
        assert_eq!(press(&mut screen, KeyCode::Esc), Action::Nothing, "closes the help");
    }

    #[test]
    fn a_paused_view_stands_still() {
        let mut screen = Screen::watching(samples::service());
        press(&mut screen, KeyCode::Char('p'));
        screen.take(PollResult::Ended(4242));
        assert!(!screen.ended);
        press(&mut screen, KeyCode::Char('p'));
        screen.take(PollResult::Ended(4242));
        assert!(screen.ended);
    }

    #[test]
    fn news_of_another_process_are_passed_over() {
        let mut screen = Screen::watching(samples::service());
        screen.take(PollResult::Ended(77));
        screen.take(PollResult::Trouble(77, "x".to_owned()));
        screen.take(PollResult::Processes(Vec::new()));
        assert!(!screen.ended && screen.trouble.is_none());
    }

    #[test]
    fn an_empty_list_can_be_walked() {
        let mut screen = Screen::choosing(Vec::new());
        for key in [KeyCode::Down, KeyCode::Up, KeyCode::End, KeyCode::Enter] {
            assert_eq!(press(&mut screen, key), Action::Nothing);
        }
    }
}
