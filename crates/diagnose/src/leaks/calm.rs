//! What looks like a leak and is none: said, because it is what people suspect.

use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::memory_verdict::ExplainedFinding;

use super::evidence::{ContainerFacts, ProcessFigure};
use super::holders::{fills_up, is_nameless};
use super::judged::{AllJudged, Judged, explain};
use crate::growth::Shape;
use crate::words;

/// At most so many containers are cleared of suspicion.
const MOST: usize = 4;

/// Smaller containers are not worth it.
const LARGE_BYTES: u64 = 256 * 1024;

/// A container is full at this share of its bound.
const FULL: f64 = 0.98;

/// Free memory that is worth a word, and its share of what is resident.
const KEPT_BYTES: f64 = 32.0 * 1024.0 * 1024.0;
const KEPT_SHARE: f64 = 0.1;

/// Containers with a bound, and those that have stopped growing; and what the process as a whole does.
pub(super) fn look(all: &AllJudged<'_>, known: &[ExplainedFinding]) -> Vec<ExplainedFinding> {
    let mut containers: Vec<_> = all.containers.iter().filter(|it| !is_nameless(it.name)).collect();
    containers.sort_by_key(|it| std::cmp::Reverse(it.facts.bytes));
    let mut findings: Vec<_> = containers.into_iter().filter_map(|it| of_container(all, it)).take(MOST).collect();
    findings.extend(of_process(all, known));
    findings
}

fn of_container(all: &AllJudged<'_>, it: &Judged<'_, ContainerFacts>) -> Option<ExplainedFinding> {
    let (growth, facts) = (&it.growth, it.facts);
    let name = format!("{} ({})", it.name, facts.kind);
    let now = words::count(growth.now as u64);
    let bytes = words::small_bytes(facts.bytes);
    let (kind, what) = match facts.bound {
        Some(bound) if growth.now >= FULL * bound as f64 => {
            let (most, since) = (words::count(bound), words::window(all.evidence.at_s - growth.since_s));
            (FindingKind::Plateau, format!("{name} has reached its bound of {most} entries and is flat for {since}"))
        }
        Some(bound) if fills_up(it) && growth.rate.middle > 0.0 => {
            let most = words::count(bound);
            (FindingKind::Filling, format!("{name} fills up to its bound: {now} of {most} entries"))
        }
        None if facts.bytes >= LARGE_BYTES => match growth.shape {
            Shape::Level => {
                let since = words::window(all.evidence.at_s - growth.since_s);
                (FindingKind::Plateau, format!("{name} has grown to {now} entries, {bytes}, and is flat for {since}"))
            }
            Shape::Slowing => {
                (FindingKind::Plateau, format!("{name} grows less and less; it has {now} entries, {bytes}"))
            }
            Shape::Swinging => {
                (FindingKind::RisesAndFalls, format!("{name} rises and falls; it has {now} entries now"))
            }
            Shape::FollowsLoad => {
                (FindingKind::FollowsLoad, format!("{name} follows the load; it has {now} entries now"))
            }
            _ => return None,
        },
        _ => return None,
    };
    let evidence = vec![explain(format!("entries of {}", it.name), "entries", it.series, growth)];
    let finding =
        Finding { holder: it.name.to_owned(), bytes: facts.bytes, since_s: growth.since_s, ..harmless(kind, &what) };
    Some(ExplainedFinding { finding, evidence })
}

fn of_process(all: &AllJudged<'_>, known: &[ExplainedFinding]) -> Option<ExplainedFinding> {
    let rss = all.of_process(ProcessFigure::Rss);
    let size = words::bytes(rss.now as u64);
    let window = words::window(rss.seconds);
    let free = all.of_process(ProcessFigure::MallocFree).now + all.of_process(ProcessFigure::PythonFree).now;
    let said = known.iter().any(|it| {
        matches!(it.finding.kind, FindingKind::ArenaExplosion | FindingKind::MallocFree | FindingKind::PymallocPinned)
    });
    let (kind, what) = match rss.shape {
        _ if !said && rss.is_at_rest() && free >= KEPT_BYTES && free >= KEPT_SHARE * rss.now => (
            FindingKind::AllocatorKeeps,
            format!("allocators keep {} of freed memory for later use; {size} are resident", words::bytes(free as u64)),
        ),
        Shape::FollowsLoad => (FindingKind::FollowsLoad, format!("memory follows the load; {size} are resident now")),
        Shape::Swinging => (FindingKind::RisesAndFalls, format!("memory rises and falls; {size} are resident now")),
        Shape::Level => {
            let since = words::window(all.evidence.at_s - rss.since_s);
            (FindingKind::Plateau, format!("memory has grown to {size} and is flat for {since}"))
        }
        Shape::Stepped => (FindingKind::Plateau, format!("memory grew to {size} in a few steps within {window}")),
        Shape::Slowing => {
            let what = format!("memory grows less and less, as after a start; {size} are resident now");
            (FindingKind::Plateau, what)
        }
        _ => return None,
    };
    let evidence = vec![all.explain(ProcessFigure::Rss), all.explain(ProcessFigure::Requests)];
    let finding = Finding { bytes: rss.now as u64, since_s: rss.since_s, ..harmless(kind, &what) };
    Some(ExplainedFinding { finding, evidence })
}

fn harmless(kind: FindingKind, what: &str) -> Finding {
    let doc = super::kinds::teaching(kind).map_or("", |it| it.doc).to_owned();
    Finding { kind, confidence: 0.8, text: format!("Not a leak: {what}."), doc, ..Finding::default() }
}
