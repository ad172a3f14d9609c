//! Workers that copy what they inherit, and workers that leak.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::memory_verdict::ExplainedFinding;
use neurogc_wire::workers::{WorkerKind, WorkerMemory};

use super::super::{ContainerFacts, MemoryEvidence, ProcessFigure, WorkerFacts, diagnose_memory};

const MIB: u64 = 1 << 20;

/// What is found of workers in an hour, where each has copied and allocated so much after so many seconds.
fn found(kind: WorkerKind, workers: u32, memory: impl Fn(u32, f64) -> (u64, u64)) -> Vec<ExplainedFinding> {
    let mut evidence = MemoryEvidence::default();
    evidence.inheritable = 1500 * MIB;
    for look in 0..240_u32 {
        let at_s = f64::from(look) * 15.0;
        evidence.push(ProcessFigure::Rss, at_s, 2e9);
        for pid in 1..=workers {
            let (copied, own) = memory(pid, at_s);
            let memory = WorkerMemory { kind, copied, own, ..WorkerMemory::default() };
            let batches = u64::from(look) * 100;
            let known = evidence.workers.push(&pid, at_s, copied as f64, |facts| facts.note(at_s, memory, batches));
            if !known {
                evidence.workers.follow(pid, None, at_s, copied as f64, WorkerFacts::new(at_s, memory, batches));
            }
        }
    }
    let facts = |kind: &str| ContainerFacts { kind: kind.to_owned(), bytes: 20_000_000, bound: None };
    let containers = [
        ("data.VOCAB", "dict", 500_000.0),
        ("data.small", "list", 400.0),
        ("data.TABLE", "bytearray", 80_000_000.0),
        ("data.numbers", "numpy.ndarray", 1_000_000.0),
    ];
    for (name, kind, entries) in containers {
        evidence.containers.follow(name.to_owned(), None, 3600.0, entries, facts(kind));
    }
    let findings = diagnose_memory(&evidence).findings;
    findings.into_iter().filter(|it| it.finding.kind.is_leak()).collect()
}

#[test]
fn copies_are_told_with_their_reason() {
    let copied = |_: u32, at_s: f64| (300 * MIB + (at_s / 15.0) as u64 * 100 * 1024, 50 * MIB);
    let found = found(WorkerKind::Dataloader, 4, copied);
    assert_eq!(found.len(), 1, "{found:?}");
    let finding = &found[0].finding;
    assert_eq!((finding.kind, finding.holder.as_str()), (FindingKind::DataloaderCopies, "data.VOCAB"));
    assert!(finding.is_alarm() && finding.bytes == 4 * (300 * MIB + 239 * 100 * 1024));
    assert_eq!(
        finding.text,
        "Copies, certain: 4 workers of a DataLoader have copied 323 MiB each of the 1.5 GiB that their parent has, 1.3 GiB in \
         all, and 4 KiB more with each batch; large containers of Python objects in the parent: data.VOCAB (dict of 500,000 \
         entries)."
    );
}

#[test]
fn few_copies_and_those_of_a_server_are_no_finding() {
    assert_eq!(found(WorkerKind::Dataloader, 4, |_, _| (10 * MIB, 50 * MIB)), []);
    assert_eq!(found(WorkerKind::Server, 4, |_, _| (600 * MIB, 50 * MIB)), []);
}

#[test]
fn a_worker_that_leaks_is_told_from_the_others() {
    let leaking = |pid: u32, at_s: f64| (0, 50 * MIB + if pid == 3 { (at_s * 50_000.0) as u64 } else { 0 });
    let found = found(WorkerKind::Dataloader, 4, leaking);
    assert_eq!(found.len(), 1, "{found:?}");
    let finding = &found[0].finding;
    assert_eq!((finding.kind, finding.holder.as_str(), finding.is_alarm()), (FindingKind::Children, "worker 3", true));
    assert!(finding.text.starts_with("Leak, likely: worker 3 of a DataLoader grows by 17"), "{}", finding.text);
    assert!(finding.text.contains("and 3 other workers do not grow; `neurogc memory 3` says more"), "{}", finding.text);
}
