//! Posting JSON to another server, over HTTP or HTTPS. An address may hold a secret: only its host is ever shown.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Where to post.
#[derive(Clone)]
pub(crate) struct PostAddress {
    tls: bool,
    host: String,
    port: Option<u16>,
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
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
        Ok(Self { tls, host, port: uri.port_u16(), path, headers: Vec::new() })
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

/// Posts a text of JSON. The caller limits the time.
pub(crate) async fn post(to: &PostAddress, json: String) -> Result<(), SendFailure> {
    let name = to.host.trim_start_matches('[').trim_end_matches(']');
    let port = to.port.unwrap_or(if to.tls { 443 } else { 80 });
    let stream = TcpStream::connect((name, port)).await.map_err(passing)?;
    let status = if to.tls {
        let server = ServerName::try_from(name.to_owned()).map_err(|error| SendFailure::Final(error.to_string()))?;
        let tls = TlsConnector::from(tls_config()?).connect(server, stream).await.map_err(passing)?;
        exchange(to, tls, json).await?
    } else {
        exchange(to, stream, json).await?
    };
    if status.is_success() {
        return Ok(());
    }
    let answer = format!("it answers HTTP {status}");
    let again = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY);
    Err(if again { SendFailure::Passing(answer) } else { SendFailure::Final(answer) })
}

async fn exchange<S>(to: &PostAddress, stream: S, json: String) -> Result<StatusCode, SendFailure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    const LONGEST: usize = 64 * 1024;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(passing)?;
    // It ends with this, also where the server never answers.
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let mut request = Request::post(&to.path)
        .header(header::HOST, to.to_string())
        .header(header::USER_AGENT, concat!("neurogc/", env!("CARGO_PKG_VERSION")))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close");
    for (name, value) in &to.headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(json))).map_err(|error| SendFailure::Final(error.to_string()))?;
    let answer = sender.send_request(request).await.map_err(passing)?;
    let status = answer.status();
    let _ = Limited::new(answer.into_body(), LONGEST).collect().await;
    Ok(status)
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
        for wrong in ["", "x", "ftp://x", "https://", "//x", "https://a:SECRET@x/", "https://x y"] {
            let error = read(wrong).unwrap_err();
            assert!(!error.contains("SECRET"), "{error}");
        }
    }
}
