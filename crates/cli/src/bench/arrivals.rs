//! Arrivals that somebody recorded: requests of a trace, or times in a text file.

use std::time::Duration;

use neurogc_wire::trace::{Record, read};

/// Reads a recorded trace, or else a text.
pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Vec<Duration>, String> {
    match (read(bytes), std::str::from_utf8(bytes)) {
        (Ok(trace), _) => Ok(of_records(&trace.records)),
        (Err(_), Ok(text)) => of_text(text),
        (Err(error), Err(_)) => Err(error.to_string()),
    }
}

/// When the requests of a trace began, counted from the first one.
fn of_records(records: &[Record]) -> Vec<Duration> {
    let starts = records.iter().filter_map(|record| match record {
        Record::RequestStart { at, .. } => Some(Duration::from_nanos(*at)),
        _ => None,
    });
    from_first(starts.collect())
}

/// A time in seconds on each line; empty lines and those that begin with `#` say nothing.
fn of_text(text: &str) -> Result<Vec<Duration>, String> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let said = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let moments = said.map(|(number, line)| {
        let seconds = line.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds.ok_or_else(|| format!("line {number} is not a time in seconds"))
    });
    Ok(from_first(moments.collect::<Result<_, _>>()?))
}

fn from_first(mut moments: Vec<Duration>) -> Vec<Duration> {
    moments.sort_unstable();
    let first = moments.first().copied().unwrap_or_default();
    moments.into_iter().map(|moment| moment - first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_first() {
        let times = of_text("# recorded on Monday\n10.5\n\n10\n12.25\n");
        assert_eq!(times, Ok([0, 500, 2250].map(Duration::from_millis).to_vec()));
        assert_eq!(of_text("1\nsoon\n"), Err("line 2 is not a time in seconds".to_owned()));
        assert_eq!(of_text("-1\n"), Err("line 1 is not a time in seconds".to_owned()));
    }

    #[test]
    fn a_file_that_is_no_trace_is_refused() {
        assert!(of_bytes(b"\xff\xfe").is_err());
    }

    #[test]
    fn requests_of_a_trace_are_found() {
        let moments = of_records(&crate::samples::trace().records);
        assert_eq!(moments, [0, 1, 80].map(Duration::from_millis));
        assert_eq!(of_bytes(b"0.5\n1.5"), Ok(vec![Duration::ZERO, Duration::from_secs(1)]));
    }
}
