//! One cause, one finding: counts that grow are joined with the containers that hold what is counted, and containers that the
//! same line fills with each other.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::memory_verdict::ExplainedFinding;

use super::evidence::ContainerFacts;
use super::holders::{ENTRIES, is_nameless};
use super::judged::{AllJudged, Judged};
use crate::growth::Growth;

/// Types whose objects each stand for one of what is counted.
const OWNERS: [(FindingKind, &[&str]); 3] = [
    (
        FindingKind::Descriptors,
        &[
            "_io.TextIOWrapper",
            "_io.BufferedReader",
            "_io.BufferedWriter",
            "_io.BufferedRandom",
            "_io.FileIO",
            "socket.socket",
            "_socket.socket",
            "ssl.SSLSocket",
            "mmap.mmap",
            "select.epoll",
            "selectors.EpollSelector",
        ],
    ),
    (FindingKind::Threads, &["threading.Thread", "_thread.lock", "threading.Timer"]),
    (
        FindingKind::Children,
        &["subprocess.Popen", "multiprocessing.context.ForkProcess", "multiprocessing.context.SpawnProcess"],
    ),
];

/// Entries that come for each one of what is counted, where their types say what they are.
const WITH_TYPES: (f64, f64) = (0.2, 5.0);

/// The same where no type says it: an entry with one, two or three of them, or two or three entries for each of them. Both are
/// counted, so that the ratio must be just that. Ratios near one may be off by more, because that is the most likely one.
const WITHOUT: [(f64, f64); 5] = [(0.8, 1.25), (0.48, 0.52), (0.32, 0.347), (1.93, 2.07), (2.9, 3.1)];

/// Two containers are filled together where their rates differ by no more than this.
const TOGETHER: (f64, f64) = (0.8, 1.25);

fn is_within(ratio: f64, bounds: (f64, f64)) -> bool {
    ratio >= bounds.0 && ratio <= bounds.1
}

/// The container that a finding is on.
fn container_of<'j, 'a>(all: &'j AllJudged<'a>, finding: &ExplainedFinding) -> Option<&'j Judged<'a, ContainerFacts>> {
    let holder = &finding.finding.holder;
    all.containers.iter().find(|it| !holder.is_empty() && it.name == holder)
}

/// Takes out the findings on containers that hold what this count is of, and gives the one that names it best.
pub(super) fn take_holder(
    all: &AllJudged<'_>,
    kind: FindingKind,
    count: &Growth,
    findings: &mut Vec<ExplainedFinding>,
) -> Option<ExplainedFinding> {
    let names = OWNERS.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, names)| names);
    let typed = all.types.iter().any(|it| {
        it.growth.is_rising()
            && names.contains(&it.name)
            && is_within(it.growth.rate.middle / count.rate.middle, WITH_TYPES)
    });
    let bounds = if typed { &[WITH_TYPES][..] } else { &WITHOUT };
    let holds = |it: &mut ExplainedFinding| {
        let ratio = container_of(all, it).map(|it| it.growth.rate.middle / count.rate.middle);
        ratio.is_some_and(|ratio| bounds.iter().any(|bounds| is_within(ratio, *bounds)))
    };
    let held: Vec<_> = findings.extract_if(.., holds).collect();
    held.into_iter().min_by_key(|it| goodness(&it.finding.holder))
}

/// Whether a container that a finding is on gets entries as fast as these objects come: then it holds them, or what they come with.
pub(super) fn is_held(all: &AllJudged<'_>, objects: &Growth, findings: &[ExplainedFinding]) -> bool {
    findings.iter().filter(|it| it.finding.is_alarm()).any(|it| {
        container_of(all, it).is_some_and(|it| is_within(it.growth.rate.middle / objects.rate.middle, TOGETHER))
    })
}

/// Drops findings on containers that the line of a better named one fills, too; on what the containers in a container have, where
/// that one grows itself by the same line; and on containers of the standard library that keep track of what the program's own has.
pub(super) fn drop_doubles(all: &AllJudged<'_>, findings: &mut Vec<ExplainedFinding>) {
    let facts: Vec<_> = findings
        .iter()
        .map(|it| {
            let rate = container_of(all, it).map_or(0.0, |it| it.growth.rate.middle);
            (it.finding.site.clone(), rate, goodness(&it.finding.holder), it.finding.holder.clone())
        })
        .collect();
    let is_double = |at: usize| {
        let (site, rate, own, name) = &facts[at];
        facts.iter().enumerate().any(|(other, (of, its, better, outer))| {
            let same_line = !site.is_empty() && site == of;
            let together = is_within(rate / its, TOGETHER) && (better, other) < (own, at);
            let keeps_track = own.of_library && !better.of_library && !better.is_nameless;
            together && (same_line || keeps_track) || same_line && name.strip_suffix(ENTRIES) == Some(outer)
        })
    };
    let doubles: Vec<_> = (0..facts.len()).map(is_double).collect();
    let mut doubles = doubles.into_iter();
    findings.retain(|_| !doubles.next().unwrap_or(false));
}

/// How well a name tells where a container is: lower is better. Those of the program come before those of the standard library
/// that keep track of the same things.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Goodness {
    is_nameless: bool,
    of_library: bool,
    is_local: bool,
    length: usize,
}

/// Modules of the standard library that keep track of what programs make.
const KEEPERS: [&str; 7] =
    ["threading.", "weakref.", "subprocess.", "multiprocessing.", "logging.", "asyncio.", "_asyncio."];

fn goodness(name: &str) -> Goodness {
    Goodness {
        is_nameless: is_nameless(name),
        of_library: KEEPERS.iter().any(|module| name.starts_with(module)),
        is_local: name.contains("(): "),
        length: name.len(),
    }
}
