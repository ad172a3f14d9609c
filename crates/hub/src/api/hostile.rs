//! Reports that no agent sends: they must not take more memory than the budgets say, nor the place of another process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::StatusCode;
use neurogc_wire::report::{Frame, INGEST_PATH, Report, Sample, encode};
use neurogc_wire::status::Orders;
use neurogc_wire::trace::{BlockWriter, Record};
use serde_json::{Value, json};

use super::tests::{TestHub, about, check_error};
use crate::budget::{FIGURES, FIGURES_EACH, PROCESSES};
use crate::hub::Refusal;
use crate::peer::Peer;
use crate::process::Source;
use crate::row::FigureRow;

fn take(scene: &TestHub, report: Report, source: &Source) -> Result<(), Refusal> {
    scene.app.hub.take(Frame { report, records: vec![], blocks: &[] }, source).map(drop)
}

fn with_sample(pid: u32, at_s: f64, change: impl FnOnce(&mut Sample)) -> Report {
    let mut sample = Sample::default();
    change(&mut sample);
    Report { sample: Some(Box::new(sample)), ..about(pid, at_s) }
}

fn socket(pid: u32) -> Source {
    Source::Socket { path: "/x.sock".into(), connection: u64::from(pid), peer: Peer::of_test(pid, 1) }
}

#[tokio::test]
async fn a_report_in_the_name_of_another_process_is_refused_and_counted() {
    let scene = TestHub::new();
    let own = |key: &str, at_s| Report { key: key.to_owned(), ..about(7, at_s) };
    take(&scene, own("a", 1.0), &socket(7)).unwrap();
    // Another process of this machine, and an agent that posts with another key or none.
    for (key, source) in [("a", socket(8)), ("b", Source::Push), ("", Source::Push)] {
        assert!(matches!(take(&scene, own(key, 2.0), &source), Err(Refusal::Impostor(_))), "{key} {source:?}");
    }
    take(&scene, own("a", 2.0), &Source::Push).unwrap();
    take(&scene, own("a", 3.0), &socket(7)).unwrap();
    let (_, hub) = scene.get("/api/v1/hub").await;
    assert_eq!((&hub["ingest"]["impostors"], &hub["processes"]["known"]), (&json!(3), &json!(1)));
    let why = hub["ingest"]["last_impostor"].as_str().unwrap();
    assert!(why.contains("there-7-5"), "{why}");
    let frame = encode(&own("b", 9.0), &[]).unwrap();
    check_error(scene.post(INGEST_PATH, "application/octet-stream", frame).await, 403, "forbidden");
}

#[tokio::test]
async fn commands_reach_only_the_agent_that_reported_first() {
    let scene = TestHub::new();
    let own = |key: &str, at_s| Report { key: key.to_owned(), ..about(7, at_s) };
    take(&scene, own("a", 1.0), &Source::Push).unwrap();
    let ask = neurogc_wire::control::Ask::Policy("gap".to_owned());
    let _answer = scene.app.hub.want("there-7-5", ask).unwrap();
    let frame = |key| encode(&own(key, 2.0), &[]).unwrap();
    check_error(scene.post(INGEST_PATH, "application/octet-stream", frame("b")).await, 403, "forbidden");
    let (_, reply) = scene.post(INGEST_PATH, "application/octet-stream", frame("a")).await;
    assert_eq!(reply["wanted"].as_array().map(Vec::len), Some(1), "{reply}");
}

#[test]
fn absurd_numbers_are_refused() {
    let scene = TestHub::new();
    let absurd = |report| assert!(matches!(take(&scene, report, &Source::Push), Err(Refusal::Absurd(_))));
    for at_s in [f64::NAN, f64::INFINITY, -1.0, 1e18] {
        absurd(about(7, at_s));
    }
    absurd(about(u32::MAX, 1.0));
    absurd(Report { started_unix_ms: u64::MAX, ..about(7, 1.0) });
    absurd(Report { key: "k".repeat(1000), ..about(7, 1.0) });
    let records = vec![Record::Dropped { at: u64::MAX, count: 1 }];
    let mut writer = BlockWriter::new();
    writer.push(&records[0]);
    let taken = scene.app.hub.take(Frame { report: about(7, 1.0), records, blocks: &writer.take() }, &Source::Push);
    assert_eq!(taken.map(drop), Err(Refusal::Absurd("its events are later than itself")));
    assert!(scene.app.hub.processes().is_empty());
}

#[tokio::test]
async fn figures_over_the_budget_are_dropped_counted_and_named() {
    let scene = TestHub::new();
    take(&scene, with_sample(7, 1.0, |sample| sample.status.policy = "gap".to_owned()), &Source::Push).unwrap();
    let long = with_sample(7, 2.0, |sample| sample.status.degraded = vec!["x".repeat(FIGURES_EACH)]);
    take(&scene, long, &Source::Push).unwrap();
    // Many small things are as heavy as one that is long.
    let many = with_sample(7, 3.0, |sample| sample.status.conduct.orders = vec![Orders::default(); FIGURES_EACH / 64]);
    take(&scene, many, &Source::Push).unwrap();
    let (_, hub) = scene.get("/api/v1/hub").await;
    assert_eq!(hub["budget"]["dropped"]["figures_of_a_process"], 2);
    assert_eq!(hub["budget"]["limits"]["figures_of_a_process"], FIGURES_EACH);
    let (_, list) = scene.get("/api/v1/processes").await;
    let warnings = list["processes"][0]["warnings"].to_string();
    assert!(warnings.contains("2 reports were dropped by the hub"), "{warnings}");
    assert_eq!(list["processes"][0]["policy"], "gap");
}

#[test]
fn numbers_at_their_ends_make_no_row_fail() {
    let mut most = Sample::default();
    most.status.requests.count = u64::MAX;
    most.status.memory.rss = u64::MAX;
    most.status.gc.collected = u64::MAX;
    most.status.gc.young.total_ms = f64::MAX;
    most.status.cpu.percent = f64::MIN;
    most.status.uptime_s = f64::MAX;
    most.gil_busy_ms = f64::MAX;
    most.latency.total_ms = f64::MAX;
    for power in 0..64 {
        most.latency.buckets.add(1 << power, u64::MAX);
    }
    most.stalls = most.latency.clone();
    let none = Sample::default();
    for (before, after) in [(&none, &most), (&most, &none), (&most, &most)] {
        let text = serde_json::to_string(&FigureRow::between(before, after, 1e-300, 7)).unwrap();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    }
}

/// As `bench/hub.py hostile` with 5000 processes: each report is as long as it may be, and all together are over the budget.
#[tokio::test]
async fn many_hostile_processes_stay_within_the_budgets() {
    let scene = TestHub::new();
    let heavy = "x".repeat(FIGURES_EACH * 9 / 10);
    let mut taken = 0;
    for round in 0..2_u32 {
        for pid in 0..800 {
            let report = with_sample(pid, f64::from(round + 1), |sample| match pid % 2 {
                0 => sample.status.degraded = vec![heavy.clone()],
                _ => sample.status.command = heavy.clone(),
            });
            taken += u32::from(take(&scene, report, &Source::Push).is_ok());
        }
    }
    assert_eq!(taken, 1600);
    let (_, hub) = scene.get("/api/v1/hub").await;
    let used = hub["budget"]["used"]["figures_of_all"].as_u64().unwrap();
    assert!(used <= FIGURES as u64 && used > FIGURES as u64 * 8 / 10, "{used}");
    assert!(hub["budget"]["dropped"]["figures_of_all"].as_u64().unwrap() > 0, "{hub}");
    // What is told of them is short, however long what they said.
    let (status, list) = scene.get("/api/v1/processes").await;
    assert_eq!((status, list["processes"].as_array().map(Vec::len)), (StatusCode::OK, Some(800)));
    assert!(list.to_string().len() < 800 * 8192);
    // One that changes its name takes no more places than there are.
    for started in 0..2 * PROCESSES as u64 {
        let _ = take(&scene, Report { started_unix_ms: started, ..about(1, 1.0) }, &Source::Push);
    }
    assert_eq!(scene.app.hub.processes().len(), PROCESSES);
}
