//! What the hub itself takes of the machine.

use std::fs;

/// Processor time so far, in milliseconds.
pub(crate) fn cpu_ms() -> f64 {
    const TICK_MS: f64 = 10.0;
    let ticks = || {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace().skip(11);
        Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
    };
    ticks().unwrap_or(0.0) * TICK_MS
}

/// Resident set in bytes.
pub(crate) fn rss() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_takes_some() {
        assert!(super::rss() > 1 << 20 && super::cpu_ms() >= 0.0);
    }
}
