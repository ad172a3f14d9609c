//! Workers that the process has forked: how their memory grows, and the report on everything below the process.

use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::status::Child;
use neurogc_wire::workers::{ChildrenReport, WorkerGrowth, WorkerMemory};

use super::{GrowthBook, Kept};
use crate::sense::process::own_rollup;
use crate::sense::sensors::Sensors;
use crate::sense::training::LoopProgress;
use crate::sys::native::monotonic_ns;
use neurogc_diagnose::leaks::WorkerFacts;

impl Kept {
    /// Takes in what was seen of workers. What was read before is not taken in again.
    pub(super) fn note_workers(&mut self, training: &LoopProgress, at_s: f64, children: &[Child]) {
        let workers = || children.iter().filter_map(|child| Some((child.pid, child.worker?)));
        let tracks = &mut self.evidence.workers;
        tracks.retain(|pid| workers().any(|(worker, _)| worker == *pid));
        let batches = training.batches();
        for (pid, memory) in workers() {
            let is_old = |known: &WorkerMemory| *known == memory;
            if tracks.iter().any(|(known, track)| *known == pid && is_old(&track.facts.memory)) {
                continue;
            }
            let copied = memory.copied as f64;
            if !tracks.push(&pid, at_s, copied, |facts| facts.note(at_s, memory, batches)) {
                tracks.follow(pid, None, at_s, copied, WorkerFacts::new(at_s, memory, batches));
            }
        }
        if workers().next().is_some()
            && let Some(rollup) = own_rollup()
        {
            self.evidence.inheritable = rollup.anonymous;
        }
    }

    fn growth_of_workers(&self) -> Vec<WorkerGrowth> {
        let by = |now: u64, then: u64| now as i64 - then as i64;
        let growth = |(pid, facts): (u32, &WorkerFacts)| {
            let (first_s, first, _) = facts.first;
            WorkerGrowth {
                pid,
                seconds: facts.own.span().map_or(0.0, |(_, last)| last - first_s),
                copied: by(facts.memory.copied, first.copied),
                own: by(facts.memory.own, first.own),
                copied_per_batch: facts.copied_per_batch(),
            }
        };
        let mut all: Vec<_> = self.evidence.workers.iter().map(|(pid, track)| growth((*pid, &track.facts))).collect();
        all.sort_unstable_by_key(|growth| growth.pid);
        all
    }
}

impl GrowthBook {
    /// Reads the memory of everything below the process now.
    pub(crate) fn children(&mut self, sensors: &Sensors, installed: u64) -> ChildrenReport {
        let began = monotonic_ns();
        let children = sensors.children.read_anew();
        let own = own_rollup().unwrap_or_default();
        let at_s = began.saturating_sub(installed) as f64 / 1e9;
        let kept = self.kept.get_or_insert_default();
        kept.note_workers(&sensors.hooks.training, at_s, &children);
        kept.judge();
        let is_of_children = |it: &Finding| matches!(it.kind, FindingKind::DataloaderCopies | FindingKind::Children);
        let findings = kept.report.findings.iter().map(|it| it.finding.clone()).filter(is_of_children).collect();
        let below: u64 = children.iter().map(|child| child.pss.unwrap_or(child.rss)).sum();
        ChildrenReport {
            pid: std::process::id(),
            rss: own.rss,
            pss: Some(own.pss),
            inheritable: own.anonymous,
            growth: kept.growth_of_workers(),
            total_pss: own.pss + below,
            batches: sensors.hooks.training.batches(),
            children,
            findings,
            took_ms: monotonic_ns().saturating_sub(began) as f64 / 1e6,
        }
    }
}
