//! Variable-length integers: seven bits a byte, low ones first, the high bit saying that more follow.

/// Appends an unsigned integer.
pub(crate) fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push((value as u8) | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends a signed integer, small magnitudes short.
pub(crate) fn put_signed(to: &mut Vec<u8>, value: i64) {
    put(to, ((value << 1) ^ (value >> 63)) as u64);
}

/// Takes an unsigned integer off the front.
pub(crate) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Takes a signed integer off the front.
pub(crate) fn take_signed(from: &mut &[u8]) -> Option<i64> {
    let value = take(from)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_integer_survives(unsigned: u64, signed: i64) {
            let mut bytes = Vec::new();
            put(&mut bytes, unsigned);
            put_signed(&mut bytes, signed);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest).unwrap(), unsigned);
            prop_assert_eq!(take_signed(&mut rest).unwrap(), signed);
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn an_endless_integer_is_refused() {
        assert_eq!(take(&mut [0xff; 20].as_slice()), None);
        assert_eq!(take(&mut [0x80].as_slice()), None);
    }
}
