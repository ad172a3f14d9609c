//! The trace's file: named so that processes do not write over each other, and written a block at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use neurogc_policy::Name;
use neurogc_wire::sites::SiteTable;
use neurogc_wire::trace::{Header, encode_header, encode_sites, read};
use nix::fcntl::OFlag;

use crate::book::status;
use crate::host::Host;
use crate::sampler::STEP_NS;
use crate::sys::native::{monotonic_ns, process_age_ns, unix_ns};

/// How often the trace gets a table of allocation sites.
const SITES_NS: u64 = 10_000_000_000;

/// An open trace.
#[derive(Debug)]
pub(crate) struct TraceFile {
    file: File,
    /// When the next table of allocation sites is due.
    pub(crate) sites_due: u64,
}

impl TraceFile {
    /// Opens the trace of this process, or says in words why it cannot.
    pub(crate) fn open(host: &Host, policy: &Name, path: &Path) -> Result<Self, String> {
        let header = header(host, policy);
        let path = if host.start.owns_trace { path.to_owned() } else { with_pid(path, header.pid) };
        let failed = |path: &Path, error| format!("no trace: {}: {error}", path.display());
        match open_file(&path) {
            Ok(Some(file)) => match begun_by(&file) {
                // This agent wrote it and was stopped for a fork: it goes on.
                Some(earlier) if earlier == header => return Ok(Self::of(file)),
                // The same process before it called exec: not in use, and yet to be kept.
                Some(earlier) if host.start.owns_trace && is_of_this_process(&earlier) => {}
                _ => return begin(file, &header).map_err(|error| failed(&path, error)),
            },
            // Another process records there now.
            Ok(None) => {}
            Err(error) => return Err(failed(&path, error)),
        }
        let path = with_pid(&path, header.pid);
        match open_file(&path) {
            Ok(Some(file)) => begin(file, &header).map_err(|error| failed(&path, error)),
            Ok(None) => Err(format!("no trace: {}: another process records there", path.display())),
            Err(error) => Err(failed(&path, error)),
        }
    }

    fn of(file: File) -> Self {
        Self { file, sites_due: monotonic_ns() + SITES_NS }
    }

    /// The block for a table of allocation sites, where one is due and the process is sampled. The last one comes before its
    /// time: it is what the process held at its end.
    pub(crate) fn sites(
        &mut self,
        now: u64,
        last: bool,
        table: impl FnOnce() -> Result<SiteTable, String>,
    ) -> Option<Vec<u8>> {
        if now < self.sites_due && !last {
            return None;
        }
        self.sites_due = now + SITES_NS;
        table().ok().map(|table| encode_sites(&table))
    }

    /// Appends a block.
    pub(crate) fn write(&mut self, block: &[u8]) -> std::io::Result<()> {
        self.file.write_all(block)
    }
}

/// Opens a file for this process alone and leaves its contents alone; `None` where another process has it.
fn open_file(path: &Path) -> io::Result<Option<File>> {
    // Writing to a pipe or terminal without a reader would block the thread, and its input is not meant for us.
    let nonblocking = OFlag::O_NONBLOCK.bits();
    let file = OpenOptions::new().read(true).append(true).create(true).custom_flags(nonblocking).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let is_found = |path| fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (found.dev(), found.ino()));
    if is_found("/proc/self/fd/1") || is_found("/proc/self/fd/2") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is the program's own output"));
    }
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        // A file system without locks cannot tell who else writes.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(file)),
    }
}

fn begin(mut file: File, header: &Header) -> io::Result<TraceFile> {
    file.set_len(0)?;
    file.write_all(&encode_header(header))?;
    Ok(TraceFile::of(file))
}

/// The header of a trace that is already there.
fn begun_by(file: &File) -> Option<Header> {
    let mut bytes = Vec::new();
    file.take(64 * 1024).read_to_end(&mut bytes).ok()?;
    read(&bytes).ok().map(|trace| trace.header)
}

/// Whether this very process began a trace. In a container every first process has the same number, so the trace must
/// be younger than the process, too.
fn is_of_this_process(header: &Header) -> bool {
    // The kernel counts in hundredths of a second, and the wall clock may have been adjusted a little.
    const SLACK_NS: u64 = 1_000_000_000;
    let age = process_age_ns().unwrap_or(u64::MAX);
    header.pid == std::process::id() && header.started_unix_ns.saturating_add(age) + SLACK_NS >= unix_ns()
}

/// `trace.ngt` becomes `trace.123.ngt`.
fn with_pid(path: &Path, pid: u32) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{pid}.{}", extension.display())),
        None => path.with_extension(pid.to_string()),
    }
}

/// How a trace of this process begins.
pub(super) fn header(host: &Host, policy: &Name) -> Header {
    Header {
        pid: std::process::id(),
        command: host.start.command.clone(),
        python: host.interpreter.version.to_string(),
        neurogc: status::VERSION.to_owned(),
        policy: policy.to_string(),
        service: host.start.identity.service.clone(),
        started_unix_ns: host.installed_unix_ns,
        thresholds: host.start.thresholds,
        gil_step_ns: STEP_NS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_used_again_is_not_the_same_process() {
        let header = |started_unix_ns| Header { pid: std::process::id(), started_unix_ns, ..Header::default() };
        assert!(is_of_this_process(&header(unix_ns())));
        assert!(!is_of_this_process(&header(unix_ns() - 86_400_000_000_000)));
        assert!(!is_of_this_process(&Header { pid: 1, ..header(unix_ns()) }));
    }

    #[test]
    fn a_table_is_taken_every_ten_seconds_and_at_the_end() {
        let mut trace = TraceFile { file: File::open("/dev/null").expect("it is there"), sites_due: 100 };
        let mut take = |now, last, table: Result<SiteTable, String>| trace.sites(now, last, || table).is_some();
        assert!(!take(99, false, Ok(SiteTable::default())));
        assert!(take(100, false, Ok(SiteTable::default())));
        assert!(!take(100 + SITES_NS - 1, false, Ok(SiteTable::default())));
        assert!(take(200, true, Ok(SiteTable::default())));
        assert!(!take(300 + SITES_NS, false, Err("not sampled".to_owned())));
    }

    #[test]
    fn a_child_adds_its_pid() {
        assert_eq!(with_pid(Path::new("/tmp/trace.ngt"), 12), Path::new("/tmp/trace.12.ngt"));
        assert_eq!(with_pid(Path::new("trace"), 12), Path::new("trace.12"));
    }
}
