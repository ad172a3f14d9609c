//! The demo on a terminal: both sides live, on the same scale.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};

use super::side::SideFigures;
use crate::figures::{bytes, ms};

const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().fg(Color::DarkGray);

/// What stands above both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScreenHead {
    pub(crate) second: usize,
    pub(crate) seconds: u64,
    pub(crate) per_second: f64,
}

/// Draws both sides.
pub(crate) fn draw(head: ScreenHead, without: &SideFigures, with: &SideFigures, frame: &mut Frame<'_>) {
    let [top, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    let title = Line::from(vec![
        Span::styled("neurogc demo", STRONG),
        Span::raw(format!("  the same service twice, {:.0} requests a second to each", head.per_second)),
    ]);
    frame.render_widget(Paragraph::new(title), top);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(body);
    // One scale for both, or the picture would lie.
    let highest = |side: fn(&SideFigures) -> f64| side(without).max(side(with));
    let slowest = highest(|seen| seen.slowest.iter().copied().fold(1.0, f64::max));
    let memory = highest(|seen| seen.rss.iter().copied().max().unwrap_or(1).max(seen.rss_now) as f64);
    side("without NeuroGC", Color::Red, without, (slowest, memory), frame, left);
    side("with NeuroGC", Color::Green, with, (slowest, memory), frame, right);
    let keys = format!("{} of {} s    q end now, with the report    Ctrl-C leave", head.second, head.seconds);
    frame.render_widget(Paragraph::new(Line::styled(keys, FAINT)), foot);
}

fn side(title: &str, colour: Color, seen: &SideFigures, scale: (f64, f64), frame: &mut Frame<'_>, area: Rect) {
    let block = Block::new().borders(Borders::ALL).title(Span::styled(format!(" {title} "), STRONG.fg(colour)));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [figures, latency, memory] =
        Layout::vertical([Constraint::Length(7), Constraint::Fill(3), Constraint::Fill(2)]).areas(inner);
    let now = seen.figures();
    let failed = if seen.failed > 0 { format!(", {} failed", seen.failed) } else { String::new() };
    let row = |name: &str, value: String| {
        Line::from(vec![Span::styled(format!("{name:<8}"), FAINT), Span::styled(value, STRONG)])
    };
    let rows = vec![
        row("p50", ms(now.p50_ms)),
        row("p99", ms(now.p99_ms)),
        row("p99.9", ms(now.p999_ms)),
        row("slowest", ms(now.max_ms)),
        row("answers", format!("{} ({:.0} a second{failed})", now.count, seen.per_second())),
        row("memory", bytes(seen.rss_now)),
    ];
    frame.render_widget(Paragraph::new(rows), figures);
    let slowest: Vec<u64> = seen.slowest.iter().map(|ms| (ms * 1000.0) as u64).collect();
    course(" slowest answer of each second ", colour, &slowest, (scale.0 * 1000.0) as u64, frame, latency);
    course(" memory ", colour, &seen.rss, scale.1 as u64, frame, memory);
}

fn course(title: &str, colour: Color, values: &[u64], highest: u64, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::new().borders(Borders::TOP).border_style(FAINT).title(Span::styled(title.to_owned(), FAINT));
    let room = usize::from(area.width);
    let shown = &values[values.len().saturating_sub(room)..];
    let line = Sparkline::default().block(block).data(shown).max(highest.max(1)).style(Style::new().fg(colour));
    frame.render_widget(line, area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn both_sides_live() {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let without = SideFigures {
            slowest: vec![5.0, 130.0, 6.0, 128.0, 5.0],
            rss: vec![300 << 20; 5],
            rss_now: 300 << 20,
            ..SideFigures::default()
        };
        let with = SideFigures {
            slowest: vec![5.0; 5],
            rss: vec![310 << 20; 5],
            rss_now: 310 << 20,
            ..SideFigures::default()
        };
        let head = ScreenHead { second: 5, seconds: 60, per_second: 90.0 };
        terminal.draw(|frame| draw(head, &without, &with, frame)).unwrap();
        insta::assert_snapshot!(terminal.backend());
    }
}
