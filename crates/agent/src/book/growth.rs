//! How memory grows: series of the process, of lines that allocate, and of what censuses count; and the verdict on them.
//!
//! The uplink fills it at a calm rate from what the agent knows anyway. Its size is fixed: about 1 MB at most.

mod since;
mod workers;

use std::collections::HashMap;
use std::sync::Mutex;

use neurogc_diagnose::leaks::{ArenaPins, ContainerFacts, MemoryEvidence, ProcessFigure, TypeFacts, diagnose_memory};
use neurogc_wire::breakdown::Breakdown;
use neurogc_wire::finding::{Finding, FindingKind};
use neurogc_wire::memory_verdict::MemoryVerdict;

use crate::act::census::OwnCensus;
use crate::alloc::{LiveLine, OwnLines};
use crate::book::ledger::Ledger;
use crate::host::Host;
use crate::sense::children::count_children;
use crate::sense::process::resident;
use crate::sense::rest::Rest;
use crate::sense::sensors::Sensors;
use crate::snapshot::{CensusFound, CountedContainer};
use crate::sys::locks::lock;
use crate::sys::native::{monotonic_ns, thread_cpu_ns};

const SECOND: u64 = 1_000_000_000;

/// The distance of looks: at first, and after that time.
const EARLY_NS: u64 = 5 * SECOND;
const EARLY_FOR_NS: u64 = 600 * SECOND;
const LATER_NS: u64 = 10 * SECOND;

/// A verdict that was not asked for comes again no sooner than this.
const VERDICT_NS: u64 = 10 * SECOND;

/// The memory of children is read again no sooner than this.
const CHILDREN_NS: u64 = 15 * SECOND;

/// Lines whose first value is remembered, and the least growth that makes a line worth following.
const MOST_LINES: usize = 4096;
const LEAST_GROWTH: f64 = 32.0 * 1024.0;

/// Without a collection for so long, the collector is taken to be switched off.
const SILENT_S: f64 = 60.0;

/// Growth in this time by this much, of the resident set or of sampled memory, makes a census worth its clone, or growth of
/// descriptors or threads by so many.
const SUSPICIOUS_S: f64 = 45.0;
const SUSPICIOUS_BYTES: f64 = 512.0 * 1024.0;
const SUSPICIOUS_COUNT: f64 = 100.0;

/// So much free memory in sparse arenas makes a census worth its clone, which tells what lies in them.
const SPARSE_BYTES: u64 = 48 << 20;

/// Growth by this much within this time is fast: then censuses come soon one after the other, if the program does not stand
/// still for more than a moment.
const FAST_S: f64 = 10.0;
const FAST_BYTES: f64 = 4.0 * 1024.0 * 1024.0;
const FAST_FROM_S: f64 = 19.0;
const FAST: u32 = 8;
const FAST_NS: u64 = 4 * SECOND;
const FAST_PAUSE_RARITY: u64 = 1000;

/// The distance of censuses while memory grows: of the first so many, and of the others.
const QUICK: u32 = 18;
const QUICK_NS: u64 = 18 * SECOND;
const SLOW_NS: u64 = 300 * SECOND;

/// And they are at least this many times as far apart as the program stands still for one.
const PAUSE_RARITY: u64 = 5000;

/// The series and the latest verdict. Nothing is kept before the first look.
#[derive(Debug, Default)]
pub(crate) struct GrowthBook {
    kept: Option<Box<Kept>>,
    rest: Rest,
}

#[derive(Debug, Default)]
struct Kept {
    evidence: MemoryEvidence,
    own_lines: OwnLines,
    /// When each line was first seen, in seconds, and its bytes then.
    first: HashMap<u64, (f32, f32)>,
    /// What the census before counted, and when.
    types: HashMap<String, u64>,
    containers: HashMap<String, u64>,
    census_s: f64,
    census_pause_ns: u64,
    looks: u64,
    /// When children are counted again, and when their memory is read again.
    children_rest: Rest,
    children_bytes_rest: Rest,
    /// Collections and full ones so far, and when these numbers changed.
    collections: Changed,
    fulls: Changed,
    /// Censuses so far.
    censuses: u32,
    report: MemoryVerdict,
    verdict_rest: Rest,
}

/// A number, and when it was last another one.
#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    value: u64,
    at_s: f64,
}

impl Changed {
    fn note(&mut self, value: u64, at_s: f64) {
        if value != self.value {
            *self = Self { value, at_s };
        }
    }
}

impl GrowthBook {
    /// When to see whether the next look is due.
    pub(crate) fn due(&self, now: u64) -> u64 {
        self.rest.due(now)
    }

    /// Looks, if it is time.
    pub(crate) fn attend(
        &mut self,
        host: &Host,
        sensors: &Sensors,
        ledger: &Mutex<Ledger>,
        census: &OwnCensus,
        now: u64,
    ) {
        let age = now.saturating_sub(host.installed);
        if self.kept.is_none() {
            self.rest = Rest::until(host.installed + EARLY_NS);
        }
        if !self.rest.is_over(now) {
            return;
        }
        let began = thread_cpu_ns();
        let kept = self.kept.get_or_insert_default();
        let at_s = age as f64 / 1e9;
        kept.look_at_process(host, sensors, ledger, at_s);
        kept.look(sensors, at_s);
        kept.hasten_census(census, host.installed, at_s);
        if kept.verdict_rest.is_over(now) {
            kept.judge();
        }
        let took = thread_cpu_ns().saturating_sub(began);
        // This has a pace of its own: it is slow where there are many threads.
        kept.look_at_children(sensors, now, at_s);
        let every = if age < EARLY_FOR_NS { EARLY_NS } else { LATER_NS };
        // Looks keep to multiples of the distance, so that each bucket of the series gets its value.
        self.rest = Rest::after(took, now, host.installed + (age / every + 1) * every);
    }

    /// Takes in a census.
    pub(crate) fn count(&mut self, found: &CensusFound, installed: u64) {
        let at_s = found.at.saturating_sub(installed) as f64 / 1e9;
        self.kept.get_or_insert_default().count(found, at_s);
    }

    /// What is the matter, as it is now.
    pub(crate) fn report(&mut self) -> MemoryVerdict {
        self.kept.as_mut().map_or_else(
            || diagnose_memory(&MemoryEvidence::default()),
            |kept| {
                kept.judge();
                kept.report.clone()
            },
        )
    }

    /// The leaks by the latest verdict, which is seconds old. Any thread may ask.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let findings = self.kept.iter().flat_map(|kept| &kept.report.findings).map(|it| &it.finding);
        findings.filter(|it| it.kind.is_leak()).cloned().collect()
    }
}

impl Kept {
    fn look(&mut self, sensors: &Sensors, at_s: f64) {
        let latest = lock(&sensors.breakdown).latest().map(|report| report.breakdown);
        let is_new = |parts: &Breakdown| self.evidence.breakdown.is_none_or(|before| before.at_s != parts.at_s);
        if let Some(parts) = latest.filter(is_new) {
            self.evidence.push_breakdown(parts.at_s, parts);
        }
        if let Some((lines, grain)) = self.own_lines.look() {
            self.evidence.grain = grain as f64;
            self.look_at_lines(at_s, &lines);
        }
        self.looks += 1;
    }

    fn look_at_children(&mut self, sensors: &Sensors, now: u64, at_s: f64) {
        if !self.children_rest.is_over(now) {
            return;
        }
        let began = thread_cpu_ns();
        let count = count_children(std::process::id());
        let counted = thread_cpu_ns();
        self.children_rest = Rest::after(counted.saturating_sub(began), now, now);
        self.evidence.push(ProcessFigure::Children, at_s, count as f64);
        if count == 0 || !self.children_bytes_rest.is_over(now) {
            return;
        }
        let children = sensors.children.read();
        let bytes: u64 = children.iter().map(|child| child.pss.unwrap_or(child.rss)).sum();
        self.evidence.push(ProcessFigure::ChildrenBytes, at_s, bytes as f64);
        self.note_workers(&sensors.hooks.training, at_s, &children);
        let took = thread_cpu_ns().saturating_sub(counted);
        self.children_bytes_rest = Rest::after(took, now, now + CHILDREN_NS);
    }

    fn look_at_process(&mut self, host: &Host, sensors: &Sensors, ledger: &Mutex<Ledger>, at_s: f64) {
        let tracked = host.interpreter.collector.map(|collector| collector.tracked_estimate());
        let ledger = lock(ledger);
        let (seen, rps) = (ledger.seen, ledger.requests.rps(at_s as u64));
        let (collections, fulls, uncollectable) = ledger.collections.counts();
        drop(ledger);
        let in_flight = sensors.hooks.in_flight();
        let frozen = host.interpreter.collector.map(|collector| lock(&sensors.frozen).count(collector));
        self.collections.note(collections, at_s);
        self.fulls.note(fulls, at_s);
        let evidence = &mut self.evidence;
        evidence.pid = std::process::id();
        evidence.limit = host.settings.limits.ceiling.map(neurogc_policy::Bytes::get).or(seen.memory.limit);
        evidence.collector.disabled = at_s - self.collections.at_s > SILENT_S;
        evidence.collector.last_full_s = (self.fulls.value > 0).then_some(self.fulls.at_s);
        let rss = resident().unwrap_or(seen.memory.rss);
        for (figure, value) in [
            (ProcessFigure::Rss, Some(rss)),
            (ProcessFigure::Descriptors, Some(seen.fds)),
            (ProcessFigure::Threads, Some(seen.threads)),
            (ProcessFigure::Uncollectable, Some(uncollectable)),
            (ProcessFigure::InFlight, Some(in_flight)),
            (ProcessFigure::Frozen, frozen),
            (ProcessFigure::Tracked, tracked.filter(|count| *count > 0)),
            // It is read rarely: a value that stays the same is an old one.
            (
                ProcessFigure::Uss,
                seen.memory.uss.filter(|uss| *uss as f64 != evidence.series(ProcessFigure::Uss).now()),
            ),
        ] {
            if let Some(value) = value {
                evidence.push(figure, at_s, value as f64);
            }
        }
        evidence.push(ProcessFigure::Requests, at_s, rps);
    }

    /// Follows the lines that have grown most since they were first seen.
    fn look_at_lines(&mut self, at_s: f64, lines: &HashMap<u64, LiveLine>) {
        let sites = &mut self.evidence.sites;
        let mut others = Vec::new();
        let mut total = 0;
        for (key, line) in lines {
            total += line.bytes;
            let (bytes, blocks, native) = (line.bytes as f64, line.blocks, line.is_native());
            let known = sites.push(key, at_s, bytes, |facts| {
                facts.native = native;
                facts.count(at_s, blocks);
            });
            if known {
                continue;
            }
            // A line that comes up later had nothing before.
            let new = if self.looks == 0 { bytes as f32 } else { 0.0 };
            let first = match self.first.get(key) {
                Some(first) => *first,
                None if self.first.len() < MOST_LINES => *self.first.entry(*key).or_insert((at_s as f32, new)),
                None => continue,
            };
            others.push((bytes - f64::from(first.1), *key, first));
        }
        others.retain(|(grown, ..)| *grown >= LEAST_GROWTH);
        others.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
        for (_, key, first) in others {
            let Some(line) = lines.get(&key) else { continue };
            let earlier = Some((f64::from(first.0), f64::from(first.1)));
            if !sites.follow(key, earlier, at_s, line.bytes as f64, line.facts()) {
                break;
            }
        }
        sites.rest_is(at_s, 0.0);
        self.evidence.push(ProcessFigure::Sampled, at_s, total as f64);
    }

    fn count(&mut self, found: &CensusFound, at_s: f64) {
        self.evidence.push(ProcessFigure::Reachable, at_s, found.objects as f64);
        let pins = found.pins.iter().map(|row| (row.name.clone(), row.objects)).collect();
        self.evidence.pins = ArenaPins { objects: found.pinned, types: pins };
        let mut types: HashMap<&str, (u64, u64)> = HashMap::new();
        for row in &found.types {
            let sum = types.entry(&row.name).or_default();
            *sum = (sum.0 + row.objects, sum.1 + row.bytes);
        }
        let then = self.census_s;
        let mut grown: Vec<_> = types.into_iter().collect();
        let before = |name: &str, types: &HashMap<String, u64>| types.get(name).copied();
        // What has grown most comes first, so that it finds room.
        grown.sort_unstable_by_key(|(name, (count, _))| {
            std::cmp::Reverse(count.saturating_sub(before(name, &self.types).unwrap_or(*count)))
        });
        for (name, (count, bytes)) in &grown {
            let (key, value, facts) = ((*name).to_owned(), *count as f64, TypeFacts { bytes: *bytes });
            if !self.evidence.types.push(&key, at_s, value, |kept| *kept = facts) {
                let earlier = before(name, &self.types).map(|count| (then, count as f64));
                self.evidence.types.follow(key, earlier, at_s, value, facts);
            }
        }
        self.types = grown.iter().map(|(name, (count, _))| ((*name).to_owned(), *count)).collect();
        let mut lengths = HashMap::new();
        for row in &found.containers {
            let name = name_of(row);
            let facts = ContainerFacts { kind: row.kind.clone(), bytes: row.bytes, bound: row.bound };
            // Of several of one name the largest counts, which comes first.
            if lengths.contains_key(&name) {
                continue;
            }
            let value = row.length as f64;
            if !self.evidence.containers.push(&name, at_s, value, |kept| *kept = facts.clone()) {
                let earlier = self.containers.get(&name).map(|length| (then, *length as f64));
                self.evidence.containers.follow(name.clone(), earlier, at_s, value, facts);
            }
            lengths.insert(name, row.length);
        }
        (self.containers, self.census_s) = (lengths, at_s);
        self.census_pause_ns = found.pause_ns;
        self.censuses += 1;
    }

    /// Asks for a census while memory grows, descriptors or threads pile up, or workers copy what is not known.
    fn hasten_census(&mut self, census: &OwnCensus, installed: u64, at_s: f64) {
        let grown = |figure: ProcessFigure, seconds: f64| {
            let series = self.evidence.series(figure);
            series.at(0, at_s - seconds).map_or(0.0, |then| series.now() - then)
        };
        let by = |seconds: f64, least: f64| {
            at_s >= seconds
                && [ProcessFigure::Rss, ProcessFigure::Sampled].iter().any(|figure| grown(*figure, seconds) >= least)
        };
        let piles_up = || {
            at_s >= SUSPICIOUS_S
                && [ProcessFigure::Descriptors, ProcessFigure::Threads]
                    .iter()
                    .any(|figure| grown(*figure, SUSPICIOUS_S) >= SUSPICIOUS_COUNT)
        };
        let pause = self.census_pause_ns;
        let distance = if at_s >= FAST_FROM_S && self.censuses < FAST && by(FAST_S, FAST_BYTES) {
            FAST_NS.max(pause * FAST_PAUSE_RARITY)
        } else if by(SUSPICIOUS_S, SUSPICIOUS_BYTES) || piles_up() || self.asks_for_pins() || self.asks_for_reason() {
            if self.censuses < QUICK { QUICK_NS } else { SLOW_NS }.max(pause * PAUSE_RARITY)
        } else {
            return;
        };
        let last = installed + (self.census_s * 1e9) as u64;
        census.hasten(monotonic_ns(), last + distance);
    }

    /// Whether arenas are sparse, and it is not known what lies in them.
    fn asks_for_pins(&self) -> bool {
        let sparse = self.evidence.breakdown.map_or(0, |parts| parts.python_sparse_free);
        sparse >= SPARSE_BYTES && self.evidence.pins.objects == 0
    }

    /// Whether workers have copied much, and no census has told of what. Few objects may be enough for that: a dict of texts is one.
    fn asks_for_reason(&self) -> bool {
        let is_open = |it: &Finding| it.kind == FindingKind::DataloaderCopies && it.holder.is_empty();
        self.censuses < QUICK && self.report.findings.iter().any(|it| is_open(&it.finding))
    }

    fn judge(&mut self) {
        let (now, began) = (monotonic_ns(), thread_cpu_ns());
        self.report = diagnose_memory(&self.evidence);
        self.verdict_rest = Rest::after(thread_cpu_ns().saturating_sub(began), now, now + VERDICT_NS);
    }
}

/// The name of a container; one without a name goes by its address.
fn name_of(row: &CountedContainer) -> String {
    if row.name.is_empty() { format!("{:#x}", row.address) } else { row.name.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Counted;

    fn census(at_s: u64, length: u64) -> CensusFound {
        let container = |name: &str, length: u64| CountedContainer {
            address: 16,
            name: name.to_owned(),
            kind: "dict".to_owned(),
            length,
            bytes: 100 * length,
            bound: None,
        };
        CensusFound {
            pause_ns: 1_000_000,
            at: at_s * SECOND,
            objects: 100_000,
            bytes: 1,
            types: vec![Counted { name: "app.Entry".to_owned(), objects: length, bytes: 64 * length }],
            containers: vec![container("app.cache", length), container("", 5)],
            ..CensusFound::default()
        }
    }

    #[test]
    fn censuses_alone_name_a_dict_that_grows() {
        let mut book = GrowthBook::default();
        assert!(book.findings().is_empty());
        for step in 0..30 {
            book.count(&census(60 + 25 * step, 1000 + 2000 * step), 0);
        }
        let report = book.report();
        let found = book.findings();
        assert_eq!(found.first().map(|it| (it.kind.name(), &*it.holder)), Some(("unbounded_cache", "app.cache")));
        assert!(found[0].is_alarm() && found[0].pattern.contains("app.Entry"), "{found:?}");
        assert_eq!(report.findings[0].finding, found[0]);
    }

    #[test]
    fn lines_that_grow_find_room_and_others_do_not() {
        let mut kept = Kept::default();
        let line = |bytes: u64| LiveLine::of(bytes, bytes / 64);
        for look in 0..40_u64 {
            kept.looks = look;
            let mut lines: HashMap<_, _> = (100..1100).map(|key| (key, line(1 << 20))).collect();
            lines.insert(1, line(look << 18));
            kept.look_at_lines(look as f64 * 5.0, &lines);
        }
        let followed: Vec<_> = kept.evidence.sites.iter().map(|(key, _)| *key).collect();
        assert_eq!(followed, [1]);
        assert!(kept.first.len() <= MOST_LINES);
    }
}
