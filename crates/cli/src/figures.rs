//! Figures as a person reads them: sizes, times, counts, and text from other processes.

use std::io::{self, IsTerminal};

/// How many columns a line on standard output may have: as many as the terminal, or any number in a file or a pipe.
pub(crate) fn room() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    ratatui::crossterm::terminal::size().ok().map(|(columns, _)| columns.into()).filter(|columns| *columns > 0)
}

/// A size in binary units.
pub(crate) fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = size as f64;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.95 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A difference of sizes, with its sign.
pub(crate) fn change(size: i64) -> String {
    let sign = match size {
        0 => "±",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", bytes(size.unsigned_abs()))
}

/// A duration given in milliseconds, in the unit that suits it.
pub(crate) fn ms(value: f64) -> String {
    if value == 0.0 {
        "0 ms".to_owned()
    } else if value < 0.9995 {
        format!("{:.0} µs", value * 1000.0)
    } else if value < 99.95 {
        format!("{value:.1} ms")
    } else if value < 999.5 {
        format!("{value:.0} ms")
    } else {
        format!("{:.1} s", value / 1000.0)
    }
}

/// A time span of a process's life, in its two largest units.
pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} m {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} m", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// Takes a time span from the command line: `30s`, `5m`, `1h`, `7d`, or a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "s" | "sec" | "seconds" => 1,
        "m" | "min" | "minutes" => 60,
        "h" | "hours" => 3600,
        "d" | "days" => 86_400,
        _ => 0,
    };
    let value = digits.trim().parse::<u32>().ok().and_then(|value| value.checked_mul(unit)).filter(|value| *value > 0);
    value.ok_or_else(|| "it must be a time like 30s, 5m, 1h or 7d".to_owned())
}

/// A moment given in nanoseconds since 1970, to the second, in UTC.
pub(crate) fn utc(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (day, time) = (seconds / 86_400, seconds % 86_400);
    // Days to a date, with years that begin in March so that the leap day comes last (Howard Hinnant's algorithm).
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02} {:02}:{:02}:{:02} UTC", time / 3600, time / 60 % 60, time % 60)
}

/// A count with its thousands apart.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Text from another process, without what could steer a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Text cut to a width, its end replaced by an ellipsis.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Text in lines of at most `width`, broken between words; what does not fit into `most` lines is cut off.
pub(crate) fn wrap(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let (full, line) = (lines.len() >= most, lines.last_mut());
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if full || line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| shorten(line, width)).collect()
}

/// Text cut to a width from its front: of a code site the end says most.
pub(crate) fn shorten_front(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    ['…'].into_iter().chain(text.chars().skip(length + 1 - width.max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_three_digits() {
        let cases =
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (150 << 20, "150 MiB"), (u64::MAX, "16777216 TiB")];
        for (size, expect) in cases {
            assert_eq!(bytes(size), expect);
        }
    }

    #[test]
    fn differences_have_a_sign() {
        assert_eq!([0, 2048, -(3 << 20)].map(change), ["±0 B", "+2.0 KiB", "−3.0 MiB"]);
    }

    #[test]
    fn times_choose_their_unit() {
        let cases = [(0.0, "0 ms"), (0.0042, "4 µs"), (1.25, "1.2 ms"), (349.0, "349 ms"), (41_000.0, "41.0 s")];
        for (value, expect) in cases {
            assert_eq!(ms(value), expect);
        }
    }

    #[test]
    fn spans_show_two_units() {
        let cases = [(5.9, "5 s"), (65.0, "1 m 05 s"), (7500.0, "2 h 05 m"), (270_000.0, "3 d 03 h")];
        for (value, expect) in cases {
            assert_eq!(span(value), expect);
        }
    }

    #[test]
    fn moments_become_dates() {
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_790_000_000, "2026-09-21 14:13:20 UTC"),
        ];
        for (seconds, expect) in cases {
            assert_eq!(utc(seconds * 1_000_000_000), expect);
        }
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\nc"), "a [2Jb c");
    }

    #[test]
    fn long_text_is_cut_at_the_chosen_end() {
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten_front("abcdef", 4), "…def");
        assert_eq!(shorten("abc", 4), "abc");
    }

    #[test]
    fn long_text_is_broken_between_words() {
        assert_eq!(wrap("one two three four", 9, 3), ["one two", "three", "four"]);
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three fo…"]);
        assert_eq!(wrap("enormously so", 4, 3), ["eno…", "so"]);
        assert_eq!(wrap("", 4, 3), [""]);
    }
}
