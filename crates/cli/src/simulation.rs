//! Policies side by side in the simulator, as a table and as JSON.

use std::fmt::Write;

use neurogc_learn::{
    Pace, Request, Resolution, Scene, SimulationOutcome, Unseen, lower_bound, never, oracle, simulate_policy,
};
use neurogc_policy::{Name, Tuning};
use serde::Serialize;

use crate::failure::Failure;
use crate::figures::{bytes, count, ms, span};
use crate::models;
use crate::table::{Alignment, Table};

/// What is compared, and how.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) names: Vec<Name>,
    pub(crate) lambda: f64,
    pub(crate) snapshots: bool,
    pub(crate) oracle: bool,
}

/// One program under all policies.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// Where the program comes from.
    pub(crate) source: String,
    /// What the trace does not show.
    pub(crate) assumed: Vec<Unseen>,
    requests: usize,
    seconds: f64,
    busy_percent: f64,
    closed: bool,
    objects: f64,
    lambda: f64,
    /// What no schedule costs less than; zero where nothing is known.
    lower_bound: f64,
    best_known: Option<BestKnown>,
    model: neurogc_learn::HeapModel,
    rows: Vec<Row>,
}

/// The cheapest schedule that was found, and where.
#[derive(Debug, Serialize)]
struct BestKnown {
    cost: f64,
    policy: String,
}

/// One policy.
#[derive(Debug, Serialize)]
struct Row {
    policy: String,
    #[serde(flatten)]
    outcome: SimulationOutcome,
    cost: f64,
    /// How much more it costs than the lower bound, as a share of that; nothing where that is zero.
    regret: Option<f64>,
}

/// The name of the row with the schedule that was planned with all requests known.
const PLAN: &str = "(plan)";

impl Comparison {
    /// Plays everything.
    pub(crate) fn of(source: &str, scene: &Scene<'_>, rules: &Rules) -> Result<Self, Failure> {
        let tuning = Tuning { memory_price: rules.lambda, ..scene.tuning };
        let scene = Scene { snapshots: rules.snapshots, tuning, ..*scene };
        let bound = lower_bound(&scene, rules.lambda);
        let plan = rules.oracle.then(|| oracle(&scene, rules.lambda, Resolution::default())).flatten();
        let row = |policy: String, outcome: SimulationOutcome| {
            let cost = outcome.cost(rules.lambda);
            let regret = (bound > 0.0).then(|| cost / bound - 1.0);
            Row { policy, outcome, cost, regret }
        };
        let mut rows = Vec::new();
        for name in &rules.names {
            let policy = models::load(name.clone(), tuning)?;
            rows.push(row(name.to_string(), simulate_policy(&scene, policy, name.acts())));
        }
        rows.push(row("(never)".to_owned(), never(&scene)));
        rows.extend(plan.map(|plan| row(PLAN.to_owned(), plan.outcome)));
        rows.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let best_known = rows.first().map(|best| BestKnown { cost: best.cost, policy: best.policy.clone() });
        let workload = scene.workload;
        let seconds = rows.first().map_or(0.0, |row| row.outcome.seconds);
        let counts = |request: &&Request| workload.pace != Pace::Open || request.at >= workload.counted_from;
        let counted = workload.requests.iter().filter(counts);
        let service = counted.map(|request| request.service as f64).sum::<f64>() / 1e9;
        Ok(Self {
            source: source.to_owned(),
            assumed: Vec::new(),
            requests: workload.requests.len(),
            seconds,
            busy_percent: 100.0 * service / seconds.max(1e-9),
            closed: workload.pace != Pace::Open,
            objects: workload.start.tenured + workload.start.pending,
            lambda: rules.lambda,
            lower_bound: bound,
            best_known,
            model: scene.model.clone(),
            rows,
        })
    }

    /// The table, with all columns or those that matter most.
    pub(crate) fn text(&self, wide: bool) -> String {
        let mut text = format!(
            "{}: {} requests in {}, {:.0} % busy, {} objects at the start\n",
            self.source,
            count(self.requests as u64),
            span(self.seconds),
            self.busy_percent,
            count(self.objects as u64),
        );
        for assumed in &self.assumed {
            let _ = writeln!(text, "  not in the trace, taken from other programs: {}", assumed.text());
        }
        let columns: Vec<&Column> = COLUMNS.iter().filter(|column| wide || !column.wide).collect();
        let headings = columns.iter().map(|column| (column.name, Alignment::Right));
        let headings: Vec<_> = std::iter::once(("POLICY", Alignment::Left)).chain(headings).collect();
        let mut table = Table::new(&headings);
        for row in &self.rows {
            let name = if self.is_guessed(row) { format!("{}{GUESSED}", row.policy) } else { row.policy.clone() };
            let cell = |column: &&Column| (column.cell)(self, row).unwrap_or_else(|| NOTHING.to_owned());
            table.row(std::iter::once(name).chain(columns.iter().map(cell)));
        }
        text.push_str(&table.render(2));
        self.add_legend(&mut text);
        text
    }

    /// What the figures mean, and how far they go.
    fn add_legend(&self, text: &mut String) {
        let known = self.best_known.as_ref().map_or(0.0, |best| best.cost);
        let name = self.best_known.as_ref().map_or("", |best| &best.policy);
        if self.lower_bound > 0.0 {
            let _ = writeln!(text, "  lower bound: {:.4}; no schedule of collections costs less", self.lower_bound);
            let above = regret(known / self.lower_bound - 1.0);
            let _ = writeln!(text, "  best known schedule: {known:.4}, {name}; {above} above the bound");
        } else {
            let reason = if self.closed {
                "users wait for their answers, so arrivals depend on the schedule"
            } else {
                "nothing dies that must be collected, or requests that wait for others queue again"
            };
            let _ = writeln!(text, "  lower bound: none; {reason}");
            let _ = writeln!(text, "  best known schedule: {known:.4}, {name}");
        }
        let _ = writeln!(
            text,
            "  cost: mean delay by collections in ms + {} × mean garbage and copies in MB; regret: cost above the lower bound\n  \
             (never): no collection at all; (plan): a schedule made with all requests known",
            self.lambda
        );
        if self.rows.iter().any(|row| self.is_guessed(row)) {
            text.push_str(
                "  ?: rests on what the trace does not show; record one under that policy, and add it with --with\n",
            );
        }
    }

    fn is_unseen(&self, what: Unseen) -> bool {
        self.assumed.contains(&what)
    }

    /// Whether a row rests on costs that the trace does not show.
    fn is_guessed(&self, row: &Row) -> bool {
        let snapshots = [Unseen::Clone, Unseen::Walk, Unseen::Reap].iter().any(|&what| self.is_unseen(what));
        (row.outcome.snapshots > 0 && snapshots) || (row.outcome.full > 0 && self.is_unseen(Unseen::Full))
    }
}

/// What stands behind the name of a policy whose row rests on what the trace does not show.
pub(crate) const GUESSED: &str = " ?";

/// What stands where nothing can be said.
const NOTHING: &str = "–";

/// A percentile needs so many requests beyond it.
const BEYOND: f64 = 2.0;

/// A column, and whether it is shown only on request.
struct Column {
    name: &'static str,
    wide: bool,
    cell: fn(&Comparison, &Row) -> Option<String>,
}

impl Column {
    const fn new(name: &'static str, cell: fn(&Comparison, &Row) -> Option<String>) -> Self {
        Self { name, wide: false, cell }
    }

    const fn wide(name: &'static str, cell: fn(&Comparison, &Row) -> Option<String>) -> Self {
        Self { name, wide: true, cell }
    }
}

const COLUMNS: [Column; 17] = [
    Column::new("P50", |_, row| Some(ms(row.outcome.p50_ms))),
    Column::wide("P95", |_, row| percentile(row, 0.95, row.outcome.p95_ms)),
    Column::new("P99", |_, row| percentile(row, 0.99, row.outcome.p99_ms)),
    Column::new("P99.9", |_, row| percentile(row, 0.999, row.outcome.p999_ms)),
    Column::wide("MAX", |_, row| Some(ms(row.outcome.max_ms))),
    Column::new("PEAK RSS", |all, row| {
        (!all.is_unseen(Unseen::Object)).then(|| bytes((row.outcome.peak_rss_mb * 1e6) as u64))
    }),
    Column::new("GARBAGE", |all, row| {
        (!all.is_unseen(Unseen::Object)).then(|| bytes((row.outcome.held_mb * 1e6) as u64))
    }),
    Column::new("STOPPED", |_, row| {
        let outcome = &row.outcome;
        Some(ms(outcome.in_request.total_ms + outcome.in_gap.total_ms + outcome.forced.total_ms))
    }),
    Column::wide("IN REQUESTS", |_, row| Some(ms(row.outcome.in_request.total_ms))),
    Column::wide("IN GAPS", |_, row| Some(ms(row.outcome.in_gap.total_ms))),
    Column::wide("FORCED", |_, row| Some(ms(row.outcome.forced.total_ms))),
    Column::wide("FULL", |_, row| Some(count(row.outcome.full))),
    Column::wide("SNAPSHOTS", |_, row| Some(count(row.outcome.snapshots))),
    Column::wide("PROCESSOR", |_, row| Some(ms(row.outcome.processor.total_ms()))),
    Column::wide("DELAY", |_, row| Some(ms(row.outcome.delay_ms))),
    Column::new("COST", |_, row| Some(format!("{:.3}", row.cost))),
    Column::new("REGRET", |_, row| row.regret.map(regret)),
];

fn percentile(row: &Row, share: f64, value: f64) -> Option<String> {
    (row.outcome.requests as f64 * (1.0 - share) >= BEYOND).then(|| ms(value))
}

/// A share in words of one size: beyond a hundred times it says only that.
pub(crate) fn regret(share: f64) -> String {
    match share {
        share if share < 10.0 => format!("{:.0} %", 100.0 * share),
        share if share < 100.0 => format!("{share:.0}×"),
        _ => "> 100×".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regret_is_never_longer_than_it_means() {
        let said = [0.0, 0.126, 9.4, 12.3, 68_338.0, f64::INFINITY].map(regret);
        assert_eq!(said, ["0 %", "13 %", "940 %", "12×", "> 100×", "> 100×"]);
    }
}
