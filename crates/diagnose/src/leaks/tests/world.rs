//! A made-up service whose figures are what an agent would see, with the noise that they have.

use std::collections::BTreeMap;

use neurogc_wire::breakdown::Breakdown;
use neurogc_wire::finding::FindingKind;
use neurogc_wire::memory_verdict::{ExplainedFinding, MemoryVerdict};

use super::super::{ContainerFacts, MemoryEvidence, ProcessFigure, SiteFacts, TypeFacts, diagnose_memory};

pub(super) const MB: f64 = 1e6;
pub(super) const HOUR: f64 = 3600.0;

/// Numbers that look random and are the same in each run.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// From 0 to 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of a normal distribution, about: the sum of twelve.
    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// How many of so many expected ones come.
    pub(super) fn poisson(&mut self, mean: f64) -> f64 {
        (mean + mean.max(0.0).sqrt() * self.normal()).round().max(0.0)
    }
}

/// What is true of the service at one moment. A scenario changes it.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    pub(super) rss: f64,
    pub(super) rps: f64,
    pub(super) in_flight: f64,
    pub(super) fds: f64,
    pub(super) threads: f64,
    pub(super) children: f64,
    pub(super) children_bytes: f64,
    pub(super) tracked: f64,
    pub(super) reachable: f64,
    pub(super) uncollectable: f64,
    pub(super) frozen: f64,
    pub(super) disabled: bool,
    pub(super) breakdown: Option<Breakdown>,
    pub(super) sites: BTreeMap<&'static str, TrueSite>,
    pub(super) containers: BTreeMap<&'static str, (&'static str, f64, Option<u64>)>,
    pub(super) types: BTreeMap<&'static str, f64>,
    /// What the scenario remembers from one moment to the next.
    pub(super) memo: [f64; 4],
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrueSite {
    pub(super) bytes: f64,
    pub(super) block: f64,
    pub(super) native: bool,
    pub(super) inner: &'static str,
}

impl Truth {
    fn service(at: f64, memo: [f64; 4]) -> Self {
        let site = |bytes: f64| TrueSite { bytes, block: 120.0, ..TrueSite::default() };
        // Start-up is over after some seconds.
        let started = 1.0 - (-at / 4.0).exp();
        Self {
            rss: 300.0 * MB * started,
            rps: 100.0,
            in_flight: 4.0,
            fds: 24.0,
            threads: 9.0,
            children: 0.0,
            children_bytes: 0.0,
            tracked: 400_000.0,
            reachable: 380_000.0,
            uncollectable: 0.0,
            frozen: 375.0,
            disabled: false,
            breakdown: None,
            sites: BTreeMap::from([
                ("/srv/app/models.py:12 in load", site(60.0 * MB * started)),
                ("/srv/app/views.py:77 in render", site(2.0 * MB)),
                ("/usr/lib/python3.12/json/decoder.py:353 in raw_decode", site(1.0 * MB)),
            ]),
            containers: BTreeMap::from([
                ("app.models.table", ("dict", 80_000.0, None)),
                ("sys.modules", ("dict", 900.0, None)),
            ]),
            types: BTreeMap::from([("dict", 90_000.0), ("list", 40_000.0), ("app.models.Row", 80_000.0)]),
            memo,
        }
    }

    /// A leak of so many entries: in this container, from this line, with blocks of this size.
    pub(super) fn leak(
        &mut self,
        name: &'static str,
        kind: &'static str,
        line: &'static str,
        entries: f64,
        block: f64,
    ) {
        self.containers.insert(name, (kind, 1000.0 + entries, None));
        self.allocate(line, entries * block, block);
    }

    /// So much more at this line.
    pub(super) fn allocate(&mut self, line: &'static str, bytes: f64, block: f64) {
        let site = self.sites.entry(line).or_default();
        site.bytes += bytes;
        site.block = block;
        self.rss += bytes * 1.05;
    }

    pub(super) fn native(&mut self, line: &'static str, bytes: f64, block: f64) {
        self.allocate(line, bytes, block);
        if let Some(site) = self.sites.get_mut(line) {
            site.native = true;
        }
    }

    pub(super) fn objects(&mut self, name: &'static str, count: f64) {
        *self.types.entry(name).or_insert(0.0) += count;
    }
}

/// A scenario under observation.
pub(super) struct World {
    pub(super) evidence: MemoryEvidence,
    dice: Dice,
    /// Slow noise of the resident set, and samples of sites.
    drift: f64,
    samples: BTreeMap<&'static str, f64>,
    memo: [f64; 4],
    /// Noise of the resident set.
    pub(super) noise: f64,
    pub(super) census_every: f64,
    pub(super) census_due: f64,
}

const GRAIN: f64 = 32768.0;

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut evidence = MemoryEvidence::default();
        (evidence.pid, evidence.grain, evidence.limit) = (4242, GRAIN, Some(16_000_000_000));
        Self {
            evidence,
            dice: Dice::new(seed),
            drift: 0.0,
            samples: BTreeMap::new(),
            memo: [0.0; 4],
            noise: 0.6 * MB,
            census_every: 25.0,
            census_due: 60.0,
        }
    }

    /// One look at the process.
    pub(super) fn step(&mut self, at: f64, every: f64, scenario: &mut dyn FnMut(&mut Truth, f64, &mut Dice)) {
        let mut truth = Truth::service(at, self.memo);
        scenario(&mut truth, at, &mut self.dice);
        self.memo = truth.memo;
        // The resident set wanders about, and returns within half a minute.
        let keep = (-every / 30.0_f64).exp();
        self.drift = self.drift * keep + self.noise * (1.0 - keep * keep).sqrt() * self.dice.normal();
        let evidence = &mut self.evidence;
        let page = |bytes: f64| (bytes / 4096.0).round() * 4096.0;
        let rps = self.dice.poisson(truth.rps * 10.0) / 10.0;
        let in_flight = self.dice.poisson(truth.in_flight);
        for (figure, value) in [
            (ProcessFigure::Rss, page(truth.rss + self.drift)),
            (ProcessFigure::Descriptors, truth.fds.floor() + in_flight),
            (ProcessFigure::Threads, truth.threads.floor()),
            (ProcessFigure::Children, truth.children.floor()),
            (ProcessFigure::ChildrenBytes, truth.children_bytes),
            (ProcessFigure::Tracked, truth.tracked + 2000.0 * self.dice.unit()),
            (ProcessFigure::Uncollectable, truth.uncollectable.floor()),
            (ProcessFigure::Frozen, truth.frozen.floor()),
            (ProcessFigure::Requests, rps),
            (ProcessFigure::InFlight, in_flight),
        ] {
            evidence.push(figure, at, value);
        }
        if let Some(parts) = truth.breakdown {
            evidence.push_breakdown(at, parts);
        }
        evidence.collector.disabled = truth.disabled;
        self.sample(at, &truth);
        if at >= self.census_due {
            self.census_due = at + self.census_every;
            self.census(at, &truth);
        }
    }

    /// Sites as samples see them: what stays is met once, and what comes and goes each time anew.
    fn sample(&mut self, at: f64, truth: &Truth) {
        let mut total = 0.0;
        for (line, site) in &truth.sites {
            let (points, known) = (site.bytes / GRAIN, self.samples.entry(line).or_insert(0.0));
            *known =
                if points >= *known { *known + self.dice.poisson(points - *known) } else { self.dice.poisson(points) };
            // Requests hold a little for a moment.
            let value = (*known + self.dice.poisson(3.0)) * GRAIN;
            total += value;
            let facts = SiteFacts {
                line: (*line).to_owned(),
                inner: if site.inner.is_empty() { (*line).to_owned() } else { site.inner.to_owned() },
                callers: Vec::new(),
                native: site.native,
                blocks: (value / site.block.max(1.0)) as u64,
                ..SiteFacts::default()
            };
            let (key, blocks) =
                (line.bytes().fold(7_u64, |key, byte| key.wrapping_mul(31) + u64::from(byte)), facts.blocks);
            if !self.evidence.sites.push(&key, at, value, |facts| facts.count(at, blocks)) {
                self.evidence.sites.follow(key, None, at, value, facts);
            }
        }
        self.evidence.push(ProcessFigure::Sampled, at, total);
    }

    fn census(&mut self, at: f64, truth: &Truth) {
        self.evidence.push(ProcessFigure::Reachable, at, truth.reachable);
        for (name, (kind, length, bound)) in &truth.containers {
            let entry = if *kind == "bytearray" { 1.0 } else { 60.0 };
            let (bytes, name) = ((length * entry) as u64, (*name).to_owned());
            if !self.evidence.containers.push(&name, at, length.floor(), |facts| facts.bytes = bytes) {
                let facts = ContainerFacts { kind: (*kind).to_owned(), bytes, bound: *bound };
                self.evidence.containers.follow(name, None, at, length.floor(), facts);
            }
        }
        for (name, count) in &truth.types {
            // Some come and go all the time.
            let (count, name) = ((count + 150.0 * self.dice.unit()).floor(), (*name).to_owned());
            if !self.evidence.types.push(&name, at, count, |_| ()) {
                self.evidence.types.follow(name, None, at, count, TypeFacts::default());
            }
        }
    }

    pub(super) fn verdict(&self) -> MemoryVerdict {
        diagnose_memory(&self.evidence)
    }
}

/// How a scenario is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seconds: f64,
    /// The distance of looks, and of censuses.
    pub(super) every: f64,
    pub(super) census: f64,
    pub(super) noise: f64,
}

pub(super) const MINUTES_3: Plan = Plan { seconds: 180.0, every: 5.0, census: 25.0, noise: 0.6 * MB };
pub(super) const MINUTES_10: Plan = Plan { seconds: 600.0, ..MINUTES_3 };
pub(super) const MINUTES_25: Plan = Plan { seconds: 1500.0, ..MINUTES_3 };
pub(super) const HOURS_6: Plan = Plan { seconds: 6.0 * HOUR, every: 10.0, census: 300.0, noise: 1.5 * MB };
pub(super) const HOURS_50: Plan = Plan { seconds: 50.0 * HOUR, every: 20.0, census: 600.0, noise: 1.5 * MB };

pub(super) type Behaviour = fn(&mut Truth, f64, &mut Dice);

/// Runs a scenario to its end, and calls `look` now and then with the time.
pub(super) fn run(plan: Plan, seed: u64, scenario: Behaviour, mut look: impl FnMut(f64, &World)) -> World {
    let mut world = World::new(seed);
    (world.noise, world.census_every) = (plan.noise, plan.census);
    let mut at = 0.0;
    let mut look_at = 30.0;
    let mut scenario = scenario;
    while at < plan.seconds {
        world.step(at, plan.every, &mut scenario);
        if at >= look_at {
            look(at, &world);
            look_at = at + (plan.seconds / 40.0).max(15.0);
        }
        at += plan.every;
    }
    world
}

/// A leaking program: its kind, its holder and its line, each where it is to be known.
pub(super) struct Leaking {
    pub(super) name: &'static str,
    pub(super) plan: Plan,
    pub(super) kind: FindingKind,
    pub(super) holder: &'static str,
    pub(super) line: &'static str,
    pub(super) scenario: Behaviour,
}

pub(super) struct Healthy {
    pub(super) name: &'static str,
    pub(super) plan: Plan,
    pub(super) scenario: Behaviour,
}

fn shown(findings: &[ExplainedFinding]) -> String {
    let line = |it: &ExplainedFinding| {
        format!("\n      {:.2} {} @ {}", it.finding.confidence, it.finding.text, it.finding.site)
    };
    findings.iter().map(line).collect()
}

/// Why a leak was not found, if so.
pub(super) fn missed(leak: &Leaking, seed: u64) -> Option<String> {
    let world = run(leak.plan, seed, leak.scenario, |_, _| ());
    let report = world.verdict();
    let found = report.findings.iter().map(|it| &it.finding).find(|it| it.is_alarm());
    let right = found.is_some_and(|it| {
        it.kind == leak.kind
            && (leak.holder.is_empty() || it.holder == leak.holder)
            && (leak.line.is_empty() || it.site == leak.line)
    });
    (!right).then(|| format!("{} (seed {seed}): {}", leak.name, shown(&report.findings)))
}

/// The first false alarm of a healthy program, if there was one.
pub(super) fn alarmed(healthy: &Healthy, seed: u64) -> Option<String> {
    let mut alarm = None;
    run(healthy.plan, seed, healthy.scenario, |at, world| {
        let report = world.verdict();
        if alarm.is_none() && report.findings.iter().any(|it| it.finding.is_alarm()) {
            alarm = Some(format!("{} (seed {seed}) at {at:.0} s: {}", healthy.name, shown(&report.findings)));
        }
    });
    alarm
}
