//! How the requests of open-loop scenarios arrive: at random, in bursts, at a rising rate, or as recorded in a file.

use std::fs;
use std::str::FromStr;
use std::time::Duration;

use neurogc_load::Arrivals;
use neurogc_wire::trace::{Record, read};

/// How busy a service is kept, as a share of what it can do.
pub(crate) const UTILISATION: f64 = 0.6;

/// What `--arrivals` and `--load` say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern {
    shape: ArrivalShape,
    utilisation: f64,
}

impl Default for Pattern {
    fn default() -> Self {
        Self { shape: ArrivalShape::default(), utilisation: UTILISATION }
    }
}

/// How requests come.
#[derive(Clone, Debug, Default, PartialEq)]
enum ArrivalShape {
    /// Independent clients.
    #[default]
    Poisson,
    /// So many at once, again and again, and independent clients between them.
    Bursts { size: u32, every: Duration },
    /// Ever more or ever fewer, as shares of what the service can do.
    Ramp { from: f64, to: f64 },
    /// As recorded.
    Replay(Vec<Duration>),
}

impl Pattern {
    /// The same for a service that is kept so busy, as a share of what it can do. A ramp and recorded arrivals stay as they are.
    pub(crate) fn busy(self, utilisation: f64) -> Self {
        Self { utilisation, ..self }
    }

    /// How busy the service is kept.
    pub(crate) fn utilisation(&self) -> f64 {
        self.utilisation
    }

    /// The arrivals at a service that can do so many requests in a second.
    pub(crate) fn at(&self, capacity: f64, lasts: Duration) -> Arrivals {
        let usual = self.utilisation * capacity;
        match &self.shape {
            ArrivalShape::Poisson => Arrivals::Poisson { per_second: usual },
            ArrivalShape::Bursts { size, every } => Arrivals::Bursts {
                per_second: (usual - f64::from(*size) / every.as_secs_f64()).max(0.0),
                size: *size,
                every: *every,
            },
            ArrivalShape::Ramp { from, to } => Arrivals::Ramp { from: from * capacity, to: to * capacity, over: lasts },
            ArrivalShape::Replay(moments) => Arrivals::Replay(moments.clone()),
        }
    }

    /// For the report.
    pub(crate) fn title(&self) -> String {
        let percent = |share: f64| (share * 100.0).round();
        match &self.shape {
            ArrivalShape::Poisson => format!("{} % busy", percent(self.utilisation)),
            ArrivalShape::Bursts { size, every } => {
                format!("{size} at once every {} s, {} % busy in all", every.as_secs_f64(), percent(self.utilisation))
            }
            ArrivalShape::Ramp { from, to } => format!("from {} to {} % busy", percent(*from), percent(*to)),
            ArrivalShape::Replay(_) => "recorded arrivals".to_owned(),
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let numbers: Option<(f64, f64)> =
            rest.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let shape = match (kind, numbers) {
            ("poisson", None) if rest.is_empty() => Ok(ArrivalShape::Poisson),
            ("bursts", Some((size, every)))
                if (1.0..=100_000.0).contains(&size) && (0.01..=3600.0).contains(&every) =>
            {
                Ok(ArrivalShape::Bursts { size: size as u32, every: Duration::from_secs_f64(every) })
            }
            ("bursts", _) => Err(format!("{text:?} should be bursts:N,S: N requests at once, every S seconds")),
            ("ramp", Some((from, to))) if [from, to].iter().all(|share| (0.0..=300.0).contains(share)) => {
                Ok(ArrivalShape::Ramp { from: from / 100.0, to: to / 100.0 })
            }
            ("ramp", _) => Err(format!("{text:?} should be ramp:FROM,TO: percent of what the service can do")),
            _ => recorded(text),
        };
        shape.map(|shape| Self { shape, ..Self::default() })
    }
}

/// Arrivals recorded in a file.
fn recorded(path: &str) -> Result<ArrivalShape, String> {
    let wrong = |reason: String| format!("cannot take arrivals from {path}: {reason}");
    let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    match of_bytes(&bytes).map_err(wrong)? {
        moments if moments.is_empty() => Err(format!("{path} holds no requests")),
        moments => Ok(ArrivalShape::Replay(moments)),
    }
}

/// Reads a recorded trace, or else a text: a time in seconds on each line.
fn of_bytes(bytes: &[u8]) -> Result<Vec<Duration>, String> {
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
    fn patterns_keep_the_service_as_busy_as_they_say() {
        let pattern = |text: &str| text.parse::<Pattern>();
        let lasts = Duration::from_secs(7);
        assert_eq!(pattern("poisson").map(|it| it.at(100.0, lasts)), Ok(Arrivals::Poisson { per_second: 60.0 }));
        let bursts = Arrivals::Bursts { per_second: 35.0, size: 50, every: Duration::from_secs(2) };
        assert_eq!(pattern("bursts:50,2").map(|it| it.at(100.0, lasts)), Ok(bursts));
        let busier = pattern("poisson").map(|it| it.busy(0.85));
        assert_eq!(
            busier.map(|it| (it.at(100.0, lasts), it.title())),
            Ok((Arrivals::Poisson { per_second: 85.0 }, "85 % busy".to_owned()))
        );
        let ramp = Arrivals::Ramp { from: 20.0, to: 90.0, over: lasts };
        assert_eq!(
            pattern("ramp:20,90").map(|it| (it.at(100.0, lasts), it.title())),
            Ok((ramp, "from 20 to 90 % busy".to_owned()))
        );
    }

    #[test]
    fn a_pattern_that_is_wrong_is_told_what_is_right() {
        let error = |text: &str| text.parse::<Pattern>().err().unwrap_or_default();
        assert!(error("bursts:50").contains("bursts:N,S"));
        assert!(error("bursts:0,1").contains("bursts:N,S"));
        assert!(error("ramp:20").contains("ramp:FROM,TO"));
        assert!(error("no-such-file").contains("cannot take arrivals from no-such-file"));
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
