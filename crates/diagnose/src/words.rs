//! Figures as they stand in a sentence.

/// A duration given in milliseconds.
pub(crate) fn ms(value: f64) -> String {
    if value < 9.95 {
        format!("{value:.1} ms")
    } else if value < 999.5 {
        format!("{value:.0} ms")
    } else {
        format!("{:.1} s", value / 1e3)
    }
}

/// How long a window is.
pub(crate) fn window(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} seconds"),
        _ => format!("{:.0} minutes", seconds / 60.0),
    }
}

/// How often.
pub(crate) fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{} times", self::count(count)),
    }
}

/// A size in binary units.
pub(crate) fn bytes(size: u64) -> String {
    let mb = size as f64 / f64::from(1 << 20);
    if mb < 1023.5 { format!("{mb:.0} MiB") } else { format!("{:.1} GiB", mb / 1024.0) }
}

/// A count with its thousands apart.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
