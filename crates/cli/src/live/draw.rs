//! Drawing the live view: made for 80×24, growing with the terminal.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::status::{Cause, Status};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Row, Sparkline, Table, TableState, Wrap};

use super::history::Rates;
use super::screen::Screen;
use crate::columns;
use crate::figures::{bytes, count, ms, plain, shorten, shorten_front, span, wrap};
use crate::gpu::listing;
use crate::stalls::longest_first;
use crate::verdict;

const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().fg(Color::DarkGray);
/// The columns of a scale.
const AXIS: u16 = 9;
/// Lines that the verdict on everything but memory may have: one less where the terminal has 24 lines, so that everything fits.
const VERDICT_LINES: usize = 3;
const SMALL: u16 = 23;
const CALM: Style = Style::new().fg(Color::Green).add_modifier(Modifier::BOLD);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws the whole view.
pub(crate) fn draw(screen: &Screen, frame: &mut Frame<'_>) {
    let [body, footer] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    match (screen.watched, screen.history.latest()) {
        (Some(_), Some(status)) => process(screen, status, frame, body),
        _ => choice(screen, frame, body),
    }
    frame.render_widget(self::footer(screen), footer);
    if screen.help {
        help(frame);
    }
}

fn process(screen: &Screen, status: &Status, frame: &mut Frame<'_>, area: Rect) {
    // Three lines a course at 24 lines; half of what is more goes to the courses.
    let course = 3 + area.height.saturating_sub(23) / 6;
    let verdict = verdict(status, area);
    let [said, head, latency, pauses, memory, details] = Layout::vertical([
        Constraint::Length(verdict.len() as u16),
        Constraint::Length(if screen.columns.is_empty() { 3 } else { 4 }),
        Constraint::Length(course),
        Constraint::Length(course),
        Constraint::Length(course),
        Constraint::Fill(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(verdict), said);
    header(screen, status, frame, head);
    let history = &screen.history;
    let requests = &status.requests;
    let title = if requests.count == 0 {
        " p99 latency: no requests yet ".to_owned()
    } else {
        let recent = requests.recent_p99_ms;
        let recent = if recent > 0.0 { ms(recent) } else { "-".to_owned() };
        let [p50, max, wait] = [requests.p50_ms, requests.max_ms, requests.wait.p99_ms].map(ms);
        format!(" p99 latency {recent} (since the start: p50 {p50}, max {max}, p99 wait {wait}) ")
    };
    let room = usize::from(area.width.saturating_sub(AXIS));
    let micros = |value: u64| ms(value as f64 / 1000.0);
    draw_course(title, Color::Cyan, &history.p99_us.last(room), (0, &micros), frame, latency);
    let longest =
        [status.gc.young, status.gc.middle, status.gc.full].iter().map(|kind| kind.max_ms).fold(0.0, f64::max);
    let newest = ms(history.pause_us.newest() as f64 / 1000.0);
    let title = format!(" longest GC pause per second: {newest} (max {}) ", ms(longest));
    draw_course(title, Color::Yellow, &history.pause_us.last(room), (0, &micros), frame, pauses);
    let limit = status.memory.limit.map_or_else(String::new, |limit| format!(", limit {}", bytes(limit)));
    let (base, points) = above_base(&history.rss.last(room));
    let (rss, peak) = (bytes(status.memory.rss), bytes(status.memory.peak_rss));
    let title = format!(" memory {rss} (peak {peak}{limit}) ");
    draw_course(title, Color::Green, &points, (base, &bytes), frame, memory);
    let wide = area.width >= 100;
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(if wide { 34 } else { 26 })])
        .spacing(1)
        .areas(details);
    stalls(status, frame, left);
    collections(status, wide, frame, right);
}

/// The verdict on memory in one line, and what else is the matter and what to do about it in as many lines as it takes.
fn verdict(status: &Status, area: Rect) -> Vec<Line<'static>> {
    let style = |kind: FindingKind| match kind {
        FindingKind::Nothing => CALM,
        kind if kind.is_trouble() => ALARM,
        _ => STRONG,
    };
    let width = area.width.into();
    let (kind, memory) = verdict::memory(status);
    let mut lines = vec![Line::styled(shorten(&memory, width), style(kind))];
    let lower = verdict::findings(status).into_iter().find(|finding| !finding.kind.is_leak());
    let most = if area.height > SMALL { VERDICT_LINES } else { VERDICT_LINES - 1 };
    if let Some(finding) = lower {
        let said = wrap(&verdict::line(&finding), width, most);
        lines.extend(said.into_iter().map(|line| Line::styled(line, style(finding.kind))));
    }
    lines
}

fn header(screen: &Screen, status: &Status, frame: &mut Frame<'_>, area: Rect) {
    let Rates { requests, collections, paused_ms, .. } = screen.history.rates;
    // Of the whole time, unlike the figures of the third line.
    let gil = &status.gil;
    let seen = gil.busy.count + gil.idle.count > 0;
    let held = if seen { format!(", GIL held {:.0} % of it", gil.busy_percent) } else { String::new() };
    let first = Line::from(vec![
        Span::styled(format!("{} ", status.pid), STRONG),
        Span::raw(format!(
            "{}  policy {}  up {}",
            plain(&status.python),
            plain(&status.policy_shown()),
            span(status.uptime_s)
        )),
        Span::raw(held),
        Span::styled(if status.degraded.is_empty() { "" } else { "  degraded: see `neurogc status`" }, ALARM),
    ]);
    let second = Line::styled(shorten(&plain(&status.command), area.width.into()), FAINT);
    let mut third = format!(
        "{requests:.0} req/s  {} in flight  cpu {:.0} %  {collections:.1} gc/s  {paused_ms:.1} ms/s paused",
        status.requests.in_flight, status.cpu.percent
    );
    if let Some(gpu) = listing::in_brief(&status.gpu, usize::from(area.width).saturating_sub(third.len() + 2)) {
        third = format!("{third}  {gpu}");
    }
    let more: Vec<_> = screen.columns.iter().zip(columns::cells(&screen.columns, status)).collect();
    let fourth = more.iter().map(|(column, cell)| format!("{} {cell}", column.title())).collect::<Vec<_>>().join("  ");
    frame.render_widget(Paragraph::new(vec![first, second, Line::raw(third), Line::raw(fourth)]), area);
}

/// Memory moves little against its size, so a course from zero would be flat. Gives the base and what is above it.
fn above_base(points: &[u64]) -> (u64, Vec<u64>) {
    let least = points.iter().min().copied().unwrap_or(0);
    let base = least - least / 20;
    (base, points.iter().map(|point| point - base).collect())
}

/// A course with its scale to the left: its largest value at the top, what it is drawn from at the bottom.
fn draw_course(
    title: String,
    color: Color,
    points: &[u64],
    (base, shown): (u64, &dyn Fn(u64) -> String),
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let seconds = points.len();
    let ago = if seconds > 1 { format!(" {seconds} s ") } else { String::new() };
    let block = Block::new().borders(Borders::TOP).title(title).border_style(FAINT);
    let block = block.title(Line::styled(ago, FAINT).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [axis, course] = Layout::horizontal([Constraint::Length(AXIS), Constraint::Fill(1)]).areas(inner);
    let most = points.iter().max().copied().unwrap_or(0);
    let mut labels = vec![Line::raw(String::new()); usize::from(axis.height)];
    if let Some(bottom) = labels.last_mut() {
        *bottom = Line::raw(format!("{} ", shown(base)));
    }
    if let Some(top) = labels.first_mut().filter(|_| most > 0) {
        *top = Line::raw(format!("{} ", shown(base + most)));
    }
    frame.render_widget(Paragraph::new(labels).style(FAINT).right_aligned(), axis);
    frame.render_widget(Sparkline::default().data(points).style(Style::new().fg(color)), course);
}

fn stalls(status: &Status, frame: &mut Frame<'_>, area: Rect) {
    let stalls = &status.stalls;
    let title = format!(" {} stalls since the start, the longest: ", count(stalls.count));
    let block = Block::new().borders(Borders::TOP).title(title).border_style(FAINT);
    let site_width = usize::from(area.width.saturating_sub(8 + 7 + 11 + 3));
    // The longest first: the latest are seen as they come, and are short mostly.
    let rows = longest_first(status).into_iter().map(|stall| {
        let ago = span(status.uptime_s - stall.at_s);
        let site = shorten_front(&plain(&stall.site), site_width);
        let cause = Span::styled(stall.cause.name(), Style::new().fg(cause_color(stall.cause)));
        Row::new([Line::raw(ago), Line::raw(ms(stall.ms)), Line::from(cause), Line::raw(site)])
    });
    let widths = [Constraint::Length(8), Constraint::Length(7), Constraint::Length(11), Constraint::Fill(1)];
    let table = Table::new(rows, widths).header(Row::new(["AGO", "LASTED", "CAUSE", "SITE"]).style(STRONG));
    frame.render_widget(table.block(block), area);
}

fn cause_color(cause: Cause) -> Color {
    match cause {
        Cause::Gc => Color::Yellow,
        Cause::GilNative => Color::Magenta,
        Cause::Python => Color::Cyan,
        Cause::CpuStarved => Color::Red,
        Cause::Unknown => Color::Reset,
    }
}

fn collections(status: &Status, wide: bool, frame: &mut Frame<'_>, area: Rect) {
    let gc = &status.gc;
    let block = Block::new().borders(Borders::TOP).title(" collections, since the start ").border_style(FAINT);
    let kinds = [("young", gc.young), ("middle", gc.middle), ("full", gc.full)];
    let kinds = kinds.map(|(name, pauses)| (name, pauses.count, pauses.total_ms, pauses.max_ms));
    let places =
        [("in request", gc.in_request), ("held up", gc.in_gap_arrivals), ("in gap", gc.in_gap), ("forced", gc.forced)];
    let places = places.map(|(name, place)| (name, place.count, place.total_ms, place.max_ms));
    let row = |name: &str, rest: [String; 3]| {
        let [times, total, max] = rest.map(|cell| Text::from(cell).right_aligned());
        let cells = [Text::from(name.to_owned()), times, max];
        if wide { Row::new(cells.into_iter().chain([total])) } else { Row::new(cells) }
    };
    // As in the status report: a line that is always empty would only ask for an explanation.
    let places = places.into_iter().filter(|(name, times, ..)| *times > 0 || !["forced", "held up"].contains(name));
    let rows = kinds.into_iter().chain(places).map(|(name, times, total, max)| {
        let measured = |value: f64| if times > 0 { ms(value) } else { "-".to_owned() };
        row(name, [times.to_string(), measured(total), measured(max)])
    });
    let widths = [10, 7, 7].into_iter().chain(wide.then_some(7)).map(Constraint::Length);
    let header = row("", ["COUNT", "TOTAL", "MAX"].map(str::to_owned)).style(STRONG);
    frame.render_widget(Table::new(rows, widths).header(header).block(block), area);
}

fn choice(screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::new().borders(Borders::TOP).title(" processes with an agent ").border_style(FAINT);
    if screen.processes.is_empty() {
        let text = "None is running. Start one with `neurogc run -- python app.py`.";
        frame.render_widget(Paragraph::new(text).block(block), area);
        return;
    }
    let rows = screen.processes.iter().map(|status| {
        let usual = [
            status.pid.to_string(),
            plain(&status.python),
            span(status.uptime_s),
            bytes(status.memory.rss),
            verdict::memory_in_brief(status),
            format!("{:.1}", status.requests.rps),
        ];
        let more = columns::cells(&screen.columns, status);
        Row::new(usual.into_iter().chain(more).chain([plain(&status.command)]))
    });
    let more = || screen.columns.iter().map(|column| column.title());
    let widths = [7, 15, 10, 9, 16, 7].into_iter().chain(more().map(|title| title.len() as u16));
    let widths = widths.map(Constraint::Length).chain([Constraint::Fill(1)]);
    let titles = ["PID", "PYTHON", "UPTIME", "RSS", "MEMORY", "REQ/S"].into_iter().chain(more()).chain(["COMMAND"]);
    let table = Table::new(rows, widths)
        .header(Row::new(titles).style(STRONG))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .highlight_symbol("> ")
        .block(block);
    let mut state = TableState::new().with_selected(Some(screen.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

fn footer(screen: &Screen) -> Line<'_> {
    if screen.ended {
        Line::styled("The process has ended; this is its last report.  ← list  q quit", ALARM)
    } else if let Some(trouble) = &screen.trouble {
        Line::styled(plain(trouble), ALARM)
    } else if screen.paused {
        Line::styled("Paused.  p continue  q quit  h help", STRONG)
    } else if screen.watched.is_none() {
        Line::styled("↑↓ select  Enter watch  q quit  h help", FAINT)
    } else {
        Line::styled("q quit  p pause  ← list  h help", FAINT)
    }
}

fn help(frame: &mut Frame<'_>) {
    const TEXT: &str = "q, Esc    quit\n↑ ↓       select a process\nEnter     watch it\n←         back to the list\n\
                        p         pause and continue\nh         this help\n\n\
                        One point a second. p99 is that of the last ten to twenty seconds. The pause is the longest \
                        of the last second or two.";
    let area = frame.area().centered(Constraint::Length(52.min(frame.area().width)), Constraint::Length(13));
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(TEXT).wrap(Wrap { trim: false }).block(block), area);
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_wire::finding::Finding;
    use neurogc_wire::status::Stall;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::poller::PollResult;
    use super::*;
    use crate::samples;

    fn render(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(screen, frame)).unwrap();
        terminal.backend().to_string()
    }

    /// The sample over a minute, with a slow full collection now and then.
    fn watched() -> Screen {
        let mut status = samples::service();
        status.degraded.clear();
        status.uptime_s -= 60.0;
        status.requests.recent_p99_ms = 5.0;
        let recent = std::mem::take(&mut status.stalls.recent);
        let mut screen = Screen::watching(status.clone());
        for second in 0..60_u64 {
            status.uptime_s += 1.0;
            status.requests.count += 480;
            status.requests.recent_p99_ms = 5.0 + (second % 12) as f64;
            status.gc.recent_max_ms = if second % 15 == 7 { 150.0 } else { 0.3 };
            status.gc.young.count += 10;
            status.gc.young.total_ms += 0.7;
            status.memory.rss += 1 << 20;
            if second % 15 == 7 {
                status.gc.full.count += 1;
                status.gc.full.total_ms += 150.0;
            }
            let over = |stall: &&Stall| stall.at_s + stall.ms / 1000.0 < status.uptime_s;
            status.stalls.recent = recent.iter().filter(over).cloned().collect();
            screen.take(PollResult::Report(Box::new(status.clone())));
        }
        screen
    }

    #[test]
    fn a_service_at_80x24() {
        insta::assert_snapshot!(render(&watched(), 80, 24));
    }

    #[test]
    fn a_service_at_120x40() {
        insta::assert_snapshot!(render(&watched(), 120, 40));
    }

    #[test]
    fn a_leak_is_the_first_line_and_the_rest_follows() {
        let mut status = samples::service();
        let leak = Finding {
            kind: FindingKind::UnboundedContainer,
            confidence: 0.95,
            text: "Leak, certain: global app.seen (dict) grows by 98 MiB/h.".to_owned(),
            ..Finding::default()
        };
        status.findings = neurogc_diagnose::diagnose(&neurogc_diagnose::Evidence::from(&status));
        status.findings.insert(0, leak);
        let text = render(&Screen::watching(status), 100, 30);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("Memory: Leak, certain: global app.seen"), "{text}");
        assert!(lines[1].contains("Garbage collection caused 82 %"), "{text}");
    }

    #[test]
    fn an_ended_process_keeps_its_last_report() {
        let mut screen = watched();
        screen.take(PollResult::Ended(4242));
        let text = render(&screen, 80, 24);
        assert!(text.contains("The process has ended") && text.contains("4242 CPython 3.12.1"), "{text}");
    }

    #[test]
    fn a_choice_of_processes() {
        let mut screen = Screen::choosing(vec![samples::service(), samples::idle()]);
        screen.selected = 1;
        insta::assert_snapshot!(render(&screen, 80, 8));
        let leak = Finding {
            kind: FindingKind::UnboundedContainer,
            confidence: 0.95,
            rate_bytes_h: 98.0 * 1_048_576.0,
            ..Finding::default()
        };
        screen.processes[0].findings = vec![leak];
        assert!(render(&screen, 100, 8).contains("leaks 98.0 MiB/h"));
    }

    #[test]
    fn figures_that_were_asked_for_are_shown() {
        let columns = vec!["bound.over".parse().unwrap(), "gc.snapshot.failed".parse().unwrap()];
        let mut screen = watched();
        screen.columns.clone_from(&columns);
        assert!(render(&screen, 80, 24).contains("bound.over 0.05  gc.snapshot.failed 3"));
        let mut screen = Screen::choosing(vec![samples::service()]);
        screen.columns = columns;
        let text = render(&screen, 120, 8);
        assert!(text.contains("bound.over gc.snapshot.failed COMMAND"), "{text}");
    }

    #[test]
    fn help_over_a_service() {
        let mut screen = watched();
        screen.help = true;
        insta::assert_snapshot!(render(&screen, 80, 24));
    }

    #[test]
    fn no_size_is_too_small() {
        let mut screen = watched();
        for help in [false, true] {
            screen.help = help;
            for (width, height) in [(1, 1), (10, 3), (40, 10), (300, 5)] {
                render(&screen, width, height);
            }
        }
        render(&Screen::choosing(Vec::new()), 5, 2);
    }
}
