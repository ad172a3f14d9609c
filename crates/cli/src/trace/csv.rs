//! A trace as comma-separated values (RFC 4180), for spreadsheets and quick looks.

use std::borrow::Cow;
use std::io::{self, Write};

use neurogc_wire::trace::Trace;

use super::columns::{COLUMNS, Cell};

/// Writes the whole table.
pub(crate) fn write(trace: &Trace, to: &mut dyn Write) -> io::Result<()> {
    let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
    writeln!(to, "{}", names.join(","))?;
    for record in &trace.records {
        for (index, column) in COLUMNS.iter().enumerate() {
            if index > 0 {
                to.write_all(b",")?;
            }
            match &column.cell {
                Cell::Number(cell) => cell(record).map_or(Ok(()), |value| write!(to, "{value}"))?,
                Cell::Text(cell) => to.write_all(quote(cell(record).unwrap_or_default()).as_bytes())?,
            }
        }
        writeln!(to)?;
    }
    Ok(())
}

fn quote(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn table_of_a_small_trace() {
        let mut text = Vec::new();
        write(&samples::trace(), &mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap());
    }

    #[test]
    fn awkward_text_is_quoted() {
        assert_eq!(quote("plain"), "plain");
        assert_eq!(quote("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
