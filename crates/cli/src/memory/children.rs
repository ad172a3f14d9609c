//! The memory of a process and of everything below it, as a table.

use std::fmt::Write;

use neurogc_wire::status::Child;
use neurogc_wire::workers::{ChildrenReport, WorkerGrowth};

use crate::figures::{bytes, change, count, plain, span, wrap};
use crate::table::{Alignment, Table};

/// Lines of one finding.
const MOST_LINES: usize = 5;

/// The report as text.
pub(crate) fn text(report: &ChildrenReport, room: Option<usize>) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        for part in wrap(&plain(&finding.text), room.unwrap_or(usize::MAX), MOST_LINES) {
            let _ = writeln!(text, "{part}");
        }
        if !finding.advice.is_empty() {
            let width = room.unwrap_or(usize::MAX).saturating_sub(16).max(20);
            for (index, part) in wrap(&plain(&finding.advice), width, MOST_LINES).iter().enumerate() {
                let _ = writeln!(text, "   {:<12} {part}", if index == 0 { "what to do" } else { "" });
            }
        }
        text.push('\n');
    }
    text.push_str(&table(report));
    let _ = writeln!(text, "\ntotal {} in {}", bytes(report.total_pss), processes(report.children.len() + 1));
    if report.batches > 0 {
        let _ = writeln!(text, "{} batches delivered", count(report.batches));
    }
    text
}

fn table(report: &ChildrenReport) -> String {
    let mut table = Table::new(&[
        ("pid", Alignment::Right),
        ("what", Alignment::Left),
        ("rss", Alignment::Right),
        ("pss", Alignment::Right),
        ("shared", Alignment::Right),
        ("copied", Alignment::Right),
        ("own", Alignment::Right),
        ("growth of copied", Alignment::Left),
    ]);
    let parent = [
        report.pid.to_string(),
        "parent".to_owned(),
        bytes(report.rss),
        report.pss.map_or_else(|| "-".to_owned(), bytes),
    ];
    table.row(parent.into_iter().chain(std::iter::repeat_n(String::new(), 4)));
    for child in &report.children {
        let growth = report.growth.iter().find(|growth| growth.pid == child.pid);
        table.row(row(child, growth));
    }
    table.render(0)
}

fn row(child: &Child, growth: Option<&WorkerGrowth>) -> [String; 8] {
    let pss = child.pss.map_or_else(|| "-".to_owned(), bytes);
    let part = |of: fn(&neurogc_wire::workers::WorkerMemory) -> u64| {
        child.worker.as_ref().map_or_else(String::new, |worker| bytes(of(worker)))
    };
    let what = child.worker.map_or_else(|| plain(&child.command), |worker| format!("worker ({})", worker.kind.name()));
    [
        child.pid.to_string(),
        what,
        bytes(child.rss),
        pss,
        part(|worker| worker.shared),
        part(|worker| worker.copied),
        part(|worker| worker.own),
        growth.map_or_else(String::new, grown),
    ]
}

/// How the copied part has grown.
fn grown(growth: &WorkerGrowth) -> String {
    if growth.seconds < 1.0 {
        return String::new();
    }
    let mut text = format!("{} in {}", change(growth.copied), span(growth.seconds));
    if let Some(each) = growth.copied_per_batch.filter(|each| *each >= 1.0) {
        let _ = write!(text, ", {} a batch", bytes(each as u64));
    }
    text
}

fn processes(many: usize) -> String {
    if many == 1 { "one process".to_owned() } else { format!("{many} processes") }
}

#[cfg(test)]
mod tests {
    use neurogc_wire::finding::{Finding, FindingKind};
    use neurogc_wire::workers::{WorkerKind, WorkerMemory};

    use super::*;

    #[test]
    fn parent_workers_and_others_are_one_table() {
        let mib = |size: u64| size << 20;
        let memory = WorkerMemory {
            kind: WorkerKind::Dataloader,
            shared: mib(1200),
            shared_pss: mib(400),
            copied: mib(310),
            own: mib(90),
        };
        let worker = |pid: u32| Child {
            pid,
            ppid: 4242,
            command: "python".to_owned(),
            rss: mib(1600),
            pss: Some(mib(800)),
            worker: Some(memory),
        };
        let other = Child { pid: 4250, ppid: 4242, command: "nvidia-smi".to_owned(), rss: mib(20), ..Child::default() };
        let growth = |pid: u32, seconds: f64| WorkerGrowth {
            pid,
            seconds,
            copied: 12 << 20,
            own: 0,
            copied_per_batch: Some(40_960.0),
        };
        let finding = Finding {
            kind: FindingKind::DataloaderCopies,
            text: "Copies, certain: 2 workers of a DataLoader have copied 310 MiB each.".to_owned(),
            advice: "Keep the data as one array.".to_owned(),
            ..Finding::default()
        };
        let report = ChildrenReport {
            pid: 4242,
            rss: mib(2000),
            pss: Some(mib(900)),
            inheritable: mib(1500),
            children: vec![worker(4243), worker(4244), other],
            growth: vec![growth(4243, 312.0), growth(4244, 0.0)],
            total_pss: mib(2520),
            batches: 12_400,
            findings: vec![finding],
            took_ms: 4.0,
        };
        insta::assert_snapshot!(text(&report, Some(100)));
    }
}
