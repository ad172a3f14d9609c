//! As much of HTTP as a hub's answers need: a status, a length, a body.

/// Longer answers are not read.
pub(super) const MOST: usize = 64 * 1024;

/// A whole answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpResponse<'a> {
    pub(super) status: u16,
    pub(super) body: &'a [u8],
    /// Whether the hub hangs up after it.
    pub(super) closes: bool,
}

/// Reads an answer; `None` while it is not complete.
pub(super) fn read(bytes: &[u8]) -> Result<Option<HttpResponse<'_>>, &'static str> {
    const STRANGE: &str = "its answer is no HTTP";
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() < MOST { Ok(None) } else { Err("its answer is too long") };
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| STRANGE)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()).ok_or(STRANGE)?;
    let (mut length, mut closes) = (None, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>().map_err(|_| STRANGE)?);
        } else if name.eq_ignore_ascii_case("connection") {
            closes = value.trim().eq_ignore_ascii_case("close");
        }
    }
    let length = length.ok_or("its answer has no length; is there a proxy between?")?;
    if length > MOST {
        return Err("its answer is too long");
    }
    Ok(bytes.get(end + 4..end + 4 + length).map(|body| HttpResponse { status, body, closes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_complete() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        for cut in 0..text.len() {
            assert_eq!(read(&text[..cut]), Ok(None));
        }
        assert_eq!(read(text), Ok(Some(HttpResponse { status: 200, body: b"{}", closes: true })));
    }

    #[test]
    fn odd_answers_are_errors() {
        for text in
            ["SSH-2.0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"]
        {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        assert!(read(&[b'x'; MOST]).is_err());
    }
}
