//! Heap dumps, recordings and traces of the hub, copied to object storage that speaks the protocol of S3, or to a folder.
//!
//! The protocol is small, so it is written out here: a request is signed (version 4 of AWS's signature), and a file is put as
//! one object. A thread of its own reads the files.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use ring::{digest, hmac};
use tokio::time::timeout;

use super::Outage;
use crate::clock::unix_ms;
use crate::post::{PostAddress, SendFailure};

/// How often folders are looked at, and how long a file must not have changed.
const EVERY: Duration = Duration::from_secs(5);
const SETTLED: Duration = Duration::from_secs(2);

/// How long one file may take: some gigabytes over a slow line.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What is read at a time.
const PIECE: usize = 256 * 1024;

/// Folders of the hub that are copied. The names of files that are not complete begin with a dot.
const FOLDERS: [&str; 3] = ["heaps", "recordings", "traces"];

/// Where files are copied to.
#[derive(Clone, Debug)]
pub struct ObjectStore(StorePlace);

/// The kinds of places.
#[derive(Clone, Debug)]
enum StorePlace {
    Bucket(Box<S3Bucket>),
    /// A folder of this machine, such as a mounted file system.
    Folder(PathBuf),
}

/// A place in object storage.
#[derive(Clone)]
struct S3Bucket {
    to: PostAddress,
    /// What stands before the names of objects, with the bucket: `/bucket/prefix/`.
    path: String,
    region: String,
    key: String,
    secret: String,
    session: Option<String>,
}

impl std::fmt::Debug for S3Bucket {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not derived: it holds secrets.
        write!(to, "S3Bucket({} {})", self.to, self.path)
    }
}

impl std::str::FromStr for ObjectStore {
    type Err = String;

    /// Reads `s3://BUCKET[/PREFIX]`, of which the usual variables of AWS say the rest, or `file:///FOLDER`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(folder) = text.strip_prefix("file://") else {
            return S3Bucket::read(text, |name| std::env::var(name).ok())
                .map(|it| Self(StorePlace::Bucket(Box::new(it))));
        };
        let folder = PathBuf::from(folder);
        if !folder.is_absolute() || !folder.is_dir() {
            return Err(format!("there is no folder {}: it must look like file:///folder", folder.display()));
        }
        Ok(Self(StorePlace::Folder(folder)))
    }
}

impl std::fmt::Display for ObjectStore {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            StorePlace::Bucket(bucket) => bucket.to.fmt(to),
            StorePlace::Folder(folder) => folder.display().fmt(to),
        }
    }
}

impl ObjectStore {
    /// Copies a file, unless there is one of its name and length.
    async fn copy(&self, file: &CompleteFile) -> Result<(), SendFailure> {
        match &self.0 {
            StorePlace::Bucket(bucket) => {
                if bucket.has(&file.name, file.length).await? {
                    return Ok(());
                }
                bucket.put(&file.name, &file.path).await
            }
            StorePlace::Folder(folder) => {
                copy_to(folder, file).map_err(|error| SendFailure::Passing(format!("{}: {error}", folder.display())))
            }
        }
    }
}

/// Copies a file to a folder, where it appears when it is whole. It keeps its mode, by which only its
/// owner may read it.
fn copy_to(folder: &Path, file: &CompleteFile) -> std::io::Result<()> {
    let to = folder.join(&file.name);
    if fs::metadata(&to).is_ok_and(|there| there.len() == file.length) {
        return Ok(());
    }
    let below = to.parent().unwrap_or(folder);
    fs::create_dir_all(below)?;
    let part = below.join(format!(".{}.part", file.path.file_name().unwrap_or_default().display()));
    fs::copy(&file.path, &part)?;
    fs::rename(&part, &to)
}

impl S3Bucket {
    fn read(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let said = |name: &str| variable(name).filter(|value| !value.is_empty());
        let place = text.strip_prefix("s3://").map(|place| place.trim_matches('/')).unwrap_or_default();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._/".contains(letter);
        if place.is_empty() || !place.chars().all(is_plain) {
            return Err(
                "it must look like s3://bucket/prefix, of letters, digits and -._, or file:///folder".to_owned()
            );
        }
        let region =
            said("AWS_REGION").or_else(|| said("AWS_DEFAULT_REGION")).unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = said("AWS_ENDPOINT_URL_S3").or_else(|| said("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let to: PostAddress = endpoint.parse().map_err(|error| format!("AWS_ENDPOINT_URL: {error}"))?;
        let needed = |name: &str| said(name).ok_or_else(|| format!("{name} must be set for object storage"));
        Ok(Self {
            path: format!("{}/{place}/", to.path().trim_end_matches('/')),
            to,
            region,
            key: needed("AWS_ACCESS_KEY_ID")?,
            secret: needed("AWS_SECRET_ACCESS_KEY")?,
            session: said("AWS_SESSION_TOKEN"),
        })
    }

    /// Whether there is an object of this length already.
    async fn has(&self, name: &str, length: u64) -> Result<bool, SendFailure> {
        let (status, found) = self.request(Method::HEAD, name, &hash(&[]), None).await?;
        match status {
            StatusCode::OK => Ok(found == Some(length)),
            StatusCode::NOT_FOUND => Ok(false),
            status => Err(SendFailure::Passing(format!("it answers HTTP {status}"))),
        }
    }

    /// Puts a file.
    async fn put(&self, name: &str, path: &Path) -> Result<(), SendFailure> {
        let disk = |error: std::io::Error| SendFailure::Passing(format!("{}: {error}", path.display()));
        let payload = hash_of(path).map_err(disk)?;
        let file = FileBody::open(path).map_err(disk)?;
        let (status, _) = self.request(Method::PUT, name, &payload, Some(file)).await?;
        if status.is_success() { Ok(()) } else { Err(SendFailure::Passing(format!("it answers HTTP {status}"))) }
    }

    /// One request: its status and the length that the answer names.
    async fn request(
        &self,
        method: Method,
        name: &str,
        payload: &str,
        body: Option<FileBody>,
    ) -> Result<(StatusCode, Option<u64>), SendFailure> {
        let failed = |error: &dyn std::fmt::Display| SendFailure::Passing(error.to_string());
        let path = format!("{}{name}", self.path);
        let host = self.to.to_string();
        let signed = self.signed(method.as_str(), &path, &host, payload, &Moment::now());
        let mut request = Request::builder().method(method).uri(&path).header("host", &host);
        for (name, value) in signed {
            request = request.header(name, value);
        }
        let request = request.body(body.unwrap_or_default()).map_err(|error| failed(&error))?;
        let stream = self.to.connect(None).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(connection);
        let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
        let length = answer.headers().get("content-length").and_then(|value| value.to_str().ok()?.parse().ok());
        Ok((answer.status(), length))
    }

    /// The headers of a request with its signature.
    fn signed(&self, method: &str, path: &str, host: &str, payload: &str, now: &Moment) -> Vec<(&'static str, String)> {
        let mut headers = vec![("x-amz-content-sha256", payload.to_owned()), ("x-amz-date", now.stamp.clone())];
        headers.extend(self.session.clone().map(|session| ("x-amz-security-token", session)));
        let names = ["host"].into_iter().chain(headers.iter().map(|(name, _)| *name)).collect::<Vec<_>>().join(";");
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical = format!("{method}\n{path}\n\nhost:{host}\n{lines}\n{names}\n{payload}");
        let scope = format!("{}/{}/s3/aws4_request", now.day, self.region);
        let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{}", now.stamp, hash(canonical.as_bytes()));
        let first = format!("AWS4{}", self.secret).into_bytes();
        let parts = [now.day.as_str(), &self.region, "s3", "aws4_request", &text];
        let signature = parts.into_iter().fold(first, |key, part| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec()
        });
        let credential = format!("{}/{scope}", self.key);
        let signature = hex(&signature);
        let authorization =
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}");
        headers.push(("authorization", authorization));
        headers
    }
}

/// A moment as signatures write it.
struct Moment {
    day: String,
    stamp: String,
}

impl Moment {
    fn now() -> Self {
        Self::at(unix_ms() / 1000)
    }

    fn at(seconds: u64) -> Self {
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = date(days);
        let day = format!("{year:04}{month:02}{day:02}");
        let stamp = format!("{day}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60);
        Self { day, stamp }
    }
}

/// The date of a day since 1970, by the calendar whose years begin in March.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hash_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = digest::Context::new(&digest::SHA256);
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(context.finish().as_ref())),
            count => context.update(&piece[..count]),
        }
    }
}

/// A file on its way, or nothing. It is read in the thread that sends it.
#[derive(Debug, Default)]
struct FileBody {
    file: Option<File>,
    left: u64,
}

impl FileBody {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let left = file.metadata()?.len();
        Ok(Self { file: Some(file), left })
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut piece = vec![0; PIECE.min(usize::try_from(self.left).unwrap_or(PIECE))];
        let count = self.file.as_mut().map_or(Ok(0), |file| file.read(&mut piece))?;
        if count == 0 {
            return Poll::Ready(Some(Err(std::io::ErrorKind::UnexpectedEof.into())));
        }
        self.left -= count as u64;
        piece.truncate(count);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A file that is complete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CompleteFile {
    /// Its name in object storage.
    name: String,
    path: PathBuf,
    length: u64,
}

/// What is to be copied of the hub's folders.
fn complete_files(data: &Path) -> Vec<CompleteFile> {
    let entries = |folder: &'static str| {
        fs::read_dir(data.join(folder))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(move |entry| complete(folder, &entry))
    };
    FOLDERS.into_iter().flat_map(entries).collect()
}

fn complete(folder: &str, entry: &fs::DirEntry) -> Option<CompleteFile> {
    let metadata = entry.metadata().ok()?;
    let name = entry.file_name().into_string().ok()?;
    let is_settled = metadata.modified().ok()?.elapsed().is_ok_and(|age| age > SETTLED);
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter));
    (metadata.is_file() && is_settled && is_plain && !name.starts_with('.')).then(|| CompleteFile {
        name: format!("{folder}/{name}"),
        path: entry.path(),
        length: metadata.len(),
    })
}

/// Copies for as long as the hub runs, in a thread of its own: it waits for the disk.
pub(crate) fn start(store: ObjectStore, data: PathBuf) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("objects".to_owned()).spawn(move || runtime.block_on(copy_all(store, data)))?;
    Ok(())
}

async fn copy_all(store: ObjectStore, data: PathBuf) {
    let mut copied = HashSet::new();
    let mut outage = Outage::new("dumps, recordings and traces", &store);
    loop {
        let files = complete_files(&data);
        copied.retain(|file| files.contains(file));
        for file in files {
            if copied.contains(&file) {
                continue;
            }
            let sent = timeout(PATIENCE, store.copy(&file)).await;
            let sent = sent.unwrap_or_else(|_| Err(SendFailure::Passing("it takes too long".to_owned())));
            if sent.is_ok() {
                copied.insert(file);
            }
            outage.note(sent);
        }
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn store() -> S3Bucket {
        S3Bucket::read("s3://examplebucket", |name| match name {
            "AWS_ACCESS_KEY_ID" => Some("AKIAIOSFODNN7EXAMPLE".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned()),
            "AWS_ENDPOINT_URL" => Some("http://127.0.0.1:9000".to_owned()),
            _ => None,
        })
        .unwrap()
    }

    #[test]
    fn places_are_read() {
        assert_eq!(format!("{:?}", store()), "S3Bucket(127.0.0.1:9000 /examplebucket/)");
        assert!(S3Bucket::read("s3://b", |_| None).unwrap_err().contains("AWS_ACCESS_KEY_ID"));
        for wrong in ["b", "s3://", "s3://b/ä", "http://b"] {
            assert!(S3Bucket::read(wrong, |_| None).is_err());
        }
        for wrong in ["file://here", "file:///there/is/no/such/folder", "gs://b", "az://b"] {
            assert!(wrong.parse::<ObjectStore>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_folder_gets_whole_files_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.ngch");
        fs::write(&path, "dump").unwrap();
        let store: ObjectStore = format!("file://{}", place.path().display()).parse().unwrap();
        let file = CompleteFile { name: "heaps/a.ngch".to_owned(), path: path.clone(), length: 4 };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.copy(&file)).unwrap();
        let copied = place.path().join("heaps");
        assert_eq!(fs::read_to_string(copied.join("a.ngch")).unwrap(), "dump");
        assert_eq!(fs::read_dir(&copied).unwrap().count(), 1, "nothing else is left there");
        // It is there, so it is not read again.
        fs::remove_file(&path).unwrap();
        runtime.block_on(store.copy(&file)).unwrap();
        let missing = CompleteFile { name: "heaps/b.ngch".to_owned(), path, length: 4 };
        assert!(runtime.block_on(store.copy(&missing)).is_err());
    }

    #[test]
    fn days_have_dates() {
        let stamp = |seconds| Moment::at(seconds).stamp;
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_782_399), "20000228T235959Z");
        assert_eq!(stamp(951_782_400), "20000229T000000Z");
        assert_eq!(stamp(1_369_353_600), "20130524T000000Z");
        assert_eq!(stamp(1_798_761_599), "20261231T235959Z");
    }

    #[test]
    fn a_request_is_signed_as_in_the_example_of_aws() {
        // "GET Bucket Lifecycle" and its kin sign other headers; what is compared is the key and the form.
        let store = store();
        let headers = store.signed("PUT", "/examplebucket/a", "h", &hash(b""), &Moment::at(1_369_353_600));
        assert_eq!(headers[1], ("x-amz-date", "20130524T000000Z".to_owned()));
        let (_, authorization) = headers.last().unwrap();
        let start = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
                     SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=";
        assert!(authorization.starts_with(start), "{authorization}");
        assert_eq!(authorization.len(), start.len() + 64);
    }

    #[test]
    fn drafts_and_new_files_are_left() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("heaps")).unwrap();
        for name in ["a.ngch", ".dump", "b.ngch"] {
            fs::write(folder.path().join("heaps").join(name), b"x").unwrap();
        }
        let old = std::time::SystemTime::now() - Duration::from_secs(60);
        for name in ["a.ngch", ".dump"] {
            File::options()
                .write(true)
                .open(folder.path().join("heaps").join(name))
                .unwrap()
                .set_modified(old)
                .unwrap();
        }
        let names: Vec<_> = complete_files(folder.path()).into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["heaps/a.ngch"]);
    }
}
