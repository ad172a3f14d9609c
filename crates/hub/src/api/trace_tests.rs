//! Traces that agents send, from their reports to the file that is fetched.

use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use neurogc_wire::report::{Frame, Report, read_blocks};
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{BlockWriter, Header, Place, Record, encode, encode_header, read};
use serde_json::Value;

use super::tests::TestHub;
use crate::clock::unix_ms;
use crate::process::Source;

const MS: u64 = 1_000_000;

fn header(service: &str) -> Header {
    let started_unix_ns = (unix_ms() - 60_000) * MS;
    Header { pid: 7, service: service.to_owned(), policy: "gap".to_owned(), started_unix_ns, ..Header::default() }
}

/// What a process records in a second.
fn second(number: u64) -> Vec<Record> {
    let at = number * 1000 * MS;
    let (kind, place, order) = (StopKind::Young, Place::InGap, None);
    let collection =
        Record::Collection { at: at + 2 * MS, pause: MS, kind, place, collected: 1, uncollectable: 0, order };
    vec![
        Record::RequestStart { at, id: number },
        Record::RequestEnd { at: at + MS, id: number },
        collection,
        Record::Heap { at: at + 2 * MS, gathered: 700, tenured: 1000, pending: 10 },
    ]
}

/// A process sends what it has recorded: the header once, blocks each second.
fn send(hub: &TestHub, service: &str, seconds: u64) {
    let trace = header(service);
    for number in 1..=seconds {
        let records = second(number);
        let mut writer = BlockWriter::new();
        records.iter().for_each(|record| writer.push(record));
        let blocks = writer.take();
        let report = Report {
            host: "web-1".to_owned(),
            pid: 7,
            key: "key".to_owned(),
            started_unix_ms: trace.started_unix_ns / MS,
            at_s: number as f64 + 0.5,
            missed: u64::from(number == 2),
            trace: (number == 1).then(|| Box::new(trace.clone())),
            ..Report::default()
        };
        let records = read_blocks(&blocks).unwrap();
        hub.app.hub.take(Frame { report, records, blocks: &blocks }, &Source::Push).unwrap();
    }
}

/// What the hub offers of a service, once there is something: another thread writes it.
async fn offered(hub: &TestHub, service: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let (status, answer) = hub.get(&format!("/api/v1/services/{service}/traces")).await;
        if status == StatusCode::OK && answer["traces"].as_array().is_some_and(|traces| !traces.is_empty()) {
            return answer;
        }
        assert!(Instant::now() < until, "{status} {answer}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn fetch(hub: &TestHub, path: &str) -> Vec<u8> {
    let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    let answer = hub.answer(request).await;
    assert_eq!(answer.status(), StatusCode::OK);
    to_bytes(answer.into_body(), 64 << 20).await.unwrap().to_vec()
}

#[tokio::test]
async fn what_an_agent_records_is_kept_and_handed_over_and_its_history_has_events_only() {
    let hub = TestHub::new();
    send(&hub, "shop", 5);
    let path = offered(&hub, "shop").await["traces"][0]["file"].as_str().unwrap().to_owned();
    let until = Instant::now() + Duration::from_secs(20);
    let trace = loop {
        let trace = read(&fetch(&hub, &path).await).unwrap();
        if trace.records.last() == second(5).last() || Instant::now() > until {
            break trace;
        }
    };
    assert_eq!((trace.header.service.as_str(), trace.header.policy.as_str()), ("shop", "gap"));
    let lost = |record: &&Record| matches!(record, Record::Dropped { count: 1, .. });
    assert_eq!((trace.records.len(), trace.records.iter().filter(lost).count()), (5 * 4 + 1, 1));
    let offer = offered(&hub, "shop").await;
    let one = &offer["traces"][0];
    assert_eq!((&one["source"], &one["process"]["pid"]), (&Value::from("agent"), &Value::from(7)));
    assert!(one["bytes"].as_u64().unwrap() > 0 && one["from_ms"].as_u64() < one["to_ms"].as_u64());
    let id = one["id"].as_str().unwrap();
    let events = loop {
        let (_, answer) = hub.get(&format!("/api/v1/processes/{id}/events?range=5m")).await;
        let events = answer["events"].as_array().unwrap().clone();
        if !events.is_empty() {
            break events;
        }
        assert!(Instant::now() < until, "{answer}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(events.iter().all(|event| event["kind"] == "collection" || event["kind"] == "dropped"), "{events:?}");
    let (_, own) = hub.get("/api/v1/hub").await;
    assert_eq!((&own["traces"]["dropped"], &own["traces"]["trouble"]), (&Value::from(0), &Value::Null));
    let (status, _) = hub.get("/api/v1/traces/..%2Fhub.db/file").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn uploads_are_offered_by_the_service_in_their_header() {
    let hub = TestHub::new();
    let upload = encode(&header("web shop"), &second(1));
    hub.post("/api/v1/recordings?name=a.ngct", "application/octet-stream", upload.clone()).await;
    hub.post("/api/v1/recordings?name=b.ngct", "application/octet-stream", encode_header(&header("other"))).await;
    let offer = offered(&hub, "web%20shop").await;
    assert_eq!((offer["traces"].as_array().unwrap().len(), &offer["traces"][0]["source"]), (1, &Value::from("upload")));
    assert_eq!(fetch(&hub, offer["traces"][0]["file"].as_str().unwrap()).await, upload);
}

#[tokio::test]
async fn a_service_without_traces_is_told_apart_from_none() {
    let hub = TestHub::new();
    hub.report(9, "gap");
    let (status, answer) = hub.get("/api/v1/services/shop/traces").await;
    assert_eq!((status, answer["traces"].as_array().unwrap().len()), (StatusCode::OK, 0));
    let (status, answer) = hub.get("/api/v1/services/shpo/traces").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(answer["error"]["message"], "the hub knows no service \"shpo\"; there are shop");
    let (status, _) = hub.get("/api/v1/services/shop/traces?range=9y").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}
