//! How far an analysis is: a bar on a terminal, nothing elsewhere.

use std::io::{self, IsTerminal, Write};

use neurogc_heap::HeapStep;

use crate::figures::shorten;

/// The width of the bar.
const WIDTH: usize = 24;

/// The bar.
#[derive(Debug)]
pub(crate) struct HeapBar {
    terminal: bool,
    file: String,
}

impl HeapBar {
    /// A bar for the analysis of a file.
    pub(crate) fn new(file: &str) -> Self {
        Self { terminal: io::stderr().is_terminal(), file: file.to_owned() }
    }

    /// A step begins.
    pub(crate) fn begin(&mut self, step: HeapStep) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K{}", self.line(step));
            let _ = io::stderr().flush();
        }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&mut self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }

    fn line(&self, step: HeapStep) -> String {
        let before = HeapStep::ALL.iter().take_while(|(it, _, _)| *it != step);
        let share: f64 = before.map(|(_, _, share)| share).sum();
        let what = step.name();
        let full = (share * WIDTH as f64) as usize;
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full));
        shorten(&format!("{bar} {}: {what}", self.file), 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_follows_the_steps() {
        let bar = HeapBar { terminal: false, file: "a.ngch".to_owned() };
        assert_eq!(bar.line(HeapStep::Read), format!("{} a.ngch: reading objects", "░".repeat(24)));
        let later = bar.line(HeapStep::Places);
        assert_eq!(later, format!("{}{} a.ngch: adding up by place", "█".repeat(21), "░".repeat(3)));
    }
}
