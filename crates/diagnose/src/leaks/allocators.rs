//! Growth that no container explains, native memory, and memory that allocators keep.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::memory_verdict::ExplainedFinding;

use super::evidence::{ArenaPins, ProcessFigure, SiteFacts};
use super::holders::{OpenSite, explain_site, may_fill};
use super::judged::{AllJudged, Judged};
use super::verdict::{CERTAIN, Draft, LIKELY, POSSIBLE};
use crate::growth::Point;
use crate::growth::series::{BUCKETS, LEVELS, width_s};
use crate::words;

const MIB: f64 = 1024.0 * 1024.0;

/// How long a line must have allocated more and more to be called a leak, and a certain one.
const SITE_S: f64 = 130.0;
const SITE_CERTAIN_S: f64 = 900.0;

/// How long the process must have grown where nothing else is known: warm-up takes minutes.
const PROCESS_S: f64 = 800.0;

/// How long what allocators have handed out must have grown where the resident memory does not show it.
const SLOW_S: f64 = 7200.0;

/// Growth of a line below this share of what is found already is no finding of its own.
const BESIDE: f64 = 0.25;

/// Blocks whose number grows by less than this part of what their bytes grow by, relatively, get larger rather than more.
const SWELLS: f64 = 0.3;

/// Growth of the process that can be seen at all.
pub(super) const VISIBLE_BYTES: f64 = 12.0 * 1024.0 * 1024.0;

/// Free memory is worth a finding from this on, and for this long.
const FREE_BYTES: f64 = 64.0 * MIB;
const FREE_S: f64 = 100.0;
const LEAST_READINGS: usize = 3;

/// Free memory that does not grow is worth an alarm from this on.
const MUCH_FREE: f64 = 256.0 * MIB;

/// Types that keep arenas are named from this share of the objects on, in percent, and so many at most.
const LEAST_SHARE: f64 = 5.0;
const MOST_TYPES: usize = 3;

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
    let swells = swells(it.site);
    let confidence = match growth.seconds {
        // A fixed number of things that get larger end somewhere, mostly.
        ..SITE_CERTAIN_S if swells => POSSIBLE,
        // Another census may name what holds it.
        _ if all.containers.iter().any(|container| may_fill(container, it)) => POSSIBLE,
        SITE_CERTAIN_S.. if shows && !swells => CERTAIN,
        SITE_CERTAIN_S.. if shows => LIKELY,
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

/// Whether the blocks of a line get larger rather than more.
fn swells(site: &Judged<'_, SiteFacts>) -> bool {
    let (bytes, counts) = (&site.growth, &site.facts.counts);
    let points: Vec<_> = counts.points(level_of(bytes.seconds), bytes.from_s).collect();
    let part = points.len() / 4;
    if part == 0 || bytes.now <= 0.0 {
        return false;
    }
    let mean = |points: &[Point]| points.iter().map(|point| point.mean).sum::<f64>() / points.len() as f64;
    let (before, after) = (mean(&points[..part]), mean(&points[points.len() - part..]));
    (after - before) / after.max(1.0) < SWELLS * bytes.grown / bytes.now
}

/// The finest level of a series that covers so long.
fn level_of(seconds: f64) -> usize {
    (0..LEVELS - 1).find(|level| width_s(*level) * BUCKETS as f64 >= seconds).unwrap_or(LEVELS - 1)
}

/// Growth of the process that nothing explains.
fn of_process(all: &AllJudged<'_>) -> Option<ExplainedFinding> {
    let of_kernel = [ProcessFigure::Uss, ProcessFigure::Rss].into_iter().find(|it| all.of_process(*it).is_rising());
    // A slow leak drowns in what is resident for other reasons. What allocators have handed out is counted, and shows it.
    let of_allocators = || {
        let is_slow = |it: &ProcessFigure| all.of_process(*it).is_rising() && all.of_process(*it).seconds >= SLOW_S;
        [ProcessFigure::PythonUsed, ProcessFigure::MallocUsed].into_iter().find(is_slow)
    };
    let figure = of_kernel.or_else(of_allocators)?;
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
    let share = |free: f64, of: f64| free / of.max(1.0);
    let free = lasting(all, ProcessFigure::MallocFree);
    if free >= FREE_BYTES && share(free, rss) >= 0.25 {
        let share = share(free, rss);
        let many = parts.malloc_arenas >= MANY_ARENAS;
        let kind = if many { FindingKind::ArenaExplosion } else { FindingKind::MallocFree };
        let in_arenas = if many { format!(" in {} arenas", parts.malloc_arenas) } else { String::new() };
        let what = format!(
            "malloc keeps {} free{in_arenas}, {:.0} % of the {} that are resident",
            words::bytes(free as u64),
            share * 100.0,
            words::bytes(rss as u64)
        );
        findings.push(free_finding(all, kind, share, what, free, ProcessFigure::MallocFree));
    }
    let free = lasting(all, ProcessFigure::PythonFree);
    let held = parts.python_used as f64 + free;
    if free >= FREE_BYTES && share(free, held) >= 0.4 {
        let share = share(free, held);
        let what = format!(
            "CPython's allocator keeps {} free, {:.0} % of what it has: a few objects are spread over many arenas{}",
            words::bytes(free as u64),
            share * 100.0,
            pinned_by(&all.evidence.pins)
        );
        let kind = FindingKind::PymallocPinned;
        findings.push(free_finding(all, kind, share, what, free, ProcessFigure::PythonFree));
    }
    findings
}

/// The types that keep arenas from being returned, as the end of a sentence; empty where they are not known.
fn pinned_by(pins: &ArenaPins) -> String {
    let share = |count: u64| 100.0 * count as f64 / pins.objects.max(1) as f64;
    let types = pins.types.iter().filter(|(_, count)| share(*count) >= LEAST_SHARE).take(MOST_TYPES);
    let types: Vec<_> = types.map(|(name, count)| format!("{name} ({:.0} %)", share(*count))).collect();
    let objects = words::count(pins.objects);
    if types.is_empty() {
        String::new()
    } else {
        format!("; of these {objects} objects most are of type {}", types.join(", "))
    }
}

/// What was free at all of the last readings, for a while; zero where that is not known.
fn lasting(all: &AllJudged<'_>, figure: ProcessFigure) -> f64 {
    let series = all.evidence.series(figure);
    let from = series.span().map_or(0.0, |(_, last)| last - FREE_S);
    let points = series.whole();
    let recent =
        points.iter().rev().enumerate().take_while(|(back, point)| *back < LEAST_READINGS || point.at_s >= from);
    let (count, lowest, first) =
        recent.fold((0, f64::INFINITY, 0.0), |(count, low, _), (_, point)| (count + 1, point.low.min(low), point.at_s));
    if count < LEAST_READINGS || first > from + FREE_S / 4.0 { 0.0 } else { lowest }
}

fn free_finding(
    all: &AllJudged<'_>,
    kind: FindingKind,
    share: f64,
    what: String,
    free: f64,
    figure: ProcessFigure,
) -> ExplainedFinding {
    let growth = all.of_process(figure);
    let evidence = vec![all.explain(figure), all.explain(ProcessFigure::Rss)];
    Draft {
        kind,
        // What stays as it is, and is not much, may be what one large job has left.
        confidence: match share {
            _ if kind != FindingKind::ArenaExplosion && !growth.is_rising() && free < MUCH_FREE => POSSIBLE,
            0.5.. => CERTAIN,
            _ => LIKELY,
        },
        what,
        holder: String::new(),
        site: String::new(),
        rate: if growth.is_rising() { growth.rate.middle } else { 0.0 },
        bytes: free as u64,
        since_s: growth.since_s,
        pattern: super::kinds::teaching(kind).map_or("", |it| it.pattern).to_owned(),
        evidence,
    }
    .finish(all)
}
