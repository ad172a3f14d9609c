//! What a table of sites is of: a process, or a file that holds tables.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use neurogc_sites::{compare, export};
use neurogc_wire::sites::{AllocationMode, SiteTable};
use neurogc_wire::trace;

use crate::agents::Rendezvous;
use crate::failure::Failure;
use crate::figures::span;
use crate::notice::say;
use crate::trace::load;

/// How long the agent may take to answer: it goes through all its samples.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A process, or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Process(u32),
    File(PathBuf),
}

impl FromStr for Subject {
    type Err = String;

    /// A number is a process. A file of that name can be written as `./4242`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.bytes().all(|letter| letter.is_ascii_digit()) {
            return crate::process::number(text).map(Self::Process);
        }
        Ok(Self::File(PathBuf::from(text)))
    }
}

impl Subject {
    /// The table of now, or the last one of the file; compared with so many seconds before where that is wanted.
    pub(crate) fn table(&self, since_s: Option<u32>) -> Result<SiteTable, Failure> {
        let table = match self {
            Self::Process(pid) => of_process(*pid, since_s)?,
            Self::File(path) => of_file(path, since_s)?,
        };
        if let Some(remark) = shorter_than_asked(&table, since_s) {
            say(remark);
        }
        Ok(table)
    }

    /// The name of a file about this, with an ending.
    pub(crate) fn file_name(&self, ending: &str) -> PathBuf {
        match self {
            Self::Process(pid) => PathBuf::from(format!("neurogc-{pid}.{ending}")),
            Self::File(path) => path.with_extension(ending),
        }
    }
}

/// Asks a process.
pub(crate) fn of_process(pid: u32, since_s: Option<u32>) -> Result<SiteTable, Failure> {
    let table = Rendezvous::of_this_machine().sites(pid, since_s, PATIENCE).map_err(Failure::failed)?;
    if table.mode == AllocationMode::Off {
        return Err(Failure::failed(format!(
            "process {pid} is not sampled: its setting `allocations` is off. Start it with \
             `neurogc run --set allocations=auto -- …`"
        )));
    }
    Ok(table)
}

/// Reads a trace, or what `neurogc memory record` wrote.
pub(crate) fn of_file(path: &Path, since_s: Option<u32>) -> Result<SiteTable, Failure> {
    let shown = path.display();
    let bytes = fs::read(path).map_err(|error| {
        Failure::failed(format!(
            "cannot read {shown}: {error}. Name a process, a trace or a file of `neurogc memory record`"
        ))
    })?;
    if bytes.starts_with(trace::MAGIC) {
        return of_trace(path, since_s);
    }
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let table =
        if is_json { of_json(&bytes) } else { export::pprof::decode(&bytes).map_err(|error| error.to_string()) };
    let table = table.map_err(|error| Failure::failed(format!("{shown} cannot be read: {error}")))?;
    if since_s.is_some() && table.compared_unix_ms.is_none() {
        let hint = "Compare two files with `neurogc memory diff`";
        return Err(Failure::failed(format!(
            "{shown} holds one moment, so --since has nothing to compare with. {hint}"
        )));
    }
    Ok(table)
}

fn of_json(bytes: &[u8]) -> Result<SiteTable, String> {
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if value.get("sites").is_none_or(|sites| !sites.is_array()) {
        return Err("it is not what `neurogc memory record --format json` writes".to_owned());
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn of_trace(path: &Path, since_s: Option<u32>) -> Result<SiteTable, Failure> {
    let shown = path.display();
    let tables = load(path)?.sites;
    let Some(last) = tables.last() else {
        return Err(Failure::failed(format!(
            "{shown} has no allocation sites: the process was not sampled, or was killed before the first table, or the \
             trace is of an older NeuroGC"
        )));
    };
    let Some(since_s) = since_s else { return Ok(last.clone()) };
    let wanted = last.taken_unix_ms.saturating_sub(u64::from(since_s) * 1000);
    let earlier = tables.iter().min_by_key(|table| table.taken_unix_ms.abs_diff(wanted)).unwrap_or(last);
    Ok(compare(earlier, last))
}

/// What to say where the comparison is with another moment than the one asked for.
fn shorter_than_asked(table: &SiteTable, since_s: Option<u32>) -> Option<String> {
    let asked = f64::from(since_s?);
    let Some(compared) = table.compared_unix_ms else {
        return Some("no earlier moment is kept yet: nothing is compared".to_owned());
    };
    let found = table.taken_unix_ms.saturating_sub(compared) as f64 / 1e3;
    // Moments are kept at a distance, so the nearest one is rarely exact.
    let far = (found - asked).abs() > 15.0_f64.max(asked * 0.2);
    far.then(|| format!("the nearest moment that is kept is {} ago, not {}", span(found), span(asked)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_process_and_anything_else_a_file() {
        assert_eq!("4242".parse(), Ok(Subject::Process(4242)));
        assert_eq!("./4242".parse(), Ok(Subject::File("./4242".into())));
        assert_eq!("a/x.pb.gz".parse(), Ok(Subject::File("a/x.pb.gz".into())));
        assert!("99999999999".parse::<Subject>().is_err());
        assert_eq!(Subject::Process(7).file_name("html"), PathBuf::from("neurogc-7.html"));
        assert_eq!(Subject::File("a/t.ngct".into()).file_name("html"), PathBuf::from("a/t.html"));
    }

    #[test]
    fn another_moment_than_asked_for_is_told() {
        let table = |seconds: Option<u64>| SiteTable {
            taken_unix_ms: 10_000_000,
            compared_unix_ms: seconds.map(|seconds| 10_000_000 - seconds * 1000),
            ..SiteTable::default()
        };
        assert_eq!(shorter_than_asked(&table(Some(60)), None), None);
        assert_eq!(shorter_than_asked(&table(Some(70)), Some(60)), None);
        let remark = shorter_than_asked(&table(Some(60)), Some(600)).unwrap_or_default();
        assert_eq!(remark, "the nearest moment that is kept is 1 m 00 s ago, not 10 m 00 s");
        assert!(shorter_than_asked(&table(None), Some(600)).is_some());
    }
}
