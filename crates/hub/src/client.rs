//! A client of a hub, for commands: it asks the API and fetches files, over HTTP or HTTPS. It blocks, and never for ever.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::post::{PostAddress, get};

/// How long a hub may take to be reached and to begin its answer, and how long the next piece of that may take.
const PATIENCE: Duration = Duration::from_secs(30);
const PIECE_PATIENCE: Duration = Duration::from_secs(30);

/// The longest answer that is not a file.
const LONGEST_ANSWER: usize = 8 << 20;

/// Why a hub did not give what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum HubClientError {
    /// Nothing answers at its address.
    #[error("{0}")]
    Unreachable(String),
    /// It wants another token.
    #[error("{0}")]
    Forbidden(String),
    /// It has no such thing.
    #[error("{0}")]
    NotFound(String),
    /// It refuses for another reason.
    #[error("{0}")]
    Refused(String),
    /// What answers is no hub, or an older one.
    #[error("{0}")]
    NoHub(String),
    /// The answer ended before its end.
    #[error("{0}")]
    BrokenOff(String),
    /// What came could not be put where it belongs.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// A hub, by its address.
#[derive(Debug)]
pub struct HubClient {
    to: PostAddress,
    /// What stands before its paths, where a proxy wants that.
    prefix: String,
    runtime: Runtime,
}

/// An address of a hub, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct HubUrl {
    /// Without what is behind the path.
    plain: String,
    /// The token that it carries, as the one that `neurogc hub` prints does.
    token: Option<String>,
}

impl HubUrl {
    fn read(url: &str) -> Self {
        let (plain, query) = url.trim().split_once(['?', '#']).unwrap_or((url.trim(), ""));
        let token = query.split('&').find_map(|pair| pair.strip_prefix("token=")).filter(|token| !token.is_empty());
        Self { plain: plain.to_owned(), token: token.map(str::to_owned) }
    }
}

impl HubClient {
    /// A hub at this address. The token that the address carries counts more than the one that is given. The error says what is
    /// wrong with the address.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, String> {
        let HubUrl { plain, token: own } = HubUrl::read(url);
        let to: PostAddress = plain.parse().map_err(|_| "it must look like http://127.0.0.1:7077".to_owned())?;
        let prefix = to.path().trim_end_matches('/').to_owned();
        let to = match own.as_deref().or(token) {
            Some(token) => to.with("authorization", &format!("Bearer {token}"))?,
            None => to,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self { to, prefix, runtime: runtime.map_err(|error| error.to_string())? })
    }

    /// What the API says at a path.
    pub fn ask(&self, path: &str) -> Result<Value, HubClientError> {
        self.runtime.block_on(async {
            let (answer, _tasks) = self.answer(path).await?;
            let (status, body) = whole(answer).await?;
            if status.is_success() {
                return serde_json::from_slice(&body).map_err(|_| self.no_hub());
            }
            Err(self.refusal(status, &body))
        })
    }

    /// Takes the file at a path, piece by piece, and gives its length.
    pub fn fetch(&self, path: &str, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<u64, HubClientError> {
        self.runtime.block_on(async {
            let (mut answer, _tasks) = self.answer(path).await?;
            if !answer.status().is_success() {
                let (status, body) = whole(answer).await?;
                return Err(self.refusal(status, &body));
            }
            let mut length = 0;
            loop {
                let piece = timeout(PIECE_PATIENCE, answer.body_mut().frame()).await;
                let piece = piece.map_err(|_| HubClientError::BrokenOff("the hub has stopped sending".to_owned()))?;
                let Some(piece) = piece else { return Ok(length) };
                let piece = piece.map_err(|error| HubClientError::BrokenOff(format!("the hub broke off: {error}")))?;
                let Ok(data) = piece.into_data() else { continue };
                length += data.len() as u64;
                take(&data)?;
            }
        })
    }

    async fn answer(
        &self,
        path: &str,
    ) -> Result<(hyper::Response<Incoming>, tokio::task::JoinSet<Result<(), hyper::Error>>), HubClientError> {
        let unreachable = |why: String| HubClientError::Unreachable(format!("no hub answers at {}: {why}", self.to));
        let path = format!("{}{path}", self.prefix);
        let answered = timeout(PATIENCE, get(&self.to, &path)).await;
        let answered = answered.map_err(|_| unreachable(format!("nothing within {} s", PATIENCE.as_secs())))?;
        answered.map_err(|failure| unreachable(failure.to_string()))
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> HubClientError {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(message) = said["error"]["message"].as_str().map(str::to_owned) else { return self.no_hub() };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => HubClientError::Forbidden(message),
            // It answers so for every path that it does not know.
            StatusCode::NOT_FOUND if message.contains("docs/api.md") => HubClientError::NoHub(format!(
                "the hub at {} is of an earlier version, which keeps no traces. Update it",
                self.to
            )),
            StatusCode::NOT_FOUND => HubClientError::NotFound(message),
            _ => HubClientError::Refused(message),
        }
    }

    fn no_hub(&self) -> HubClientError {
        HubClientError::NoHub(format!("what answers at {} is no hub", self.to))
    }
}

async fn whole(answer: hyper::Response<Incoming>) -> Result<(StatusCode, Vec<u8>), HubClientError> {
    let status = answer.status();
    let body = timeout(PIECE_PATIENCE, Limited::new(answer.into_body(), LONGEST_ANSWER).collect()).await;
    let body = body.map_err(|_| HubClientError::BrokenOff("the hub has stopped sending".to_owned()))?;
    let body = body.map_err(|error| HubClientError::BrokenOff(format!("the hub broke off: {error}")))?;
    Ok((status, body.to_bytes().to_vec()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server that answers one request so, and what it was asked.
    fn answering(answer: &'static [u8]) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut part = [0; 1024];
            while !asked.ends_with(b"\r\n\r\n") {
                let count = stream.read(&mut part).unwrap();
                asked.extend_from_slice(&part[..count]);
            }
            stream.write_all(answer).unwrap();
            String::from_utf8(asked).unwrap()
        });
        (url, served)
    }

    #[test]
    fn an_address_may_carry_its_token_and_a_prefix() {
        let (url, served) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"x\": 17}");
        let client = HubClient::new(&format!("{url}/hub/?token=SECRET"), Some("other")).unwrap();
        assert_eq!(client.ask("/api/v1/x").unwrap()["x"], 17);
        let asked = served.join().unwrap().to_lowercase();
        assert!(asked.starts_with("get /hub/api/v1/x http/1.1\r\n") && asked.contains("authorization: bearer secret"));
        assert!(!format!("{client:?}").contains("SECRET"));
        for wrong in ["", "hub.example:7077", "ftp://hub", "http://"] {
            assert!(HubClient::new(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_goes_wrong_is_told_apart() {
        let error = |answer: &'static [u8]| {
            let (url, served) = answering(answer);
            let error = HubClient::new(&url, None).unwrap().ask("/x").unwrap_err();
            let _ = served.join();
            error
        };
        let forbidden = error(
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 42\r\n\r\n{\"error\": {\"message\": \"it needs a token\"}} ",
        );
        assert!(matches!(&forbidden, HubClientError::Forbidden(why) if why == "it needs a token"), "{forbidden:?}");
        assert!(matches!(error(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"), HubClientError::NoHub(_)));
        assert!(matches!(error(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"), HubClientError::NoHub(_)));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let nothing = HubClient::new(&format!("http://{closed}"), None).unwrap().ask("/x").unwrap_err();
        assert!(matches!(nothing, HubClientError::Unreachable(_)) && nothing.to_string().contains(&closed.to_string()));
    }

    #[test]
    fn a_file_that_breaks_off_is_an_error() {
        let fetch = |answer: &'static [u8]| {
            let (url, served) = answering(answer);
            let mut taken = Vec::new();
            let fetched = HubClient::new(&url, None).unwrap().fetch("/x", &mut |piece| {
                taken.extend_from_slice(piece);
                Ok(())
            });
            let _ = served.join();
            (fetched, taken)
        };
        let (fetched, taken) =
            fetch(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
        assert_eq!((fetched.unwrap(), taken.as_slice()), (5, &b"abcde"[..]));
        let (fetched, _) = fetch(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nd");
        assert!(matches!(fetched, Err(HubClientError::BrokenOff(_))));
    }
}
