//! The verdict: all findings in order, the growth of the process, and the time to its limit.

use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::memory_verdict::{EvidenceSeries, ExplainedFinding, MemoryLimit, MemoryVerdict};

use super::evidence::{MemoryEvidence, ProcessFigure, SiteFacts};
use super::holders::OpenSite;
use super::judged::{AllJudged, Judged, rate};
use super::{allocators, calm, counts, holders, joined, kinds, workers};
use crate::words;

/// How sure findings are.
pub(super) const CERTAIN: f64 = 0.95;
pub(super) const LIKELY: f64 = 0.75;
pub(super) const POSSIBLE: f64 = 0.4;

/// Findings on memory that are given out.
const MOST: usize = 12;

/// Before this time nothing is said.
const TOO_EARLY_S: f64 = 60.0;

/// What is the matter with the memory of a process.
#[must_use]
pub fn diagnose_memory(evidence: &MemoryEvidence) -> MemoryVerdict {
    let all = AllJudged::of(evidence);
    // Those that grow steadily come first; others may still explain a container.
    let grows = |it: &&Judged<'_, SiteFacts>| it.growth.rate.middle > 0.0 && it.growth.grown > 0.0;
    let mut open: Vec<_> = all.sites.iter().filter(grows).map(|site| OpenSite { site, taken: false }).collect();
    let mut findings = holders::look(&all, &mut open);
    joined::drop_doubles(&all, &mut findings);
    let more = counts::look(&all, &mut open, &mut findings);
    findings.extend(more);
    let more = allocators::growth(&all, &mut open, &findings);
    findings.extend(more);
    findings.extend(allocators::kept(&all));
    findings.extend(workers::look(&all));
    findings.sort_by(|one, other| {
        let order = |it: &ExplainedFinding| (it.finding.confidence, it.finding.rate_bytes_h);
        let (one, other) = (order(one), order(other));
        other.0.total_cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    let calm = calm::look(&all, &findings);
    let alarm = findings.iter().any(|it| it.finding.is_alarm());
    if !alarm {
        findings.insert(0, no_leak(&all));
    }
    findings.extend(calm);
    findings.truncate(MOST);
    let rss = all.of_process(ProcessFigure::Rss);
    MemoryVerdict {
        pid: evidence.pid,
        watched_s: evidence.watched_s(),
        rss: evidence.series(ProcessFigure::Rss).now() as u64,
        growth: rss.is_rising().then(|| rate(rss.rate)),
        limit: evidence.limit.map(|bytes| limit(&all, bytes)),
        findings,
    }
}

/// When the limit is reached.
fn limit(all: &AllJudged<'_>, bytes: u64) -> MemoryLimit {
    let rss = all.of_process(ProcessFigure::Rss);
    let left = (bytes as f64 - all.evidence.series(ProcessFigure::Rss).now()).max(0.0);
    let after = |rate: f64| (rss.is_rising() && rate > 0.0 && rate.is_finite()).then(|| left / rate);
    MemoryLimit {
        bytes,
        reached_in_s: after(rss.rate.middle),
        earliest_s: after(rss.rate.high),
        latest_s: after(rss.rate.low),
    }
}

/// The verdict where nothing leaks, or too little is known.
fn no_leak(all: &AllJudged<'_>) -> ExplainedFinding {
    let rss = all.of_process(ProcessFigure::Rss);
    let watched = all.evidence.watched_s();
    let evidence = vec![all.explain(ProcessFigure::Rss)];
    let finding = if watched < TOO_EARLY_S {
        let text = format!("Too early to tell: memory has been watched for {watched:.0} s only.");
        let advice = "Ask again in a few minutes.".to_owned();
        Finding { kind: FindingKind::TooEarly, confidence: 1.0, text, advice, ..Finding::default() }
    } else {
        let (size, lasted) =
            (words::bytes(all.evidence.series(ProcessFigure::Rss).now() as u64), words::window(watched));
        let text = match rss.shape {
            crate::growth::Shape::Rising => {
                format!("No leak is known: {size} are resident, and grow; watched for {lasted}.")
            }
            crate::growth::Shape::Flat => format!("No leak: {size} are resident, flat; watched for {lasted}."),
            _ => format!("No leak: {size} are resident; watched for {lasted}."),
        };
        // The longer nothing was found, the surer.
        let confidence = (0.5 + watched / 7200.0).min(0.95);
        Finding { kind: FindingKind::Nothing, confidence, text, ..Finding::default() }
    };
    ExplainedFinding { finding, evidence }
}

/// A finding in the making.
pub(super) struct Draft {
    pub(super) kind: FindingKind,
    pub(super) confidence: f64,
    /// The middle of the sentence.
    pub(super) what: String,
    pub(super) holder: String,
    pub(super) site: String,
    /// Bytes per second.
    pub(super) rate: f64,
    pub(super) bytes: u64,
    pub(super) since_s: f64,
    pub(super) pattern: String,
    pub(super) evidence: Vec<EvidenceSeries>,
}

impl Draft {
    pub(super) fn finish(self, all: &AllJudged<'_>) -> ExplainedFinding {
        let teaching = kinds::teaching(self.kind);
        let share = all.process_rate().map_or(0.0, |whole| self.rate / whole.middle);
        let mut finding = Finding {
            kind: self.kind,
            confidence: self.confidence,
            holder: self.holder,
            site: self.site,
            rate_bytes_h: self.rate * 3600.0,
            advice: teaching.map_or("", |it| it.advice).to_owned(),
            pattern: self.pattern,
            doc: teaching.map_or("", |it| it.doc).to_owned(),
            bytes: self.bytes,
            share: if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 },
            since_s: self.since_s,
            ..Finding::default()
        };
        let lead = match (self.kind.is_growth(), finding.certainty()) {
            (true, "possible") => "Possible leak".to_owned(),
            (true, sure) => format!("Leak, {sure}"),
            (false, sure) if self.kind == FindingKind::DataloaderCopies => format!("Copies, {sure}"),
            (false, _) if self.kind == FindingKind::Growing => "Growing, too early to tell".to_owned(),
            (false, sure) => format!("Fragmentation, {sure}"),
        };
        finding.text = format!("{lead}: {}.", self.what);
        ExplainedFinding { finding, evidence: self.evidence }
    }
}
