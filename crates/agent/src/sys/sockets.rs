//! The program's TCP connections: which descriptor leads to a peer, and when data last came from it or went to it.
//!
//! A server tells its application the peer's address and not the descriptor. So the descriptors are asked for their peers,
//! and what they answer is remembered. That works for every server, whatever it is written in.

use std::cell::Cell;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::raw::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::native::monotonic_ns;
use super::ticks;

/// Connections that are remembered at once. Two that share a place displace each other.
const PLACES: usize = 4096;

/// A search runs in a thread of the program. It asks at most so many descriptors, which takes about 20 µs; the next search
/// goes on from there. After so many in a row that are not open it goes on from the first.
const MOST_ASKED: usize = 128;
const CLOSED_IN_A_ROW: u32 = 24;

/// Where that is not all of them, it first asks so many after the one that was found last: a server that opens more
/// connections than it closes gets rising numbers.
const NEAR: c_int = 8;

/// Searches take at most one part in so many of the time: the first where a search has seen all descriptors, after which
/// every connection is known, and the second where it has seen a part of them.
const SHARES: [u64; 2] = [20, 100];

/// About what asking a descriptor takes. The clock would also count the time in which the thread has no processor, and after
/// that no search would be made for long.
const ASK_NS: u64 = 150;

/// Which way data went. The values are the places of the kernel's answers in its `struct tcp_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `tcpi_last_data_sent`.
    Sent = 44,
    /// `tcpi_last_data_recv`.
    Received = 52,
}

/// When data last came from a peer or went to it, as the kernel tells it: in ticks of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastData {
    /// Ticks since then.
    pub(crate) ticks: u64,
    /// The length of a tick.
    pub(crate) tick_ns: u64,
    /// When the running tick began.
    pub(crate) tick_began: u64,
    /// When the kernel was asked.
    pub(crate) now: u64,
}

/// What is known about the connections.
pub(crate) struct Peers {
    /// The upper half is the hash of a peer, the lower half the descriptor; zero is empty.
    places: Box<[AtomicU64]>,
    /// Where the latest search ended well. A server that closes each connection gets the same number again.
    latest: AtomicI32,
    /// Where the next search begins.
    next: AtomicI32,
    /// No search before this.
    search_from: AtomicU64,
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Peers").finish_non_exhaustive()
    }
}

impl Default for Peers {
    fn default() -> Self {
        let places = (0..if cfg!(test) { 16 } else { PLACES }).map(|_| AtomicU64::new(0)).collect();
        Self { places, latest: AtomicI32::new(-1), next: AtomicI32::new(0), search_from: AtomicU64::new(0) }
    }
}

impl Peers {
    /// When data last went a way. One system call where the connection is known.
    pub(crate) fn last_data(&self, peer: SocketAddr, way: Way) -> Option<LastData> {
        let hash = hash_of(peer);
        let known = self.place(hash).load(Ordering::Relaxed);
        if (known >> 32) as u32 == hash {
            let descriptor = known as u32 as c_int;
            // Zero is what a calm program gets, and not worth a second call. More may be that of another connection,
            // which got the number of one that was closed.
            match last_data_ms(descriptor, way) {
                Some(0) => return Some(reading(0)),
                Some(ms) if peer_of(descriptor).ok() == Some(peer) => return Some(reading(ms)),
                _ => {}
            }
        }
        self.search(peer, hash, peer_of).and_then(|descriptor| last_data_ms(descriptor, way)).map(reading)
    }

    fn place(&self, hash: u32) -> &AtomicU64 {
        &self.places[hash as usize % self.places.len()]
    }

    fn remember(&self, hash: u32, descriptor: c_int) {
        self.place(hash).store(u64::from(hash) << 32 | u64::from(descriptor as u32), Ordering::Relaxed);
    }

    /// Finds the descriptor that leads to a peer among those that `ask` tells the peers of.
    fn search(&self, peer: SocketAddr, hash: u32, ask: impl Fn(c_int) -> Result<SocketAddr, c_int>) -> Option<c_int> {
        let latest = self.latest.load(Ordering::Relaxed);
        if latest >= 0 && ask(latest).ok() == Some(peer) {
            self.remember(hash, latest);
            return Some(latest);
        }
        let began = monotonic_ns();
        if began < self.search_from.load(Ordering::Relaxed) {
            return None;
        }
        let asked = Cell::new(0);
        let ask = |descriptor| {
            asked.set(asked.get() + 1);
            ask(descriptor)
        };
        let near = || (latest + 1..=latest.saturating_add(NEAR)).find(|descriptor| ask(*descriptor).ok() == Some(peer));
        let found = match self.next.load(Ordering::Relaxed) {
            0 => self.go_round(peer, ask).or_else(near),
            _ => near().or_else(|| self.go_round(peer, ask)),
        };
        if let Some(descriptor) = found {
            self.remember(hash, descriptor);
            self.latest.store(descriptor, Ordering::Relaxed);
        }
        let share = SHARES[usize::from(self.next.load(Ordering::Relaxed) != 0)];
        self.search_from.store(began + asked.get() * ASK_NS * share, Ordering::Relaxed);
        found
    }

    /// Asks a part of the descriptors, from where the last search ended, and remembers what they answer.
    fn go_round(&self, peer: SocketAddr, ask: impl Fn(c_int) -> Result<SocketAddr, c_int>) -> Option<c_int> {
        let mut descriptor = self.next.load(Ordering::Relaxed);
        let (mut found, mut closed, mut from_first) = (None, 0, descriptor == 0);
        for _ in 0..MOST_ASKED {
            match ask(descriptor) {
                Ok(other) => {
                    self.remember(hash_of(other), descriptor);
                    if other == peer {
                        found = Some(descriptor);
                    }
                    closed = 0;
                }
                Err(libc::EBADF) => closed += 1,
                Err(_) => closed = 0,
            }
            descriptor = descriptor.saturating_add(1);
            if closed > CLOSED_IN_A_ROW {
                (descriptor, closed) = (0, 0);
                if from_first {
                    break;
                }
                from_first = true;
            }
        }
        self.next.store(descriptor, Ordering::Relaxed);
        found
    }
}

/// Never zero.
fn hash_of(peer: SocketAddr) -> u32 {
    let address = match peer.ip() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ address.to_bits() as u64,
    };
    let mixed = (address.rotate_left(16) ^ u64::from(peer.port())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}

fn reading(ms: u32) -> LastData {
    let (now, tick_ns) = (monotonic_ns(), ticks::length_ns());
    let ticks = (u64::from(ms) * 1_000_000 + tick_ns / 2) / tick_ns;
    LastData { ticks, tick_ns, tick_began: ticks::began(now), now }
}

/// Milliseconds since data last went a way, in steps of a tick.
fn last_data_ms(descriptor: c_int, way: Way) -> Option<u32> {
    // The beginning of the kernel's `struct tcp_info`.
    let mut info = [0_u8; Way::Received as usize + 4];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`; any number may be given as a descriptor.
    let told = unsafe {
        libc::getsockopt(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut length)
    };
    if told != 0 || (length as usize) < info.len() {
        return None;
    }
    info[way as usize..].first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The peer of a descriptor, or the number of the error; `EAFNOSUPPORT` for a peer that has no address of the internet.
fn peer_of(descriptor: c_int) -> Result<SocketAddr, c_int> {
    let mut bytes = [0_u8; size_of::<libc::sockaddr_in6>()];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `bytes`; any number may be given as a descriptor.
    let told = unsafe { libc::getpeername(descriptor, bytes.as_mut_ptr().cast(), &raw mut length) };
    if told != 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
    }
    let family = c_int::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let address = match family {
        libc::AF_INET => bytes[4..].first_chunk::<4>().map(|octets| IpAddr::V4(Ipv4Addr::from(*octets))),
        libc::AF_INET6 => bytes[8..].first_chunk::<16>().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets))),
        _ => None,
    };
    // An IPv4 peer of an IPv6 socket has an address that applications may see in either way.
    address.map(|address| SocketAddr::new(address.to_canonical(), port)).ok_or(libc::EAFNOSUPPORT)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_since_data_came_is_told_without_a_descriptor() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peers = Peers::default();
        for _ in 0..3 {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, peer) = listener.accept().unwrap();
            for _ in 0..2 {
                client.write_all(b"x").unwrap();
                std::thread::sleep(Duration::from_millis(60));
                peers.search_from.store(0, Ordering::Relaxed);
                let told = peers.last_data(peer, Way::Received).unwrap();
                let ms = told.ticks * told.tick_ns / 1_000_000;
                assert!((50..2_000).contains(&ms), "{ms}");
                server.read_exact(&mut [0]).unwrap();
                server.write_all(b"x").unwrap();
                assert!(peers.last_data(peer, Way::Sent).unwrap().ticks < told.ticks);
            }
        }
    }

    /// The peer of a connection that is made up.
    fn peer(number: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 5000))
    }

    /// Searches a peer among descriptors whose peers are given, or that are closed. Also gives how many were asked.
    fn search(peers: &Peers, wanted: SocketAddr, open: &[Option<SocketAddr>]) -> (Option<c_int>, usize) {
        let asked = std::cell::Cell::new(0);
        peers.search_from.store(0, Ordering::Relaxed);
        let found = peers.search(wanted, hash_of(wanted), |descriptor| {
            asked.set(asked.get() + 1);
            open.get(descriptor as usize).copied().flatten().ok_or(libc::EBADF)
        });
        (found, asked.get())
    }

    const BOUND: usize = MOST_ASKED + NEAR as usize + 1;

    #[test]
    fn a_search_among_thousands_of_connections_asks_few_and_the_next_goes_on() {
        let peers = Peers::default();
        let open: Vec<_> = (0..5000).map(|number| Some(peer(number))).collect();
        for wanted in [4999, 0, 2500] {
            let searches = (1..=2 * open.len() / MOST_ASKED).find(|_| {
                let before = monotonic_ns();
                let (found, asked) = search(&peers, peer(wanted), &open);
                assert!(asked <= BOUND, "{asked} descriptors were asked at once");
                let pause = peers.search_from.load(Ordering::Relaxed).saturating_sub(before);
                let whole = peers.next.load(Ordering::Relaxed) == 0;
                assert!(asked == 1 || pause >= (asked as u64 - 1) * ASK_NS * if whole { 20 } else { 100 }, "{pause}");
                found == Some(wanted as c_int)
            });
            assert!(searches.is_some(), "connection {wanted} was not found in two rounds");
        }
    }

    #[test]
    fn connections_that_are_opened_one_after_the_other_are_found_at_once() {
        let peers = Peers::default();
        let mut open: Vec<_> = (0..3000).map(|number| Some(peer(number))).collect();
        peers.latest.store(2999, Ordering::Relaxed);
        assert_eq!(search(&peers, peer(9999), &open), (None, BOUND), "only now it is known that there are more");
        for number in 3000..3100 {
            open.push(Some(peer(number)));
            let (found, asked) = search(&peers, peer(number), &open);
            assert!(found == Some(number as c_int) && asked <= 2, "{found:?} after {asked}");
        }
        // A server that closes each connection gets the same number again.
        for number in 4000..4100 {
            open[17] = Some(peer(number));
            peers.latest.store(17, Ordering::Relaxed);
            assert_eq!(search(&peers, peer(number), &open), (Some(17), 1));
        }
    }

    #[test]
    fn one_search_of_a_small_program_makes_all_its_connections_known() {
        let peers = Peers { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(), ..Peers::default() };
        let open: Vec<_> = (0..60).map(|number| Some(peer(number))).collect();
        assert_eq!(search(&peers, peer(5), &open).0, Some(5));
        for number in 0..60 {
            let hash = hash_of(peer(number));
            assert_eq!(peers.place(hash).load(Ordering::Relaxed), u64::from(hash) << 32 | number as u64);
        }
    }

    #[test]
    fn a_small_program_is_searched_whole_wherever_the_last_search_ended() {
        let peers = Peers::default();
        let mut open = vec![None; 40];
        for (at, number) in [(3, 1), (20, 2), (39, 3)] {
            open[at] = Some(peer(number));
        }
        for next in 0..60 {
            for (at, number) in [(3, 1), (20, 2), (39, 3)] {
                peers.next.store(next, Ordering::Relaxed);
                peers.latest.store(-1, Ordering::Relaxed);
                let (found, asked) = search(&peers, peer(number), &open);
                assert!(found == Some(at) && asked <= BOUND, "from {next}: {found:?} after {asked}");
            }
        }
    }

    #[test]
    fn a_peer_without_a_connection_is_not_found() {
        let (peers, before) = (Peers::default(), monotonic_ns());
        assert_eq!(peers.last_data("127.0.0.1:1".parse().unwrap(), Way::Received), None);
        assert!(peers.search_from.load(Ordering::Relaxed) > before + 24 * ASK_NS * SHARES[0]);
    }
}
