//! The trace's file: named so that processes do not write over each other, and written a block at a time.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use neurogc_wire::trace::{Header, encode_header, read};

use crate::agent::Agent;
use crate::conductor::STEP_NS;
use crate::cpython::native::monotonic_ns;
use crate::status;

/// An open trace.
#[derive(Debug)]
pub(crate) struct TraceFile {
    file: File,
}

impl TraceFile {
    /// Opens the trace of this process, or says in words why it cannot.
    pub(crate) fn open(agent: &Agent, path: &Path) -> Result<Self, String> {
        let header = header(agent);
        let path = if agent.owns_trace { path.to_owned() } else { with_pid(path, header.pid) };
        let failed = |path: &Path, error| format!("no trace: {}: {error}", path.display());
        match begun_by(&path) {
            // This agent wrote it and was stopped for a fork: it goes on.
            Some(earlier) if earlier == header => OpenOptions::new()
                .append(true)
                .open(&path)
                .map(|file| Self { file })
                .map_err(|error| failed(&path, error)),
            // The same process before it called exec.
            Some(earlier) if earlier.pid == header.pid && agent.owns_trace => {
                create(&with_pid(&path, header.pid), &header).map_err(|error| failed(&path, error))
            }
            _ => create(&path, &header).map_err(|error| failed(&path, error)),
        }
    }

    /// Appends a block.
    pub(crate) fn write(&mut self, block: &[u8]) -> std::io::Result<()> {
        self.file.write_all(block)
    }
}

fn create(path: &Path, header: &Header) -> std::io::Result<TraceFile> {
    let mut file = File::create(path)?;
    // Another process that records now keeps its file; this one takes a name of its own.
    if file.try_lock().is_err() {
        file = File::create(with_pid(path, header.pid))?;
    }
    file.write_all(&encode_header(header))?;
    Ok(TraceFile { file })
}

/// The header of a trace that is already there.
fn begun_by(path: &Path) -> Option<Header> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(64 * 1024).read_to_end(&mut bytes).ok()?;
    read(&bytes).ok().map(|trace| trace.header)
}

/// `trace.ngt` becomes `trace.123.ngt`.
fn with_pid(path: &Path, pid: u32) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{pid}.{}", extension.display())),
        None => path.with_extension(pid.to_string()),
    }
}

fn header(agent: &Agent) -> Header {
    // The wall clock at the moment the agent was installed, from which all times count.
    let since = monotonic_ns() - agent.installed;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let started_ms = now.saturating_sub(since) / 1_000_000;
    Header {
        pid: std::process::id(),
        command: agent.command.clone(),
        python: agent.interpreter.version.to_string(),
        neurogc: status::VERSION.to_owned(),
        policy: agent.settings.policy.resolve().to_string(),
        started_unix_ns: started_ms * 1_000_000,
        thresholds: agent.thresholds,
        gil_step_ns: STEP_NS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_adds_its_pid() {
        assert_eq!(with_pid(Path::new("/tmp/trace.ngt"), 12), Path::new("/tmp/trace.12.ngt"));
        assert_eq!(with_pid(Path::new("trace"), 12), Path::new("trace.12"));
    }
}
