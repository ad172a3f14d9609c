//! One keep-alive connection to a service, with at most one request under way.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::errands::Errand;
use crate::response::{Done, MalformedResponse, ResponseProgress, ResponseReader};
use crate::target::Target;

/// What a connection does.
#[derive(Debug)]
pub(crate) enum Doing {
    /// It is being made, for an errand whose request is written.
    Connecting(Job, Vec<u8>),
    /// It waits for an answer.
    Asked(Job, ResponseReader),
    /// It waits for something to do.
    Idle,
}

/// The request that a connection is busy with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) errand: Errand,
    /// The part of the plan that it belongs to.
    pub(crate) part: usize,
}

/// How a request ended that did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestTrouble {
    Refused,
    Broken,
    Garbage,
}

/// What became of a connection when something happened on it.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// Nothing to tell.
    None,
    /// It is connected, and has asked.
    Sent,
    /// The answer is whole.
    Answered(Job, Done),
    /// The request failed, and the connection is of no use.
    Failed(Job, RequestTrouble),
    /// The service closed it while it was idle, as it may.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) doing: Doing,
}

impl Connection {
    /// Begins to connect.
    pub(crate) fn open(target: Target, job: Job, request: Vec<u8>) -> io::Result<Self> {
        let family = if target.address().is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match rustix::net::connect(&socket, &target.address()) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { stream: socket.into(), doing: Doing::Connecting(job, request) })
    }

    /// Asks on an idle connection. A request is far smaller than a socket's buffer.
    pub(crate) fn ask(&mut self, job: Job, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request)?;
        self.doing = Doing::Asked(job, ResponseReader::new());
        Ok(())
    }

    /// Something happened: reads or writes what can be read or written.
    pub(crate) fn look(&mut self, buffer: &mut [u8]) -> ConnectionEvent {
        match std::mem::replace(&mut self.doing, Doing::Idle) {
            Doing::Connecting(job, request) => self.finish_connecting(job, request),
            Doing::Asked(job, response) => self.read(job, response, buffer),
            Doing::Idle => match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ConnectionEvent::None,
                // The end of the connection, or bytes without a request.
                _ => ConnectionEvent::Gone,
            },
        }
    }

    fn finish_connecting(&mut self, job: Job, request: Vec<u8>) -> ConnectionEvent {
        if !matches!(sockopt::socket_error(&self.stream), Ok(Ok(()))) {
            return ConnectionEvent::Failed(job, RequestTrouble::Refused);
        }
        match self.stream.write_all(&request) {
            Ok(()) => {
                self.doing = Doing::Asked(job, ResponseReader::new());
                ConnectionEvent::Sent
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => {
                self.doing = Doing::Connecting(job, request);
                ConnectionEvent::None
            }
            Err(_) => ConnectionEvent::Failed(job, RequestTrouble::Refused),
        }
    }

    fn read(&mut self, job: Job, mut response: ResponseReader, buffer: &mut [u8]) -> ConnectionEvent {
        loop {
            let progress = match self.stream.read(buffer) {
                Ok(0) => response.closed().map(ResponseProgress::Done),
                Ok(length) => response.push(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.doing = Doing::Asked(job, response);
                    return ConnectionEvent::None;
                }
                Err(_) => return ConnectionEvent::Failed(job, RequestTrouble::Broken),
            };
            match progress {
                Ok(ResponseProgress::More) => {}
                Ok(ResponseProgress::Done(done)) => return ConnectionEvent::Answered(job, done),
                Err(MalformedResponse::Cut) => return ConnectionEvent::Failed(job, RequestTrouble::Broken),
                Err(_) => return ConnectionEvent::Failed(job, RequestTrouble::Garbage),
            }
        }
    }

    /// The request that is under way.
    pub(crate) fn job(&self) -> Option<Job> {
        match &self.doing {
            Doing::Connecting(job, _) | Doing::Asked(job, _) => Some(*job),
            Doing::Idle => None,
        }
    }
}

/// The bytes of a request.
pub(crate) fn request(target: Target, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: neurogc\r\n\r\n", target.address()).into_bytes()
}

/// How long something that was meant for `errand` has taken.
pub(crate) fn lasted(errand: Errand, now: Duration) -> Duration {
    now.saturating_sub(errand.at)
}
