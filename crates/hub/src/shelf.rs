//! The recordings there are: uploaded ones, and those of the folder that `--recordings` names.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use neurogc_wire::trace::MAGIC;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::clock::unix_ms;

/// The longest recording that is read, and all uploads together.
pub(crate) const LONGEST: u64 = 64 << 20;
pub(crate) const MOST: u64 = 512 << 20;

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
pub(crate) struct ShelfEntry {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) added_ms: u64,
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
    TooLong,
    Full,
    Io(io::Error),
}

impl Shelf {
    pub(crate) fn new(data: &Path, named: Option<PathBuf>) -> Self {
        Self { uploads: data.join("recordings"), named }
    }

    /// All recordings, the newest first.
    pub(crate) fn list(&self) -> Vec<ShelfEntry> {
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
    pub(crate) fn find(&self, id: &str) -> Option<ShelfEntry> {
        self.list().into_iter().find(|entry| entry.id == id)
    }

    /// Begins to keep an upload. There is one at a time.
    pub(crate) fn begin(&self) -> Result<Upload, UploadError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.uploads).map_err(UploadError::Io)?;
        let used: u64 = entries(&self.uploads, true).iter().map(|entry| entry.bytes).sum();
        let path = self.uploads.join(DRAFT);
        // What an upload has left that the end of the hub cut off.
        let _ = fs::remove_file(&path);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(UploadError::Io)?;
        Ok(Upload { path, file, first: Vec::new(), length: 0, room: MOST.saturating_sub(used) })
    }
}

/// An upload on its way to the disk, part by part. It is gone with this unless it is finished.
#[derive(Debug)]
pub(crate) struct Upload {
    path: PathBuf,
    file: File,
    first: Vec<u8>,
    length: u64,
    room: u64,
}

impl Upload {
    /// Takes the next part.
    pub(crate) fn write(&mut self, part: &[u8]) -> Result<(), UploadError> {
        self.length += part.len() as u64;
        if self.length > LONGEST {
            return Err(UploadError::TooLong);
        }
        if self.length > self.room {
            return Err(UploadError::Full);
        }
        if self.first.len() < MAGIC.len() {
            self.first.extend_from_slice(&part[..part.len().min(MAGIC.len())]);
            if self.first.len() >= MAGIC.len() && !may_be_known(&self.first) {
                return Err(UploadError::Unknown);
            }
        }
        self.file.write_all(part).map_err(UploadError::Io)
    }

    /// Keeps it under a name, if it is a recording.
    pub(crate) fn finish(self, name: &str) -> Result<ShelfEntry, UploadError> {
        let is_known = self.first.starts_with(MAGIC) || is_run(&self.path).map_err(UploadError::Io)?;
        if !is_known {
            return Err(UploadError::Unknown);
        }
        let path = self.path.with_file_name(format!("{}-{}", unix_ms(), plain(name)));
        fs::rename(&self.path, &path).map_err(UploadError::Io)?;
        entry(&path, true).ok_or(UploadError::Unknown).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The file of an upload that is on its way.
const DRAFT: &str = ".upload";

fn may_be_known(first: &[u8]) -> bool {
    first.starts_with(MAGIC) || first.trim_ascii_start().first().is_none_or(|byte| *byte == b'{')
}

/// What of a result of `neurogc bench` tells that it is one. Nothing else of it is held.
#[derive(Deserialize)]
struct Run {
    #[serde(rename = "format")]
    _format: u64,
    #[serde(rename = "scenarios")]
    _scenarios: Vec<IgnoredAny>,
}

/// Whether a file is a whole result of `neurogc bench`. It is read as a stream.
pub(crate) fn is_run(path: &Path) -> io::Result<bool> {
    let read: Result<Run, _> = serde_json::from_reader(BufReader::new(File::open(path)?));
    Ok(read.is_ok())
}

/// A file name that leads nowhere else.
fn plain(name: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() || "._-".contains(it) { it } else { '_' };
    let plain: String = name.chars().rev().take(100).collect::<Vec<_>>().into_iter().rev().map(letter).collect();
    let plain = plain.trim_start_matches('.');
    if plain.is_empty() { "recording".to_owned() } else { plain.to_owned() }
}

fn entries(folder: &Path, uploaded: bool) -> Vec<ShelfEntry> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
    found.filter_map(|found| entry(&found.path(), uploaded)).collect()
}

fn entry(path: &Path, uploaded: bool) -> Option<ShelfEntry> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    let kind = kind_of(&first_bytes(path).ok()?)?;
    let added = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let file = path.file_name()?.to_str()?;
    if file == DRAFT {
        return None;
    }
    let name = match file {
        // All of them are called the same; the folder tells which it is.
        "run.json" => path.parent()?.file_name()?.to_str()?,
        // Uploads begin with the time at which they came.
        _ if uploaded => file.split_once('-').map_or(file, |(_, name)| name),
        _ => file,
    };
    Some(ShelfEntry {
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

/// What a file is, by its first few thousand bytes.
fn kind_of(bytes: &[u8]) -> Option<Kind> {
    if bytes.starts_with(MAGIC) {
        return Some(Kind::Trace);
    }
    let text = String::from_utf8_lossy(bytes);
    let is_run = text.trim_start().starts_with('{') && text.contains("\"format\"") && text.contains("\"neurogc\"");
    is_run.then_some(Kind::Bench)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const RUN: &[u8] = br#"{"format": 1, "neurogc": "0.1.0", "scenarios": []}"#;

    /// Uploads in small parts.
    fn add(shelf: &Shelf, name: &str, bytes: &[u8]) -> Result<ShelfEntry, UploadError> {
        let mut upload = shelf.begin()?;
        bytes.chunks(3).try_for_each(|part| upload.write(part))?;
        upload.finish(name)
    }

    #[test]
    fn an_upload_that_is_nothing_or_too_long_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path(), None);
        assert!(matches!(
            add(&shelf, "x", b"{\"format\": 1, \"neurogc\": 1, \"scenarios\": [1,"),
            Err(UploadError::Unknown)
        ));
        let mut upload = shelf.begin().unwrap();
        // It is refused at its first bytes, not after all of them have come.
        assert!(matches!(upload.write(b"PK\x03\x04 and more"), Err(UploadError::Unknown)));
        let mut upload = shelf.begin().unwrap();
        upload.write(MAGIC).unwrap();
        let part = vec![0; 1 << 20];
        let failed = (0..LONGEST >> 20).find_map(|_| upload.write(&part).err());
        assert!(matches!(failed, Some(UploadError::TooLong)));
        drop(upload);
        assert_eq!(fs::read_dir(folder.path().join("recordings")).unwrap().count(), 0);
    }

    #[test]
    fn uploads_are_listed_found_and_known_for_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path(), None);
        let trace = add(&shelf, "../../etc/x y.ngct", b"NGCTRACE\x01\x00").unwrap();
        assert_eq!((trace.kind, trace.uploaded), (Kind::Trace, true));
        assert!(trace.path.starts_with(folder.path()) && trace.name.ends_with("etc_x_y.ngct"), "{trace:?}");
        assert_eq!(shelf.find(&trace.id), Some(trace));
        assert_eq!(add(&shelf, "run.json", RUN).unwrap().kind, Kind::Bench);
        assert!(matches!(add(&shelf, "x", b"PK\x03\x04"), Err(UploadError::Unknown)));
        assert!(matches!(add(&shelf, "x", b"{}"), Err(UploadError::Unknown)));
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
