//! From an instruction's offset to its line, by the line tables inside code objects.

/// The line of the instruction at `offset` bytes in a table of CPython 3.10: pairs of a code-length byte and a signed
/// line step, where -128 stands for "no line".
pub(crate) fn line_3_10(table: &[u8], first_line: i32, offset: usize) -> Option<i32> {
    let mut line = first_line;
    let mut end = 0;
    for pair in table.chunks_exact(2) {
        let step = pair[1] as i8;
        if step != i8::MIN {
            line += i32::from(step);
        }
        end += usize::from(pair[0]);
        if offset < end {
            return (step != i8::MIN).then_some(line);
        }
    }
    None
}

/// The line of the instruction at `offset` bytes in a table of CPython 3.11 and later: entries of a kind byte, which
/// holds the length in code units, and fields that depend on the kind.
pub(crate) fn line_3_11(table: &[u8], first_line: i32, offset: usize) -> Option<i32> {
    const CODE_UNIT: usize = 2;
    let mut line = first_line;
    let mut end = 0;
    let mut rest = table;
    while let Some((&head, fields)) = rest.split_first() {
        rest = fields;
        let kind = (head >> 3) & 0xf;
        let mut has_line = true;
        match kind {
            // One byte of columns follows, the line stays.
            0..=9 => skip(&mut rest, 1)?,
            // Two bytes of columns follow, the line goes on by 0, 1 or 2.
            10..=12 => {
                line += i32::from(kind) - 10;
                skip(&mut rest, 2)?;
            }
            13 => line += signed(&mut rest)?,
            14 => {
                line += signed(&mut rest)?;
                for _ in 0..3 {
                    unsigned(&mut rest)?;
                }
            }
            _ => has_line = false,
        }
        end += (usize::from(head & 7) + 1) * CODE_UNIT;
        if offset < end {
            return has_line.then_some(line);
        }
    }
    None
}

fn skip(from: &mut &[u8], count: usize) -> Option<()> {
    *from = from.get(count..)?;
    Some(())
}

/// Six bits a byte, low ones first, bit 6 saying that more follow.
fn unsigned(from: &mut &[u8]) -> Option<u32> {
    let mut value = 0_u32;
    let mut shift = 0;
    loop {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        value |= u32::from(byte & 0x3f).checked_shl(shift)?;
        if byte & 0x40 == 0 {
            return Some(value);
        }
        shift += 6;
    }
}

fn signed(from: &mut &[u8]) -> Option<i32> {
    let value = unsigned(from)?;
    let magnitude = (value >> 1) as i32;
    Some(if value & 1 == 1 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_3_10() {
        // Lines 5, 6, none, 8 of 4, 2, 2 and 6 bytes.
        let table = [4, 0, 2, 1, 2, 0x80, 6, 2];
        let lines: Vec<_> = [0, 3, 4, 6, 8, 13, 14].map(|offset| line_3_10(&table, 5, offset)).to_vec();
        assert_eq!(lines, [Some(5), Some(5), Some(6), None, Some(8), Some(8), None]);
    }

    #[test]
    fn entries_of_3_11() {
        // A short form on the first line, one line further, a long form two lines back, no location, no columns.
        let table =
            [0x80, 0x11, 0x80 | 11 << 3, 1, 2, 0x80 | 14 << 3 | 1, 5, 0, 1, 2, 0x80 | 15 << 3, 0x80 | 13 << 3, 6];
        let lines: Vec<_> = [0, 2, 4, 6, 8, 10, 12].map(|offset| line_3_11(&table, 10, offset)).to_vec();
        assert_eq!(lines, [Some(10), Some(11), Some(9), Some(9), None, Some(12), None]);
    }

    #[test]
    fn garbage_ends_quietly() {
        assert_eq!(line_3_11(&[0x80 | 13 << 3, 0xff, 0xff], 1, 0), None);
        assert_eq!(line_3_11(&[0x80], 1, 0), None);
        assert_eq!(line_3_10(&[1], 1, 0), None);
    }
}
