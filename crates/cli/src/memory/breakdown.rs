//! Where the resident memory of a process is, as text.

use neurogc_wire::breakdown::{Breakdown, MallocKind, MemoryReport};

use crate::figures::{bytes, count};

/// Parts below this share of the whole are put together.
const SMALL: f64 = 0.01;

/// The text of a report: where the memory is, and what of it is free.
pub(crate) fn text(report: &MemoryReport) -> String {
    let breakdown = &report.breakdown;
    let mut text = format!("where {} are   {}\n", bytes(report.rss), parts(breakdown));
    for line in [malloc_line(report), python_line(breakdown)].into_iter().flatten() {
        text.push_str(&format!("  {line}\n"));
    }
    if let Some(large) = report.largest.first() {
        let site = if large.site.is_empty() { String::new() } else { format!(", from {}", large.site) };
        text.push_str(&format!("  largest: {} of {}{site}\n", bytes(large.resident), large.what));
    }
    text
}

/// The parts that are worth naming, and the rest.
fn parts(breakdown: &Breakdown) -> String {
    let least = (breakdown.total() as f64 * SMALL) as u64;
    let (mut named, mut rest): (Vec<String>, u64) = (Vec::new(), 0);
    for (name, size) in breakdown.parts() {
        if name == "other" || size <= least {
            rest += size;
        } else if name == "malloc in use" && breakdown.malloc_mapped > least {
            named.push(format!("{name} {} (large blocks {})", bytes(size), bytes(breakdown.malloc_mapped)));
        } else {
            named.push(format!("{name} {}", bytes(size)));
        }
    }
    named.push(format!("other {}", bytes(rest)));
    named.join(" · ")
}

fn malloc_line(report: &MemoryReport) -> Option<String> {
    let breakdown = &report.breakdown;
    if breakdown.malloc == MallocKind::Unknown {
        return Some("malloc is not that of glibc: its memory is in other".to_owned());
    }
    (breakdown.malloc_free > 0).then(|| {
        format!(
            "malloc: {}, {} free, of which {} can go back to the system",
            if breakdown.malloc_arenas == 1 {
                "1 arena".to_owned()
            } else {
                format!("{} arenas", count(breakdown.malloc_arenas))
            },
            bytes(breakdown.malloc_free),
            bytes(breakdown.trimmable)
        )
    })
}

fn python_line(breakdown: &Breakdown) -> Option<String> {
    (breakdown.python_sparse_arenas > 0).then(|| {
        format!(
            "pymalloc: {} of {} arenas are less than a quarter full, with {} free",
            count(breakdown.python_sparse_arenas),
            count(breakdown.python_arenas),
            bytes(breakdown.python_sparse_free)
        )
    })
}

#[cfg(test)]
mod tests {
    use neurogc_wire::breakdown::LargeMapping;

    use super::*;

    const MB: u64 = 1 << 20;

    fn report() -> MemoryReport {
        let breakdown = Breakdown {
            python_used: 3100 * MB,
            python_free: 200 * MB,
            malloc_used: 1100 * MB,
            malloc_free: 300 * MB,
            mapped: 3 * MB,
            stacks: MB,
            libraries: 100 * MB,
            other: 40 * MB,
            malloc: MallocKind::Glibc,
            malloc_arenas: 17,
            malloc_mapped: 800 * MB,
            trimmable: 280 * MB,
            python_arenas: 3300,
            python_sparse_arenas: 120,
            python_sparse_free: 110 * MB,
            ..Breakdown::default()
        };
        let site = "app/model.py:41 in load".to_owned();
        let largest = vec![LargeMapping { what: "malloc".to_owned(), resident: 700 * MB, site }];
        MemoryReport { rss: breakdown.total(), breakdown, largest, ..MemoryReport::default() }
    }

    #[test]
    fn a_service_and_its_free_memory() {
        insta::assert_snapshot!(text(&report()));
    }

    #[test]
    fn an_unknown_malloc_is_told() {
        let mut report = report();
        report.breakdown.malloc = MallocKind::Unknown;
        report.largest.clear();
        assert!(text(&report).contains("malloc is not that of glibc"));
    }
}
