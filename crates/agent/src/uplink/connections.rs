//! The connections of the control socket while they are served: each asks one question and gets one answer, and the
//! uplink's thread never waits for any of them.
//!
//! There is room for a few, and each has a deadline. A peer that says nothing keeps its place until another one needs it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use neurogc_wire::control::{self, Answer, Ask, MAX_QUESTION, MessageError, PROTOCOL, Question};
use nix::poll::{PollFd, PollFlags};

/// Connections that are served at a time.
const MOST: usize = 64;

/// How long a peer may take to ask, and again to take its answer.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Questions answered in one round, so that no peer keeps the thread from its other work.
const PER_ROUND: usize = 16;

/// The bytes of the length before a message.
const LENGTH: usize = 4;

/// Those that are served, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: VecDeque<Connection>,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    state: State,
    deadline: u64,
}

#[derive(Debug)]
enum State {
    /// What has come of the question.
    Asking(Vec<u8>),
    /// All of it has come.
    Asked(Vec<u8>),
    /// The answer, how much of it has gone, and whether reports follow it.
    Answering { bytes: Vec<u8>, gone: usize, follows: bool },
    /// The answer has gone.
    Answered { follows: bool },
}

impl Connections {
    /// Whether another one can be taken in, if need be in place of a silent one.
    pub(super) fn have_room(&self) -> bool {
        self.all.len() < MOST || self.all.iter().any(Connection::is_silent)
    }

    /// Takes one in. The oldest silent one makes room for it.
    pub(super) fn add(&mut self, stream: UnixStream, now: u64) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        if self.all.len() >= MOST && !self.drop_silent() {
            return Ok(());
        }
        let mut connection = Connection { stream, state: State::Asking(Vec::new()), deadline: now + PATIENCE_NS };
        connection.read()?;
        self.all.push_back(connection);
        Ok(())
    }

    /// Drops the oldest one that has not asked, and still has not. False where there is none.
    pub(super) fn drop_silent(&mut self) -> bool {
        let silent = self
            .all
            .iter_mut()
            .position(|connection| connection.is_silent() && (connection.read().is_err() || connection.is_silent()));
        silent.and_then(|at| self.all.remove(at)).is_some()
    }

    /// Reads, answers and writes whatever can be without waiting, and gives the connections that reports shall follow on.
    /// Without an answer the rest waits for the next round.
    pub(super) fn serve(&mut self, now: u64, mut answer: impl FnMut(Ask) -> Option<Answer>) -> Vec<UnixStream> {
        let (mut followers, mut answered, mut stopped) = (Vec::new(), 0, false);
        for mut connection in std::mem::take(&mut self.all) {
            let mut served = connection.read();
            if !stopped
                && answered < PER_ROUND
                && let State::Asked(bytes) = &connection.state
            {
                match answer_to(bytes, &mut answer) {
                    Some(answer) => {
                        answered += 1;
                        served = served.and_then(|()| connection.begin_answer(&answer, now));
                    }
                    None => stopped = true,
                }
            }
            served = served.and_then(|()| connection.write());
            match connection.state {
                _ if served.is_err() => {}
                State::Answered { follows: true } => followers.push(connection.stream),
                State::Answered { follows: false } => {}
                State::Asking(_) | State::Answering { .. } if now >= connection.deadline => {}
                _ => self.all.push_back(connection),
            }
        }
        followers
    }

    /// When the next one is to be served, ready or not. Zero is at once.
    pub(super) fn due(&self) -> Option<u64> {
        let due = |connection: &Connection| match connection.state {
            State::Asked(_) => 0,
            _ => connection.deadline,
        };
        self.all.iter().map(due).min()
    }

    /// What to wait for.
    pub(super) fn poll_on<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) {
        polled.extend(self.all.iter().map(|connection| {
            let wanted = match connection.state {
                State::Asking(_) => PollFlags::POLLIN,
                _ => PollFlags::POLLOUT,
            };
            PollFd::new(connection.stream.as_fd(), wanted)
        }));
    }
}

impl Connection {
    fn is_silent(&self) -> bool {
        matches!(self.state, State::Asking(_))
    }

    /// Reads what has come of the question. An error means that the peer has left.
    fn read(&mut self) -> io::Result<()> {
        let State::Asking(bytes) = &mut self.state else { return Ok(()) };
        let mut part = [0; LENGTH + MAX_QUESTION];
        loop {
            // No more than the question: what comes after it is nothing that was asked for.
            let missing = length(bytes).saturating_sub(bytes.len()).min(part.len());
            if missing == 0 {
                self.state = State::Asked(std::mem::take(bytes));
                return Ok(());
            }
            match self.stream.read(&mut part[..missing]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => bytes.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn begin_answer(&mut self, answer: &Answer, now: u64) -> io::Result<()> {
        let bytes = control::encode(answer).map_err(io::Error::other)?;
        self.state = State::Answering { bytes, gone: 0, follows: *answer == Answer::Following };
        self.deadline = now + PATIENCE_NS;
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let State::Answering { bytes, gone, follows } = &mut self.state else { return Ok(()) };
        while *gone < bytes.len() {
            match self.stream.write(&bytes[*gone..]) {
                Ok(count) => *gone += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.state = State::Answered { follows: *follows };
        Ok(())
    }
}

/// How long a question is with the length before it, as far as that is known. Of one that is too long nothing more is
/// read: its length is answer enough.
fn length(bytes: &[u8]) -> usize {
    match bytes.first_chunk::<LENGTH>().map(|length| u32::from_le_bytes(*length) as usize) {
        Some(length) if length <= MAX_QUESTION => LENGTH + length,
        _ => LENGTH,
    }
}

/// The answer to the bytes of a whole question.
fn answer_to(bytes: &[u8], answer: &mut impl FnMut(Ask) -> Option<Answer>) -> Option<Answer> {
    let read: Result<Question, MessageError> = control::read(&mut &bytes[..], MAX_QUESTION);
    match read {
        Ok(Question { protocol: PROTOCOL, ask }) => answer(ask),
        Ok(Question { protocol, .. }) => {
            Some(Answer::Refused(format!("this agent speaks protocol {PROTOCOL}, the question is in {protocol}")))
        }
        Err(error) => Some(Answer::Refused(error.to_string())),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A connection that is being served, and the peer's end of it.
    fn connect(to: &mut Connections, now: u64) -> UnixStream {
        let (near, far) = UnixStream::pair().unwrap();
        to.add(near, now).unwrap();
        far.set_nonblocking(true).unwrap();
        far
    }

    fn question(ask: Ask) -> Vec<u8> {
        control::encode(&Question::new(ask)).unwrap()
    }

    fn ticket(_: Ask) -> Option<Answer> {
        Some(Answer::Ticket(7))
    }

    fn answer(from: &mut UnixStream) -> Result<Answer, MessageError> {
        control::read(from, 1 << 24)
    }

    /// Whether the agent has closed a connection.
    fn is_closed(peer: &mut UnixStream) -> bool {
        !matches!(peer.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn a_question_that_comes_in_pieces_is_answered_when_it_is_whole() {
        let mut connections = Connections::default();
        let mut peer = connect(&mut connections, 0);
        for byte in question(Ask::Status) {
            assert!(connections.serve(1, |_| panic!("asked too early")).is_empty());
            peer.write_all(&[byte]).unwrap();
        }
        connections.serve(2, ticket);
        assert_eq!(answer(&mut peer).unwrap(), Answer::Ticket(7));
        assert!(is_closed(&mut peer) && connections.all.is_empty() && connections.due().is_none());
    }

    #[test]
    fn silent_ones_make_room_and_a_good_question_is_answered_at_once() {
        let mut connections = Connections::default();
        let mut first = connect(&mut connections, 0);
        let mut late = connect(&mut connections, 0);
        let silent: Vec<_> = (0..300)
            .map(|number| {
                if number == MOST - 2 {
                    // The table is full: it asks just in time, and the one before it goes.
                    late.write_all(&question(Ask::Status)).unwrap();
                }
                connect(&mut connections, 1)
            })
            .collect();
        assert_eq!(connections.all.len(), MOST);
        let mut good = connect(&mut connections, 2);
        good.write_all(&question(Ask::Status)).unwrap();
        connections.serve(3, ticket);
        assert_eq!(answer(&mut good).unwrap(), Answer::Ticket(7));
        assert_eq!(answer(&mut late).unwrap(), Answer::Ticket(7));
        assert!(is_closed(&mut first));
        assert_eq!(connections.all.len(), MOST - 2);
        drop(silent);
        connections.serve(4, ticket);
        assert!(connections.all.is_empty(), "who has left is forgotten");
    }

    #[test]
    fn a_deadline_ends_silence_and_deafness() {
        let mut connections = Connections::default();
        let mut silent = connect(&mut connections, 0);
        let mut deaf = connect(&mut connections, 0);
        deaf.write_all(&question(Ask::Status)).unwrap();
        let long = || Some(Answer::Refused("x".repeat(4 << 20)));
        connections.serve(10, |_| long());
        assert_eq!((connections.all.len(), connections.due()), (2, Some(PATIENCE_NS)));
        connections.serve(PATIENCE_NS, |_| long());
        assert!(is_closed(&mut silent));
        assert_eq!((connections.all.len(), connections.due()), (1, Some(PATIENCE_NS + 10)));
        connections.serve(PATIENCE_NS + 10, |_| long());
        assert!(connections.all.is_empty());
    }

    #[test]
    fn a_long_answer_goes_in_pieces() {
        let mut connections = Connections::default();
        let mut peer = connect(&mut connections, 0);
        peer.write_all(&question(Ask::Status)).unwrap();
        let text = "x".repeat(4 << 20);
        connections.serve(1, |_| Some(Answer::Refused(text.clone())));
        let mut got = Vec::new();
        while !connections.all.is_empty() {
            connections.serve(2, |_| panic!("asked again"));
            while let Ok(count @ 1..) = peer.read(&mut [0; 65536]).inspect(|count| got.push(*count)) {
                assert!(count > 0);
            }
        }
        while let Ok(count @ 1..) = peer.read(&mut [0; 65536]) {
            got.push(count);
        }
        assert!(got.iter().sum::<usize>() > text.len());
    }

    #[test]
    fn who_asks_to_follow_is_handed_on() {
        let mut connections = Connections::default();
        let mut peer = connect(&mut connections, 0);
        peer.write_all(&question(Ask::Follow)).unwrap();
        assert_eq!(connections.serve(1, |_| Some(Answer::Following)).len(), 1);
        assert_eq!(answer(&mut peer).unwrap(), Answer::Following);
        assert!(connections.all.is_empty());
    }

    #[test]
    fn what_is_no_question_is_refused_in_words() {
        let check = |bytes: &[u8], expected: &str| {
            let mut connections = Connections::default();
            let mut peer = connect(&mut connections, 0);
            peer.write_all(bytes).unwrap();
            connections.serve(1, |_| panic!("it is no question"));
            let Answer::Refused(text) = answer(&mut peer).unwrap() else { panic!("not refused") };
            assert!(text.contains(expected), "{text}");
        };
        check(&[0xff, 0xff, 0xff, 0x7f], "limit");
        check(&[3, 0, 0, 0, b'{', b'}', b'}'], "not valid");
        check(&control::encode(&Question { protocol: 99, ask: Ask::Status }).unwrap(), "protocol 1");
    }

    #[test]
    fn many_questions_are_answered_a_few_at_a_time_and_none_is_dropped() {
        let mut connections = Connections::default();
        let mut peers: Vec<_> = (0..MOST)
            .map(|_| {
                let (near, mut far) = UnixStream::pair().unwrap();
                far.write_all(&question(Ask::Status)).unwrap();
                connections.add(near, 0).unwrap();
                far
            })
            .collect();
        assert!(!connections.have_room() && !connections.drop_silent());
        assert_eq!(connections.due(), Some(0));
        connections.serve(1, |_| None);
        assert_eq!(connections.all.len(), MOST, "the thread is to stop");
        for round in 1..=MOST / PER_ROUND {
            connections.serve(1, ticket);
            assert_eq!(connections.all.len(), MOST - round * PER_ROUND);
        }
        assert!(peers.iter_mut().all(|peer| answer(peer).is_ok_and(|answer| answer == Answer::Ticket(7))));
    }
}
