//! History from a server like Prometheus, by its HTTP API: what a hub has written there, or what was scraped from it.
//!
//! Series are asked for by the names of the catalogue. A process has the labels of a worker, which another process has after
//! a restart: only steps in which `neurogc_process_info` names the process are its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use hyper::StatusCode;
use neurogc_wire::buckets::Buckets;
use neurogc_wire::catalogue::promql::{Selection, quoted};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::answer::{LabelledValues, lines, series};
use super::counts::latencies;
use super::{HistoryError, Past};
use crate::clock::unix_ms;
use crate::export::prometheus::{INFO, LABELS, POLICY};
use crate::facts::ProcessFacts;
use crate::post::{Outgoing, PostAddress, ask};
use crate::row::FigureRow;
use crate::series::{CATALOGUE, Fold};
use crate::store::{MAX_AGE_S, Span, StoredRows};

/// How long a server may take for one question, and how long the hub waits for it.
const SERVER_PATIENCE: &str = "15s";
const PATIENCE: Duration = Duration::from_secs(20);

/// The longest answer.
const LONGEST: usize = 32 << 20;

/// Questions at once.
const QUESTIONS: usize = 6;

/// The longest text of a question. VictoriaMetrics takes 16 KB.
const LONGEST_QUESTION: usize = 6000;

/// Combinations of labels that one process may have had.
const MOST_LABELS: usize = 16;

/// Processes that are listed.
const MOST_PROCESSES: usize = 1000;

/// How far apart samples are where the server does not tell: as far as remote write puts them. More than five minutes would
/// be holes.
const SPACING_S: u64 = 15;
const LONGEST_SPACING_S: u64 = 300;

/// How finely it is known when processes were last seen: those of the last week by the hour; of a fleet whose answer is too
/// long for that, those of the last day.
const LISTS_S: [u64; 2] = [MAX_AGE_S, 86_400];
const STEP_MS: u64 = 3_600_000;

/// Prometheus gives at most 11,000 points.
const MOST_POINTS: u64 = 10_000;

/// What stands before the headers in the environment.
const HEADERS: &str = "NEUROGC_HISTORY_HEADERS";

/// The label by which an answer says which series a line is.
const SERIES: &str = "neurogc_series";

/// A server that history is asked of.
#[derive(Clone, Debug)]
pub struct HistoryServer(PostAddress);

impl std::str::FromStr for HistoryServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it must look like prometheus:http://127.0.0.1:9090".to_owned();
        let url = text.strip_prefix("prometheus:").ok_or_else(wrong)?;
        let to: PostAddress = url.parse().map_err(|error: String| match error {
            error if error.contains("password") => error,
            _ => wrong(),
        })?;
        let headers = std::env::var(HEADERS).unwrap_or_default();
        to.with_headers(&headers).map(Self).map_err(|error| format!("{HEADERS}: {error}"))
    }
}

/// The server, as the hub asks it.
#[derive(Debug)]
pub(crate) struct PrometheusHistory {
    to: PostAddress,
    asking: Semaphore,
    /// How far apart samples were when it last told.
    spacing_s: AtomicU64,
    /// Why it does not answer, in words.
    trouble: Mutex<Option<String>>,
}

/// Its host and port.
impl fmt::Display for PrometheusHistory {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to.fmt(to)
    }
}

/// The steps of a question: the times of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
    pub(super) step_s: u64,
    spacing_s: u64,
}

impl Grid {
    /// Steps that are not shorter than the distance of samples. Each ends at a multiple of its length.
    pub(super) fn of(span: Span, spacing_s: u64) -> Self {
        let length_s = span.to_ms.saturating_sub(span.from_ms).max(1).div_ceil(1000);
        let wanted_s = length_s.div_ceil(span.points.clamp(1, MOST_POINTS));
        let step_s = wanted_s.div_ceil(spacing_s).max(1) * spacing_s;
        let step_ms = step_s * 1000;
        let (first_ms, last_ms) = ((span.from_ms / step_ms + 1) * step_ms, span.to_ms / step_ms * step_ms);
        Self { first_ms, last_ms, step_s, spacing_s }
    }

    /// Samples are late now and then: a step that has none would be a hole.
    fn value_s(self) -> u64 {
        self.step_s + self.spacing_s.div_ceil(2)
    }

    /// Two samples at least.
    fn growth_s(self) -> u64 {
        self.step_s + self.spacing_s * 3 / 2
    }

    fn selection<'q>(self, matchers: &'q str, by: &'q str) -> Selection<'q> {
        Selection { matchers, by, value_s: self.value_s(), growth_s: self.growth_s() }
    }

    /// Which part of what is counted as growth belongs to one step.
    fn share(self) -> f64 {
        self.step_s as f64 / self.growth_s() as f64
    }
}

/// The values of the labels of a process.
pub(super) type Worker = [String; LABELS.len()];

impl PrometheusHistory {
    pub(crate) fn new(HistoryServer(to): HistoryServer) -> Self {
        Self { to, asking: Semaphore::new(QUESTIONS), spacing_s: AtomicU64::new(SPACING_S), trouble: Mutex::default() }
    }

    /// Why it does not answer, in words.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The latest processes.
    pub(super) async fn processes(&self) -> Result<Vec<Past>, HistoryError> {
        let now_s = unix_ms() / 1000;
        let mut found = Err(HistoryError::Ended);
        let step_s = STEP_MS / 1000;
        for age_s in LISTS_S {
            let (first_s, last_s) = (now_s - age_s, now_s);
            let question = |metric: &str| format!("last_over_time({metric}[{step_s}s])");
            let (info, policy) = (question(INFO), question(POLICY));
            found = tokio::try_join!(
                self.range(&info, first_s, last_s, step_s),
                self.range(&policy, first_s, last_s, step_s),
                self.seen_now(""),
            );
            if !matches!(found, Err(HistoryError::TooLong { .. })) {
                break;
            }
        }
        let (infos, policies, now) = found?;
        Ok(past(&infos, &policies, &now))
    }

    /// Those that were seen in the last minutes, wherever they report to.
    pub(crate) async fn present(&self) -> Result<Vec<Past>, HistoryError> {
        let now_s = unix_ms() / 1000;
        let policy = format!("last_over_time({POLICY}[60s])");
        let (now, policies) = tokio::try_join!(self.seen_now(""), self.range(&policy, now_s, now_s, 1))?;
        Ok(past(&[], &policies, &now))
    }

    /// One process.
    pub(super) async fn process(&self, id: &str) -> Result<Option<Past>, HistoryError> {
        let (now_s, matcher) = (unix_ms() / 1000, format!("process={}", quoted(id)));
        let step_s = MAX_AGE_S / MOST_POINTS + 1;
        let (first_s, last_s) = (now_s - MAX_AGE_S / step_s * step_s, now_s);
        let info = format!("last_over_time({INFO}{{{matcher}}}[{step_s}s])");
        let (infos, now) = tokio::try_join!(self.range(&info, first_s, last_s, step_s), self.seen_now(&matcher))?;
        let Some(last) = infos.iter().max_by_key(|line| line.values.last().map(|(t, _)| *t)) else { return Ok(None) };
        let policy = format!("last_over_time({POLICY}{{{}}}[{step_s}s])", matchers(&BTreeSet::from([worker(last)])));
        let policies = self.range(&policy, first_s, last_s, step_s).await?;
        Ok(past(&infos, &policies, &now).into_iter().next())
    }

    /// The course of a process: the series at these places of the catalogue.
    pub(super) async fn course(&self, id: &str, span: Span, places: &[usize]) -> Result<StoredRows, HistoryError> {
        let own = format!("{INFO}{{process={}}}", quoted(id));
        let (workers, spacing_s) = tokio::try_join!(self.workers(&own, span), self.spacing(&own, span))?;
        let grid = Grid::of(span, spacing_s);
        let mut course = StoredRows { step_ms: grid.step_s * 1000, rows: Vec::new() };
        if workers.is_empty() || grid.last_ms < grid.first_ms {
            return Ok(course);
        }
        let (matchers, by) = (matchers(&workers), LABELS.join(", "));
        let selection = grid.selection(&matchers, &by);
        let presence = format!("max by ({by}) (max_over_time({own}[{}s]))", grid.value_s());
        let mut questions = questions(places, &selection);
        questions.push(presence);
        let wants_latency = places.iter().any(|place| matches!(CATALOGUE[*place].fold, Fold::Quantile(_)));
        if wants_latency {
            questions.push(selection.latencies());
        }
        let mut answers = self.all(&questions, grid).await?;
        let counts = if wants_latency { answers.pop().unwrap_or_default() } else { Vec::new() };
        let presence = answers.pop().unwrap_or_default();
        course.rows = rows(&presence, &answers.concat(), &counts, grid.share());
        Ok(course)
    }

    /// The latencies of all processes of a service together.
    pub(super) async fn latencies(&self, service: &str, span: Span) -> Result<StoredRows, HistoryError> {
        let matchers = format!("{}={}", LABELS[0], quoted(service));
        let spacing_s = self.spacing(&format!("{INFO}{{{matchers}}}"), span).await?;
        let grid = Grid::of(span, spacing_s);
        let mut course = StoredRows { step_ms: grid.step_s * 1000, rows: Vec::new() };
        if grid.last_ms >= grid.first_ms {
            let by = LABELS.join(", ");
            let question = format!("sum by (le) ({})", grid.selection(&matchers, &by).latencies());
            let counts = self.range(&question, grid.first_ms / 1000, grid.last_ms / 1000, grid.step_s).await?;
            let steps = latencies(counts.iter(), grid.share());
            course.rows = steps.into_iter().map(|(t, latency)| FigureRow::of(t, &[], latency)).collect();
        }
        Ok(course)
    }

    /// The labels that a process has had.
    async fn workers(&self, own: &str, span: Span) -> Result<BTreeSet<Worker>, HistoryError> {
        let (start, end) = ((span.from_ms / 1000).to_string(), span.to_ms.div_ceil(1000).to_string());
        let form = [("match[]", own), ("start", &start), ("end", &end)];
        let found = self.ask("series", &form, series).await?;
        let worker =
            |labels: &BTreeMap<String, String>| LABELS.map(|name| labels.get(name).cloned().unwrap_or_default());
        Ok(found.iter().map(worker).take(MOST_LABELS).collect())
    }

    /// How far apart samples are, by those at the end of a while; as far as before where there are none.
    async fn spacing(&self, own: &str, span: Span) -> Result<u64, HistoryError> {
        let at = span.to_ms.min(unix_ms()) / 1000;
        let question = format!("{own}[{}s]", 2 * LONGEST_SPACING_S);
        let found = self.ask("query", &[("query", &question), ("time", &at.to_string())], lines).await?;
        if let Some(spacing_s) = spacing(&found) {
            self.spacing_s.store(spacing_s, Ordering::Relaxed);
        }
        Ok(self.spacing_s.load(Ordering::Relaxed))
    }

    /// When processes that are there were last seen, in seconds: the server tells it of the last five minutes.
    async fn seen_now(&self, matcher: &str) -> Result<Vec<LabelledValues>, HistoryError> {
        self.ask("query", &[("query", &format!("timestamp({INFO}{{{matcher}}})"))], lines).await
    }

    /// The answers to several questions about the same steps.
    async fn all(&self, questions: &[String], grid: Grid) -> Result<Vec<Vec<LabelledValues>>, HistoryError> {
        let (first_s, last_s) = (grid.first_ms / 1000, grid.last_ms / 1000);
        try_join_all(questions.iter().map(|question| self.range(question, first_s, last_s, grid.step_s))).await
    }

    async fn range(
        &self,
        question: &str,
        first_s: u64,
        last_s: u64,
        step_s: u64,
    ) -> Result<Vec<LabelledValues>, HistoryError> {
        let [start, end, step] = [first_s, last_s, step_s].map(|seconds| seconds.to_string());
        // VictoriaMetrics would move the times for its cache, also into the future, where there is nothing.
        let form = [("query", question), ("start", &start), ("end", &end), ("step", &step), ("nocache", "1")];
        self.ask("query_range", &form, lines).await
    }

    /// Asks, and remembers what is wrong with the server.
    async fn ask<T: Send + 'static>(
        &self,
        what: &str,
        form: &[(&str, &str)],
        read: fn(StatusCode, &[u8]) -> Result<T, String>,
    ) -> Result<T, HistoryError> {
        let path = format!("{}/api/v1/{what}", self.to.path().trim_end_matches('/'));
        let text = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .append_pair("timeout", SERVER_PATIENCE)
            .finish();
        let asked = timeout(PATIENCE, self.answer(path, text)).await;
        let wrong = |reason: String| HistoryError::Server { server: self.to.to_string(), reason };
        let answer = match asked {
            Ok(Ok(Some((status, body)))) => {
                // A long answer is read in a thread that serves no connections.
                let read = tokio::task::spawn_blocking(move || read(status, &body)).await;
                read.map_err(|_| HistoryError::Ended)?.map_err(wrong)
            }
            Ok(Ok(None)) => Err(HistoryError::TooLong { server: self.to.to_string(), most_mb: LONGEST >> 20 }),
            Ok(Err(reason)) => Err(wrong(reason)),
            Err(_) => Err(wrong(format!("it does not answer within {} s", PATIENCE.as_secs()))),
        };
        let trouble = answer.as_ref().err().map(ToString::to_string);
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        answer
    }

    /// The answer; `None` where it is too long.
    async fn answer(&self, path: String, form: String) -> Result<Option<(StatusCode, Bytes)>, String> {
        let _place = self.asking.acquire().await.map_err(|error| error.to_string())?;
        let to = self.to.clone().at(path);
        let question = Outgoing::new("application/x-www-form-urlencoded", form).with("accept", "application/json");
        ask(&to, question, LONGEST).await.map_err(|failure| failure.to_string())
    }
}

/// The series at these places, several in one question, each line with the name of its series.
pub(super) fn questions(places: &[usize], of: &Selection<'_>) -> Vec<String> {
    let mut questions: Vec<String> = Vec::new();
    for place in places {
        let series = &CATALOGUE[*place];
        let Some(asked) = series.promql(of) else { continue };
        let named = format!("label_replace({asked}, \"{SERIES}\", \"{}\", \"\", \"\")", series.name);
        match questions.last_mut() {
            Some(last) if last.len() + named.len() < LONGEST_QUESTION => {
                last.push_str(" or ");
                last.push_str(&named);
            }
            _ => questions.push(named),
        }
    }
    questions
}

/// Matchers for processes that have these labels. They may match others, too, which [`rows`] leaves out.
pub(super) fn matchers(workers: &BTreeSet<Worker>) -> String {
    let matcher = |(place, name): (usize, &&str)| {
        let values: BTreeSet<&str> = workers.iter().map(|worker| worker[place].as_str()).collect();
        match values.iter().next() {
            Some(only) if values.len() == 1 => format!("{name}={}", quoted(only)),
            _ => {
                let any: Vec<_> = values.iter().map(|value| literal(value)).collect();
                format!("{name}=~{}", quoted(&any.join("|")))
            }
        }
    };
    LABELS.iter().enumerate().map(matcher).collect::<Vec<_>>().join(",")
}

/// A text as a regular expression that matches it only.
pub(super) fn literal(text: &str) -> String {
    let mut expression = String::with_capacity(text.len());
    for it in text.chars() {
        if !it.is_alphanumeric() && it != '_' && it != ' ' && it.is_ascii() {
            expression.push('\\');
        }
        expression.push(it);
    }
    expression
}

fn worker(line: &LabelledValues) -> Worker {
    LABELS.map(|name| line.label(name).to_owned())
}

/// The rows of a process. What lies in a step in which it was not there is of another one with the same labels.
pub(super) fn rows(
    presence: &[LabelledValues],
    values: &[LabelledValues],
    counts: &[LabelledValues],
    share: f64,
) -> Vec<FigureRow> {
    let mut there: BTreeSet<(Worker, u64)> = BTreeSet::new();
    let mut found: BTreeMap<u64, (Vec<(usize, f64)>, Buckets)> = BTreeMap::new();
    for line in presence {
        for (t, _) in &line.values {
            there.insert((worker(line), *t));
            found.entry(*t).or_default();
        }
    }
    for line in values {
        let Some(place) = crate::series::position(line.label(SERIES)) else { continue };
        let its = worker(line);
        for (t, value) in &line.values {
            if there.contains(&(its.clone(), *t))
                && let Some((values, _)) = found.get_mut(t)
            {
                values.push((place, *value));
            }
        }
    }
    let workers: BTreeSet<Worker> = counts.iter().map(worker).collect();
    for its in workers {
        let of_it = counts.iter().filter(|line| worker(line) == its);
        for (t, latency) in latencies(of_it, share) {
            if there.contains(&(its.clone(), t))
                && let Some((_, all)) = found.get_mut(&t)
            {
                all.merge(&latency);
            }
        }
    }
    found.into_iter().map(|(t, (values, latency))| FigureRow::of(t, &values, latency)).collect()
}

/// How far apart most samples are, rounded up to seconds.
pub(super) fn spacing(found: &[LabelledValues]) -> Option<u64> {
    let pairs = found.iter().flat_map(|line| line.values.windows(2));
    let mut apart: Vec<u64> = pairs.map(|pair| pair[1].0.saturating_sub(pair[0].0)).filter(|ms| *ms > 0).collect();
    apart.sort_unstable();
    let middle = apart.get(apart.len() / 2)?;
    Some(((middle + 500) / 1000).clamp(1, LONGEST_SPACING_S))
}

/// The processes of an answer, those that were seen last first. `now` has the moments of those that are there.
pub(super) fn past(infos: &[LabelledValues], policies: &[LabelledValues], now: &[LabelledValues]) -> Vec<Past> {
    let mut seen: BTreeMap<&str, (u64, &LabelledValues)> = BTreeMap::new();
    let last = infos.iter().filter_map(|line| Some((line, line.values.last()?.0)));
    for (line, t) in last {
        let entry = seen.entry(line.label("process")).or_insert((t, line));
        if t > entry.0 {
            *entry = (t, line);
        }
    }
    // Where the moment is known, it counts more than the end of a step.
    let mut exact: BTreeMap<&str, (u64, &LabelledValues)> = BTreeMap::new();
    for line in now {
        let Some(t) = line.values.last().map(|(_, seconds)| (seconds * 1e3) as u64) else { continue };
        let entry = exact.entry(line.label("process")).or_insert((t, line));
        if t > entry.0 {
            *entry = (t, line);
        }
    }
    seen.extend(exact);
    let mut latest: Vec<_> = seen.into_iter().filter(|(id, _)| !id.is_empty()).collect();
    latest.sort_by_key(|(_, (t, _))| std::cmp::Reverse(*t));
    latest.truncate(MOST_PROCESSES);
    let mut of_workers: BTreeMap<Worker, Vec<&LabelledValues>> = BTreeMap::new();
    for line in policies {
        of_workers.entry(worker(line)).or_default().push(line);
    }
    let policy = |line: &LabelledValues, seen_ms: u64| {
        // The last that was in force while the process was there.
        let until =
            |policy: &&&LabelledValues| policy.values.iter().map(|(t, _)| *t).filter(|t| *t <= seen_ms + STEP_MS).max();
        let lines = of_workers.get(&worker(line)).map_or(&[][..], Vec::as_slice);
        lines.iter().max_by_key(until).map_or("", |line| line.label("policy")).to_owned()
    };
    latest.into_iter().map(|(id, (t, line))| (facts(id, line, policy(line, t)), t)).collect()
}

fn facts(id: &str, line: &LabelledValues, policy: String) -> ProcessFacts {
    let text = |name: &str| line.label(name).to_owned();
    ProcessFacts {
        id: id.to_owned(),
        host: text("host"),
        pid: line.label("pid").parse().unwrap_or(0),
        command: text("command"),
        service: text("service"),
        role: text("role"),
        python: text("python"),
        neurogc: text("version"),
        policy,
        started_ms: id.rsplit('-').next().and_then(|ms| ms.parse().ok()).unwrap_or(0),
    }
}
