//! One cause, one finding: counts that grow are joined with the containers that hold what is counted, and containers that the
//! same line fills with each other.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::memory_verdict::ExplainedFinding;

use super::evidence::ContainerFacts;
use super::holders::is_nameless;
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

/// Entries that come for each one of what is counted, where their types say what they are, and where nothing does.
const WITH_TYPES: (f64, f64) = (0.2, 5.0);
const WITHOUT: (f64, f64) = (0.8, 1.25);

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
    let bounds = if typed { WITH_TYPES } else { WITHOUT };
    let holds = |it: &mut ExplainedFinding| {
        container_of(all, it).is_some_and(|it| is_within(it.growth.rate.middle / count.rate.middle, bounds))
    };
    let held: Vec<_> = findings.extract_if(.., holds).collect();
    held.into_iter().min_by_key(|it| goodness(&it.finding.holder))
}

/// Drops findings on containers that the line of a better named one fills, too.
pub(super) fn drop_doubles(all: &AllJudged<'_>, findings: &mut Vec<ExplainedFinding>) {
    let facts: Vec<_> = findings
        .iter()
        .map(|it| {
            let rate = container_of(all, it).map_or(0.0, |it| it.growth.rate.middle);
            (it.finding.site.clone(), rate, goodness(&it.finding.holder))
        })
        .collect();
    let is_double = |at: usize| {
        let (site, rate, own) = &facts[at];
        facts.iter().enumerate().any(|(other, (of, its, better))| {
            !site.is_empty() && site == of && is_within(rate / its, TOGETHER) && (better, other) < (own, at)
        })
    };
    let doubles: Vec<_> = (0..facts.len()).map(is_double).collect();
    let mut doubles = doubles.into_iter();
    findings.retain(|_| !doubles.next().unwrap_or(false));
}

/// How well a name tells where a container is: lower is better. Those of the program come before those of the standard library
/// that keep track of the same things.
fn goodness(name: &str) -> (bool, bool, bool, usize) {
    let of_library =
        ["threading.", "weakref.", "subprocess.", "multiprocessing."].iter().any(|it| name.starts_with(it));
    (is_nameless(name), of_library, name.contains("(): "), name.len())
}
