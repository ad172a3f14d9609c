//! Where load may go: to this machine and nowhere else.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::drive::LoadError;
use crate::response::{ResponseProgress, ResponseReader};

/// A service on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(SocketAddr);

impl Target {
    /// Takes an address, where it is one of this machine's own.
    ///
    /// # Errors
    ///
    /// The address is not a loopback address.
    pub fn new(address: SocketAddr) -> Result<Self, LoadError> {
        if address.ip().to_canonical().is_loopback() { Ok(Self(address)) } else { Err(LoadError::NotLoopback(address)) }
    }

    /// A port of 127.0.0.1.
    #[must_use]
    pub fn port(port: u16) -> Self {
        Self((Ipv4Addr::LOCALHOST, port).into())
    }

    /// The address.
    #[must_use]
    pub fn address(self) -> SocketAddr {
        self.0
    }
}

/// Asks for one path and waits for the answer's body: for reports, not for load.
///
/// # Errors
///
/// There is no whole answer with status 200 within `patience`.
pub fn get(target: Target, path: &str, patience: Duration) -> io::Result<String> {
    get_with(target, path, &[], patience)
}

/// The same with headers.
///
/// # Errors
///
/// There is no whole answer with status 200 within `patience`.
pub fn get_with(target: Target, path: &str, headers: &[(&str, &str)], patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&target.0, patience)?;
    stream.set_read_timeout(Some(patience))?;
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n", target.0)?;
    let wrong = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let (mut response, mut all) = (ResponseReader::new(), Vec::new());
    let mut piece = [0; 16 * 1024];
    let done = loop {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            break response.closed().map_err(|garbage| wrong(garbage.to_string()))?;
        }
        all.extend_from_slice(&piece[..length]);
        if let ResponseProgress::Done(done) =
            response.push(&piece[..length]).map_err(|garbage| wrong(garbage.to_string()))?
        {
            break done;
        }
    };
    let head = all.windows(4).position(|four| four == b"\r\n\r\n").map_or(all.len(), |at| at + 4);
    let body = String::from_utf8_lossy(&all[head..]).into_owned();
    if done.status == 200 { Ok(body) } else { Err(wrong(format!("{path} answered {}: {body:.200}", done.status))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_a_target() {
        for address in ["127.0.0.1:80", "127.9.9.9:1", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert!(address.parse().is_ok_and(|address| Target::new(address).is_ok()), "{address}");
        }
        for address in ["10.0.0.1:80", "0.0.0.0:80", "192.0.2.7:443", "[2001:db8::1]:80", "[::]:80"] {
            let refused = address.parse().is_ok_and(|address| Target::new(address).is_err());
            assert!(refused, "{address}");
        }
    }
}
