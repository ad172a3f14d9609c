//! Colours on a terminal: none in a file or a pipe, and none where `NO_COLOR` is set.

use std::env;
use std::io::{self, IsTerminal};

use neurogc_wire::finding::FindingKind;

/// Whether standard output takes colours.
pub(crate) fn is_wanted() -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !refused && !dumb
}

const BOLD: &str = "1";
const FAINT: &str = "2";
const RED: &str = "1;31";
const GREEN: &str = "1;32";
const YELLOW: &str = "1;33";
const GREY: &str = "90";

fn styled(text: &str, style: &str) -> String {
    format!("\x1b[{style}m{text}\x1b[0m")
}

/// A report with its verdict, headings and table heads set off. The verdict is everything up to the first empty line.
pub(crate) fn report(text: &str, verdict: Option<FindingKind>) -> String {
    let style = match verdict {
        Some(FindingKind::Nothing) => GREEN,
        Some(kind) if kind.is_trouble() => RED,
        _ => YELLOW,
    };
    let mut above = verdict.is_some();
    let mut painted = String::with_capacity(text.len() + 512);
    for line in text.lines() {
        above &= !line.is_empty();
        if line.is_empty() {
        } else if above {
            painted.push_str(&styled(line, style));
        } else if line == "degraded" {
            painted.push_str(&styled(line, RED));
        } else if !line.starts_with(' ') {
            painted.push_str(&styled(line, BOLD));
        } else if is_head(line) {
            painted.push_str(&styled(line, FAINT));
        } else {
            painted.push_str(line);
        }
        painted.push('\n');
    }
    painted
}

/// A listing with its first line set off.
pub(crate) fn listing(text: &str) -> String {
    match text.split_once('\n') {
        Some((head, rest)) => format!("{}\n{rest}", styled(head, BOLD)),
        None => text.to_owned(),
    }
}

/// Policies side by side: the head of the table set off, and rows in grey that rest on what a trace does not show, which have
/// this mark behind their name.
pub(crate) fn comparison(text: &str, mark: &str) -> String {
    let is_guess = |line: &str| line.trim_start().split("  ").next().is_some_and(|name| name.ends_with(mark));
    let paint = |line: &str| match line {
        line if line.starts_with("  ") && is_guess(line) => styled(line, GREY),
        line if line.starts_with(' ') && is_head(line) => styled(line, FAINT),
        line => line.to_owned(),
    };
    text.lines().map(|line| paint(line) + "\n").collect()
}

/// Whether a line is the head of a table: capitals only.
fn is_head(line: &str) -> bool {
    let mut letters = line.chars().filter(|letter| letter.is_alphabetic()).peekable();
    letters.peek().is_some() && letters.all(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_headings_and_heads_are_set_off() {
        let text = "All is well.\n\nprocess 7\n  COUNT  P99\n      3  x\n\ndegraded\n  - y\n";
        let painted = report(text, Some(FindingKind::Nothing));
        let expected = "\x1b[1;32mAll is well.\x1b[0m\n\n\x1b[1mprocess 7\x1b[0m\n\x1b[2m  COUNT  P99\x1b[0m\n      3  x\n\n\
                        \x1b[1;31mdegraded\x1b[0m\n  - y\n";
        assert_eq!(painted, expected);
        assert!(report(text, Some(FindingKind::Gc)).starts_with("\x1b[1;31mAll"));
        let table = "t: 7 requests\n  POLICY   P50\n  gap ?   1 ms\n  cpython 2 ms\n  ?: rests on what\n";
        let greyed = "t: 7 requests\n\x1b[2m  POLICY   P50\x1b[0m\n\x1b[90m  gap ?   1 ms\x1b[0m\n  cpython 2 ms\n  ?: rests on what\n";
        assert_eq!(comparison(table, " ?"), greyed);
        assert_eq!(listing("PID  X\n1  2\n"), "\x1b[1mPID  X\x1b[0m\n1  2\n");
    }
}
