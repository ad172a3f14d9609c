//! How far a bench has come: a bar on a terminal, plain lines elsewhere, both on standard error.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use crate::figures::{shorten, span};

/// The width of the bar.
const WIDTH: usize = 24;

/// Says how far things are.
#[derive(Debug)]
pub(crate) struct BenchProgress {
    terminal: bool,
    /// What is done and what there is, in expected seconds.
    done: f64,
    all: f64,
    began: Instant,
}

impl BenchProgress {
    /// So many expected seconds of work.
    pub(crate) fn new(all: f64) -> Self {
        Self { terminal: io::stderr().is_terminal(), done: 0.0, all: all.max(f64::MIN_POSITIVE), began: Instant::now() }
    }

    /// Something begins. On a terminal the bar says what.
    pub(crate) fn begin(&self, what: &str) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K{}", self.line(what, self.began.elapsed().as_secs_f64()));
            let _ = io::stderr().flush();
        }
    }

    /// Something that was expected to take so long is over.
    pub(crate) fn done(&mut self, seconds: f64, what: &str) {
        self.done += seconds;
        let share = (self.done / self.all * 100.0).min(100.0);
        if self.terminal {
            self.say(what);
        } else {
            let _ = writeln!(io::stderr(), "{share:3.0} %  {what}");
        }
    }

    /// A line that stays.
    pub(crate) fn say(&self, line: &str) {
        let clear = if self.terminal { "\r\x1b[2K" } else { "" };
        let _ = writeln!(io::stderr(), "{clear}{line}");
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }

    fn line(&self, what: &str, elapsed: f64) -> String {
        let share = (self.done / self.all).clamp(0.0, 1.0);
        let full = (share * WIDTH as f64) as usize;
        let left = if share > 0.02 { elapsed / share * (1.0 - share) } else { self.all - self.done };
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full));
        shorten(&format!("{bar} {:3.0} %  {} left  {what}", share * 100.0, span(left)), 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_follows_the_work_and_its_pace() {
        let mut progress = BenchProgress { terminal: false, done: 0.0, all: 100.0, began: Instant::now() };
        assert_eq!(progress.line("a", 0.0), format!("{}   0 %  1 m 40 s left  a", "░".repeat(24)));
        progress.done = 50.0;
        let line = progress.line("attribution, gap", 100.0);
        assert_eq!(line, format!("{}{}  50 %  1 m 40 s left  attribution, gap", "█".repeat(12), "░".repeat(12)));
    }
}
