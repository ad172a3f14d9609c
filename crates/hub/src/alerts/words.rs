//! Sizes and times as people write and read them.

/// Milliseconds from `90s`, `5m`, `6h` or `2d`.
pub(super) fn read_ms(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a time; write a number and a unit: 90s, 5m, 6h or 2d");
    let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit() || it == '.').len();
    let unit = match text[digits..].trim() {
        "ms" => 1.0,
        "s" => 1e3,
        "m" | "min" => 60e3,
        "h" => 3600e3,
        "d" => 86_400e3,
        _ => return Err(wrong()),
    };
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let ms = number * unit;
    if ms.is_finite() && ms <= 366.0 * 86_400e3 { Ok(ms as u64) } else { Err(wrong()) }
}

/// A time in its largest unit.
pub(super) fn time(ms: f64) -> String {
    let (number, unit) = match ms {
        ..1e3 => (ms, "ms"),
        ..120e3 => (ms / 1e3, "s"),
        ..7_200e3 => (ms / 60e3, "min"),
        ..172_800e3 => (ms / 3600e3, "h"),
        _ => (ms / 86_400e3, "days"),
    };
    format!("{} {unit}", number_text(number))
}

/// A size in its largest unit.
pub(super) fn size(bytes: f64) -> String {
    let (number, unit) = match bytes {
        ..1e3 => (bytes, "bytes"),
        ..1e6 => (bytes / 1e3, "KB"),
        ..1e9 => (bytes / 1e6, "MB"),
        _ => (bytes / 1e9, "GB"),
    };
    format!("{} {unit}", number_text(number))
}

fn number_text(number: f64) -> String {
    if number >= 9.95 || (number * 10.0).round() % 10.0 == 0.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for (text, ms) in [("90s", 90_000), ("1.5h", 5_400_000), ("2d", 172_800_000), ("5 m", 300_000), ("250ms", 250)]
        {
            assert_eq!(read_ms(text), Ok(ms), "{text}");
        }
        for text in ["", "5", "h", "5 weeks", "-5m", "1e9d", "900000d", "1.2.3s", "٣s"] {
            assert!(read_ms(text).is_err(), "{text}");
        }
        assert_eq!([250.0, 90e3, 5_400e3, 9e6, 4e8].map(time), ["250 ms", "90 s", "90 min", "2.5 h", "4.6 days"]);
        assert_eq!([5.0, 2.5e3, 98e6, 1.9e9].map(size), ["5 bytes", "2.5 KB", "98 MB", "1.9 GB"]);
    }
}
