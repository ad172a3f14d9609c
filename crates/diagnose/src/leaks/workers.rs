//! Workers that were forked: what they have copied of their parent's memory, and which of them grow.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::memory_verdict::ExplainedFinding;
use neurogc_wire::workers::WorkerKind;

use super::evidence::{WorkerFacts, WorkerTrack};
use super::holders::is_nameless;
use super::judged::{AllJudged, explain};
use super::kinds;
use super::verdict::{CERTAIN, Draft, LIKELY, POSSIBLE};
use crate::growth::{Growth, Scale, judge};
use crate::words;

const MIB: f64 = 1024.0 * 1024.0;

/// Copies are worth a finding from so many bytes on in all, and from this share of what the workers could share.
const COPIED: (u64, f64) = (64 << 20, 0.1);

/// Containers that are named as the reason: at most so many, of at least so many entries.
const REASONS: usize = 2;
const REASON_ENTRIES: f64 = 10_000.0;

/// What has entries that are no objects: to read them writes no reference counts.
const WITHOUT_OBJECTS: [&str; 3] = ["bytearray", "array", "ndarray"];

/// How long the memory of a worker must have grown for a likely leak: workers warm up, too.
const WARM_UP_S: f64 = 600.0;

/// What is the matter with workers.
pub(super) fn look(all: &AllJudged<'_>) -> Vec<ExplainedFinding> {
    let mut findings = Vec::new();
    for kind in WorkerKind::ALL {
        let mut workers: Vec<_> =
            all.evidence.workers.iter().filter(|(_, track)| track.facts.memory.kind == kind).collect();
        workers.sort_unstable_by_key(|(pid, _)| **pid);
        findings.extend(copies(all, kind, &workers));
        findings.extend(leaks(all, kind, &workers));
    }
    findings
}

/// Copies of what was inherited. Workers of a server serve as long as their parent lives, and are meant to.
fn copies(all: &AllJudged<'_>, kind: WorkerKind, workers: &[(&u32, &WorkerTrack)]) -> Option<ExplainedFinding> {
    let facts = || workers.iter().map(|(_, track)| &track.facts);
    let copied: u64 = facts().map(|it| it.memory.copied).sum();
    let parents = all.evidence.inheritable;
    let share = copied as f64 / (workers.len() as u64 * parents).max(1) as f64;
    if kind == WorkerKind::Server || copied < COPIED.0 || share < COPIED.1 {
        return None;
    }
    let many = match workers.len() {
        1 => format!("one worker of {} has", kind.owner()),
        many => format!("{many} workers of {} have", kind.owner()),
    };
    let each = words::bytes(copied / workers.len() as u64);
    let mut what = format!(
        "{many} copied {each} each of the {} that their parent has, {} in all",
        words::bytes(parents),
        words::bytes(copied)
    );
    let per_batch: f64 = facts().filter_map(WorkerFacts::copied_per_batch).sum();
    if per_batch >= 1.0 {
        what.push_str(&format!(", and {} more with each batch", words::small_bytes(per_batch as u64)));
    }
    let reasons = reasons(all);
    if !reasons.is_empty() {
        let named: Vec<_> = reasons.iter().map(|(_, shown)| shown.as_str()).collect();
        what.push_str(&format!("; large containers of Python objects in the parent: {}", named.join(", ")));
    }
    let mut evidence = Vec::new();
    let (mut rate, mut since_s) = (0.0, f64::INFINITY);
    for (pid, track) in workers {
        let growth = judge(&track.series, &[], &SCALE);
        rate += if growth.is_rising() { growth.rate.middle } else { 0.0 };
        since_s = since_s.min(growth.from_s);
        evidence.push(explain(format!("memory that worker {pid} has copied"), "bytes", &track.series, &growth));
    }
    let draft = Draft {
        kind: FindingKind::DataloaderCopies,
        confidence: CERTAIN,
        what,
        holder: reasons.into_iter().next().map_or_else(String::new, |(name, _)| name),
        site: String::new(),
        rate,
        bytes: copied,
        since_s: if since_s.is_finite() { since_s } else { 0.0 },
        pattern: kinds::teaching(FindingKind::DataloaderCopies).map_or("", |it| it.pattern).to_owned(),
        evidence,
    };
    Some(draft.finish(all))
}

/// How large the copied and the own part of a worker must have grown to be looked at.
const SCALE: Scale = Scale { least: 8.0 * MIB, least_share: 0.02, z: 2.6, grain: 0.0, exact: false };

/// The parent's largest containers of Python objects, which workers write to when they only read them: name, and what is
/// said of each.
fn reasons(all: &AllJudged<'_>) -> Vec<(String, String)> {
    let has_objects = |kind: &str| !WITHOUT_OBJECTS.contains(&kind.rsplit('.').next().unwrap_or(kind));
    let mut large: Vec<_> = all
        .containers
        .iter()
        .filter(|it| !is_nameless(it.name) && it.growth.now >= REASON_ENTRIES && has_objects(&it.facts.kind))
        .collect();
    large.sort_by(|one, other| other.growth.now.total_cmp(&one.growth.now).then(one.name.cmp(other.name)));
    let shown =
        |entries: f64, name: &str, kind: &str| format!("{name} ({kind} of {} entries)", words::count(entries as u64));
    large
        .into_iter()
        .take(REASONS)
        .map(|it| (it.name.to_owned(), shown(it.growth.now, it.name, &it.facts.kind)))
        .collect()
}

/// Workers whose own memory grows, each by itself.
fn leaks<'a>(
    all: &'a AllJudged<'_>,
    kind: WorkerKind,
    workers: &'a [(&u32, &WorkerTrack)],
) -> impl Iterator<Item = ExplainedFinding> + 'a {
    let judged = |track: &WorkerTrack| judge(&track.facts.own, &[], &SCALE);
    let calm = workers.iter().filter(|(_, track)| !judged(track).is_rising()).count();
    let growing = workers.iter().map(move |(pid, track)| (**pid, *track, judged(track)));
    growing.filter(|(.., growth)| growth.is_rising()).map(move |(pid, track, growth)| {
        let others = match calm {
            0 => "all its workers grow".to_owned(),
            1 => "one other worker does not grow".to_owned(),
            many => format!("{many} other workers do not grow"),
        };
        leak(all, kind, pid, track, &growth, &others)
    })
}

fn leak(
    all: &AllJudged<'_>,
    kind: WorkerKind,
    pid: u32,
    track: &WorkerTrack,
    growth: &Growth,
    others: &str,
) -> ExplainedFinding {
    let what = format!(
        "worker {pid} of {} grows by {} on its own; it has {} of its own now, and {others}; `neurogc memory {pid}` says more",
        kind.owner(),
        words::rate(growth.rate.middle),
        words::bytes(growth.now as u64)
    );
    Draft {
        kind: FindingKind::Children,
        confidence: if growth.seconds >= WARM_UP_S { LIKELY } else { POSSIBLE },
        what,
        holder: format!("worker {pid}"),
        site: String::new(),
        rate: growth.rate.middle,
        bytes: growth.now as u64,
        since_s: growth.from_s,
        pattern: "a worker allocates and does not free".to_owned(),
        evidence: vec![explain(format!("own memory of worker {pid}"), "bytes", &track.facts.own, growth)],
    }
    .finish(all)
}
