//! Columns of text that line up.

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with its heading.
    pub(crate) fn new(columns: &[(&str, Side)]) -> Self {
        Self {
            sides: columns.iter().map(|(_, side)| *side).collect(),
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
        }
    }

    /// Adds a row of as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, each set in by `indent` spaces.
    pub(crate) fn render(&self, indent: usize) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.sides.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).zip(&self.sides).map(|((cell, width), side)| match side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            text.push_str(&" ".repeat(indent));
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_line_up_on_their_side() {
        let mut table = Table::new(&[("PID", Side::Right), ("COMMAND", Side::Left)]);
        table.row(["7".to_owned(), "python app.py".to_owned()]);
        table.row(["12345".to_owned(), "x".to_owned()]);
        assert_eq!(table.render(1), "   PID  COMMAND\n     7  python app.py\n 12345  x\n");
    }
}
