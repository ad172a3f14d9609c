//! Tables of benchmarks, from the files in `bench/results` that the programs wrote which measured.

use std::fmt::Write as _;

use serde::Deserialize;

/// A table of results, as `bench/results.py` writes it.
#[derive(Deserialize)]
struct ResultTable {
    command: String,
    columns: Vec<String>,
    rows: Vec<ResultRow>,
}

/// A row of it.
#[derive(Deserialize)]
struct ResultRow {
    cells: Vec<String>,
    /// When and where it was measured.
    measured: String,
}

/// The table of this name as Markdown, with the command and what each row was measured on.
pub(super) fn table(name: &str, now: &impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let path = format!("bench/results/{name}.json");
    let text = now(&path).ok_or_else(|| format!("{path} is not there"))?;
    let table: ResultTable = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    if table.rows.is_empty() {
        return Ok(format!("Not measured for this version yet. Command: `{}`.\n", table.command));
    }
    let mut page = line(&table.columns);
    page.push_str(&line(&vec!["---".to_owned(); table.columns.len()]).replace(' ', ""));
    let mut sources: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &table.rows {
        if row.cells.len() != table.columns.len() {
            return Err(format!("{path}: a row has {} cells of {}", row.cells.len(), table.columns.len()));
        }
        page.push_str(&line(&row.cells));
        match sources.iter_mut().find(|(measured, _)| *measured == row.measured) {
            Some((_, rows)) => rows.push(&row.cells[0]),
            None => sources.push((&row.measured, vec![&row.cells[0]])),
        }
    }
    // Writing to a string cannot fail.
    let _ = write!(page, "\nCommand: `{}`. ", table.command);
    let _ = match sources.as_slice() {
        [(measured, _)] => writeln!(page, "Measured {measured}."),
        several => {
            let parts = several.iter().map(|(measured, rows)| {
                let mut rows = rows.clone();
                rows.dedup();
                format!("{}: {measured}", rows.join(", "))
            });
            writeln!(page, "Measured: {}.", parts.collect::<Vec<_>>().join("; "))
        }
    };
    Ok(page)
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: Option<&str>, expect: Result<&str, &str>) {
        let table = table("x", &|path: &str| (path == "bench/results/x.json").then(|| file.map(str::to_owned))?);
        match (table, expect) {
            (Ok(table), Ok(expect)) => assert_eq!(table, expect),
            (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
            (table, _) => panic!("{table:?}"),
        }
    }

    #[test]
    fn a_table_says_what_its_rows_were_measured_on() {
        check(
            Some(
                r#"{"command": "m", "columns": ["a", "b"], "rows": [{"cells": ["1", "2|3"], "measured": "today"},
                    {"cells": ["1", "4"], "measured": "today"}]}"#,
            ),
            Ok("| a | b |\n|---|---|\n| 1 | 2\\|3 |\n| 1 | 4 |\n\nCommand: `m`. Measured today.\n"),
        );
        check(
            Some(
                r#"{"command": "m", "columns": ["a"], "rows": [{"cells": ["1"], "measured": "today"},
                    {"cells": ["2"], "measured": "before"}]}"#,
            ),
            Ok("| a |\n|---|\n| 1 |\n| 2 |\n\nCommand: `m`. Measured: 1: today; 2: before.\n"),
        );
        check(
            Some(r#"{"command": "", "columns": ["a"], "rows": [{"cells": [], "measured": ""}]}"#),
            Err("0 cells of 1"),
        );
        check(
            Some(r#"{"command": "m", "columns": ["a"], "rows": []}"#),
            Ok("Not measured for this version yet. Command: `m`.\n"),
        );
        check(None, Err("is not there"));
    }
}
