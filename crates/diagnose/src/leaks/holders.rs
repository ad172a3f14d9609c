//! Containers that grow, joined with the lines that fill them and the types that they hold.

use neurogc_wire::finding::FindingKind;
use neurogc_wire::memory_verdict::{EvidenceSeries, ExplainedFinding};

use super::allocators::VISIBLE_BYTES;
use super::evidence::{ContainerFacts, ProcessFigure, SiteFacts};
use super::judged::{AllJudged, Judged, explain};
use super::verdict::{CERTAIN, Draft, LIKELY, POSSIBLE};
use crate::growth::Shape;
use crate::{sites, words};

/// How long a container must have grown to be called a leak, and a certain one: with a line that fills it, and alone.
const LEAK_S: f64 = 80.0;
const CERTAIN_S: f64 = 130.0;
const ALONE_S: f64 = 600.0;

/// Local variables are given up when their function returns: they are leaks only after this time, and after a longer one where
/// the function did not run from the start.
const LOCAL_S: f64 = 600.0;
const LATER_LOCAL_S: f64 = 3600.0;

/// A site fits a container where it makes at least this many blocks for each entry, and no more than so many.
const BLOCKS_PER_ENTRY: (f64, f64) = (0.25, 400.0);

/// A container that other memory makes up for is no leak: its growth must show in the process by this share.
const SHOWN: f64 = 0.2;

/// Types that grow along with a container, and what they say about it. The first that fits counts.
const TELLING: [(FindingKind, &[&str]); 4] = [
    (FindingKind::Tasks, &["_asyncio.Task", "asyncio.Task", "coroutine"]),
    // Frames alone say nothing: a thread that runs has some, too.
    (FindingKind::StoredExceptions, &["traceback"]),
    (
        FindingKind::Contexts,
        &["Context", "_contextvars.Context", "hamt", "hamt_bitmap_node", "ContextVar", "_contextvars.ContextVar"],
    ),
    (
        FindingKind::Callbacks,
        &["method", "functools.partial", "weakref.WeakMethod", "builtin_function_or_method", "function"],
    ),
];

/// The part of a name that says what a container is for.
const NAMED: [(FindingKind, &[&str]); 3] = [
    (FindingKind::Callbacks, &["callback", "listener", "observer", "subscriber", "hook", "handlers", "receivers"]),
    (FindingKind::StoredExceptions, &["exception", "errors", "traceback"]),
    (FindingKind::UnboundedCache, &["cache", "memo", "lru"]),
];

/// How names of what the containers in a container have together end.
pub(super) const ENTRIES: &str = "[…]";

/// Containers whose entries are bytes.
const BUFFERS: [&str; 2] = ["bytearray", "array.array"];

/// Buffers grow to the size that they are needed in, and are used again. Smaller ones than this, and those of which a container has a
/// fixed number, are leaks only after a long time.
const LARGE_BUFFER: f64 = 4.0 * 1024.0 * 1024.0;
const BUFFER_S: f64 = 900.0;

/// A table of fewer bytes than this is not looked for among sites, nor is one that more blocks than this would have.
const TABLE_BYTES: f64 = 256.0 * 1024.0;
const TABLE_BLOCKS: u64 = 8;

/// A verdict before `LEAK_S`: the container must have grown for this long, by so many entries, counted so often, with so many
/// bytes, and at an even pace, while the program served requests.
const QUICK_S: f64 = 25.0;
const QUICK_ENTRIES: f64 = 10_000.0;
const QUICK_COUNTS: usize = 5;
const QUICK_BYTES: f64 = 24.0 * 1024.0 * 1024.0;
const EVEN: f64 = 0.8;

/// A site that grows, and whether a finding names it already.
pub(super) struct OpenSite<'j, 'a> {
    pub(super) site: &'j Judged<'a, SiteFacts>,
    pub(super) taken: bool,
}

/// The containers that grow.
pub(super) fn look<'j>(all: &'j AllJudged<'_>, open: &mut [OpenSite<'j, '_>]) -> Vec<ExplainedFinding> {
    let rising = || all.containers.iter().filter(|it| it.growth.is_rising() && !fills_up(it));
    let named = rising().any(|it| !is_nameless(it.name));
    // One without a name says little beside another one that grows, too.
    let containers: Vec<_> =
        if named { rising().filter(|it| !is_nameless(it.name)).collect() } else { rising().take(1).collect() };
    let mut lines = Vec::new();
    for container in &containers {
        let best = best_site(container, open);
        if let Some(at) = best {
            open[at].taken = true;
        }
        lines.push(best.into_iter().collect::<Vec<_>>());
    }
    // Other lines of the same file that make as many blocks, and the container's own table, belong to the same leak.
    for (container, lines) in containers.iter().zip(&mut lines) {
        let file = lines.first().map(|at| sites::file(&open[*at].site.facts.line));
        for (at, it) in open.iter_mut().enumerate().filter(|(_, it)| !it.taken) {
            let beside = file == Some(sites::file(&it.site.facts.line)) && fits(container, it);
            if beside || is_table(container, it) {
                it.taken = true;
                lines.push(at);
            }
        }
    }
    let mut findings = Vec::new();
    for (container, lines) in containers.iter().zip(lines) {
        let sites: Vec<_> = lines.iter().map(|at| open[*at].site).collect();
        findings.push(finding(all, container, &sites));
    }
    // What fills other containers is accounted for, too: those with a bound, and those whose growth ends.
    let ends = |it: &&Judged<'_, ContainerFacts>| {
        use Shape::{FollowsLoad, Level, Slowing, Swinging};
        fills_up(it) || matches!(it.growth.shape, FollowsLoad | Level | Slowing | Swinging)
    };
    for container in
        all.containers.iter().filter(ends).filter(|it| it.growth.grown > 0.0 && it.growth.rate.middle > 0.0)
    {
        // Several lines may have a part in it.
        open.iter_mut().filter(|it| fits(container, it)).for_each(|it| it.taken = true);
    }
    findings
}

/// Whether a container has a bound and is below it.
pub(super) fn fills_up(container: &Judged<'_, ContainerFacts>) -> bool {
    container.facts.bound.is_some_and(|bound| container.growth.now <= bound as f64)
}

/// Containers that have no name are told by their address.
pub(super) fn is_nameless(name: &str) -> bool {
    name.starts_with("0x")
}

/// The finding on a container that the lines of these sites fill, the most important of them first.
fn finding(
    all: &AllJudged<'_>,
    container: &Judged<'_, ContainerFacts>,
    sites: &[&Judged<'_, SiteFacts>],
) -> ExplainedFinding {
    let site = sites.first().copied();
    let growth = &container.growth;
    let types = types_of(all, container);
    let kind = kind_of(container, &types);
    let own = growth.rate.middle * container.facts.bytes as f64 / growth.now.max(1.0);
    let rate = sites.iter().map(|site| site.growth.rate.middle.max(0.0)).sum::<f64>().max(own);
    let live = sites.iter().map(|site| site.growth.now).sum::<f64>();
    let held = live.max(container.facts.bytes as f64);
    let mut evidence = vec![explain(format!("entries of {}", container.name), "entries", container.series, growth)];
    evidence.extend(site.map(explain_site));
    evidence.extend(
        types.first().map(|it| explain(format!("objects of type {}", it.name), "objects", it.series, &it.growth)),
    );
    evidence.push(all.explain(ProcessFigure::Rss));
    let confidence = confidence(all, container, site, rate);
    let minute = words::count((growth.rate.middle * 60.0).round().max(1.0) as u64);
    let what = format!(
        "{} {} ({}) grows by {}, {minute} entries a minute; it has {} entries{} now",
        place(container.name),
        container.name,
        container.facts.kind,
        words::rate(rate),
        words::count(growth.now as u64),
        if held >= 1024.0 * 1024.0 { format!(" and {}", words::bytes(held as u64)) } else { String::new() },
    );
    let pattern = match types.first() {
        Some(it) => format!("{}; with each entry comes an object of type {}", pattern(kind), it.name),
        None => pattern(kind).to_owned(),
    };
    Draft {
        kind,
        confidence,
        what,
        holder: container.name.to_owned(),
        site: site.map(|site| site.facts.line.clone()).unwrap_or_default(),
        rate,
        bytes: held as u64,
        since_s: growth.from_s,
        pattern,
        evidence,
    }
    .finish(all)
}

fn pattern(kind: FindingKind) -> &'static str {
    super::kinds::teaching(kind).map_or("", |it| it.pattern)
}

fn confidence(
    all: &AllJudged<'_>,
    container: &Judged<'_, ContainerFacts>,
    site: Option<&Judged<'_, SiteFacts>>,
    rate: f64,
) -> f64 {
    let growth = &container.growth;
    let rss = all.of_process(ProcessFigure::Rss);
    let expected = rate * growth.seconds;
    // What the process as a whole has done meanwhile, by the bound that is kinder to the program.
    let seen = if rss.rate.high.is_finite() { rss.rate.high.max(0.0) * growth.seconds } else { f64::INFINITY };
    let contradicted = expected > VISIBLE_BYTES && rss.is_at_rest() && seen < SHOWN * expected;
    let lasted = all.evidence.at_s - growth.since_s;
    let from_start = growth.since_s <= 0.2 * all.evidence.at_s;
    let too_early = match container.name.contains("(): ") {
        true if from_start => lasted < LOCAL_S,
        true => lasted < LATER_LOCAL_S,
        false if may_be_used_again(container) => lasted < BUFFER_S,
        false => growth.seconds < LEAK_S,
    };
    if too_early && site.is_some() && !contradicted && is_quick(all, container, rate) {
        return LIKELY;
    }
    if too_early || contradicted {
        return POSSIBLE;
    }
    match site {
        Some(_) if growth.seconds >= CERTAIN_S => CERTAIN,
        None if growth.seconds >= ALONE_S => CERTAIN,
        _ => LIKELY,
    }
}

/// Whether this is a buffer, or are buffers, of the kind that programs keep and use again.
fn may_be_used_again(container: &Judged<'_, ContainerFacts>) -> bool {
    let several = container.name.ends_with(ENTRIES);
    BUFFERS.contains(&&*container.facts.kind) && (several || container.growth.now < LARGE_BUFFER)
}

/// Whether a container has grown so much in a short time, and so evenly, while requests were served, that nothing else needs
/// to be waited for.
fn is_quick(all: &AllJudged<'_>, container: &Judged<'_, ContainerFacts>, rate: f64) -> bool {
    let growth = &container.growth;
    let requests = all.evidence.series(ProcessFigure::Requests);
    let serves = |at_s: f64| requests.at(0, at_s).is_some_and(|load| load > 0.0);
    growth.seconds >= QUICK_S
        && growth.points >= QUICK_COUNTS
        && growth.grown >= QUICK_ENTRIES
        && rate * growth.seconds >= QUICK_BYTES
        && growth.pace_at_end >= EVEN
        && !container.name.contains("(): ")
        && serves(growth.from_s)
        && serves(growth.from_s + growth.seconds)
}

/// Whether a site allocates the table of a container: it has about as many bytes, in a few blocks.
fn is_table(container: &Judged<'_, ContainerFacts>, it: &OpenSite<'_, '_>) -> bool {
    let (own, live) = (container.facts.bytes as f64, it.site.growth.now);
    own >= TABLE_BYTES && it.site.facts.blocks <= TABLE_BLOCKS && live >= 0.4 * own && live <= 2.5 * own
}

/// The site that fills a container: of those that make blocks as fast as entries come, one in the module of the container
/// if there is one, else the fastest growing. One that another container has may fill this one as well.
fn best_site(container: &Judged<'_, ContainerFacts>, open: &[OpenSite<'_, '_>]) -> Option<usize> {
    // A buffer has nothing but its bytes.
    let table = || open.iter().position(|it| is_table(container, it));
    let buffer = BUFFERS.contains(&&*container.facts.kind).then(table).flatten();
    buffer
        .or_else(|| fitting_site(container, open))
        .or_else(|| open.iter().position(|it| is_near(container.name, it.site.facts)))
        .or_else(|| open.iter().position(|it| fits(container, it)))
        .or_else(table)
}

/// The same, of those that no other container has.
fn fitting_site(container: &Judged<'_, ContainerFacts>, open: &[OpenSite<'_, '_>]) -> Option<usize> {
    let free = |it: &OpenSite<'_, '_>| !it.taken && fits(container, it);
    open.iter().position(|it| free(it) && is_near(container.name, it.site.facts)).or_else(|| open.iter().position(free))
}

/// Whether a container of which too little is known grows as a site does.
pub(super) fn may_fill(container: &Judged<'_, ContainerFacts>, it: &OpenSite<'_, '_>) -> bool {
    let growth = &container.growth;
    growth.shape == Shape::TooShort && growth.rate.middle > 0.0 && fits(container, it)
}

/// Whether a site makes about as many blocks as entries come.
fn fits(container: &Judged<'_, ContainerFacts>, it: &OpenSite<'_, '_>) -> bool {
    let (entries, growth) = (container.growth.rate.middle, &it.site.growth);
    let blocks = growth.rate.middle * it.site.facts.blocks as f64 / growth.now.max(1.0);
    blocks >= BLOCKS_PER_ENTRY.0 * entries && blocks <= BLOCKS_PER_ENTRY.1 * entries
}

/// Whether a site is in the module or function that a container is named after: `app.stats.seen` and `app/stats.py`.
fn is_near(name: &str, facts: &SiteFacts) -> bool {
    if let Some((function, _)) = name.split_once("(): ") {
        let is_it = |place: &str| place.ends_with(&format!(" in {function}"));
        return is_it(&facts.line) || is_it(&facts.inner) || facts.callers.iter().any(|caller| is_it(caller));
    }
    let parts: Vec<_> = name.split('.').collect();
    let places = || [&facts.line, &facts.inner].into_iter().chain(&facts.callers);
    (1..parts.len()).any(|count| {
        let path = parts[..count].join("/");
        let ends = [format!("/{path}.py:"), format!("/{path}/__init__.py:")];
        places().any(|place| {
            ends.iter().any(|end| place.contains(end.as_str()) || place.starts_with(end.trim_start_matches('/')))
        })
    })
}

/// Types of which about as many come as entries, the most telling first.
pub(super) fn types_of<'j, 'a>(
    all: &'j AllJudged<'a>,
    container: &Judged<'_, ContainerFacts>,
) -> Vec<&'j Judged<'a, super::evidence::TypeFacts>> {
    let entries = container.growth.rate.middle;
    let mut types: Vec<_> = all
        .types
        .iter()
        .filter(|it| {
            it.growth.is_rising() && it.growth.rate.middle > 0.3 * entries && it.growth.rate.middle < 8.0 * entries
        })
        .collect();
    let is_builtin = |name: &str| !name.contains('.') && name.chars().all(|letter| letter.is_ascii_lowercase());
    types.sort_by_key(|it| {
        let telling = it.name.starts_with("logging.")
            || TELLING.iter().any(|(_, names)| names.contains(&it.name))
            || is_exception(it.name);
        (!telling, is_builtin(it.name))
    });
    types
}

fn is_exception(name: &str) -> bool {
    ["Error", "Exception"].iter().any(|end| name.ends_with(end))
}

fn kind_of(container: &Judged<'_, ContainerFacts>, types: &[&Judged<'_, super::evidence::TypeFacts>]) -> FindingKind {
    let name = container.name;
    let lower = name.rsplit('.').next().unwrap_or(name).to_lowercase();
    if name.starts_with("logging.") || types.iter().any(|it| it.name.starts_with("logging.")) {
        return FindingKind::Logging;
    }
    if name == "gc.garbage" {
        return FindingKind::CyclicGarbage;
    }
    if name == "atexit" {
        return FindingKind::Callbacks;
    }
    if name == "sys.modules" || name.starts_with("linecache.") || name == "sys.path_importer_cache" {
        return FindingKind::Modules;
    }
    if name.contains("<dict>") || name.contains("<collections.OrderedDict>") {
        return FindingKind::UnboundedCache;
    }
    if name.starts_with("asyncio.") {
        return FindingKind::Tasks;
    }
    let has = |wanted: &[&str]| types.iter().any(|it| wanted.contains(&it.name));
    if types.iter().any(|it| is_exception(it.name)) {
        return FindingKind::StoredExceptions;
    }
    if let Some((kind, _)) = TELLING.iter().find(|(_, names)| has(names)) {
        return *kind;
    }
    if let Some((kind, _)) = NAMED.iter().find(|(_, names)| names.iter().any(|part| lower.contains(part))) {
        return *kind;
    }
    let ordered = container.facts.kind.ends_with("OrderedDict") || container.facts.kind.contains("Cache");
    if ordered { FindingKind::UnboundedCache } else { FindingKind::UnboundedContainer }
}

/// What a name is the name of.
fn place(name: &str) -> &'static str {
    let is_class = |part: &str| part.starts_with(|letter: char| letter.is_ascii_uppercase());
    if is_nameless(name) {
        "a container without a name,"
    } else if name.contains("(): ") {
        "local variable"
    } else if name.contains("__closure__") {
        "closure variable"
    } else if name.contains('<') {
        "the cache"
    } else if name.split('.').rev().skip(1).any(is_class) {
        "class attribute"
    } else {
        "global"
    }
}

/// A site as evidence.
pub(super) fn explain_site(site: &Judged<'_, SiteFacts>) -> EvidenceSeries {
    let line = sites::short(&site.facts.line, std::iter::empty());
    explain(format!("live memory allocated at {line}"), "bytes", site.series, &site.growth)
}
