//! History on disk: one SQLite file that needs no set-up, written by one thread and read by request handlers.
//!
//! SQLite, because its files survive `kill -9`, a full disk and power cuts, and because the room of deleted rows is used
//! again. No thread waits for the writer: what does not fit into its queue is dropped and counted.

mod batch;
mod reader;
mod schema;
mod tiers;
mod writer;

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use neurogc_wire::census::Census;
use rusqlite::Connection;
use serde::Serialize;

pub(crate) use batch::Batch;
pub(crate) use reader::{Choice, Found, Span, StoredRows, Wish};
pub(crate) use tiers::MAX_AGE_S;
pub(crate) use writer::{StoreEntry, Write};

use crate::clock::unix_ms;
use crate::facts::ProcessFacts;
use crate::history::HistoryKind;
use schema::Unfit;
use writer::{Writer, WriterProgress};

/// What may wait to be written: a few seconds of hundreds of agents.
const QUEUE: usize = 16_384;

/// Readers that are kept open.
const READERS: usize = 4;

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Its folder cannot be used.
    #[error("cannot keep history in {}: {reason}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The database is of a later NeuroGC.
    #[error(
        "{} was made by a later version of NeuroGC (its schema is {version}, this one knows up to {known}). Use that \
         version, or name another folder with --data",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its schema.
        version: usize,
        /// The latest that this NeuroGC knows.
        known: usize,
    },
    /// The database cannot be opened.
    #[error("cannot open {}: {source}. Move it away to begin anew", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

/// An open store.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    limit: u64,
    queue: Option<SyncSender<Write>>,
    writer: Option<JoinHandle<()>>,
    progress: Arc<WriterProgress>,
    readers: Mutex<Vec<Connection>>,
    /// Held for as long as the store is open: two hubs would write over each other.
    _lock: File,
}

/// The state of the history, wherever it is.
#[derive(Debug, Serialize)]
pub(crate) struct StoreReport {
    pub(crate) kind: HistoryKind,
    /// The file, or the host and port of the server.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) limit_bytes: u64,
    pub(crate) written: u64,
    pub(crate) dropped: u64,
    /// Why nothing can be written or read, in words.
    pub(crate) trouble: Option<String>,
    /// What happened to the history at the start, in words.
    pub(crate) notice: Option<String>,
    /// What this kind of history does not have, in words.
    pub(crate) not_kept: Vec<&'static str>,
    pub(crate) tiers: Vec<tiers::Tier>,
}

impl Store {
    /// Opens the store in a folder, which is made where there is none.
    pub(crate) fn open(folder: &Path, limit: u64) -> Result<Self, StoreError> {
        let wrong = |reason: String| StoreError::Folder { path: folder.to_owned(), reason };
        make_folder(folder)?;
        let lock = File::create(folder.join("hub.lock")).map_err(|error| wrong(error.to_string()))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(wrong("another hub uses it. Stop that one, or name another folder with --data".to_owned()));
            }
            // A file system without locks cannot tell.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let path = folder.join("hub.db");
        let progress = Arc::new(WriterProgress::default());
        let writer = match open_writer(&path, limit, &progress) {
            Err(unfit) if unfit.is_broken() => {
                let aside = move_aside(&path).map_err(|error| wrong(format!("hub.db is broken: {error}")))?;
                let notice = format!("the history was not readable: it is in {}, and begins anew", aside.display());
                eprintln!("neurogc: {notice}");
                progress.note(notice);
                open_writer(&path, limit, &progress)
            }
            opened => opened,
        };
        let writer = writer.map_err(|unfit| match unfit {
            Unfit::Newer { version, known } => StoreError::Newer { path: path.clone(), version, known },
            Unfit::Sqlite(source) => StoreError::Database { path: path.clone(), source },
        })?;
        let (queue, writes) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || writer.run(&writes));
        let thread = thread.map_err(|error| wrong(format!("no thread to write with: {error}")))?;
        Ok(Self {
            path,
            limit,
            queue: Some(queue),
            writer: Some(thread),
            progress,
            readers: Mutex::default(),
            _lock: lock,
        })
    }

    /// Has something written, soon. It never waits.
    pub(crate) fn put(&self, write: Write) {
        if self.queue.as_ref().is_none_or(|queue| queue.try_send(write).is_err()) {
            self.progress.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The latest processes with history, and when each was last seen.
    pub(crate) fn processes(&self) -> rusqlite::Result<Vec<(ProcessFacts, u64)>> {
        self.read(reader::processes)
    }

    /// One process with history, and when it was last seen.
    pub(crate) fn process(&self, id: &str) -> rusqlite::Result<Option<(ProcessFacts, u64)>> {
        self.read(|db| reader::process(db, id))
    }

    /// The course of a process over a while.
    pub(crate) fn course(&self, id: &str, span: Span) -> rusqlite::Result<StoredRows> {
        self.read(|db| reader::course(db, id, span, unix_ms()))
    }

    /// What happened in a process.
    pub(crate) fn events(&self, id: &str, wish: &Wish) -> rusqlite::Result<Found> {
        self.read(|db| reader::events(db, id, wish))
    }

    /// The censuses of a process between two moments.
    pub(crate) fn censuses(&self, id: &str, span: (u64, u64)) -> rusqlite::Result<Vec<(u64, Census)>> {
        self.read(|db| reader::censuses(db, id, span))
    }

    fn read<T>(&self, question: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let free = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let db = free.map_or_else(|| schema::open_to_read(&self.path), Ok)?;
        let answer = question(&db)?;
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < READERS {
            readers.push(db);
        }
        Ok(answer)
    }

    /// How it is, as `GET /api/v1/hub` tells it.
    pub(crate) fn report(&self) -> StoreReport {
        StoreReport {
            kind: HistoryKind::Sqlite,
            path: self.path.display().to_string(),
            bytes: size(&self.path) + size(&self.path.with_extension("db-wal")),
            limit_bytes: self.limit,
            written: self.progress.written.load(Ordering::Relaxed),
            dropped: self.dropped(),
            trouble: self.progress.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            notice: self.progress.notice.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            not_kept: Vec::new(),
            tiers: tiers::TIERS.to_vec(),
        }
    }

    /// Writes that were not made.
    pub(crate) fn dropped(&self) -> u64 {
        self.progress.dropped.load(Ordering::Relaxed)
    }
}

/// Makes the folder of a hub, where there is none.
pub(crate) fn make_folder(folder: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| StoreError::Folder { path: folder.to_owned(), reason: error.to_string() })
}

fn open_writer(path: &Path, limit: u64, progress: &Arc<WriterProgress>) -> Result<Writer, Unfit> {
    // Command lines are private, whatever folder was named. SQLite's other files follow this one.
    let private = File::options().create(true).append(true).mode(0o600).open(path);
    private.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let db = schema::open_to_write(path, limit)?;
    Ok(Writer::new(db, limit, Arc::clone(progress))?)
}

/// Puts a database that cannot be read where it can be looked at, in place of the one before it.
fn move_aside(path: &Path) -> std::io::Result<PathBuf> {
    let aside = path.with_extension("db.broken");
    for part in ["-wal", "-shm"] {
        let of = |path: &Path| PathBuf::from(format!("{}{part}", path.display()));
        let _ = fs::remove_file(of(&aside));
        let _ = fs::rename(of(path), of(&aside));
    }
    fs::rename(path, &aside)?;
    Ok(aside)
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

impl Drop for Store {
    fn drop(&mut self) {
        // The writer ends when all senders are gone, after it has written what is queued.
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests;
