//! How far an analysis is: a bar on a terminal, elsewhere a plain line for each step that takes longer than a second.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use neurogc_heap::HeapStep;

use crate::figures::shorten;

/// The width of the bar.
const WIDTH: usize = 24;

/// A step that takes longer than this is told, where there is no bar, and a bar says for how long it has taken.
const LONG: Duration = Duration::from_secs(1);

/// How often the time is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The bar, which a thread draws.
#[derive(Debug)]
pub(crate) struct HeapBar {
    file: String,
    drawing: Option<(Sender<HeapStep>, JoinHandle<()>)>,
}

impl HeapBar {
    /// A bar for the analysis of a file.
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), drawing: None }
    }

    /// A step begins.
    pub(crate) fn begin(&mut self, step: HeapStep) {
        let file = &self.file;
        let (steps, _) = self.drawing.get_or_insert_with(|| {
            let (sender, steps) = channel();
            let lines = StepLines { file: file.clone(), terminal: io::stderr().is_terminal(), told: None };
            (sender, std::thread::spawn(move || lines.draw(&steps)))
        });
        let _ = steps.send(step);
    }

    /// Takes the bar away. Nothing is drawn after this.
    pub(crate) fn clear(&mut self) {
        if let Some((steps, thread)) = self.drawing.take() {
            drop(steps);
            let _ = thread.join();
        }
    }
}

impl Drop for HeapBar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What is written about the steps.
#[derive(Debug)]
struct StepLines {
    file: String,
    terminal: bool,
    told: Option<HeapStep>,
}

impl StepLines {
    fn draw(mut self, steps: &Receiver<HeapStep>) {
        let mut running: Option<(HeapStep, Instant)> = None;
        loop {
            match steps.recv_timeout(LOOK) {
                Ok(step) => running = Some((step, Instant::now())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let Some((step, since)) = running else { continue };
            if let Some(text) = self.text(step, since.elapsed()) {
                let _ = write!(io::stderr(), "{text}");
                let _ = io::stderr().flush();
            }
        }
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }

    /// What is to be written while a step has taken so long.
    fn text(&mut self, step: HeapStep, taken: Duration) -> Option<String> {
        let is_long = taken >= LONG;
        if self.terminal {
            let before = HeapStep::ALL.iter().take_while(|(it, _, _)| *it != step);
            let share: f64 = before.map(|(_, _, share)| share).sum();
            let full = (share * WIDTH as f64) as usize;
            let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full));
            let seconds = if is_long { format!(", {} s", taken.as_secs()) } else { String::new() };
            return Some(format!(
                "\r\x1b[2K{}",
                shorten(&format!("{bar} {}: {}{seconds}", self.file, step.name()), 100)
            ));
        }
        let is_new = is_long && self.told.replace(step) != Some(step);
        is_new.then(|| format!("{}: {}\n", self.file, step.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(terminal: bool) -> StepLines {
        StepLines { file: "a.ngch".to_owned(), terminal, told: None }
    }

    #[test]
    fn the_bar_follows_the_steps_and_their_time() {
        let mut bar = lines(true);
        let mut text = |step, millis| bar.text(step, Duration::from_millis(millis)).unwrap_or_default();
        assert_eq!(text(HeapStep::Read, 0), format!("\r\x1b[2K{} a.ngch: reading objects", "░".repeat(24)));
        assert_eq!(text(HeapStep::Read, 2500), format!("\r\x1b[2K{} a.ngch: reading objects, 2 s", "░".repeat(24)));
        let later = format!("\r\x1b[2K{}{} a.ngch: adding up by place", "█".repeat(21), "░".repeat(3));
        assert_eq!(text(HeapStep::Places, 999), later);
    }

    #[test]
    fn without_a_terminal_each_long_step_is_one_line() {
        let mut plain = lines(false);
        let mut text = |step, millis| plain.text(step, Duration::from_millis(millis));
        assert_eq!(text(HeapStep::Read, 999), None);
        assert_eq!(text(HeapStep::Reach, 1000).as_deref(), Some("a.ngch: following references from the roots\n"));
        assert_eq!(text(HeapStep::Reach, 1200), None);
        assert_eq!(text(HeapStep::Retain, 0), None);
        assert_eq!(text(HeapStep::Retain, 3000).as_deref(), Some("a.ngch: finding holders and retained sizes\n"));
    }
}
