//! A slow leak in a service of 500 MB: 1 MB in an hour, by the noise of a real one.
//!
//! `recorded.csv` was recorded by `bench/leaks/record.py`: seven minutes of a service of 100 MB that does not leak, under a load that varies.
//! No service was recorded for six hours. What is replayed is made from the recording: parts of 30 seconds of it, after its warm-up, in random
//! order, so that values which hang together in time stay so; all bytes times five; and the load of some hours added, with the memory
//! that follows it. The leak is added to that as a straight line.

use neurogc_wire::breakdown::Breakdown;
use neurogc_wire::finding::FindingKind;

use super::super::evidence::{ContainerFacts, MemoryEvidence, ProcessFigure};
use super::super::{SiteFacts, diagnose_memory};
use super::world::{Dice, HOUR, MB};

const RECORDED: &str = include_str!("recorded.csv");

/// The first seconds are its warm-up.
const WARM_UP_S: f64 = 150.0;

/// Seconds of the recording that stay together.
const PART: usize = 30;

/// A service of 500 MB.
const TIMES: f64 = 5.0;

const LINE: &str = "/srv/app/store.py:41 in add";
const HOLDER: &str = "app.store.items";

/// What an entry of the leak takes, and what one sample of allocations stands for.
const ENTRY: f64 = 200.0;
const GRAIN: f64 = 512.0 * 1024.0;

/// One second of the recording, as differences from its middle; the first are the middles themselves.
#[derive(Clone, Copy)]
struct Second {
    rss: f64,
    python: f64,
    malloc: f64,
    requests: f64,
}

impl Second {
    fn all() -> (Self, Vec<Self>) {
        let rows = RECORDED.lines().skip(1).filter_map(|line| {
            let cells: Vec<f64> = line.split(',').filter_map(|cell| cell.parse().ok()).collect();
            let [second, rss, python, malloc, requests] = cells[..] else { return None };
            (second >= WARM_UP_S).then_some(Self { rss, python, malloc, requests })
        });
        let rows: Vec<_> = rows.collect();
        let middle = |of: fn(&Self) -> f64| {
            let mut values: Vec<_> = rows.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let middle = Self {
            rss: middle(|it| it.rss),
            python: middle(|it| it.python),
            malloc: middle(|it| it.malloc),
            requests: middle(|it| it.requests),
        };
        (middle, rows)
    }
}

/// What is known of a leak.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    /// Censuses and sampled allocations see it.
    All,
    /// Nothing but the figures of the process.
    ProcessOnly,
}

/// Six hours with a leak of so many bytes in an hour. Gives when the first alarm came, of which kind, with which holder.
fn replay(seed: u64, leak: f64, known: Known) -> Option<(f64, FindingKind, String, f64)> {
    let (middle, rows) = Second::all();
    let mut dice = Dice::new(seed);
    let mut evidence = MemoryEvidence::default();
    evidence.grain = GRAIN;
    let (mut part, mut samples, mut at, mut look) = (0, 0.0, 0.0, 600.0);
    while at < 6.0 * HOUR {
        // A look every ten seconds meets every tenth second of the part that is replayed.
        let within = (at as usize / 10) % (PART / 10);
        if within == 0 {
            part = (dice.unit() * (rows.len() - PART) as f64) as usize;
        }
        let now = rows[part + 10 * within];
        let load = (at / 4000.0).sin() + 0.4 * (at / 570.0).sin();
        let leaked = leak * at / HOUR;
        let page = |bytes: f64| (bytes / 4096.0).round() * 4096.0;
        evidence.push(ProcessFigure::Rss, at, page(TIMES * now.rss + 1.5 * MB * load + leaked));
        evidence.push(ProcessFigure::Requests, at, TIMES * (now.requests + 0.25 * middle.requests * load));
        if at % 50.0 == 0.0 {
            let parts = Breakdown {
                python_used: (TIMES * now.python + 0.3 * MB * load + leaked) as u64,
                malloc_used: (TIMES * now.malloc + 1.0 * MB * load) as u64,
                libraries: (TIMES * (middle.rss - middle.python - middle.malloc)) as u64,
                ..Breakdown::default()
            };
            evidence.push_breakdown(at, parts);
        }
        if known == Known::All {
            samples += dice.poisson((leaked / GRAIN - samples).max(0.0));
            note_leak(&mut evidence, at, leaked, (samples + dice.poisson(2.0)) * GRAIN);
        }
        at += 10.0;
        if at >= look {
            look += 1200.0;
            let report = diagnose_memory(&evidence);
            if let Some(found) = report.findings.iter().map(|it| &it.finding).find(|it| it.is_alarm()) {
                return Some((at, found.kind, found.holder.clone(), found.confidence));
            }
        }
    }
    None
}

/// What samples and censuses see of a leak.
fn note_leak(evidence: &mut MemoryEvidence, at: f64, leaked: f64, sampled: f64) {
    let blocks = (sampled / ENTRY) as u64;
    if !evidence.sites.push(&1, at, sampled, |facts| facts.count(at, blocks)) {
        let facts = SiteFacts { line: LINE.to_owned(), inner: LINE.to_owned(), blocks, ..SiteFacts::default() };
        evidence.sites.follow(1, None, at, sampled, facts);
    }
    evidence.push(ProcessFigure::Sampled, at, sampled);
    if at % 300.0 == 0.0 {
        let (length, bytes) = ((leaked / ENTRY).floor(), (leaked / ENTRY * 60.0) as u64);
        let name = HOLDER.to_owned();
        if !evidence.containers.push(&name, at, length, |facts| facts.bytes = bytes) {
            let facts = ContainerFacts { kind: "dict".to_owned(), bytes, bound: None };
            evidence.containers.follow(name, None, at, length, facts);
        }
    }
}

const SEEDS: u64 = 20;

fn check(leak: f64, known: Known, least: usize, most: usize, is_right: impl Fn(FindingKind, &str) -> bool) {
    let found: Vec<_> = (0..SEEDS).filter_map(|seed| replay(seed, leak, known)).collect();
    let right = found.iter().filter(|(_, kind, holder, confidence)| *confidence >= 0.6 && is_right(*kind, holder));
    let right = right.count();
    let shown: Vec<_> = found.iter().map(|it| (it.0 / HOUR, it.1, &it.2, it.3)).collect();
    eprintln!("{right} of {SEEDS}: {shown:?}");
    assert!((least..=most).contains(&found.len()) && right == found.len(), "{shown:?}");
}

#[test]
fn one_megabyte_an_hour_is_found_with_its_holder() {
    check(MB, Known::All, 20, 20, |kind, holder| kind == FindingKind::UnboundedContainer && holder == HOLDER);
}

#[test]
fn one_megabyte_an_hour_is_found_by_the_figures_of_the_process_alone() {
    check(MB, Known::ProcessOnly, 19, 20, |kind, _| kind == FindingKind::PythonGrowth);
}

#[test]
fn without_the_leak_there_is_no_alarm() {
    check(0.0, Known::ProcessOnly, 0, 0, |_, _| true);
}
