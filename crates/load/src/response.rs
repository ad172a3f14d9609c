//! An HTTP/1.1 answer as it arrives, in whatever pieces: is it whole, and may the connection be used again?

use thiserror::Error;

/// More than this before the body is no answer.
const LONGEST_HEAD: usize = 64 * 1024;
/// More than this in a chunk's first line is no chunk.
const LONGEST_CHUNK_LINE: usize = 1024;

/// What came is no answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum MalformedResponse {
    /// It does not begin as HTTP/1.x does.
    #[error("the answer does not begin as HTTP/1.1 does")]
    NotHttp,
    /// The head does not end.
    #[error("the head of the answer is longer than 64 KiB")]
    LongHead,
    /// A length that is none, or two that differ.
    #[error("the length of the answer cannot be told")]
    Length,
    /// A chunk that is none.
    #[error("a chunk of the answer is broken")]
    Chunk,
    /// More than one answer.
    #[error("the answer goes on after its end")]
    Extra,
    /// The connection ended before the answer did.
    #[error("the connection was closed before the answer was whole")]
    Cut,
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The status code.
    pub status: u16,
    /// Whether the connection may be used again.
    pub keep: bool,
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseProgress {
    /// Not whole yet.
    More,
    /// Whole.
    Done(Done),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// Still in the head.
    Head,
    /// So many bytes are to come.
    Left(u64),
    /// Until the connection ends.
    UntilClosed,
    /// In a chunk's first line.
    ChunkLine,
    /// So many bytes of a chunk are to come, with the two that end it.
    Chunk(u64),
    /// In the lines after the last chunk.
    Trailer,
    /// Whole.
    Whole,
}

/// One answer, being read.
#[derive(Clone, Debug)]
pub struct ResponseReader {
    line: Vec<u8>,
    body: Body,
    done: Done,
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseReader {
    /// Nothing has come yet.
    #[must_use]
    pub fn new() -> Self {
        Self { line: Vec::new(), body: Body::Head, done: Done { status: 0, keep: true } }
    }

    /// Whether anything has come.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.line.is_empty() || self.body != Body::Head
    }

    /// Takes the next piece.
    ///
    /// # Errors
    ///
    /// What came is not one HTTP/1.1 answer.
    pub fn push(&mut self, mut piece: &[u8]) -> Result<ResponseProgress, MalformedResponse> {
        while !piece.is_empty() {
            piece = match self.body {
                Body::Head => self.head(piece)?,
                Body::Left(left) => {
                    let taken = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let left = left - taken as u64;
                    self.body = if left == 0 { Body::Whole } else { Body::Left(left) };
                    &piece[taken..]
                }
                Body::UntilClosed => &[],
                Body::ChunkLine => self.chunk_line(piece)?,
                Body::Chunk(left) => self.chunk(piece, left)?,
                Body::Trailer => self.trailer(piece)?,
                Body::Whole => return Err(MalformedResponse::Extra),
            };
        }
        Ok(if self.body == Body::Whole { ResponseProgress::Done(self.done) } else { ResponseProgress::More })
    }

    /// The connection has ended: what that means for the answer.
    ///
    /// # Errors
    ///
    /// The answer was not whole.
    pub fn closed(&self) -> Result<Done, MalformedResponse> {
        match self.body {
            Body::Whole | Body::UntilClosed => Ok(Done { keep: false, ..self.done }),
            _ => Err(MalformedResponse::Cut),
        }
    }

    fn head<'p>(&mut self, piece: &'p [u8]) -> Result<&'p [u8], MalformedResponse> {
        // The end may lie across two pieces.
        let before = self.line.len();
        let from = before.saturating_sub(3);
        let taken = piece.len().min(LONGEST_HEAD + 4);
        self.line.extend_from_slice(&piece[..taken]);
        let begins = b"HTTP/1.";
        let seen = self.line.len().min(begins.len());
        if self.line[..seen] != begins[..seen] {
            return Err(MalformedResponse::NotHttp);
        }
        let Some(at) = self.line[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
            return if self.line.len() > LONGEST_HEAD { Err(MalformedResponse::LongHead) } else { Ok(&piece[taken..]) };
        };
        let end = from + at + 4;
        let head = String::from_utf8_lossy(&self.line[..end]).into_owned();
        self.line.clear();
        self.understand(&head)?;
        Ok(&piece[end - before..])
    }

    fn understand(&mut self, head: &str) -> Result<(), MalformedResponse> {
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let old = first.starts_with("HTTP/1.0 ");
        let status = first.get(9..12).and_then(|digits| digits.parse::<u16>().ok());
        let status = status.filter(|status| (100..1000).contains(status)).ok_or(MalformedResponse::NotHttp)?;
        if (100..200).contains(&status) && status != 101 {
            // Not the answer yet, only news about it.
            return Ok(());
        }
        let (mut length, mut chunked, mut keep) = (None, false, !old);
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    let said = value.parse::<u64>().map_err(|_| MalformedResponse::Length)?;
                    if length.is_some_and(|before| before != said) {
                        return Err(MalformedResponse::Length);
                    }
                    length = Some(said);
                }
                "transfer-encoding" => {
                    chunked = value.rsplit(',').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked"));
                }
                "connection" => {
                    for word in value.split(',').map(str::trim) {
                        keep = (keep || word.eq_ignore_ascii_case("keep-alive")) && !word.eq_ignore_ascii_case("close");
                    }
                }
                _ => {}
            }
        }
        self.done = Done { status, keep };
        self.body = match length {
            _ if matches!(status, 101 | 204 | 304) => Body::Whole,
            _ if chunked => Body::ChunkLine,
            Some(0) => Body::Whole,
            Some(length) => Body::Left(length),
            None => Body::UntilClosed,
        };
        Ok(())
    }

    /// Takes bytes up to the end of a line; the line without its end once it is whole.
    fn rest_of_line<'p>(&mut self, piece: &'p [u8]) -> Result<(&'p [u8], Option<String>), MalformedResponse> {
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(piece.len(), |at| at + 1);
        self.line.extend_from_slice(&piece[..taken]);
        if self.line.len() > LONGEST_CHUNK_LINE {
            return Err(MalformedResponse::Chunk);
        }
        let line = end.map(|_| String::from_utf8_lossy(&self.line).trim_end().to_owned());
        if line.is_some() {
            self.line.clear();
        }
        Ok((&piece[taken..], line))
    }

    fn chunk_line<'p>(&mut self, piece: &'p [u8]) -> Result<&'p [u8], MalformedResponse> {
        let (rest, line) = self.rest_of_line(piece)?;
        if let Some(line) = line {
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16).map_err(|_| MalformedResponse::Chunk)?;
            let with_end = size.checked_add(2).ok_or(MalformedResponse::Chunk)?;
            self.body = if size == 0 { Body::Trailer } else { Body::Chunk(with_end) };
        }
        Ok(rest)
    }

    fn chunk<'p>(&mut self, piece: &'p [u8], mut left: u64) -> Result<&'p [u8], MalformedResponse> {
        let data = usize::try_from(left.saturating_sub(2)).unwrap_or(usize::MAX).min(piece.len());
        left -= data as u64;
        let mut rest = &piece[data..];
        while left <= 2
            && left > 0
            && let Some((byte, after)) = rest.split_first()
        {
            if *byte != if left == 2 { b'\r' } else { b'\n' } {
                return Err(MalformedResponse::Chunk);
            }
            (left, rest) = (left - 1, after);
        }
        self.body = if left == 0 { Body::ChunkLine } else { Body::Chunk(left) };
        Ok(rest)
    }

    fn trailer<'p>(&mut self, piece: &'p [u8]) -> Result<&'p [u8], MalformedResponse> {
        let (rest, line) = self.rest_of_line(piece)?;
        if line.is_some_and(|line| line.is_empty()) {
            self.body = Body::Whole;
        }
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Result<ResponseProgress, MalformedResponse> {
        ResponseReader::new().push(text.as_bytes())
    }

    fn check(text: &str, status: u16, keep: bool) {
        assert_eq!(whole(text), Ok(ResponseProgress::Done(Done { status, keep })), "{text:?}");
    }

    const PLAIN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nserver: x\r\n\r\nhello";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4;a=b\r\nWiki\r\n5\r\npedia\r\n\
                           0\r\nExpires: now\r\n\r\n";

    #[test]
    fn whole_answers_are_recognised() {
        check(PLAIN, 200, true);
        check(CHUNKED, 200, true);
        check("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 404, false);
        check("HTTP/1.1 204 No Content\r\n\r\n", 204, true);
        check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, false);
        check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx", 200, true);
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, true);
    }

    #[test]
    fn garbage_is_named() {
        let cases = [
            ("SSH-2.0-OpenSSH\r\n", MalformedResponse::NotHttp),
            ("HTTP/1.1 abc\r\n\r\n", MalformedResponse::NotHttp),
            ("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", MalformedResponse::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", MalformedResponse::Length),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", MalformedResponse::Chunk),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", MalformedResponse::Chunk),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", MalformedResponse::Chunk),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", MalformedResponse::Extra),
        ];
        for (text, garbage) in cases {
            assert_eq!(whole(text), Err(garbage), "{text:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(LONGEST_HEAD));
        assert_eq!(whole(&endless), Err(MalformedResponse::LongHead));
    }

    #[test]
    fn the_end_of_the_connection_ends_only_what_has_no_length() {
        let mut open = ResponseReader::new();
        assert_eq!(open.push(b"HTTP/1.1 200 OK\r\n\r\nsome text"), Ok(ResponseProgress::More));
        assert_eq!(open.closed(), Ok(Done { status: 200, keep: false }));
        let mut cut = ResponseReader::new();
        assert!(!cut.has_begun());
        assert_eq!(cut.push(&PLAIN.as_bytes()[..PLAIN.len() - 1]), Ok(ResponseProgress::More));
        assert_eq!(cut.closed(), Err(MalformedResponse::Cut));
        assert!(cut.has_begun());
        assert_eq!(ResponseReader::new().closed(), Err(MalformedResponse::Cut));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(cuts in prop::collection::vec(0_usize..200, 0..6), chunked: bool) {
            let text = if chunked { CHUNKED } else { PLAIN }.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % text.len()).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let mut response = ResponseReader::new();
            let mut last = ResponseProgress::More;
            for pair in cuts.windows(2) {
                prop_assert_eq!(last, ResponseProgress::More);
                last = response.push(&text[pair[0]..pair[1]]).map_err(|garbage| TestCaseError::fail(garbage.to_string()))?;
            }
            prop_assert_eq!(last, ResponseProgress::Done(Done { status: 200, keep: true }));
        }

        #[test]
        fn any_bytes_are_survived(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6), chunked: bool) {
            let mut response = ResponseReader::new();
            let _ = response.push(if chunked { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice() } else { b"" });
            for piece in pieces {
                if response.push(&piece).is_err() {
                    break;
                }
            }
            let _ = response.closed();
        }
    }
}
