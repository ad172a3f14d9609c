//! The hub that the settings name: frames are posted to it over plain HTTP, one request at a time, without ever waiting.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use neurogc_policy::names_a_file;
use neurogc_settings::{HubAddress, Secret};
use neurogc_wire::control::{Answer, Ask};
use neurogc_wire::report::{INGEST_PATH, Reply, Settled, Wanted};
use neurogc_wire::trace::cut_sites;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket};

use super::backlog::{Backlog, Content};
use super::control::answer_to;
use super::response::{self, MOST};
use crate::book::hub_batch::Bulletin;
use crate::book::status::ReportSources;
use crate::threads::ThreadControl;

/// How long a hub may take to accept, to read and to answer.
const PATIENCE_NS: u64 = 10_000_000_000;

/// How soon a lost hub is looked for again, at first and at last.
const SOON_NS: u64 = 500_000_000;
const LATE_NS: u64 = 30_000_000_000;

/// How often it is looked whether what the hub has asked for is done.
const OUTCOME_NS: u64 = 100_000_000;

/// Answers that may wait for the hub, and commands of the hub that may be under way. More are refused.
const MOST_ANSWERS: usize = 32;
const MOST_UNDER_WAY: usize = 8;

/// Commands of the hub whose numbers are remembered. A hub has at most eight under way for each process.
const REMEMBERED: usize = 64;

/// Bytes of a table of sites that goes to the hub, as a block of a trace has them. As JSON they are about ten times as many,
/// and a frame has room for a million.
const MOST_SITES: usize = 32 * 1024;

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
    /// Commands of the hub that are under way: its number for each and our ticket.
    under_way: Vec<(u64, u64)>,
    /// The numbers of its latest commands. It repeats a command with every reply until it has the answer.
    known: VecDeque<u64>,
    answers: Answers,
}

/// Answers that the hub has not confirmed. They go with every report until the hub answers one that carried them; a hub
/// ignores an answer that it has already.
#[derive(Debug, Default)]
struct Answers {
    waiting: VecDeque<Settled>,
}

impl Answers {
    /// Adds one. The oldest makes room: the hub has given up on it long ago.
    fn add(&mut self, answer: Settled) {
        if self.waiting.len() >= MOST_ANSWERS {
            self.waiting.pop_front();
        }
        self.waiting.push_back(answer);
    }

    /// Whether a table of sites waits. One is enough: a report that is too long is refused.
    fn has_sites(&self) -> bool {
        self.waiting.iter().any(|settled| matches!(settled.answer, Answer::Sites(_)))
    }

    /// What a report carries.
    fn to_send(&self) -> Vec<Settled> {
        self.waiting.iter().cloned().collect()
    }

    /// The hub has these.
    fn confirm(&mut self, numbers: &[u64]) {
        self.waiting.retain(|answer| !numbers.contains(&answer.number));
    }
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
    /// The numbers of the answers that the request carries.
    answered: Vec<u64>,
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
            under_way: Vec::new(),
            known: VecDeque::new(),
            answers: Answers::default(),
        }
    }

    /// Goes on with what is under way, and sends what there is to tell.
    pub(super) fn round(
        &mut self,
        sources: ReportSources<'_>,
        threads: &ThreadControl,
        machine: &str,
        now: u64,
        bulletin: &Bulletin,
    ) {
        self.backlog.add(bulletin);
        self.settle(sources, threads);
        self.proceed(sources, threads, now);
        if self.exchange.is_none() && now >= self.retry_at {
            let answers = self.answers.to_send();
            let answered = answers.iter().map(|answer| answer.number).collect();
            if let Some((frame, content)) = self.backlog.frame(sources, machine, now, answers) {
                match self.connection() {
                    Ok(stream) => {
                        self.exchange = Some(Exchange::new(stream, &self.head, &frame, content, answered, now));
                    }
                    Err(_) => self.fail(content, now),
                }
                self.proceed(sources, threads, now);
            }
        }
    }

    /// When something is to be done, whether the hub moves or not.
    pub(super) fn due(&self, now: u64) -> u64 {
        let sent = match &self.exchange {
            Some(exchange) => exchange.deadline,
            None if self.answers.waiting.is_empty() => self.backlog.due().max(self.retry_at),
            None => self.retry_at,
        };
        // What the hub has asked for is done by another thread.
        if !self.under_way.is_empty() { sent.min(now + OUTCOME_NS) } else { sent }
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

    fn proceed(&mut self, sources: ReportSources<'_>, threads: &ThreadControl, now: u64) {
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
                self.answers.confirm(&exchange.answered);
                reply.wanted.into_iter().for_each(|wanted| self.take_on(sources, threads, wanted));
            }
            Ok(Some(answer)) => {
                sources.books.ledger().trouble(refusal(answer.status));
                // What is wrong with the hub itself may soon be over; what is wrong with us stays.
                if answer.status < 500 {
                    self.retry_after = LATE_NS;
                }
                self.fail(exchange.content, now);
            }
            Ok(None) if now < exchange.deadline => self.exchange = Some(exchange),
            Ok(None) => self.end(exchange, now),
            Err(reason) => {
                sources.books.ledger().trouble(format!("the hub is not reported to: {reason}"));
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

    /// Does what the hub asks for, once, if it is one of the things that people may ask for.
    fn take_on(&mut self, sources: ReportSources<'_>, threads: &ThreadControl, Wanted { number, ask }: Wanted) {
        if !is_new(&mut self.known, number) {
            return;
        }
        let answer = match ask {
            _ if self.under_way.len() >= MOST_UNDER_WAY => {
                Answer::Refused("too many commands of the hub are under way".to_owned())
            }
            Ask::Policy(ref name) if names_a_file(name) => {
                Answer::Refused("a model's file is named on this machine: neurogc policy PID neural:FILE".to_owned())
            }
            Ask::Policy(_) | Ask::Collect(_) | Ask::Verdict => answer_to(ask, sources, threads),
            Ask::Dump { .. } => Answer::Refused("a heap dump is taken on the process's own machine".to_owned()),
            Ask::Sites(_) if self.answers.has_sites() => Answer::Refused("a table of sites is on its way".to_owned()),
            Ask::Sites(_) => match answer_to(ask, sources, threads) {
                Answer::Sites(table) => Answer::Sites(Box::new(cut_sites(&table, MOST_SITES))),
                other => other,
            },
            _ => Answer::Refused(
                "a hub may ask for a policy, a collection, a verdict on memory or allocation sites".to_owned(),
            ),
        };
        match answer {
            Answer::Ticket(ticket) => self.under_way.push((number, ticket)),
            answer => self.answers.add(Settled { number, answer }),
        }
    }

    /// Tells the hub what has become of it.
    fn settle(&mut self, sources: ReportSources<'_>, threads: &ThreadControl) {
        let answers = &mut self.answers;
        self.under_way.retain(|&(number, ticket)| match answer_to(Ask::Outcome(ticket), sources, threads) {
            Answer::Pending => true,
            answer => {
                answers.add(Settled { number, answer });
                false
            }
        });
    }
}

impl Exchange {
    fn new(stream: TcpStream, head: &str, frame: &[u8], content: Content, answered: Vec<u64>, now: u64) -> Self {
        let mut request = format!("{head}{}\r\n\r\n", frame.len()).into_bytes();
        request.extend_from_slice(frame);
        Self { stream, request, gone: 0, answer: Vec::new(), deadline: now + PATIENCE_NS, content, answered }
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

/// Remembers a number, and says whether it was not known yet.
fn is_new(known: &mut VecDeque<u64>, number: u64) -> bool {
    if known.contains(&number) {
        return false;
    }
    if known.len() >= REMEMBERED {
        known.pop_front();
    }
    known.push_back(number);
    true
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
        let mut exchange =
            Exchange::new(stream, "POST / HTTP/1.1\r\nContent-Length: ", b"x", Content::default(), vec![], 0);
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
    fn an_answer_goes_with_every_report_until_the_hub_confirms_it() {
        let settled = |number| Settled { number, answer: Answer::Pending };
        let numbers = |answers: &Answers| answers.to_send().iter().map(|answer| answer.number).collect::<Vec<_>>();
        let mut answers = Answers::default();
        answers.add(settled(1));
        let sent = numbers(&answers);
        // The post fails; another answer is ready before the next one.
        answers.add(settled(2));
        assert_eq!(numbers(&answers), [1, 2]);
        answers.confirm(&sent);
        assert_eq!(numbers(&answers), [2]);
        (3..100).for_each(|number| answers.add(settled(number)));
        assert_eq!((answers.waiting.len(), numbers(&answers)[0]), (MOST_ANSWERS, 68));
    }

    #[test]
    fn a_repeated_command_is_known_and_memory_is_bounded() {
        let mut known = VecDeque::new();
        assert!(is_new(&mut known, 5) && !is_new(&mut known, 5) && is_new(&mut known, 6) && !is_new(&mut known, 5));
        (100..1000).for_each(|number| assert!(is_new(&mut known, number)));
        assert_eq!(known.len(), REMEMBERED);
        assert!(!is_new(&mut known, 999));
    }

    #[test]
    fn a_hub_that_is_not_there_is_seen_when_something_is_written() {
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
