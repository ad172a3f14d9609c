//! Traces of processes whose agents send them (`hub_trace`): kept in files of bounded size and age, handed over as one for each process.
//!
//! A trace is kept in parts, each a trace of its own, so that the oldest can go while the process still records. One thread
//! writes; what finds no room on its way there is dropped and counted.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, UNIX_EPOCH};

use neurogc_wire::trace::{Block, BlockWriter, Header, Record, encode_header, header_length, walk};
use serde::Serialize;

use crate::budget::Held;
use crate::clock::unix_ms;
use crate::facts::cut;
use crate::store::MAX_AGE_S;

/// The longest part, and how many parts fit into the limit at least.
const PART: u64 = 16 << 20;
const LEAST_PARTS: u64 = 8;

/// Files at most, whatever their size: a program may start many short processes.
const MOST_PARTS: usize = 4096;

/// What may wait to be written: some seconds of hundreds of agents. Its bytes are limited, too.
const QUEUE: usize = 4096;

/// How often is looked whether something must go.
const TIDY_EVERY: Duration = Duration::from_secs(10);

/// A process that has sent nothing for so long goes on in another part.
const CLOSED_AFTER: Duration = Duration::from_secs(60);

/// What of a part tells whose it is and when it begins.
const BEGINNING: u64 = 256 << 10;

/// The longest text of a header.
const LONGEST_TEXT: usize = 1000;

/// Where traces are kept.
#[derive(Debug)]
pub(crate) struct TraceStore {
    folder: PathBuf,
    limit: u64,
    queue: Option<SyncSender<TracePiece>>,
    writer: Option<JoinHandle<()>>,
    progress: Arc<TraceProgress>,
}

/// What an agent has recorded since it was last heard.
#[derive(Debug)]
pub(crate) struct TracePiece {
    pub(crate) id: String,
    pub(crate) header: Arc<Header>,
    pub(crate) blocks: Vec<u8>,
    /// Events that found no room, and when it was said, in nanoseconds since the trace began.
    pub(crate) lost: (u64, u64),
    /// The memory that it takes of the budgets. It is given back with this.
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) held: Option<Held>,
}

/// How writing goes.
#[derive(Debug, Default)]
struct TraceProgress {
    bytes: AtomicU64,
    dropped: AtomicU64,
    trouble: Mutex<Option<String>>,
}

/// How the traces are, as the hub tells it.
#[derive(Debug, Serialize)]
pub(crate) struct TraceStoreReport {
    bytes: u64,
    limit_bytes: u64,
    keep_s: u64,
    /// Reports whose records were not written.
    dropped: u64,
    /// Why nothing can be written, in words.
    trouble: Option<String>,
}

/// The trace of one process.
#[derive(Clone, Debug)]
pub(crate) struct KeptTrace {
    pub(crate) id: String,
    pub(crate) header: Header,
    pub(crate) bytes: u64,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

impl TraceStore {
    /// Traces in a folder of this folder, of so many bytes in all. Nothing is kept where that is none.
    pub(crate) fn open(data: &Path, limit: u64) -> io::Result<Self> {
        let folder = data.join("traces");
        let progress = Arc::new(TraceProgress::default());
        let mut store =
            Self { folder: folder.clone(), limit, queue: None, writer: None, progress: Arc::clone(&progress) };
        if limit == 0 {
            return Ok(store);
        }
        let (queue, pieces) = sync_channel(QUEUE);
        let mut writer = PartWriter { folder, limit, open: HashMap::new(), progress };
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || writer.run(&pieces))?;
        (store.queue, store.writer) = (Some(queue), Some(thread));
        Ok(store)
    }

    /// Keeps what an agent has sent, without waiting.
    pub(crate) fn put(&self, piece: TracePiece) {
        if let Some(queue) = &self.queue
            && queue.try_send(piece).is_err()
        {
            self.progress.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts what found no room on its way here.
    pub(crate) fn drop_piece(&self) {
        self.progress.dropped.fetch_add(u64::from(self.queue.is_some()), Ordering::Relaxed);
    }

    /// What there is of the time from a moment on, the newest first.
    pub(crate) fn list(&self, from_ms: u64) -> Vec<KeptTrace> {
        let mut by_process: BTreeMap<String, Vec<TracePart>> = BTreeMap::new();
        for part in parts(&self.folder).into_iter().filter(|part| part.to_ms >= from_ms) {
            by_process.entry(part.id.clone()).or_default().push(part);
        }
        let mut traces: Vec<_> = by_process.into_values().filter_map(|parts| KeptTrace::of(&parts)).collect();
        traces.sort_by(|a, b| (b.to_ms, &a.id).cmp(&(a.to_ms, &b.id)));
        traces
    }

    /// The trace of a process from about a moment on, as one file.
    pub(crate) fn read(&self, id: &str, from_ms: u64) -> Option<TraceReader> {
        let mut found: Vec<_> =
            parts(&self.folder).into_iter().filter(|part| part.id == id && part.to_ms >= from_ms).collect();
        found.sort_by_key(|part| part.number);
        let waiting: VecDeque<_> = found.into_iter().map(|part| part.path).collect();
        (!waiting.is_empty()).then(|| TraceReader { waiting, current: None, begun: false })
    }

    /// How it goes.
    pub(crate) fn report(&self) -> TraceStoreReport {
        TraceStoreReport {
            bytes: self.progress.bytes.load(Ordering::Relaxed),
            limit_bytes: self.limit,
            keep_s: MAX_AGE_S,
            dropped: self.progress.dropped.load(Ordering::Relaxed),
            trouble: self.progress.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Drop for TraceStore {
    /// What was taken is written.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// A header from outside, with texts that are not too long.
pub(crate) fn plain_header(mut header: Header) -> Header {
    let Header { command, python, neurogc, policy, service, .. } = &mut header;
    for text in [command, python, neurogc, policy, service] {
        *text = cut(text, LONGEST_TEXT).to_owned();
    }
    header
}

/// One file: `PROCESS.NUMBER.ngct`.
#[derive(Clone, Debug)]
struct TracePart {
    path: PathBuf,
    id: String,
    number: u32,
    bytes: u64,
    /// When it was last written to.
    to_ms: u64,
}

fn parts(folder: &Path) -> Vec<TracePart> {
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let (id, number) = name.strip_suffix(".ngct")?.rsplit_once('.')?;
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let written = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let (id, number) = (id.to_owned(), number.parse().ok()?);
        Some(TracePart { path: entry.path(), id, number, bytes: metadata.len(), to_ms: written.as_millis() as u64 })
    };
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(read).collect()
}

/// What must go, so that nothing is too old and all of it fits: of the process that takes most, the oldest part.
fn surplus(mut parts: Vec<TracePart>, limit: u64, now_ms: u64) -> Vec<TracePart> {
    parts.sort_by_key(|part| part.to_ms);
    let is_old = |part: &TracePart| part.to_ms + MAX_AGE_S * 1000 < now_ms;
    let fresh = parts.iter().position(|part| !is_old(part)).unwrap_or(parts.len());
    let fresh = fresh.max(parts.len().saturating_sub(MOST_PARTS));
    let mut left = parts.split_off(fresh);
    let mut gone = parts;
    let mut sums: HashMap<String, u64> = HashMap::new();
    left.iter().for_each(|part| *sums.entry(part.id.clone()).or_default() += part.bytes);
    while sums.values().sum::<u64>() > limit {
        let Some(largest) = sums.iter().max_by_key(|(id, bytes)| (**bytes, *id)).map(|(id, _)| id.clone()) else {
            break;
        };
        let Some(at) = left.iter().position(|part| part.id == largest) else { break };
        let part = left.remove(at);
        sums.entry(largest).and_modify(|bytes| *bytes -= part.bytes);
        gone.push(part);
    }
    gone
}

impl KeptTrace {
    fn of(parts: &[TracePart]) -> Option<Self> {
        let oldest = parts.iter().min_by_key(|part| part.number)?;
        let (header, from_ms) = beginning(&oldest.path)?;
        Some(Self {
            id: oldest.id.clone(),
            header,
            bytes: parts.iter().map(|part| part.bytes).sum(),
            from_ms,
            to_ms: parts.iter().map(|part| part.to_ms).max()?,
        })
    }
}

/// The header of a trace, and when its first record was made.
pub(crate) fn beginning(path: &Path) -> Option<(Header, u64)> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BEGINNING).read_to_end(&mut bytes).ok()?;
    let mut first = None;
    let mut note = |block: Block| first = first.or_else(|| block.records().first().map(Record::at));
    let (header, _) = walk(&bytes, &mut note).ok()?;
    let from_ms = header.started_unix_ns.saturating_add(first.unwrap_or(0)) / 1_000_000;
    Some((header, from_ms))
}

/// Several parts, read as one trace: of all but the first the header is left out.
#[derive(Debug)]
pub(crate) struct TraceReader {
    waiting: VecDeque<PathBuf>,
    current: Option<File>,
    begun: bool,
}

impl TraceReader {
    fn next(&mut self) -> io::Result<bool> {
        while let Some(path) = self.waiting.pop_front() {
            // Parts may go meanwhile: they are the oldest.
            let Ok(mut file) = File::open(path) else { continue };
            let mut start = [0; 18];
            if file.read_exact(&mut start).is_err() {
                continue;
            }
            let Some(length) = header_length(&start) else { continue };
            file.seek(SeekFrom::Start(if self.begun { length } else { 0 }))?;
            self.begun = true;
            self.current = Some(file);
            return Ok(true);
        }
        Ok(false)
    }
}

impl Read for TraceReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(file) = &mut self.current {
                let count = file.read(to)?;
                if count > 0 || to.is_empty() {
                    return Ok(count);
                }
                self.current = None;
            }
            if !self.next()? {
                return Ok(0);
            }
        }
    }
}

/// A part that is being written.
#[derive(Debug)]
struct OpenPart {
    file: File,
    path: PathBuf,
    bytes: u64,
    written: Instant,
}

struct PartWriter {
    folder: PathBuf,
    limit: u64,
    open: HashMap<String, OpenPart>,
    progress: Arc<TraceProgress>,
}

impl PartWriter {
    fn run(&mut self, pieces: &Receiver<TracePiece>) {
        self.tidy();
        let mut tidy_at = Instant::now() + TIDY_EVERY;
        loop {
            match pieces.recv_timeout(tidy_at.saturating_duration_since(Instant::now())) {
                Ok(piece) => {
                    let written = self.write(&piece);
                    let trouble = written.as_ref().err().map(|error| format!("{}: {error}", self.folder.display()));
                    if trouble.is_some() {
                        // A part may end with half a block: readers pass it over, and the next one is whole.
                        self.open.remove(&piece.id);
                        self.progress.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                    *self.progress.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= tidy_at {
                self.tidy();
                tidy_at = Instant::now() + TIDY_EVERY;
            }
        }
    }

    fn write(&mut self, piece: &TracePiece) -> io::Result<()> {
        let longest = PART.min(self.limit / LEAST_PARTS);
        if self.open.get(&piece.id).is_none_or(|part| part.bytes + piece.blocks.len() as u64 > longest) {
            let part = self.begin(piece)?;
            self.open.insert(piece.id.clone(), part);
            self.tidy();
        }
        let Some(part) = self.open.get_mut(&piece.id) else { return Ok(()) };
        let mut bytes = piece.blocks.clone();
        if let (count @ 1.., at) = piece.lost {
            let mut block = BlockWriter::new();
            block.push(&Record::Dropped { at, count });
            bytes.extend(block.take());
        }
        part.file.write_all(&bytes)?;
        part.bytes += bytes.len() as u64;
        part.written = Instant::now();
        Ok(())
    }

    /// The next part of a trace.
    fn begin(&self, piece: &TracePiece) -> io::Result<OpenPart> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let last = parts(&self.folder).into_iter().filter(|part| part.id == piece.id).map(|part| part.number).max();
        let number = last.map_or(0, |last| last.saturating_add(1));
        let path = self.folder.join(format!("{}.{number:06}.ngct", piece.id));
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        let header = encode_header(&piece.header);
        file.write_all(&header)?;
        Ok(OpenPart { file, path, bytes: header.len() as u64, written: Instant::now() })
    }

    fn tidy(&mut self) {
        self.open.retain(|_, part| part.written.elapsed() < CLOSED_AFTER);
        let all = parts(&self.folder);
        let bytes: u64 = all.iter().map(|part| part.bytes).sum();
        let gone = surplus(all, self.limit, unix_ms());
        for part in &gone {
            let _ = fs::remove_file(&part.path);
            self.open.retain(|_, open| open.path != part.path);
        }
        let left = bytes.saturating_sub(gone.iter().map(|part| part.bytes).sum());
        self.progress.bytes.store(left, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use neurogc_wire::trace::read;

    use super::*;

    const MB: u64 = 1 << 20;

    fn header(pid: u32) -> Arc<Header> {
        let started_unix_ns = 5_000_000_000;
        Arc::new(Header { pid, service: "shop".to_owned(), started_unix_ns, ..Header::default() })
    }

    fn piece(pid: u32, records: impl IntoIterator<Item = Record>, lost: u64) -> TracePiece {
        let mut writer = BlockWriter::new();
        records.into_iter().for_each(|record| writer.push(&record));
        TracePiece {
            id: format!("here-{pid}-5000"),
            header: header(pid),
            blocks: writer.take(),
            lost: (lost, 9_000_000_000),
            held: None,
        }
    }

    fn requests(from: u64, count: u64) -> impl Iterator<Item = Record> {
        (from..from + count).map(|id| Record::RequestStart { at: id * 1_000_000, id })
    }

    /// The trace of a process as it is handed over.
    fn whole(store: &TraceStore, pid: u32) -> neurogc_wire::trace::Trace {
        let mut bytes = Vec::new();
        store.read(&format!("here-{pid}-5000"), 0).unwrap().read_to_end(&mut bytes).unwrap();
        read(&bytes).unwrap()
    }

    #[test]
    fn what_agents_send_is_kept_for_each_process_over_restarts_of_the_hub() {
        let folder = tempfile::tempdir().unwrap();
        for from in [0, 100] {
            // The store ends with this, which writes what was taken.
            let store = TraceStore::open(folder.path(), 64 * MB).unwrap();
            store.put(piece(1, requests(from, 100), 0));
            store.put(piece(2, requests(from, 50), 3));
        }
        let store = TraceStore::open(folder.path(), 64 * MB).unwrap();
        let (first, second) = (whole(&store, 1), whole(&store, 2));
        assert_eq!((first.header, first.damage.len()), ((*header(1)).clone(), 0));
        let ids = |records: &[Record]| {
            let id = |record: &Record| if let Record::RequestStart { id, .. } = record { Some(*id) } else { None };
            records.iter().filter_map(id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&first.records), (0..200).collect::<Vec<_>>());
        let lost = second.records.iter().filter(|record| matches!(record, Record::Dropped { count: 3, .. }));
        assert_eq!((ids(&second.records).len(), lost.count()), (100, 2));
        let listed = store.list(0);
        assert_eq!(listed.len(), 2);
        assert!(listed.iter().all(|trace| trace.header.service == "shop" && trace.from_ms == 5_000 && trace.bytes > 0));
        assert_eq!((store.list(u64::MAX).len(), store.read("../hub", 0).is_none()), (0, true));
    }

    #[test]
    fn the_oldest_of_the_largest_goes_and_the_small_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = TraceStore::open(folder.path(), MB).unwrap();
        store.put(piece(7, requests(0, 100), 0));
        for round in 0..100 {
            store.put(piece(1, requests(round * 10_000, 10_000), 0));
        }
        drop(store);
        let store = TraceStore::open(folder.path(), MB).unwrap();
        let all = parts(&store.folder);
        let bytes: u64 = all.iter().map(|part| part.bytes).sum();
        assert!(bytes <= MB + MB / LEAST_PARTS && bytes > MB / 2, "{bytes}");
        assert_eq!(whole(&store, 7).records.len(), 100);
        let large = whole(&store, 1);
        assert_eq!(large.records.last().map(Record::at), Some(999_999 * 1_000_000));
        assert!(large.damage.is_empty() && large.records[0].at() > 0);
        assert!(store.list(0).iter().any(|trace| trace.header.pid == 1 && trace.from_ms > 5_000));
    }

    #[test]
    fn what_is_old_goes_and_so_do_too_many_files() {
        let now = 10 * MAX_AGE_S * 1000;
        let part =
            |id: usize, to_ms| TracePart { path: PathBuf::new(), id: id.to_string(), number: 0, bytes: 10, to_ms };
        let old = vec![part(1, now - MAX_AGE_S * 1000 - 1), part(2, now - MAX_AGE_S * 1000 + 1)];
        let gone: Vec<_> = surplus(old, MB, now).into_iter().map(|part| part.id).collect();
        assert_eq!(gone, ["1"]);
        let many = (0..MOST_PARTS + 5).map(|id| part(id, now - id as u64)).collect();
        assert_eq!(surplus(many, MB, now).len(), 5);
    }

    #[test]
    fn nothing_is_kept_without_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = TraceStore::open(folder.path(), 0).unwrap();
        store.put(piece(1, requests(0, 100), 0));
        drop(store);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
