//! The hub that the settings name: frames are posted to it over plain HTTP, one request at a time, without ever waiting.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use neurogc_policy::names_a_file;
use neurogc_settings::{HubAddress, Secret};
use neurogc_wire::control::{Answer, Ask};
use neurogc_wire::report::{INGEST_PATH, Reply, Settled, Wanted};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket};

use super::backlog::{Backlog, Content};
use super::control::answer_to;
use super::response::{self, MOST};
use crate::book::hub_batch::Bulletin;
use crate::lifecycle::agent::Agent;

/// How long a hub may take to accept, to read and to answer.
const PATIENCE_NS: u64 = 10_000_000_000;

/// How soon a lost hub is looked for again, at first and at last.
const SOON_NS: u64 = 500_000_000;
const LATE_NS: u64 = 30_000_000_000;

/// How often it is looked whether what the hub has asked for is done.
const OUTCOME_NS: u64 = 100_000_000;

/// The hub and what is on its way there.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) backlog: Backlog,
    address: SocketAddr,
    /// The head of every request, up to the length of its body.
    head: String,
    /// A connection that is free.
    stream: Option<TcpStream>,
    exchange: Option<Exchange>,
    retry_at: u64,
    retry_after: u64,
    /// What the hub has asked for: its number for it and our ticket.
    errand: Option<(u64, u64)>,
    answers: Vec<Settled>,
}

/// A request and its answer, as far as they have come.
#[derive(Debug)]
struct Exchange {
    stream: TcpStream,
    request: Vec<u8>,
    gone: usize,
    answer: Vec<u8>,
    deadline: u64,
    content: Content,
}

impl Push {
    pub(super) fn new(hub: &HubAddress, token: &Secret) -> Self {
        let mut head = format!("POST {}{INGEST_PATH} HTTP/1.1\r\nHost: {}\r\n", hub.prefix, hub.host);
        if !token.is_empty() {
            head.push_str(&format!("Authorization: Bearer {}\r\n", token.reveal()));
        }
        head.push_str("Content-Type: application/octet-stream\r\nContent-Length: ");
        Self {
            backlog: Backlog::default(),
            address: hub.address,
            head,
            stream: None,
            exchange: None,
            retry_at: 0,
            retry_after: SOON_NS,
            errand: None,
            answers: Vec::new(),
        }
    }

    /// Goes on with what is under way, and sends what there is to tell.
    pub(super) fn round(&mut self, agent: &Agent, host: &str, now: u64, bulletin: &Bulletin) {
        self.backlog.add(bulletin);
        self.settle(agent);
        self.proceed(agent, now);
        if self.exchange.is_none() && now >= self.retry_at {
            let answers = std::mem::take(&mut self.answers);
            if let Some((frame, content)) = self.backlog.frame(agent, host, now, answers) {
                match self.connection() {
                    Ok(stream) => self.exchange = Some(Exchange::new(stream, &self.head, &frame, content, now)),
                    Err(_) => self.fail(content, now),
                }
                self.proceed(agent, now);
            }
        }
    }

    /// When something is to be done, whether the hub moves or not.
    pub(super) fn due(&self, now: u64) -> u64 {
        let sent = match &self.exchange {
            Some(exchange) => exchange.deadline,
            None if self.answers.is_empty() => self.backlog.due().max(self.retry_at),
            None => self.retry_at,
        };
        // What the hub has asked for is done by another thread.
        if self.errand.is_some() { sent.min(now + OUTCOME_NS) } else { sent }
    }

    /// What to wait for, if a request is under way.
    pub(super) fn poll_on(&self) -> Option<PollFd<'_>> {
        let exchange = self.exchange.as_ref()?;
        let is_sent = exchange.gone == exchange.request.len();
        Some(PollFd::new(exchange.stream.as_fd(), if is_sent { PollFlags::POLLIN } else { PollFlags::POLLOUT }))
    }

    /// The connection that is free, if the hub has not closed it meanwhile, or a new one.
    fn connection(&mut self) -> io::Result<TcpStream> {
        let silent =
            |stream: &TcpStream| stream.peek(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        self.stream.take().filter(silent).map_or_else(|| open(self.address), Ok)
    }

    fn proceed(&mut self, agent: &Agent, now: u64) {
        let Some(mut exchange) = self.exchange.take() else { return };
        let done = exchange.proceed();
        let found = match done {
            Ok(()) => response::read(&exchange.answer),
            Err(_) => return self.end(exchange, now),
        };
        match found {
            Ok(Some(answer)) if answer.status == 200 => {
                let reply: Reply = serde_json::from_slice(answer.body).unwrap_or_default();
                self.stream = (!answer.closes).then_some(exchange.stream);
                self.retry_after = SOON_NS;
                reply.wanted.into_iter().for_each(|wanted| self.take_on(agent, wanted));
            }
            Ok(Some(answer)) => {
                agent.ledger().trouble(refusal(answer.status));
                self.retry_after = LATE_NS;
                self.fail(exchange.content, now);
            }
            Ok(None) if now < exchange.deadline => self.exchange = Some(exchange),
            Ok(None) => self.end(exchange, now),
            Err(reason) => {
                agent.ledger().trouble(format!("the hub is not reported to: {reason}"));
                self.end(exchange, now);
            }
        }
    }

    /// Gives an exchange up. A hub that was told all of it may have taken it in, whatever has become of its answer.
    fn end(&mut self, exchange: Exchange, now: u64) {
        if exchange.gone < exchange.request.len() {
            return self.fail(exchange.content, now);
        }
        self.backlog.lost(&exchange.content);
        self.fail(Content::default(), now);
    }

    /// Lets the hub be for a while, longer each time; what it has not got waits.
    fn fail(&mut self, content: Content, now: u64) {
        self.backlog.take_back(content);
        self.retry_at = now + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(LATE_NS);
    }

    /// Does what the hub asks for, if it is one of the things that people may ask for.
    fn take_on(&mut self, agent: &Agent, Wanted { number, ask }: Wanted) {
        let answer = match ask {
            Ask::Policy(ref name) if names_a_file(name) => {
                Answer::Refused("a model's file is named on this machine: neurogc policy PID neural:FILE".to_owned())
            }
            Ask::Policy(_) | Ask::Collect(_) => answer_to(ask, agent),
            _ => Answer::Refused("a hub may ask for a policy or for a collection".to_owned()),
        };
        match answer {
            Answer::Ticket(ticket) => self.errand = Some((number, ticket)),
            answer => self.answers.push(Settled { number, answer }),
        }
    }

    /// Tells the hub what has become of it.
    fn settle(&mut self, agent: &Agent) {
        let Some((number, ticket)) = self.errand else { return };
        match answer_to(Ask::Outcome(ticket), agent) {
            Answer::Pending => {}
            answer => {
                self.answers.push(Settled { number, answer });
                self.errand = None;
            }
        }
    }
}

impl Exchange {
    fn new(stream: TcpStream, head: &str, frame: &[u8], content: Content, now: u64) -> Self {
        let mut request = format!("{head}{}\r\n\r\n", frame.len()).into_bytes();
        request.extend_from_slice(frame);
        Self { stream, request, gone: 0, answer: Vec::new(), deadline: now + PATIENCE_NS, content }
    }

    /// Writes and reads as much as goes without waiting.
    fn proceed(&mut self) -> io::Result<()> {
        while self.gone < self.request.len() {
            match self.stream.write(&self.request[self.gone..]) {
                Ok(count) => self.gone += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let mut part = [0; 4096];
        while self.answer.len() < MOST {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.answer.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if matches!(response::read(&self.answer), Ok(Some(_))) {
                break;
            }
        }
        Ok(())
    }
}

/// Begins to connect. What becomes of it is seen when something is written.
fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, SockType::Stream, flags, None)?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn refusal(status: u16) -> String {
    match status {
        401 => "the hub refuses the token: set NEUROGC_HUB_TOKEN to the hub's own".to_owned(),
        403 | 404 => format!("what listens at the hub's address is no hub, or refuses this machine (HTTP {status})"),
        _ => format!("the hub could not take a report (HTTP {status})"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_exchange_comes_to_its_answer_without_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = open(listener.local_addr().unwrap()).unwrap();
        let mut exchange = Exchange::new(stream, "POST / HTTP/1.1\r\nContent-Length: ", b"x", Content::default(), 0);
        exchange.proceed().unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        while exchange.gone < exchange.request.len() {
            exchange.proceed().unwrap();
        }
        assert_eq!(response::read(&exchange.answer), Ok(None));
        peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        while response::read(&exchange.answer) == Ok(None) {
            exchange.proceed().unwrap();
        }
        drop(peer);
        exchange.answer.clear();
        while exchange.proceed().is_ok() {}
    }

    #[test]
    fn nobody_there_is_seen_when_something_is_written() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let refused = open(address).and_then(|mut stream| {
            loop {
                match stream.write(b"x") {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return other,
                }
            }
        });
        assert!(refused.is_err());
    }
}
