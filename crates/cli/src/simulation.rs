//! Policies side by side in the simulator, as a table and as JSON.

use std::fmt::Write;

use neurogc_learn::{Pace, Request, Resolution, Scene, SimulationOutcome, never, oracle, simulate_policy};
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
    pub(crate) assumed: Vec<&'static str>,
    requests: usize,
    seconds: f64,
    busy_percent: f64,
    closed: bool,
    objects: f64,
    lambda: f64,
    model: neurogc_learn::HeapModel,
    rows: Vec<Row>,
}

/// One policy.
#[derive(Debug, Serialize)]
struct Row {
    policy: String,
    #[serde(flatten)]
    outcome: SimulationOutcome,
    cost: f64,
    /// How much more it costs than the oracle's schedule, as a share of that; nothing where there is no oracle.
    regret: Option<f64>,
}

impl Comparison {
    /// Plays everything.
    pub(crate) fn of(source: &str, scene: &Scene<'_>, rules: &Rules) -> Result<Self, Failure> {
        let tuning = Tuning { memory_price: rules.lambda, ..scene.tuning };
        let scene = Scene { snapshots: rules.snapshots, tuning, ..*scene };
        let undivided = scene.workload.undivided();
        let plain = Scene { workload: &undivided, ..scene };
        let best = rules.oracle.then(|| oracle(&plain, rules.lambda, Resolution::default())).flatten();
        let least = best.as_ref().map(|plan| plan.outcome.cost(rules.lambda));
        let row = |policy: String, outcome: SimulationOutcome| {
            let cost = outcome.cost(rules.lambda);
            let regret = least.map(|least| cost / least.max(1e-9) - 1.0);
            Row { policy, outcome, cost, regret }
        };
        let mut rows = Vec::new();
        for name in &rules.names {
            let policy = models::load(name.clone(), tuning)?;
            rows.push(row(name.to_string(), simulate_policy(&scene, policy, name.acts())));
        }
        rows.push(row("(never)".to_owned(), never(&scene)));
        rows.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        if let Some(plan) = best {
            rows.insert(0, row("(oracle)".to_owned(), plan.outcome));
        }
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
            model: scene.model.clone(),
            rows,
        })
    }

    /// The table.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{}: {} requests in {}, {:.0} % busy, {} objects at the start\n",
            self.source,
            count(self.requests as u64),
            span(self.seconds),
            self.busy_percent,
            count(self.objects as u64),
        );
        for assumed in &self.assumed {
            let _ = writeln!(text, "  not in the trace, taken from other programs: {assumed}");
        }
        if self.closed {
            text.push_str("  no oracle: users wait for their answers, so arrivals depend on the schedule\n");
        }
        let right = Alignment::Right;
        let mut table = Table::new(&[
            ("POLICY", Alignment::Left),
            ("P50", right),
            ("P95", right),
            ("P99", right),
            ("P99.9", right),
            ("MAX", right),
            ("PEAK RSS", right),
            ("GARBAGE", right),
            ("IN REQUESTS", right),
            ("IN GAPS", right),
            ("FORCED", right),
            ("FULL", right),
            ("SNAPSHOTS", right),
            ("COST", right),
            ("REGRET", right),
        ]);
        for row in &self.rows {
            let outcome = &row.outcome;
            table.row([
                row.policy.clone(),
                ms(outcome.p50_ms),
                ms(outcome.p95_ms),
                ms(outcome.p99_ms),
                ms(outcome.p999_ms),
                ms(outcome.max_ms),
                bytes((outcome.peak_rss_mb * 1e6) as u64),
                bytes((outcome.held_mb * 1e6) as u64),
                ms(outcome.in_request.total_ms),
                ms(outcome.in_gap.total_ms),
                ms(outcome.forced.total_ms),
                count(outcome.full),
                count(outcome.snapshots),
                format!("{:.3}", row.cost),
                row.regret.map_or_else(|| "–".to_owned(), regret),
            ]);
        }
        text.push_str(&table.render(2));
        let _ = writeln!(
            text,
            "  cost: mean delay by collections in ms + {} × mean garbage and copies in MB; (never): no collection at all",
            self.lambda
        );
        text
    }
}

fn regret(share: f64) -> String {
    if share < 10.0 { format!("{:.0} %", 100.0 * share) } else { format!("{share:.0}×") }
}
