//! Heap dumps that the hub has taken: files in its folder that only its user can read, and the one that is analysed.
//!
//! An analysis takes memory of its own, about a hundred bytes for each object. So one dump is analysed at a time, one stays
//! in memory for the questions that follow, and a dump that would take more than the limit is left to the command.

mod take;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use neurogc_heap::views::{self, PlaceTable};
use neurogc_heap::{Dump, DumpError, Heap, HeapPlaces, Paths};
use serde::Serialize;

pub(crate) use take::take;

/// Dumps that are kept, and what they take on disk together.
pub(crate) const MOST_DUMPS: usize = 16;
pub(crate) const MOST_BYTES: u64 = 4 << 30;

/// Memory that an analysis may take: about ten million objects.
const MOST_MEMORY: u64 = 1 << 30;

/// How long an analysed dump stays in memory without a question.
const IDLE: Duration = Duration::from_secs(120);

/// Entries of the folder that are looked at.
const MOST_ENTRIES: usize = 1000;

const ENDING: &str = ".ngch";

/// The file of a dump that is on its way.
const DRAFT: &str = ".dump";

/// A dump that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HeapEntry {
    pub(crate) id: String,
    /// The process that it is of.
    pub(crate) process: String,
    pub(crate) taken_ms: u64,
    pub(crate) bytes: u64,
    #[serde(skip)]
    pub(crate) path: PathBuf,
}

/// A dump with its analysis.
#[derive(Debug)]
pub(crate) struct AnalysedHeap {
    pub(crate) heap: Heap,
    pub(crate) paths: Paths,
}

/// An analysed dump: its id, when it was asked for last, and what was found out.
type LastHeap = Option<(String, Instant, Arc<AnalysedHeap>)>;

/// All dumps.
#[derive(Debug)]
pub(crate) struct Heaps {
    folder: PathBuf,
    most_memory: u64,
    last: Mutex<LastHeap>,
}

/// Why a dump is not kept or not analysed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeapError {
    #[error("there is no such heap dump; GET /api/v1/heaps lists them")]
    Unknown,
    #[error("the hub keeps {} heap dumps of {} GiB together at most: remove one first", MOST_DUMPS, MOST_BYTES >> 30)]
    Full,
    #[error(
        "the heap dump has {objects} objects, more than the hub analyses; on its machine use: neurogc heap show {path}"
    )]
    TooLarge { objects: u32, path: PathBuf },
    #[error("the heap dump cannot be read: {0}")]
    Unreadable(#[from] DumpError),
    #[error("the heap dump cannot be kept: {0}")]
    Disk(#[from] io::Error),
}

impl Heaps {
    pub(crate) fn new(data: &Path) -> Self {
        Self { folder: data.join("heaps"), most_memory: MOST_MEMORY, last: Mutex::new(None) }
    }

    /// All dumps, the newest first.
    pub(crate) fn list(&self) -> Vec<HeapEntry> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
        let mut found: Vec<HeapEntry> = files.filter_map(|file| entry(&file.path())).collect();
        found.sort_by(|a, b| (b.taken_ms, &a.id).cmp(&(a.taken_ms, &b.id)));
        found
    }

    /// One of them. Only what is listed can be named, so no id leads anywhere else.
    pub(crate) fn find(&self, id: &str) -> Result<HeapEntry, HeapError> {
        self.list().into_iter().find(|entry| entry.id == id).ok_or(HeapError::Unknown)
    }

    /// Begins to keep a dump. There is one at a time.
    pub(crate) fn begin(&self) -> Result<HeapDraft, HeapError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let kept = self.list();
        let room = MOST_BYTES.saturating_sub(kept.iter().map(|entry| entry.bytes).sum());
        if kept.len() >= MOST_DUMPS || room == 0 {
            return Err(HeapError::Full);
        }
        let path = self.folder.join(DRAFT);
        // What a dump has left that the end of the hub cut off.
        let _ = fs::remove_file(&path);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(HeapDraft { path, file, room })
    }

    /// Deletes a dump.
    pub(crate) fn remove(&self, id: &str) -> Result<(), HeapError> {
        let entry = self.find(id)?;
        fs::remove_file(&entry.path)?;
        let mut last = self.last();
        if last.as_ref().is_some_and(|(known, _, _)| known == id) {
            *last = None;
        }
        Ok(())
    }

    /// The analysis of a dump. The caller sees to it that there is one at a time.
    pub(crate) fn analysed(&self, id: &str) -> Result<Arc<AnalysedHeap>, HeapError> {
        let entry = self.find(id)?;
        if let Some((known, asked, heap)) = self.last().as_mut()
            && known == id
        {
            *asked = Instant::now();
            return Ok(Arc::clone(heap));
        }
        // Two at once would take twice the memory.
        let before = self.last().take();
        drop(before);
        let analysed = Arc::new(self.analyse(&entry.path)?);
        *self.last() = Some((entry.id, Instant::now(), Arc::clone(&analysed)));
        Ok(analysed)
    }

    /// The places of a dump, without the dump.
    pub(crate) fn places(&self, id: &str) -> Result<PlaceTable, HeapError> {
        let AnalysedHeap { heap, paths } = &*self.analysed(id)?;
        let places = HeapPlaces::of(heap, paths).map_err(DumpError::from)?;
        Ok(PlaceTable::new(&places, &views::summary(heap)))
    }

    /// Gives back the memory of an analysis that was not asked for lately.
    pub(crate) fn forget_idle(&self, now: Instant) {
        let mut last = self.last();
        if last.as_ref().is_some_and(|(_, asked, _)| now.saturating_duration_since(*asked) >= IDLE) {
            *last = None;
        }
    }

    fn analyse(&self, path: &Path) -> Result<AnalysedHeap, HeapError> {
        let dump = Dump::open(path)?;
        if dump.analysis_bytes() > self.most_memory {
            return Err(HeapError::TooLarge { objects: dump.objects(), path: path.to_owned() });
        }
        let heap = Heap::analyse(dump, &mut |_| {})?;
        let paths = Paths::find(&heap).map_err(DumpError::from)?;
        Ok(AnalysedHeap { heap, paths })
    }

    fn last(&self) -> MutexGuard<'_, LastHeap> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A dump on its way to the disk. It is gone with this unless it is finished.
#[derive(Debug)]
pub(crate) struct HeapDraft {
    path: PathBuf,
    file: File,
    room: u64,
}

impl HeapDraft {
    /// Keeps it as the dump of a process.
    fn finish(self, process: &str, taken_ms: u64) -> Result<HeapEntry, HeapError> {
        let path = self.path.with_file_name(format!("{taken_ms}-{process}{ENDING}"));
        fs::rename(&self.path, &path)?;
        entry(&path).ok_or(HeapError::Unknown)
    }
}

impl Drop for HeapDraft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn entry(path: &Path) -> Option<HeapEntry> {
    let id = path.file_name()?.to_str()?;
    let (taken_ms, process) = id.strip_suffix(ENDING)?.split_once('-')?;
    let (taken_ms, bytes) = (taken_ms.parse().ok()?, fs::metadata(path).ok()?.len());
    Some(HeapEntry { id: id.to_owned(), process: process.to_owned(), taken_ms, bytes, path: path.to_owned() })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
pub(crate) mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use neurogc_heap::sample::HeapSample;

    use super::*;

    impl Heaps {
        /// Keeps a dump that a test makes up.
        pub(crate) fn keep(&self, process: &str, taken_ms: u64, bytes: &[u8]) -> Result<HeapEntry, HeapError> {
            let mut draft = self.begin()?;
            draft.file.write_all(bytes)?;
            draft.finish(process, taken_ms)
        }
    }

    fn heaps() -> (tempfile::TempDir, Heaps) {
        let folder = tempfile::tempdir().unwrap();
        let heaps = Heaps::new(folder.path());
        (folder, heaps)
    }

    #[test]
    fn dumps_are_kept_for_their_user_until_there_are_enough() {
        let (_folder, heaps) = heaps();
        for taken in 0..MOST_DUMPS as u64 {
            let kept = heaps.keep("web-1-7-5", 100 + taken, b"NGCH").unwrap();
            assert_eq!((kept.process.as_str(), kept.taken_ms, kept.bytes), ("web-1-7-5", 100 + taken, 4));
            assert_eq!(fs::metadata(&kept.path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(&heaps.folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(matches!(heaps.begin(), Err(HeapError::Full)));
        assert_eq!(heaps.list()[0].id, "115-web-1-7-5.ngch");
        assert!(matches!(heaps.find("../hub.tokens"), Err(HeapError::Unknown)));
        heaps.remove("100-web-1-7-5.ngch").unwrap();
        // One that is broken off leaves nothing.
        drop(heaps.begin().unwrap());
        assert_eq!((heaps.list().len(), fs::read_dir(&heaps.folder).unwrap().count()), (15, 15));
    }

    #[test]
    fn one_analysis_stays_in_memory_until_it_is_idle() {
        let (_folder, heaps) = heaps();
        for taken in [1, 2] {
            heaps.keep("p", taken, &HeapSample::new().encode()).unwrap();
        }
        let first = heaps.analysed("1-p.ngch").unwrap();
        assert!(Arc::ptr_eq(&first, &heaps.analysed("1-p.ngch").unwrap()));
        heaps.analysed("2-p.ngch").unwrap();
        assert_eq!(Arc::strong_count(&first), 1, "the one before made room");
        heaps.forget_idle(Instant::now());
        assert!(heaps.last().is_some());
        heaps.forget_idle(Instant::now() + IDLE);
        assert!(heaps.last().is_none());
        heaps.analysed("2-p.ngch").unwrap();
        heaps.remove("2-p.ngch").unwrap();
        assert!(heaps.last().is_none() && heaps.analysed("2-p.ngch").is_err());
    }

    #[test]
    fn what_is_damaged_or_too_large_is_told_and_takes_no_memory() {
        let (_folder, mut heaps) = heaps();
        heaps.keep("p", 1, b"NGCH").unwrap();
        assert!(matches!(heaps.analysed("1-p.ngch"), Err(HeapError::Unreadable(_))));
        let entry = heaps.keep("p", 2, &HeapSample::new().encode()).unwrap();
        heaps.most_memory = 67;
        let why = heaps.analysed("2-p.ngch").unwrap_err().to_string();
        assert!(why.contains("has 1 objects") && why.ends_with(&entry.path.display().to_string()), "{why}");
        assert!(heaps.last().is_none());
    }
}
