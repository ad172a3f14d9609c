//! Lengths and checksums put right after a change, because almost no random change would get past them.

/// Makes the lengths and checksums of what still looks like a message or a trace fit again.
pub fn put_right(bytes: &mut [u8]) {
    if bytes.starts_with(b"NGCTRACE") {
        let mut start = 10;
        while let Some(length) = word(bytes, start) {
            let body = start + 8;
            let end = body.saturating_add(length).min(bytes.len());
            if body > end {
                return;
            }
            set_word(bytes, start, end - body);
            set_word(bytes, start + 4, crc32(&bytes[body..end]) as usize);
            let Some(next) = bytes[end..].windows(4).position(|it| it == b"NGCB" || it == b"NGCS") else { return };
            start = end + next + 4;
        }
    } else if bytes.starts_with(b"NGCH") {
        heap_dump(bytes);
    } else if bytes.len() >= 4 {
        set_word(bytes, 0, bytes.len() - 4);
    }
}

/// The head, and each section that the lengths lead to.
fn heap_dump(bytes: &mut [u8]) {
    const HEAD: usize = 64;
    if bytes.len() < HEAD {
        return;
    }
    let crc = crc32(&bytes[..HEAD - 4]);
    set_word(bytes, HEAD - 4, crc as usize);
    let mut start = HEAD;
    while let Some(length) = word(bytes, start + 8) {
        let body = start + 16;
        let Some(end) = body.checked_add(length).filter(|end| *end <= bytes.len()) else { return };
        let crc = crc32(&bytes[body..end]);
        set_word(bytes, start + 4, crc as usize);
        start = end.next_multiple_of(8);
    }
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 8)?[..4].try_into().ok()?) as usize)
}

fn set_word(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}
