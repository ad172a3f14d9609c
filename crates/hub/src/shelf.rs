//! The recordings there are: uploaded ones, and those of the folder that `--recordings` names.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use neurogc_wire::trace::MAGIC;
use serde::Serialize;
use serde_json::Value;

use crate::clock::unix_ms;

/// The longest recording that is read, and all uploads together.
pub(crate) const LONGEST: u64 = 64 << 20;
const MOST: u64 = 512 << 20;

/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 1000;

/// What a recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Trace,
    Bench,
}

/// One recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    bytes: u64,
    added_ms: u64,
    pub(crate) uploaded: bool,
    #[serde(skip)]
    pub(crate) path: PathBuf,
}

/// Where recordings are.
#[derive(Debug)]
pub(crate) struct Shelf {
    uploads: PathBuf,
    named: Option<PathBuf>,
}

/// Why an upload was not taken.
#[derive(Debug)]
pub(crate) enum UploadError {
    Unknown,
    Full,
    Io(io::Error),
}

impl Shelf {
    pub(crate) fn new(data: &Path, named: Option<PathBuf>) -> Self {
        Self { uploads: data.join("recordings"), named }
    }

    /// All recordings, the newest first.
    pub(crate) fn list(&self) -> Vec<Entry> {
        let mut found = entries(&self.uploads, true);
        if let Some(named) = &self.named {
            found.extend(entries(named, false));
            // `neurogc bench` keeps each run in a folder of its own.
            let folders =
                fs::read_dir(named).into_iter().flatten().flatten().take(MOST_ENTRIES).map(|entry| entry.path());
            found.extend(folders.filter(|path| path.is_dir()).filter_map(|path| entry(&path.join("run.json"), false)));
        }
        found.sort_by(|a, b| (b.added_ms, &a.id).cmp(&(a.added_ms, &b.id)));
        found
    }

    /// One of them. Only what is listed can be named, so no id leads anywhere else.
    pub(crate) fn find(&self, id: &str) -> Option<Entry> {
        self.list().into_iter().find(|entry| entry.id == id)
    }

    /// Keeps an upload.
    pub(crate) fn add(&self, name: &str, bytes: &[u8]) -> Result<Entry, UploadError> {
        kind_of(bytes).ok_or(UploadError::Unknown)?;
        let used: u64 = entries(&self.uploads, true).iter().map(|entry| entry.bytes).sum();
        if used + bytes.len() as u64 > MOST {
            return Err(UploadError::Full);
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.uploads).map_err(UploadError::Io)?;
        let path = self.uploads.join(format!("{}-{}", unix_ms(), plain(name)));
        let written = fs::write(&path, bytes).map_err(UploadError::Io);
        written.and_then(|()| entry(&path, true).ok_or(UploadError::Unknown)).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })
    }
}

/// A file name that leads nowhere else.
fn plain(name: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() || "._-".contains(it) { it } else { '_' };
    let plain: String = name.chars().rev().take(100).collect::<Vec<_>>().into_iter().rev().map(letter).collect();
    let plain = plain.trim_start_matches('.');
    if plain.is_empty() { "recording".to_owned() } else { plain.to_owned() }
}

fn entries(folder: &Path, uploaded: bool) -> Vec<Entry> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
    found.filter_map(|found| entry(&found.path(), uploaded)).collect()
}

fn entry(path: &Path, uploaded: bool) -> Option<Entry> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    let kind = kind_of(&first_bytes(path).ok()?)?;
    let added = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let file = path.file_name()?.to_str()?;
    let name = match file {
        // All of them are called the same; the folder tells which it is.
        "run.json" => path.parent()?.file_name()?.to_str()?,
        // Uploads begin with the time at which they came.
        _ if uploaded => file.split_once('-').map_or(file, |(_, name)| name),
        _ => file,
    };
    Some(Entry {
        id: format!("{}-{}", if uploaded { "u" } else { "f" }, plain(if file == "run.json" { name } else { file })),
        name: name.to_owned(),
        kind,
        bytes: metadata.len(),
        added_ms: added.as_millis() as u64,
        uploaded,
        path: path.to_owned(),
    })
}

fn first_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(fs::File::open(path)?, 4096), &mut bytes)?;
    Ok(bytes)
}

/// What a file is, by its bytes: all of them, or the first few thousand.
fn kind_of(bytes: &[u8]) -> Option<Kind> {
    if bytes.starts_with(MAGIC) {
        return Some(Kind::Trace);
    }
    let whole = serde_json::from_slice::<Value>(bytes).ok();
    let is_run =
        |text: &str| text.trim_start().starts_with('{') && text.contains("\"format\"") && text.contains("\"neurogc\"");
    match whole {
        Some(run) => (run["format"].is_u64() && run["scenarios"].is_array()).then_some(Kind::Bench),
        None => is_run(&String::from_utf8_lossy(bytes)).then_some(Kind::Bench),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const RUN: &[u8] = br#"{"format": 1, "neurogc": "0.1.0", "scenarios": []}"#;

    #[test]
    fn uploads_are_listed_found_and_known_for_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path(), None);
        let trace = shelf.add("../../etc/x y.ngct", b"NGCTRACE\x01\x00").unwrap();
        assert_eq!((trace.kind, trace.uploaded), (Kind::Trace, true));
        assert!(trace.path.starts_with(folder.path()) && trace.name.ends_with("etc_x_y.ngct"), "{trace:?}");
        assert_eq!(shelf.find(&trace.id), Some(trace));
        assert_eq!(shelf.add("run.json", RUN).unwrap().kind, Kind::Bench);
        assert!(matches!(shelf.add("x", b"PK\x03\x04"), Err(UploadError::Unknown)));
        assert!(matches!(shelf.add("x", b"{}"), Err(UploadError::Unknown)));
        assert_eq!(shelf.list().len(), 2);
        assert_eq!(shelf.find("../hub.db"), None);
    }

    #[test]
    fn a_named_folder_is_looked_through_one_level_deep() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("monday")).unwrap();
        fs::write(folder.path().join("monday/run.json"), RUN).unwrap();
        fs::write(folder.path().join("a.ngct"), b"NGCTRACE\x01\x00").unwrap();
        fs::write(folder.path().join("notes.txt"), b"hello").unwrap();
        let shelf = Shelf::new(&folder.path().join("data"), Some(folder.path().to_owned()));
        let mut names: Vec<_> = shelf.list().into_iter().map(|entry| (entry.name, entry.uploaded)).collect();
        names.sort();
        assert_eq!(names, [("a.ngct".to_owned(), false), ("monday".to_owned(), false)]);
    }
}
