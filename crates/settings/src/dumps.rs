//! When a process writes heap dumps by itself.

use std::fmt;
use std::str::FromStr;

/// What causes a heap dump.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeapDumpOn {
    /// A `MemoryError` ends a thread.
    pub oom: bool,
    /// This share of the memory limit is in use.
    pub limit: Option<f64>,
    /// This signal arrives.
    pub signal: Option<DumpSignal>,
}

/// A signal that programs may use as they like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpSignal {
    /// Its number on Linux.
    pub number: i32,
    name: &'static str,
}

const SIGNALS: [DumpSignal; 4] = [
    DumpSignal { number: 10, name: "USR1" },
    DumpSignal { number: 12, name: "USR2" },
    DumpSignal { number: 1, name: "HUP" },
    DumpSignal { number: 23, name: "URG" },
];

/// The share of the limit where none is named.
const DEFAULT_PERCENT: f64 = 90.0;

impl FromStr for HeapDumpOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut on = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name.trim(), Some(value)));
            let upper = name.to_ascii_uppercase();
            let signal = SIGNALS.iter().find(|signal| upper.strip_prefix("SIG").unwrap_or(&upper) == signal.name);
            match (name, value, signal) {
                ("oom", None, _) => on.oom = true,
                ("limit", value, _) => {
                    let percent = value.map_or(Ok(DEFAULT_PERCENT), |value| value.trim().trim_end_matches('%').parse());
                    match percent {
                        Ok(percent) if (10.0..=100.0).contains(&percent) => on.limit = Some(percent / 100.0),
                        _ => return Err("limit must be a percentage from 10 to 100, for instance limit=90".to_owned()),
                    }
                }
                (_, None, Some(signal)) => on.signal = Some(*signal),
                _ => {
                    return Err(format!(
                        "{word:?} is no cause of a dump: write oom, limit=90, or a signal: USR1, USR2, HUP or URG"
                    ));
                }
            }
        }
        Ok(on)
    }
}

impl fmt::Display for HeapDumpOn {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let oom = self.oom.then(|| "oom".to_owned());
        let limit = self.limit.map(|share| format!("limit={}", (share * 1e4).round() / 1e2));
        let signal = self.signal.map(|signal| signal.name.to_owned());
        let words: Vec<_> = [oom, limit, signal].into_iter().flatten().collect();
        to.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        match (text.parse::<HeapDumpOn>(), expected) {
            (Ok(on), Ok(shown)) => assert_eq!(on.to_string(), shown),
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn causes_are_written_with_commas() {
        check("", Ok(""));
        check("oom", Ok("oom"));
        check("limit", Ok("limit=90"));
        check(" SIGUSR2 , limit=87.5%, oom", Ok("oom,limit=87.5,USR2"));
        check("limit=5", Err("10 to 100"));
        check("kill", Err("no cause"));
        check("oom=1", Err("no cause"));
    }
}
