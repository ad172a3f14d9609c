//! A process that reports: its latest figures, and what they say about the second before.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use neurogc_wire::census::Census;
use neurogc_wire::control::Answer;
use neurogc_wire::report::{Report, Sample, Wanted};
use neurogc_wire::trace::Header;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::census::{KEEP_EVERY_MS, kept};
use crate::facts::{ProcessFacts, cut};
use crate::peer::{Owner, Peer};
use crate::row::FigureRow;

/// A process without a report for this long is silent.
const SILENT_MS: u64 = 5_000;

/// A silent process whose end was not observed counts as gone after this long.
pub(crate) const LOST_MS: u64 = 60_000;

/// The step of samples, and how far one may be off before the steps begin anew.
const STEP_MS: u64 = 1000;
const SLACK_MS: u64 = 700;

/// Where reports come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The control socket of an agent on this machine, and the number of the connection.
    Socket {
        /// Where it is.
        path: PathBuf,
        /// Later ones have larger numbers.
        connection: u64,
        /// Who listens there.
        peer: Peer,
    },
    /// An agent that posts.
    Push,
}

impl Source {
    /// What comes by a socket comes sooner than what is posted; a later socket is one that can still be asked.
    fn rank(&self) -> u64 {
        match self {
            Self::Socket { connection, .. } => *connection,
            Self::Push => 0,
        }
    }

    /// The process that the kernel names, where it does.
    pub(crate) fn owner(&self) -> Option<Owner> {
        match self {
            Self::Socket { peer, .. } => peer.owner,
            Self::Push => None,
        }
    }

    fn way(&self) -> ReportWay {
        match self {
            Self::Socket { .. } => ReportWay::Socket,
            Self::Push => ReportWay::Push,
        }
    }
}

/// How its reports come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReportWay {
    Socket,
    Push,
    /// It does not report here: history knows it.
    History,
}

/// Whether a process is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Presence {
    Live,
    Silent,
    Gone,
}

/// A process and what is known of it.
#[derive(Debug)]
pub(crate) struct KnownProcess {
    pub(crate) facts: Arc<ProcessFacts>,
    pub(crate) source: Source,
    /// The process that it was first heard from, and the key that it sent. Reports by others are refused.
    owner: Option<Owner>,
    key: String,
    /// When its agent was installed, by the clock of the hub: milliseconds since 1970.
    pub(crate) epoch_ms: f64,
    pub(crate) seen_ms: u64,
    pub(crate) ended: bool,
    /// The latest figures, and when they were taken, in seconds since the agent was installed.
    pub(crate) sample: Option<(f64, Arc<Sample>)>,
    pub(crate) sample_ms: u64,
    pub(crate) row: Option<Arc<FigureRow>>,
    /// The moment of the last census that was kept.
    census_ms: u64,
    /// What the figures take of memory, and how many were dropped because they would take too much.
    pub(crate) weight: usize,
    pub(crate) dropped_figures: u64,
    /// Events that wait to be written, in bytes, and how many were dropped because too many wait.
    pub(crate) waiting_bytes: Arc<AtomicU64>,
    pub(crate) dropped_events: Arc<AtomicU64>,
    /// Events that found no room in the agent.
    pub(crate) missed: u64,
    /// How its trace begins, where its agent sends all that one records.
    pub(crate) trace: Option<Arc<Header>>,
    /// What is to be asked of an agent that posts, and who waits for the outcome.
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) waiting: HashMap<u64, oneshot::Sender<Answer>>,
}

/// What a sample changes.
#[derive(Debug, Default)]
pub(crate) struct SampleChange {
    /// The second that it closes.
    pub(crate) row: Option<Arc<FigureRow>>,
    /// Another policy: before and after.
    pub(crate) policy: Option<(String, String)>,
    /// A census to be kept, and its moment.
    pub(crate) census: Option<(u64, Box<Census>)>,
}

impl KnownProcess {
    pub(crate) fn new(id: &str, report: &Report, source: Source, now_ms: f64) -> Self {
        let facts = ProcessFacts::of(id, report, &neurogc_wire::status::Status::default());
        Self {
            facts: Arc::new(facts),
            owner: source.owner(),
            key: report.key.clone(),
            source,
            epoch_ms: now_ms - report.at_s * 1e3,
            seen_ms: now_ms as u64,
            ended: false,
            sample: None,
            sample_ms: 0,
            row: None,
            census_ms: 0,
            weight: 0,
            dropped_figures: 0,
            waiting_bytes: Arc::default(),
            dropped_events: Arc::default(),
            missed: 0,
            trace: None,
            wanted: Vec::new(),
            waiting: HashMap::new(),
        }
    }

    /// Gives up commands whose asker waits no more.
    pub(crate) fn forget_unawaited(&mut self) {
        self.waiting.retain(|_, asker| !asker.is_closed());
        let waiting = &self.waiting;
        self.wanted.retain(|wanted| waiting.contains_key(&wanted.number));
    }

    /// Whether a report comes from where it was first heard from: the process that the kernel names, or an agent with the
    /// same key. What the kernel says about a process of this machine (`here`) counts more than what was posted before.
    pub(crate) fn is_bound_to(&mut self, source: &Source, key: &str, here: bool) -> bool {
        let same_key = is_same(key.as_bytes(), self.key.as_bytes());
        match (source.owner(), self.owner) {
            (Some(owner), Some(bound)) => owner == bound,
            (Some(owner), None) if same_key || (here && self.source == Source::Push) => {
                (self.owner, self.key) = (Some(owner), key.to_owned());
                true
            }
            (Some(_), None) => false,
            (None, _) => same_key,
        }
    }

    /// Whether it is heard by a better way at present: one will do. It may report here and be followed, too; and one that
    /// becomes another user is found by a second socket.
    pub(crate) fn is_heard_otherwise(&self, source: &Source, now_ms: u64) -> bool {
        source.rank() < self.source.rank() && self.state(now_ms) == Presence::Live
    }

    /// Notes that it was heard. The quickest of its reports tells best what its clock says.
    pub(crate) fn heard(&mut self, report: &Report, now_ms: f64) {
        const SET_ANEW_MS: f64 = 2000.0;
        let epoch = now_ms - report.at_s * 1e3;
        let same = (epoch - self.epoch_ms).abs() < SET_ANEW_MS;
        self.epoch_ms = if same { self.epoch_ms.min(epoch) } else { epoch };
        self.seen_ms = now_ms as u64;
        self.ended = false;
    }

    /// Takes figures over.
    pub(crate) fn take(&mut self, report: &Report, sample: Arc<Sample>, now_ms: u64) -> SampleChange {
        let mut change = SampleChange::default();
        let facts = ProcessFacts::of(&self.facts.id, report, &sample.status);
        if facts != *self.facts {
            let before = self.facts.policy.clone();
            if self.sample.is_some() && before != facts.policy {
                change.policy = Some((before, facts.policy.clone()));
            }
            self.facts = Arc::new(facts);
        }
        if let Some((at_s, before)) = &self.sample
            && report.at_s > *at_s
        {
            let row = Arc::new(FigureRow::between(before, &sample, report.at_s - at_s, self.next_step(now_ms)));
            self.row = Some(Arc::clone(&row));
            change.row = Some(row);
        }
        change.census = self.new_census(&sample.status.census, now_ms);
        self.sample = Some((report.at_s, sample));
        self.sample_ms = now_ms;
        change
    }

    /// A census that is new, and long enough after the last one that was kept.
    fn new_census(&mut self, census: &Census, now_ms: u64) -> Option<(u64, Box<Census>)> {
        let t = (self.epoch_ms + census.at_s * 1e3) as u64;
        if census.objects == 0 || t > now_ms || t < self.census_ms + KEEP_EVERY_MS {
            return None;
        }
        self.census_ms = t;
        Some((t, Box::new(kept(census))))
    }

    /// The end of the second that a sample closes. Samples are late by a little, each by another; seconds are not.
    fn next_step(&self, now_ms: u64) -> u64 {
        let next = self.row.as_ref().map_or(0, |row| row.t + STEP_MS);
        if now_ms.abs_diff(next) <= SLACK_MS { next } else { (now_ms / STEP_MS * STEP_MS).max(next) }
    }

    pub(crate) fn state(&self, now_ms: u64) -> Presence {
        let quiet = now_ms.saturating_sub(self.seen_ms);
        if self.ended || quiet > LOST_MS {
            Presence::Gone
        } else if quiet > SILENT_MS {
            Presence::Silent
        } else {
            Presence::Live
        }
    }

    /// What can be told of it without holding the others up.
    pub(crate) fn view(&self, now_ms: u64) -> View {
        View {
            facts: Arc::clone(&self.facts),
            state: self.state(now_ms),
            source: self.source.way(),
            epoch_ms: self.epoch_ms,
            seen_ms: self.seen_ms,
            sample: self.sample.as_ref().map(|(_, sample)| Arc::clone(sample)),
            sample_ms: self.sample_ms,
            row: self.row.clone(),
            missed: self.missed,
            dropped_figures: self.dropped_figures,
            dropped_events: self.dropped_events.load(std::sync::atomic::Ordering::Relaxed),
        }
    }
}

/// Compares in a time that does not tell how much of it was right.
pub(crate) fn is_same(given: &[u8], secret: &[u8]) -> bool {
    let differences = secret.iter().enumerate().fold(u8::from(given.len() != secret.len()), |found, (place, byte)| {
        found | (byte ^ given.get(place).copied().unwrap_or(0))
    });
    std::hint::black_box(differences) == 0
}

/// A process at one moment: taken under the lock of all processes, and told of without it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) facts: Arc<ProcessFacts>,
    pub(crate) state: Presence,
    source: ReportWay,
    pub(crate) epoch_ms: f64,
    seen_ms: u64,
    pub(crate) sample: Option<Arc<Sample>>,
    pub(crate) sample_ms: u64,
    pub(crate) row: Option<Arc<FigureRow>>,
    missed: u64,
    dropped_figures: u64,
    dropped_events: u64,
}

/// Warnings of one agent that are told, and the bytes of each text in a list.
const MOST_WARNINGS: usize = 32;
const LONGEST_WARNING: usize = 400;

impl View {
    /// What people should know, in words.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(sample) = &self.sample {
            let degraded = &sample.status.degraded;
            warnings.extend(degraded.iter().take(MOST_WARNINGS).map(|text| cut(text, LONGEST_WARNING).to_owned()));
            if degraded.len() > MOST_WARNINGS {
                warnings.push(format!("{} more warnings of the agent are not shown", degraded.len() - MOST_WARNINGS));
            }
            if sample.status.agent.dropped > 0 {
                warnings.push(format!("{} events were dropped by the agent", sample.status.agent.dropped));
            }
        }
        if self.missed > 0 {
            warnings.push(format!("{} events were lost on their way to the hub", self.missed));
        }
        if self.dropped_figures > 0 {
            let count = self.dropped_figures;
            warnings
                .push(format!("{count} reports were dropped by the hub: their figures were over its memory budget"));
        }
        if self.dropped_events > 0 {
            let count = self.dropped_events;
            warnings.push(format!("{count} events were dropped by the hub: they were over its memory budget"));
        }
        warnings
    }
}

/// A process as the API tells it.
#[derive(Debug, Serialize)]
pub(crate) struct ProcessSummary<'p> {
    #[serde(flatten)]
    facts: &'p ProcessFacts,
    policy_shown: String,
    state: Presence,
    source: ReportWay,
    seen_ms: u64,
    acting: bool,
    due: &'p str,
    overdue_s: f64,
    warnings: Vec<String>,
    latest: Option<&'p FigureRow>,
}

impl<'p> ProcessSummary<'p> {
    pub(crate) fn of(view: &'p View) -> Self {
        let conduct = view.sample.as_ref().map(|sample| &sample.status.conduct);
        let shown = view.sample.as_ref().map(|sample| sample.status.policy_shown());
        Self {
            facts: &view.facts,
            policy_shown: shown.unwrap_or_else(|| view.facts.policy.clone()),
            state: view.state,
            source: view.source,
            seen_ms: view.seen_ms,
            acting: conduct.is_some_and(|conduct| conduct.acting),
            due: conduct.map_or("", |conduct| cut(&conduct.due, LONGEST_WARNING)),
            overdue_s: conduct.map_or(0.0, |conduct| conduct.overdue_s),
            warnings: view.warnings(),
            latest: view.row.as_deref(),
        }
    }

    /// One that history knows: it has ended, or it reports to another hub.
    pub(crate) fn of_history(facts: &'p ProcessFacts, seen_ms: u64, state: Presence) -> Self {
        Self {
            facts,
            policy_shown: facts.policy.clone(),
            state,
            source: ReportWay::History,
            seen_ms,
            acting: false,
            due: "",
            overdue_s: 0.0,
            warnings: Vec::new(),
            latest: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(at_s: f64) -> Report {
        Report { at_s, ..Report::default() }
    }

    fn socket(connection: u64) -> Source {
        Source::Socket { path: PathBuf::new(), connection, peer: Peer::of_test(7, 1) }
    }

    fn process() -> KnownProcess {
        KnownProcess::new("x", &report(0.0), Source::Push, 1_000_000.0)
    }

    #[test]
    fn seconds_follow_each_other_though_samples_come_late() {
        let mut process = process();
        let arrivals = [1_000_490, 1_001_510, 1_002_490, 1_003_600, 1_004_400, 1_009_900];
        let steps: Vec<_> = arrivals
            .iter()
            .zip(0_u32..)
            .filter_map(|(at, second)| process.take(&report(f64::from(second)), Arc::default(), *at).row)
            .map(|row| row.t)
            .collect();
        assert_eq!(steps, [1_001_000, 1_002_000, 1_003_000, 1_004_000, 1_009_000]);
    }

    #[test]
    fn another_policy_is_noticed_once() {
        let mut process = process();
        let sample = |policy: &str| {
            let mut sample = Sample::default();
            sample.status.policy = policy.to_owned();
            Arc::new(sample)
        };
        assert_eq!(process.take(&report(1.0), sample("observe"), 1).policy, None);
        assert_eq!(process.take(&report(2.0), sample("gap"), 2).policy, Some(("observe".to_owned(), "gap".to_owned())));
        assert_eq!(process.take(&report(3.0), sample("gap"), 3).policy, None);
    }

    #[test]
    fn the_quickest_report_sets_the_clock() {
        let mut process = process();
        process.heard(&report(1.0), 1_001_200.0);
        process.heard(&report(2.0), 1_001_990.0);
        assert_eq!(process.epoch_ms, 999_990.0);
        process.heard(&report(3.0), 5_000_000.0);
        assert_eq!(process.epoch_ms, 4_997_000.0);
    }

    #[test]
    fn one_way_to_a_process_will_do() {
        let mut process = process();
        let check = |process: &KnownProcess, source: &Source, now, expect| {
            assert_eq!(process.is_heard_otherwise(source, now), expect, "{source:?} at {now}");
        };
        check(&process, &Source::Push, 1_000_000, false);
        check(&process, &socket(1), 1_000_000, false);
        process.source = socket(2);
        check(&process, &socket(2), 1_000_000, false);
        check(&process, &socket(3), 1_000_000, false);
        check(&process, &socket(1), 1_000_000, true);
        check(&process, &Source::Push, 1_000_000, true);
        check(&process, &socket(1), 1_006_000, false);
        check(&process, &Source::Push, 1_006_000, false);
    }

    #[test]
    fn reports_are_taken_from_where_the_first_came_from() {
        let (by, other) =
            (socket(1), Source::Socket { path: PathBuf::new(), connection: 9, peer: Peer::of_test(8, 1) });
        let with_key = |key: &str, source: &Source| {
            KnownProcess::new("x", &Report { key: key.to_owned(), ..Report::default() }, source.clone(), 0.0)
        };
        // Known by the kernel: that process, by whatever socket, and its agent by push; nothing else.
        let mut known = with_key("a", &by);
        assert!(known.is_bound_to(&socket(2), "whatever", true) && known.is_bound_to(&Source::Push, "a", true));
        assert!(!known.is_bound_to(&other, "a", true) && !known.is_bound_to(&Source::Push, "b", true));
        // Known by its key: an agent with the key. A process of this machine counts more.
        let mut pushed = with_key("a", &Source::Push);
        assert!(pushed.is_bound_to(&Source::Push, "a", false) && !pushed.is_bound_to(&Source::Push, "", false));
        assert!(!pushed.is_bound_to(&other, "b", false));
        assert!(pushed.is_bound_to(&by, "b", true));
        assert!(!pushed.is_bound_to(&Source::Push, "a", true) && !pushed.is_bound_to(&other, "b", true));
    }

    #[test]
    fn a_process_falls_silent_and_is_then_gone() {
        let process = process();
        let states = [1_000_000, 1_006_000, 1_070_000].map(|now| process.state(now));
        assert_eq!(states, [Presence::Live, Presence::Silent, Presence::Gone]);
    }
}
