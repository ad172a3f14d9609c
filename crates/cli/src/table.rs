//! Columns of text that line up.

/// What stands between two columns.
const GAP: &str = "  ";
/// A column is not cut to less than this.
const LEAST: usize = 8;

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alignment {
    Left,
    Right,
}

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    sides: Vec<Alignment>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with its heading.
    pub(crate) fn new(columns: &[(&str, Alignment)]) -> Self {
        Self {
            sides: columns.iter().map(|(_, side)| *side).collect(),
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
        }
    }

    /// Adds a row of as many cells as there are columns.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Cuts the cells of the last column with `cut` so that no line is wider than `room`, unless hardly
    /// anything would be left of them.
    pub(crate) fn fit_last(&mut self, indent: usize, room: Option<usize>, cut: fn(&str, usize) -> String) {
        let Some(last) = self.sides.len().checked_sub(1) else { return };
        let before: usize = indent + (0..last).map(|column| self.width(column) + GAP.len()).sum::<usize>();
        let Some(width) = room.and_then(|room| room.checked_sub(before)).filter(|width| *width >= LEAST) else {
            return;
        };
        for cell in self.rows.iter_mut().filter_map(|row| row.get_mut(last)) {
            *cell = cut(cell, width);
        }
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// The lines, each set in by `indent` spaces.
    pub(crate) fn render(&self, indent: usize) -> String {
        let widths: Vec<_> = (0..self.sides.len()).map(|column| self.width(column)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).zip(&self.sides).map(|((cell, width), side)| match side {
                Alignment::Left => format!("{cell:<width$}"),
                Alignment::Right => format!("{cell:>width$}"),
            });
            let line = cells.collect::<Vec<_>>().join(GAP);
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
        let mut table = Table::new(&[("PID", Alignment::Right), ("COMMAND", Alignment::Left)]);
        table.row(["7".to_owned(), "python app.py".to_owned()]);
        table.row(["12345".to_owned(), "x".to_owned()]);
        assert_eq!(table.render(1), "   PID  COMMAND\n     7  python app.py\n 12345  x\n");
    }

    #[test]
    fn the_last_column_is_cut_to_the_room_there_is() {
        let fitted = |room| {
            let mut table = Table::new(&[("PID", Alignment::Right), ("COMMAND", Alignment::Left)]);
            table.row(["12345".to_owned(), "python app.py".to_owned()]);
            table.fit_last(1, room, crate::figures::shorten);
            table.render(1)
        };
        assert_eq!(fitted(Some(18)), "   PID  COMMAND\n 12345  python ap…\n");
        assert!(fitted(Some(18)).lines().all(|line| line.chars().count() <= 18));
        for enough in [Some(21), None, Some(3)] {
            assert_eq!(fitted(enough), "   PID  COMMAND\n 12345  python app.py\n");
        }
    }
}
