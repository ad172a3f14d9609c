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
        ..7200.0 => format!("{:.0} minutes", seconds / 60.0),
        ..172_800.0 => format!("{:.0} hours", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
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

/// A size in binary units that may be small.
pub(crate) fn small_bytes(size: u64) -> String {
    match size {
        ..1024 => format!("{size} bytes"),
        1024..1_048_576 => format!("{:.0} KiB", size as f64 / 1024.0),
        _ => bytes(size),
    }
}

/// A growth, given in bytes per second.
pub(crate) fn rate(bytes_s: f64) -> String {
    let hour = bytes_s * 3600.0;
    let mib = hour / f64::from(1 << 20);
    match mib {
        ..1.0 => format!("{:.0} KiB/h", hour / 1024.0),
        ..9.95 => format!("{mib:.1} MiB/h"),
        ..1023.5 => format!("{mib:.0} MiB/h"),
        _ => format!("{:.1} GiB/h", mib / 1024.0),
    }
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
