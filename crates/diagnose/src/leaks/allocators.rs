//! Growth that no container explains, native memory, and memory that allocators keep.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::memory_verdict::ExplainedFinding;

use neurogc_wire::breakdown::Breakdown;

use super::evidence::ProcessFigure;
use super::holders::{OpenSite, explain_site, may_fill};
use super::judged::AllJudged;
use super::verdict::{CERTAIN, Draft, LIKELY, POSSIBLE};
use crate::words;

const MIB: u64 = 1 << 20;

/// How long a line must have allocated more and more to be called a leak, and a certain one.
const SITE_S: f64 = 130.0;
const SITE_CERTAIN_S: f64 = 900.0;

/// How long the process must have grown where nothing else is known: warm-up takes minutes.
const PROCESS_S: f64 = 800.0;

/// Growth of a line below this share of what is found already is no finding of its own.
const BESIDE: f64 = 0.25;

/// Growth of the process that can be seen at all.
pub(super) const VISIBLE_BYTES: f64 = 12.0 * 1024.0 * 1024.0;

/// Free memory is worth a finding from this on, and for this long.
const FREE_BYTES: u64 = 64 * MIB;
const FREE_S: f64 = 100.0;

/// Free memory that does not grow is worth an alarm from this on.
const MUCH_FREE: u64 = 256 * MIB;

/// More arenas than this are many.
const MANY_ARENAS: u64 = 8;

/// Growth that is not explained yet.
pub(super) fn growth<'j>(
    all: &'j AllJudged<'_>,
    open: &mut [OpenSite<'j, '_>],
    known: &[ExplainedFinding],
) -> Option<ExplainedFinding> {
    let explained: f64 =
        known.iter().filter(|it| it.finding.is_alarm()).map(|it| it.finding.rate_bytes_h / 3600.0).sum();
    let held = known.iter().any(|it| it.finding.is_alarm() || !it.finding.holder.is_empty());
    let next = open.iter_mut().find(|it| !it.taken && it.site.growth.is_rising());
    match next {
        Some(it) if it.site.growth.rate.middle >= BESIDE * explained => {
            it.taken = true;
            Some(of_site(all, it))
        }
        Some(_) => None,
        // What a container holds is seen in the process, too.
        None if held => None,
        None => of_process(all),
    }
}

/// Growth of one line.
fn of_site(all: &AllJudged<'_>, it: &OpenSite<'_, '_>) -> ExplainedFinding {
    let (facts, growth) = (it.site.facts, &it.site.growth);
    let python = all.of_process(ProcessFigure::PythonUsed);
    let kind = if facts.native && !python.is_rising() { FindingKind::NativeGrowth } else { FindingKind::PythonGrowth };
    let figures = [ProcessFigure::Rss, ProcessFigure::Uss, ProcessFigure::Sampled, ProcessFigure::MallocUsed];
    let shows = figures.iter().any(|figure| all.of_process(*figure).is_rising());
    // What grows slowly cannot be seen in the process.
    let hidden = growth.rate.middle * growth.seconds < VISIBLE_BYTES;
    let confidence = match growth.seconds {
        // Another census may name what holds it.
        _ if all.containers.iter().any(|container| may_fill(container, it)) => POSSIBLE,
        SITE_CERTAIN_S.. if shows => CERTAIN,
        SITE_CERTAIN_S.. if hidden => LIKELY,
        SITE_S.. if shows => LIKELY,
        _ => POSSIBLE,
    };
    let what = format!(
        "memory that is allocated at {} grows by {}; it is {} now",
        crate::sites::short(&facts.line, std::iter::empty()),
        words::rate(growth.rate.middle),
        words::bytes(growth.now as u64)
    );
    let evidence = vec![explain_site(it.site), all.explain(ProcessFigure::Sampled), all.explain(ProcessFigure::Rss)];
    Draft {
        kind,
        confidence,
        what,
        holder: String::new(),
        site: facts.line.clone(),
        rate: growth.rate.middle,
        bytes: growth.now as u64,
        since_s: growth.from_s,
        pattern: super::kinds::teaching(kind).map_or("", |it| it.pattern).to_owned(),
        evidence,
    }
    .finish(all)
}

/// Growth of the process that nothing explains.
fn of_process(all: &AllJudged<'_>) -> Option<ExplainedFinding> {
    let figure = [ProcessFigure::Uss, ProcessFigure::Rss].into_iter().find(|it| all.of_process(*it).is_rising())?;
    let growth = all.of_process(figure);
    let rises = |figure: ProcessFigure| all.of_process(figure).is_rising();
    let rests = |figure: ProcessFigure| all.of_process(figure).is_at_rest();
    let (kind, why) = if rises(ProcessFigure::PythonUsed) {
        (FindingKind::PythonGrowth, "Python objects")
    } else if rises(ProcessFigure::MallocUsed) {
        (FindingKind::NativeGrowth, "memory of malloc")
    } else if rises(ProcessFigure::MallocFree) && rests(ProcessFigure::MallocUsed) {
        (FindingKind::MallocFree, "free memory that malloc keeps")
    } else if rises(ProcessFigure::PythonFree) && rests(ProcessFigure::PythonUsed) {
        (FindingKind::PymallocPinned, "free memory in CPython's allocator")
    } else if all.evidence.breakdown.is_some() || rests(ProcessFigure::Sampled) {
        (FindingKind::NativeGrowth, "memory outside of Python")
    } else {
        (FindingKind::PythonGrowth, "memory of the process")
    };
    let long = growth.seconds >= PROCESS_S;
    let what = format!(
        "{why} grows by {}; the process has {} now",
        words::rate(growth.rate.middle),
        words::bytes(growth.now as u64)
    );
    let evidence = vec![all.explain(figure), all.explain(ProcessFigure::Sampled), all.explain(ProcessFigure::Requests)];
    Some(
        Draft {
            kind: if long { kind } else { FindingKind::Growing },
            confidence: if long { LIKELY } else { POSSIBLE },
            what,
            holder: String::new(),
            site: String::new(),
            rate: growth.rate.middle,
            bytes: 0,
            since_s: growth.from_s,
            pattern: if long {
                super::kinds::teaching(kind).map_or("", |it| it.pattern).to_owned()
            } else {
                String::new()
            },
            evidence,
        }
        .finish(all),
    )
}

/// Memory that allocators keep: many arenas, free memory in `malloc`, arenas of CPython with few objects.
pub(super) fn kept(all: &AllJudged<'_>) -> Vec<ExplainedFinding> {
    let Some(parts) = all.evidence.breakdown else { return Vec::new() };
    let rss = all.of_process(ProcessFigure::Rss).now.max(1.0);
    let mut findings = Vec::new();
    let free = all.of_process(ProcessFigure::MallocFree);
    let share = parts.malloc_free as f64 / rss;
    if lasts(free) && parts.malloc_free >= FREE_BYTES && share >= 0.25 {
        let many = parts.malloc_arenas >= MANY_ARENAS;
        let kind = if many { FindingKind::ArenaExplosion } else { FindingKind::MallocFree };
        let in_arenas = if many { format!(" in {} arenas", parts.malloc_arenas) } else { String::new() };
        let what = format!(
            "malloc keeps {} free{in_arenas}, {:.0} % of the {} that are resident",
            words::bytes(parts.malloc_free),
            share * 100.0,
            words::bytes(rss as u64)
        );
        findings.push(free_finding(all, kind, share, what, &parts, ProcessFigure::MallocFree));
    }
    let held = (parts.python_used + parts.python_free).max(1);
    let share = parts.python_free as f64 / held as f64;
    if lasts(all.of_process(ProcessFigure::PythonFree)) && parts.python_free >= FREE_BYTES && share >= 0.4 {
        let what = format!(
            "CPython's allocator keeps {} free, {:.0} % of what it has: a few objects are spread over many arenas",
            words::bytes(parts.python_free),
            share * 100.0
        );
        let kind = FindingKind::PymallocPinned;
        findings.push(free_finding(all, kind, share, what, &parts, ProcessFigure::PythonFree));
    }
    findings
}

/// Whether a figure has been there for a while, and is not on its way down.
fn lasts(growth: &crate::growth::Growth) -> bool {
    use crate::growth::Shape::{Falling, Swinging, TooShort};
    growth.seconds >= FREE_S && !matches!(growth.shape, Falling | Swinging | TooShort)
}

fn free_finding(
    all: &AllJudged<'_>,
    kind: FindingKind,
    share: f64,
    what: String,
    parts: &Breakdown,
    figure: ProcessFigure,
) -> ExplainedFinding {
    let growth = all.of_process(figure);
    let bytes = if figure == ProcessFigure::MallocFree { parts.malloc_free } else { parts.python_free };
    let evidence = vec![all.explain(figure), all.explain(ProcessFigure::Rss)];
    Draft {
        kind,
        // What stays as it is, and is not much, may be what one large job has left.
        confidence: match share {
            _ if kind != FindingKind::ArenaExplosion && !growth.is_rising() && bytes < MUCH_FREE => POSSIBLE,
            0.5.. => CERTAIN,
            _ => LIKELY,
        },
        what,
        holder: String::new(),
        site: String::new(),
        rate: if growth.is_rising() { growth.rate.middle } else { 0.0 },
        bytes,
        since_s: growth.since_s,
        pattern: super::kinds::teaching(kind).map_or("", |it| it.pattern).to_owned(),
        evidence,
    }
    .finish(all)
}
