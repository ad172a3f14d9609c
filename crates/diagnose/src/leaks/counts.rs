//! Things that are counted and pile up: descriptors, threads, tasks, children, garbage.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::memory_verdict::ExplainedFinding;

use super::evidence::ProcessFigure;
use super::holders::{OpenSite, explain_site};
use super::joined;
use super::judged::{AllJudged, Judged, explain};
use super::verdict::{CERTAIN, Draft, LIKELY, POSSIBLE};
use crate::growth::Growth;
use crate::words;

/// How long a count must have grown to be called a leak, and a certain one.
const LEAK_S: f64 = 90.0;
const CERTAIN_S: f64 = 600.0;

/// Children warm up, too, and are often replaced after a while.
const CHILDREN_S: f64 = 1000.0;

/// Full collections that are further apart than this leave cycles lying.
const STARVED_S: f64 = 1800.0;

/// Types whose objects stand for a kind, wherever they are held.
const OBJECTS: [(FindingKind, &str, &[&str]); 4] = [
    (FindingKind::Tasks, "asyncio tasks", &["_asyncio.Task", "asyncio.tasks.Task"]),
    (FindingKind::StoredExceptions, "tracebacks", &["traceback"]),
    (FindingKind::Modules, "classes or modules", &["type", "module"]),
    (FindingKind::Contexts, "contexts", &["_contextvars.Context", "Context", "_contextvars.ContextVar", "ContextVar"]),
];

/// Files whose lines open descriptors, or start threads and processes.
const OPENERS: [&str; 9] = [
    "/socket.py",
    "/tempfile.py",
    "/pathlib.py",
    "/subprocess.py",
    "/selectors.py",
    "/ssl.py",
    "/http/",
    "/threading.py",
    "/codecs.py",
];

/// What piles up; `known` are the findings so far, of which those on the containers that hold it are taken out.
pub(super) fn look<'j>(
    all: &'j AllJudged<'_>,
    open: &mut [OpenSite<'j, '_>],
    known: &mut Vec<ExplainedFinding>,
) -> Vec<ExplainedFinding> {
    let mut findings = Vec::new();
    for (figure, kind) in [
        (ProcessFigure::Descriptors, FindingKind::Descriptors),
        (ProcessFigure::Threads, FindingKind::Threads),
        (ProcessFigure::Children, FindingKind::Children),
    ] {
        let growth = all.of_process(figure);
        if growth.is_rising() {
            let (what, unit) = figure.words();
            let held = joined::take_holder(all, kind, growth, known);
            let mut found = match &held {
                // Its line is known already.
                Some(_) => piled(all, kind, unit, what, growth, &mut [], vec![all.explain(figure)]),
                None => piled(all, kind, unit, what, growth, open, vec![all.explain(figure)]),
            };
            if let Some(held) = held {
                let finding = &mut found.finding;
                (finding.site, finding.rate_bytes_h) = (held.finding.site, held.finding.rate_bytes_h);
                (finding.bytes, finding.share) = (held.finding.bytes, held.finding.share);
                if !held.finding.holder.starts_with("threading.") {
                    finding.holder = held.finding.holder;
                }
                found.evidence.extend(held.evidence);
            }
            findings.push(found);
        }
    }
    let children = all.of_process(ProcessFigure::ChildrenBytes);
    // Workers are told apart, by `workers`.
    let is_known = !all.evidence.workers.is_empty();
    if !is_known && children.is_rising() && !all.of_process(ProcessFigure::Children).is_rising() {
        let rate = children.rate.middle;
        let what = format!(
            "the memory of child processes grows by {}; it is {} now",
            words::rate(rate),
            words::bytes(children.now as u64)
        );
        let confidence = if children.seconds >= CHILDREN_S { LIKELY } else { POSSIBLE };
        findings.push(counted(
            all,
            FindingKind::Children,
            confidence,
            what,
            children,
            rate,
            ProcessFigure::ChildrenBytes,
        ));
    }
    let has = |kind: FindingKind| known.iter().any(|it| it.finding.kind == kind && it.finding.is_alarm());
    for (kind, name, types) in OBJECTS {
        let grown = all.types.iter().find(|it| it.growth.is_rising() && types.contains(&it.name));
        if let Some(it) = grown.filter(|it| !has(kind) && !joined::is_held(all, &it.growth, known)) {
            findings.push(objects(all, kind, name, it, open));
        }
    }
    if !known.iter().any(|it| it.finding.kind == FindingKind::CyclicGarbage) {
        let held = known.iter().any(|it| !it.finding.holder.is_empty());
        findings.extend(garbage(all, open).or_else(|| if held { None } else { frozen(all, open) }));
    }
    findings
}

fn confidence(growth: &Growth) -> f64 {
    match growth.seconds {
        CERTAIN_S.. => CERTAIN,
        LEAK_S.. => LIKELY,
        _ => POSSIBLE,
    }
}

fn objects<'j>(
    all: &'j AllJudged<'_>,
    kind: FindingKind,
    name: &str,
    it: &Judged<'_, super::evidence::TypeFacts>,
    open: &mut [OpenSite<'j, '_>],
) -> ExplainedFinding {
    let evidence = vec![explain(format!("objects of type {}", it.name), "objects", it.series, &it.growth)];
    piled(all, kind, name, name, &it.growth, open, evidence)
}

/// A finding on a count that grows, with the line that makes as many blocks.
fn piled<'j>(
    all: &'j AllJudged<'_>,
    kind: FindingKind,
    unit: &str,
    name: &str,
    growth: &Growth,
    open: &mut [OpenSite<'j, '_>],
    mut evidence: Vec<neurogc_wire::memory_verdict::EvidenceSeries>,
) -> ExplainedFinding {
    let blocks =
        |it: &OpenSite<'_, '_>| it.site.growth.rate.middle * it.site.facts.blocks as f64 / it.site.growth.now.max(1.0);
    let opens = |it: &OpenSite<'_, '_>| OPENERS.iter().any(|file| it.site.facts.inner.contains(file));
    let near = |it: &OpenSite<'_, '_>| blocks(it) >= 0.3 * growth.rate.middle;
    let mut sites: Vec<_> = open.iter_mut().collect();
    let at = sites
        .iter()
        .position(|it| opens(it) && near(it))
        .or_else(|| sites.iter().position(|it| near(it) && !it.taken))
        .or_else(|| sites.iter().position(|it| near(it)));
    let (mut line, mut rate) = (String::new(), 0.0);
    if let Some(it) = at.map(|at| &mut sites[at]) {
        it.taken = true;
        line.clone_from(&it.site.facts.line);
        rate = it.site.growth.rate.middle;
        evidence.push(explain_site(it.site));
    }
    let what = format!(
        "{name} pile up: {} more in an hour; there are {} now",
        words::count((growth.rate.middle * 3600.0) as u64),
        words::count(growth.now as u64)
    );
    let holder = unit.to_owned();
    let pattern = super::kinds::teaching(kind).map_or("", |it| it.pattern).to_owned();
    Draft {
        kind,
        confidence: confidence(growth),
        what,
        holder,
        site: line,
        rate,
        bytes: 0,
        since_s: growth.from_s,
        pattern,
        evidence,
    }
    .finish(all)
}

/// Cycles that are not freed: they cannot be, or the collector does not run.
fn garbage<'j>(all: &'j AllJudged<'_>, open: &mut [OpenSite<'j, '_>]) -> Option<ExplainedFinding> {
    let stuck = all.of_process(ProcessFigure::Uncollectable);
    if stuck.is_rising() {
        let what = format!(
            "collections find objects that they cannot free: {} more in an hour, {} in all (see gc.garbage)",
            words::count((stuck.rate.middle * 3600.0) as u64),
            words::count(stuck.now as u64)
        );
        return Some(counted(
            all,
            FindingKind::CyclicGarbage,
            confidence(stuck),
            what,
            stuck,
            0.0,
            ProcessFigure::Uncollectable,
        ));
    }
    let tracked = all.of_process(ProcessFigure::Tracked);
    let reachable = all.of_process(ProcessFigure::Reachable);
    if !tracked.is_rising() || reachable.is_rising() {
        return None;
    }
    let collector = &all.evidence.collector;
    let idle_s = all.evidence.at_s - collector.last_full_s.unwrap_or(0.0);
    let confidence = match (collector.disabled, idle_s > STARVED_S, reachable.is_at_rest()) {
        (true, _, true) => confidence(tracked),
        (false, true, true) => confidence(tracked).min(LIKELY),
        // Without a census it may as well be in use.
        _ => return None,
    };
    let why = if collector.disabled {
        "the collector is switched off".to_owned()
    } else {
        format!("the last collection of everything was {} ago", words::window(idle_s))
    };
    let rate = all.process_rate().map_or(0.0, |rate| rate.middle);
    let what = format!(
        "garbage in reference cycles piles up, {} objects more in an hour: {why}",
        words::count((tracked.rate.middle * 3600.0) as u64)
    );
    let mut found = counted(all, FindingKind::CyclicGarbage, confidence, what, tracked, rate, ProcessFigure::Tracked);
    name_line(&mut found, open);
    Some(found)
}

/// Objects that are frozen again and again: no collection looks at the garbage among them.
fn frozen<'j>(all: &'j AllJudged<'_>, open: &mut [OpenSite<'j, '_>]) -> Option<ExplainedFinding> {
    let frozen = all.of_process(ProcessFigure::Frozen);
    if !frozen.is_rising() {
        return None;
    }
    let rate = all.process_rate().map_or(0.0, |rate| rate.middle);
    let what = format!(
        "gc.freeze() is called again and again, and no collection looks at what is frozen: {} objects more in an hour, {} in all",
        words::count((frozen.rate.middle * 3600.0) as u64),
        words::count(frozen.now as u64)
    );
    let kind = FindingKind::CyclicGarbage;
    let mut found = counted(all, kind, confidence(frozen), what, frozen, rate, ProcessFigure::Frozen);
    name_line(&mut found, open);
    Some(found)
}

/// Adds the line that makes most of it.
fn name_line<'j>(found: &mut ExplainedFinding, open: &mut [OpenSite<'j, '_>]) {
    if let Some(it) = open.iter_mut().find(|it| !it.taken && it.site.growth.is_rising()) {
        it.taken = true;
        found.finding.site.clone_from(&it.site.facts.line);
        found.evidence.push(explain_site(it.site));
    }
}

fn counted(
    all: &AllJudged<'_>,
    kind: FindingKind,
    confidence: f64,
    what: String,
    growth: &Growth,
    rate: f64,
    figure: ProcessFigure,
) -> ExplainedFinding {
    let evidence = vec![all.explain(figure), all.explain(ProcessFigure::Rss)];
    let pattern = super::kinds::teaching(kind).map_or("", |it| it.pattern).to_owned();
    let (holder, site) = (String::new(), String::new());
    Draft { kind, confidence, what, holder, site, rate, bytes: 0, since_s: growth.from_s, pattern, evidence }
        .finish(all)
}
