//! Numbers and texts as the instructions of a pickle write them.

/// A whole number in little-endian two's complement, of any length; the nearest one of 64 bits where it is longer.
pub(super) fn long(bytes: &[u8]) -> i64 {
    let Some(last) = bytes.last() else { return 0 };
    let negative = last & 0x80 != 0;
    let fill = if negative { 0xff } else { 0 };
    let mut first = [fill; 8];
    let (low, high) = bytes.split_at(bytes.len().min(8));
    first[..low.len()].copy_from_slice(low);
    let number = i64::from_le_bytes(first);
    if high.iter().all(|byte| *byte == fill) && (number < 0) == negative {
        return number;
    }
    if negative { i64::MIN } else { i64::MAX }
}

/// A whole number as text, perhaps with the `L` of Python 2; the nearest one of 64 bits.
pub(super) fn decimal(line: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(line).ok()?.trim().trim_end_matches('L');
    let number: i128 = text.parse().ok()?;
    Some(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// A number with a fraction as text.
pub(super) fn float(line: &[u8]) -> Option<f64> {
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// A text of protocol 0: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
pub(super) fn escaped(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        let digits = match (byte, line.get(at + 1)) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => 0,
        };
        let code = line.get(at + 2..at + 2 + digits).filter(|_| digits > 0);
        let code = code.and_then(|code| u32::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        if let Some(code) = code {
            text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            at += 2 + digits;
        } else {
            text.push(char::from(*byte));
            at += 1;
        }
    }
    text
}

/// A text of protocol 0 in quotes. Escapes stay as they are: they tell nothing here.
pub(super) fn quoted(line: &[u8]) -> String {
    let line = line.trim_ascii();
    let inner = match line {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner,
        _ => line,
    };
    String::from_utf8_lossy(inner).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_any_length() {
        assert_eq!([long(&[]), long(&[0xff]), long(&[0xff, 0]), long(&[0x80])], [0, -1, 255, -128]);
        assert_eq!(long(&[0, 0, 0, 0, 0, 0x7f]), 0x7f00_0000_0000);
        // An address with the highest bit has a ninth byte.
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0]), i64::MAX);
        assert_eq!((long(&[1; 20]), long(&[0x81; 20])), (i64::MAX, i64::MIN));
        assert_eq!(long(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), -2);
        assert_eq!(
            (decimal(b"-12L"), decimal(b"99999999999999999999"), decimal(b"x")),
            (Some(-12), Some(i64::MAX), None)
        );
    }

    #[test]
    fn texts_of_protocol_0() {
        assert_eq!(escaped(br"a\u00e9\U0001f600\u12"), "a\u{e9}\u{1f600}\\u12");
        assert_eq!(escaped(b"\\ud800\xe9"), "\u{fffd}\u{e9}");
        assert_eq!((quoted(b"'a b'"), quoted(b"\"c\""), quoted(b"'")), ("a b".into(), "c".into(), "'".into()));
    }
}
