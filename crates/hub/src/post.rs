//! Sending to another server, over HTTP or HTTPS, or as a call of gRPC. An address may hold a secret: only its host is ever shown.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Who asks.
const USER_AGENT: &str = concat!("neurogc/", env!("CARGO_PKG_VERSION"));

/// Where to post.
#[derive(Clone)]
pub(crate) struct PostAddress {
    tls: bool,
    host: String,
    port: Option<u16>,
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The only certificates that are trusted, where they were named.
    authority: Option<Arc<ClientConfig>>,
}

impl std::fmt::Debug for PostAddress {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not derived: the path and the headers may hold secrets.
        write!(to, "PostAddress({self})")
    }
}

impl std::fmt::Display for PostAddress {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) => write!(to, "{}:{port}", self.host),
            None => write!(to, "{}", self.host),
        }
    }
}

impl std::str::FromStr for PostAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it must look like https://host/path".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("a name and a password do not belong into the address; put them into headers".to_owned());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?.to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { tls, host, port: uri.port_u16(), path, headers: Vec::new(), authority: None })
    }
}

impl PostAddress {
    /// The same with other values where the address says nothing of them.
    pub(crate) fn or(mut self, port: u16, path: &str) -> Self {
        self.port = self.port.or(Some(port));
        if self.path == "/" {
            path.clone_into(&mut self.path);
        }
        self
    }

    /// The whole address, secrets included.
    #[cfg(test)]
    pub(crate) fn url(&self) -> String {
        format!("{}://{self}{}", if self.tls { "https" } else { "http" }, self.path)
    }

    /// The same with another path.
    pub(crate) fn at(mut self, path: String) -> Self {
        self.path = path;
        self
    }

    /// What it was given as path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Adds headers that are written as `name=value,name=value`, each part encoded as in a URL.
    pub(crate) fn with_headers(self, text: &str) -> Result<Self, String> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        pairs.into_iter().try_fold(self, |to, pair| {
            let (name, value) = pair.split_once('=').ok_or("headers must look like name=value,name=value")?;
            to.with(name.trim(), &decoded(value.trim()))
        })
    }

    /// Trusts the certificates of this file only.
    pub(crate) fn trusting(mut self, file: &std::path::Path) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
        }
        if roots.is_empty() {
            return Err(wrong(&"there is no certificate in it"));
        }
        self.authority = Some(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()));
        Ok(self)
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Result<Self, String> {
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| "a header has a name that cannot be".to_owned())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| "a header has a value that cannot be".to_owned())?;
        value.set_sensitive(true);
        self.headers.push((name, value));
        Ok(self)
    }
}

/// Why a message did not arrive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendFailure {
    /// It may arrive later.
    #[error("{0}")]
    Passing(String),
    /// It will not.
    #[error("{0}")]
    Final(String),
}

fn passing(error: impl std::fmt::Display) -> SendFailure {
    SendFailure::Passing(error.to_string())
}

/// What is sent: bytes and what they are.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    body: Bytes,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Outgoing {
    /// Bytes of a content type.
    pub(crate) fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static(content_type))] }
    }

    /// The same, compressed by gzip.
    pub(crate) fn compressed(mut self) -> Self {
        self.body = gzipped(&self.body).into();
        self.with("content-encoding", "gzip")
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((HeaderName::from_static(name), HeaderValue::from_static(value)));
        self
    }
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// A text of JSON.
impl From<String> for Outgoing {
    fn from(json: String) -> Self {
        Self::new("application/json", json)
    }
}

/// Posts one message. The caller limits the time.
pub(crate) async fn post(to: &PostAddress, message: impl Into<Outgoing>) -> Result<(), SendFailure> {
    PostConnection::open(to).await?.post(message).await
}

/// A connection to a server, for several messages.
pub(crate) struct PostConnection<'a> {
    to: &'a PostAddress,
    sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    /// It ends with this, also where the server never answers.
    _tasks: JoinSet<Result<(), hyper::Error>>,
}

impl<'a> PostConnection<'a> {
    pub(crate) async fn open(to: &'a PostAddress) -> Result<Self, SendFailure> {
        let stream = to.connect(None).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(passing)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(connection);
        Ok(Self { to, sender, _tasks: tasks })
    }

    /// Posts a message, and waits for the answer.
    pub(crate) async fn post(&mut self, message: impl Into<Outgoing>) -> Result<(), SendFailure> {
        const LONGEST: usize = 64 * 1024;
        let answer = self.send(message.into()).await?;
        let status = answer.status();
        let _ = Limited::new(answer.into_body(), LONGEST).collect().await;
        accepted(status)
    }

    async fn send(&mut self, message: Outgoing) -> Result<Response<Incoming>, SendFailure> {
        self.sender.ready().await.map_err(passing)?;
        let request = self.to.request(&self.to.path, message)?;
        self.sender.send_request(request).await.map_err(passing)
    }
}

/// Posts a question and gives the answer, whatever its status; `None` where it is longer than so many bytes. The caller limits
/// the time.
pub(crate) async fn ask(
    to: &PostAddress,
    question: Outgoing,
    most: usize,
) -> Result<Option<(StatusCode, Bytes)>, SendFailure> {
    let mut connection = PostConnection::open(to).await?;
    let answer = connection.send(question).await?;
    let status = answer.status();
    match Limited::new(answer.into_body(), most).collect().await {
        Ok(body) => Ok(Some((status, body.to_bytes()))),
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(passing(error)),
    }
}

/// Gets what is at a path: an answer whose body is still on its way, and what brings it, which ends when that is dropped. The caller
/// limits the time.
pub(crate) async fn get(
    to: &PostAddress,
    path: &str,
) -> Result<(Response<Incoming>, JoinSet<Result<(), hyper::Error>>), SendFailure> {
    let stream = to.connect(None).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(passing)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let mut request = Request::get(path).header(header::HOST, to.to_string()).header(header::USER_AGENT, USER_AGENT);
    for (name, value) in &to.headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::<Bytes>::default()).map_err(|error| SendFailure::Final(error.to_string()))?;
    Ok((sender.send_request(request).await.map_err(passing)?, tasks))
}

/// Makes one call of gRPC, without a look at its answer but for the status. The caller limits the time.
pub(crate) async fn call(
    to: &PostAddress,
    method: &'static str,
    message: &[u8],
    is_compressed: bool,
) -> Result<(), SendFailure> {
    const LONGEST: usize = 64 * 1024;
    let stream = to.connect(Some(b"h2")).await?;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(passing)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let compressed = is_compressed.then(|| gzipped(message));
    let message = compressed.as_deref().unwrap_or(message);
    let length = u32::try_from(message.len()).map_err(|_| SendFailure::Final("the message is too long".to_owned()))?;
    let body: Vec<u8> =
        [u8::from(is_compressed)].into_iter().chain(length.to_be_bytes()).chain(message.iter().copied()).collect();
    let scheme = if to.tls { "https" } else { "http" };
    let uri = format!("{scheme}://{to}{method}");
    let mut outgoing = Outgoing::new("application/grpc", body).with("te", "trailers");
    if is_compressed {
        outgoing = outgoing.with("grpc-encoding", "gzip");
    }
    let request = to.request(&uri, outgoing)?;
    let answer = sender.send_request(request).await.map_err(passing)?;
    accepted(answer.status())?;
    let early = answer.headers().get("grpc-status").cloned();
    let body = Limited::new(answer.into_body(), LONGEST).collect().await.map_err(passing)?;
    let status = early.or_else(|| body.trailers()?.get("grpc-status").cloned());
    match status.as_ref().and_then(|status| status.to_str().ok()) {
        Some("0") => Ok(()),
        // Deadline, exhausted, aborted, unavailable: it may be taken later.
        Some(code @ ("4" | "8" | "10" | "14")) => Err(SendFailure::Passing(format!("it answers gRPC status {code}"))),
        Some(code) => Err(SendFailure::Final(format!("it answers gRPC status {code}"))),
        None => Err(SendFailure::Final("it does not speak gRPC".to_owned())),
    }
}

fn accepted(status: StatusCode) -> Result<(), SendFailure> {
    if status.is_success() {
        return Ok(());
    }
    let answer = format!("it answers HTTP {status}");
    let again = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY);
    Err(if again { SendFailure::Passing(answer) } else { SendFailure::Final(answer) })
}

/// A stream of bytes, encrypted or not.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

impl PostAddress {
    /// Connects. The protocol is what TLS is to agree on, if not HTTP 1.
    pub(crate) async fn connect(&self, protocol: Option<&[u8]>) -> Result<Box<dyn ByteStream>, SendFailure> {
        let name = self.host.trim_start_matches('[').trim_end_matches(']');
        let port = self.port.unwrap_or(if self.tls { 443 } else { 80 });
        let stream = TcpStream::connect((name, port)).await.map_err(passing)?;
        let _ = stream.set_nodelay(true);
        if !self.tls {
            return Ok(Box::new(stream));
        }
        let server = ServerName::try_from(name.to_owned()).map_err(|error| SendFailure::Final(error.to_string()))?;
        let mut config = match &self.authority {
            Some(config) => Arc::clone(config),
            None => tls_config()?,
        };
        if let Some(protocol) = protocol {
            Arc::make_mut(&mut config).alpn_protocols = vec![protocol.to_vec()];
        }
        let stream = TlsConnector::from(config).connect(server, stream).await.map_err(passing)?;
        Ok(Box::new(stream))
    }

    fn request(&self, uri: &str, message: Outgoing) -> Result<Request<Full<Bytes>>, SendFailure> {
        let mut request =
            Request::post(uri).header(header::HOST, self.to_string()).header(header::USER_AGENT, USER_AGENT);
        for (name, value) in message.headers.iter().chain(&self.headers) {
            request = request.header(name, value);
        }
        request.body(Full::new(message.body)).map_err(|error| SendFailure::Final(error.to_string()))
    }
}

/// A text with `%41` for `A`. What is not written so stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match code {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The certificates that this machine trusts, read once.
fn tls_config() -> Result<Arc<ClientConfig>, SendFailure> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (good, _) = roots.add_parsable_certificates(found.certs);
    if good == 0 {
        let what = "this machine has no certificates to trust; install ca-certificates or set SSL_CERT_FILE";
        return Err(SendFailure::Final(what.to_owned()));
    }
    let config = Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    Ok(Arc::clone(CONFIG.get_or_init(|| config)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let read = |text: &str| text.parse::<PostAddress>();
        let slack = read("https://hooks.example/services/T0/SECRET?x=SECRET").unwrap().with("x-key", "SECRET").unwrap();
        assert_eq!(format!("{slack} {slack:?}"), "hooks.example PostAddress(hooks.example)");
        assert_eq!(slack.url(), "https://hooks.example/services/T0/SECRET?x=SECRET");
        assert_eq!(read("http://[::1]:8080").unwrap().to_string(), "[::1]:8080");
        let headers = read("http://x").unwrap().with_headers("a=b%20c, Authorization=Basic%3D,").unwrap().headers;
        let written: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(written, [("a", "b c"), ("authorization", "Basic=")]);
        assert!(read("http://x").unwrap().with_headers("a").is_err());
        for wrong in ["", "x", "ftp://x", "https://", "//x", "https://a:SECRET@x/", "https://x y"] {
            let error = read(wrong).unwrap_err();
            assert!(!error.contains("SECRET"), "{error}");
        }
    }
}
