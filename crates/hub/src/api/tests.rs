//! The API as its users see it, without a port.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use neurogc_wire::census::CensusType;
use neurogc_wire::control::Ask;
use neurogc_wire::report::{Frame, Report, Sample, encode};
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{BlockWriter, Header, Place, Record, encode_header};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::history::HistorySource;
use crate::peer::Peer;
use crate::process::Source;
use crate::store::Store;
use crate::tokens::Tokens;
use crate::traces::TraceStore;
use neurogc_wire::report::MAX_FRAME;

/// A hub in a folder of its own.
pub(super) struct TestHub {
    pub(super) app: Arc<App>,
    router: Router,
    _folder: tempfile::TempDir,
}

impl TestHub {
    pub(super) fn new() -> Self {
        Self::with_token(None)
    }

    pub(super) fn with_token(token: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let history = HistorySource::Kept(Arc::new(Store::open(folder.path(), 64 << 20).unwrap()));
        let traces = TraceStore::open(folder.path(), 64 << 20).unwrap();
        let hub = Arc::new(Hub::new("here".to_owned(), history).keeping(traces));
        let others = |name: &str| format!("{name}-0123456789abcdef");
        let tokens = token.map(|full| Tokens { full: full.to_owned(), read: others("read"), report: others("report") });
        let gate = Gate::new(tokens, "127.0.0.1:7077".parse().unwrap());
        let app = Arc::new(App::new(hub, gate, Shelf::new(folder.path(), None), Heaps::new(folder.path())));
        Self { router: router(Arc::clone(&app)), app, _folder: folder }
    }

    pub(super) async fn answer(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(super) async fn send(&self, request: Request<Body>) -> (StatusCode, Value) {
        let answer = self.answer(request).await;
        let status = answer.status();
        assert!(answer.headers().contains_key(header::CONTENT_SECURITY_POLICY));
        let body = to_bytes(answer.into_body(), 64 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    pub(super) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()).await
    }

    pub(super) async fn post(&self, path: &str, kind: &str, body: impl Into<Body>) -> (StatusCode, Value) {
        let request = Request::post(path).header("host", "localhost").header("content-type", kind);
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Has a process report twice, a second apart, and once more with events.
    pub(super) fn report(&self, pid: u32, policy: &str) -> String {
        for second in 1..=2_u32 {
            let mut sample = Sample::default();
            sample.status.policy = policy.to_owned();
            sample.status.service = "shop".to_owned();
            sample.status.memory.rss = 1000 * u64::from(pid);
            sample.status.requests.count = 100 * u64::from(second);
            sample.latency.buckets.add(u64::from(pid) * 1_000_000, 100 * u64::from(second));
            sample.pauses[StopKind::Young].buckets.add(5_000_000, u64::from(second));
            sample.status.gc.young.max_ms = 5.0;
            let report = Report { sample: Some(Box::new(sample)), ..about(pid, f64::from(second)) };
            self.app.hub.take(Frame { report, records: vec![], blocks: &[] }, &Source::Push).unwrap();
        }
        let records = vec![collection(2_100_000_000, 3_000_000)];
        let mut writer = BlockWriter::new();
        records.iter().for_each(|record| writer.push(record));
        let blocks = writer.take();
        let frame = Frame { report: about(pid, 2.2), records, blocks: &blocks };
        self.app.hub.take(frame, &Source::Push).unwrap();
        format!("there-{pid}-5")
    }

    /// Asks until the store has written what was reported.
    async fn eventually(&self, path: &str, found: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..400 {
            let (status, body) = self.get(path).await;
            assert_eq!(status, StatusCode::OK, "{body}");
            if found(&body) {
                return body;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{path} never told what was expected");
    }
}

pub(super) fn about(pid: u32, at_s: f64) -> Report {
    Report { host: "there".to_owned(), pid, started_unix_ms: 5, at_s, ..Report::default() }
}

fn collection(at: u64, pause: u64) -> Record {
    let (kind, place) = (StopKind::Full, Place::InRequest);
    Record::Collection { at, pause, kind, place, collected: 7, uncollectable: 0, order: None }
}

pub(super) fn check_error((status, body): (StatusCode, Value), expect: u16, code: &str) {
    assert_eq!((status.as_u16(), body["error"]["code"].as_str()), (expect, Some(code)), "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|message| message.len() > 10), "{body}");
}

#[tokio::test]
async fn a_process_that_reports_is_listed_drawn_and_told_of() {
    let scene = TestHub::new();
    let id = scene.report(7, "gap");
    let (_, list) = scene.get("/api/v1/processes").await;
    let process = &list["processes"][0];
    assert_eq!((process["id"].as_str(), process["state"].as_str()), (Some(id.as_str()), Some("live")));
    assert_eq!((&process["policy"], &process["latest"]["memory.rss"]), (&json!("gap"), &json!(7000.0)));
    let (_, one) = scene.get(&format!("/api/v1/processes/{id}")).await;
    assert_eq!(one["status"]["memory"]["rss"], 7000);
    let path = format!("/api/v1/processes/{id}/series?range=1m&names=memory.rss,requests.rps");
    let chart = scene.eventually(&path, |body| body["t"] != json!([])).await;
    assert_eq!((&chart["series"]["memory.rss"], &chart["step_ms"]), (&json!([7000.0]), &json!(1000)));
    assert_eq!(chart["series"].as_object().unwrap().len(), 2);
    let path = format!("/api/v1/processes/{id}/events?range=1m");
    let found = scene.eventually(&path, |body| body["events"] != json!([])).await;
    let event = &found["events"][0];
    assert_eq!(
        (&event["kind"], &event["class"], &event["ms"]),
        (&json!("collection"), &json!("in_request"), &json!(3.0))
    );
}

#[tokio::test]
async fn what_was_in_the_heap_is_kept_from_time_to_time() {
    let scene = TestHub::new();
    // The second one comes too soon after the first one to be kept.
    for (at_s, bytes) in [(100.0, 5000), (200.0, 6000), (450.0, 7000)] {
        let mut sample = Sample::default();
        let census = &mut sample.status.census;
        (census.at_s, census.objects, census.bytes) = (at_s, 10, bytes);
        census.types.push(CensusType { r#type: "list".to_owned(), count: 10, bytes, growth: None });
        let report = Report { sample: Some(Box::new(sample)), ..about(9, 500.0 + at_s / 1e3) };
        scene.app.hub.take(Frame { report, records: vec![], blocks: &[] }, &Source::Push).unwrap();
    }
    let path = "/api/v1/processes/there-9-5/census?range=1h";
    let found = scene.eventually(path, |body| body["t"].as_array().is_some_and(|times| times.len() == 2)).await;
    assert_eq!(found["types"], json!([{"type": "list", "count": [10, 10], "bytes": [5000, 7000]}]));
    assert_eq!((&found["bytes"], &found["containers"]), (&json!([5000, 7000]), &json!([])));
    check_error(scene.get("/api/v1/processes/unknown/census").await, 404, "not_found");
}

#[tokio::test]
async fn the_percentiles_of_a_service_are_those_of_all_its_requests() {
    let scene = TestHub::new();
    for pid in [7, 7000] {
        scene.report(pid, "gap");
    }
    let (_, list) = scene.get("/api/v1/processes").await;
    let [service] = list["services"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!((&service["service"], &service["processes"]), (&json!("shop"), &json!(2)));
    let latest = |name: &str| service["latest"][name].as_f64().unwrap();
    assert_eq!((latest("requests.rps"), latest("memory.rss")), (200.0, 7_007_000.0));
    // Each had a pause of 5 ms.
    assert!((latest("gc.max_ms") - 5.0).abs() < 0.5, "{service}");
    // Half of the requests took 7 ms and half 7 s: an average of percentiles would be 3.5 s.
    assert!(latest("requests.p50_ms") < 8.0 && latest("requests.p99_ms") > 6000.0, "{service}");
}

#[tokio::test]
async fn latencies_are_counted_by_step_and_level() {
    let scene = TestHub::new();
    let id = scene.report(7, "gap");
    let heat =
        scene.eventually(&format!("/api/v1/processes/{id}/latency?range=1m"), |body| body["t"] != json!([])).await;
    assert_eq!((&heat["step_ms"], &heat["counts"]), (&json!(1000), &json!([[[0, 100]]])));
    let levels: Vec<f64> = serde_json::from_value(heat["levels_ms"].clone()).unwrap();
    assert!(levels.len() == 2 && levels[0] <= 7.0 && 7.0 < levels[1] && levels[1] < 1.3 * levels[0], "{levels:?}");
    let (_, before) = scene.get(&format!("/api/v1/processes/{id}/latency?from=1000&to=2000")).await;
    assert_eq!((&before["levels_ms"], &before["counts"]), (&json!([]), &json!([])));
    // A service has the requests of all its processes, in common steps.
    scene.report(7000, "gap");
    let all = |heat: &Value| {
        let steps = heat["counts"].as_array().unwrap().iter().flat_map(|step| step.as_array().unwrap());
        steps.map(|cell| cell[1].as_u64().unwrap()).sum::<u64>()
    };
    let path = "/api/v1/services/shop/latency?range=1m";
    let heat = scene.eventually(path, |body| body["t"] != json!([]) && all(body) == 200).await;
    assert!(heat["t"].as_array().unwrap().iter().all(|t| t.as_u64().unwrap() % 1000 == 0), "{heat}");
    check_error(scene.get("/api/v1/services/none/latency").await, 404, "not_found");
    check_error(scene.get("/api/v1/processes/x/latency").await, 404, "not_found");
    check_error(scene.get(&format!("/api/v1/processes/{id}/latency?points=1")).await, 400, "bad_request");
}

#[tokio::test]
async fn alerts_are_told_without_rules_too() {
    let (_, alerts) = TestHub::new().get("/api/v1/alerts").await;
    assert_eq!((&alerts["enabled"], &alerts["alerts"]), (&json!(false), &json!([])));
}

#[tokio::test]
async fn another_policy_is_an_event() {
    let scene = TestHub::new();
    let id = scene.report(7, "observe");
    let mut sample = Sample::default();
    sample.status.policy = "gap".to_owned();
    let report = Report { sample: Some(Box::new(sample)), ..about(7, 3.0) };
    scene.app.hub.take(Frame { report, records: vec![], blocks: &[] }, &Source::Push).unwrap();
    let path = format!("/api/v1/processes/{id}/events?range=1m&kinds=policy");
    let found = scene.eventually(&path, |body| body["events"] != json!([])).await;
    assert_eq!((&found["events"][0]["before"], &found["events"][0]["after"]), (&json!("observe"), &json!("gap")));
}

#[tokio::test]
async fn two_processes_are_compared() {
    let scene = TestHub::new();
    let (a, b) = (scene.report(10, "observe"), scene.report(5, "gap"));
    let path = format!("/api/v1/compare?a={a}&b={b}&range=1m&names=requests.p50_ms,memory.rss");
    let found = scene.eventually(&path, |body| !body["whole"]["memory.rss"]["diff"].is_null()).await;
    assert_eq!(found["whole"]["memory.rss"], json!({"a": 10000.0, "b": 5000.0, "diff": -5000.0, "percent": -50.0}));
    assert_eq!(found["series"]["memory.rss"]["diff"], json!([-5000.0]));
    assert!(found["whole"]["requests.p50_ms"]["diff"].as_f64().unwrap() < -4.0);
    check_error(scene.get("/api/v1/compare?a=x").await, 404, "not_found");
    check_error(scene.get(&format!("/api/v1/compare?a={a}")).await, 400, "bad_request");
}

#[tokio::test]
async fn an_agent_that_posts_gets_its_orders_with_every_reply_until_it_answers() {
    let scene = Arc::new(TestHub::new());
    let id = scene.report(7, "observe");
    let asking = {
        let (scene, id) = (Arc::clone(&scene), id.clone());
        tokio::spawn(async move {
            let path = format!("/api/v1/processes/{id}/policy");
            scene.post(&path, "application/json", json!({"policy": "gap"}).to_string()).await
        })
    };
    let post = async |report: &Report| {
        let frame = encode(report, &[]).unwrap();
        scene.post(INGEST_PATH, "application/octet-stream", frame).await
    };
    let wanted = loop {
        let (status, reply) = post(&about(7, 3.0)).await;
        assert_eq!(status, StatusCode::OK);
        if let Some(wanted) = reply["wanted"].get(0) {
            break wanted.clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(serde_json::from_value::<Ask>(wanted["ask"].clone()).unwrap(), Ask::Policy("gap".to_owned()));
    // The reply may have been lost: the next one has the order, too.
    assert_eq!(post(&about(7, 3.5)).await.1["wanted"], json!([wanted]));
    let outcome = json!({"outcome": {"policy": {"before": "observe", "after": "gap"}}});
    let settled = serde_json::from_value(json!({"number": wanted["number"], "answer": outcome})).unwrap();
    let (_, reply) = post(&Report { answers: vec![settled], ..about(7, 4.0) }).await;
    assert_eq!(reply["wanted"], json!([]));
    assert_eq!(asking.await.unwrap(), (StatusCode::OK, json!({"before": "observe", "after": "gap"})));
}

#[tokio::test]
async fn every_policy_is_offered_as_it_can_be_asked_for() {
    let (_, offered) = TestHub::new().get("/api/v1/policies").await;
    let offers = offered["policies"].as_array().unwrap();
    assert_eq!(offers.len(), neurogc_policy::POLICIES.len());
    for offer in offers {
        let (name, example) = (offer["name"].as_str().unwrap(), offer["example"].as_str().unwrap());
        assert!(example.parse::<neurogc_policy::Name>().is_ok() && example.starts_with(name), "{offer}");
        assert!(name.bytes().all(|letter| letter.is_ascii_lowercase()), "{offer}");
    }
}

#[tokio::test]
async fn what_comes_by_two_ways_is_taken_once() {
    let scene = TestHub::new();
    let socket = |connection| Source::Socket { path: "/x.sock".into(), connection, peer: Peer::of_test(7, 1) };
    let report = |at_s, missed, source: &Source| {
        let records = vec![collection((at_s * 1e9) as u64, 1_000_000)];
        let mut writer = BlockWriter::new();
        records.iter().for_each(|record| writer.push(record));
        let frame = Frame { report: Report { missed, ..about(7, at_s) }, records, blocks: &writer.take() };
        scene.app.hub.take(frame, source).unwrap();
    };
    // A process that becomes another user is found again by its new socket, and both connections go on.
    report(1.0, 100, &socket(1));
    for second in 2..50 {
        report(f64::from(second), 0, &socket(2));
        report(f64::from(second), 0, &socket(1));
        report(f64::from(second), 3, &Source::Push);
    }
    let (_, hub) = scene.get("/api/v1/hub").await;
    assert_eq!((&hub["ingest"]["events"], &hub["ingest"]["missed"]), (&json!(49), &json!(100)));
    let (_, list) = scene.get("/api/v1/processes").await;
    assert_eq!(list["processes"][0]["warnings"], json!(["100 events were lost on their way to the hub"]));
}

#[tokio::test]
async fn wrong_requests_are_told_what_is_wrong() {
    let scene = TestHub::new();
    let id = scene.report(7, "gap");
    let process = format!("/api/v1/processes/{id}");
    for path in [
        "series?range=8d",
        "series?names=x",
        "series?points=1",
        "events?kinds=x",
        "events?limit=0",
        "series?from=9&to=3",
    ] {
        check_error(scene.get(&format!("{process}/{path}")).await, 400, "bad_request");
    }
    check_error(scene.get("/api/v1/processes/unknown").await, 404, "not_found");
    check_error(scene.get("/api/v1/processes/unknown/series").await, 404, "not_found");
    check_error(scene.get("/api/v1/processes/%2e%2e%2f%2e%2e/series").await, 404, "not_found");
    check_error(scene.get("/api/v2").await, 404, "not_found");
    let policy = format!("{process}/policy");
    check_error(scene.post(&policy, "application/json", r#"{"policy": "gapp"}"#).await, 400, "bad_request");
    check_error(scene.post(&policy, "application/json", r#"{"policy": "neural:/x"}"#).await, 400, "bad_request");
    check_error(scene.post(&policy, "application/json", "{").await, 400, "bad_request");
    check_error(scene.post(&policy, "text/plain", r#"{"policy": "gap"}"#).await, 400, "bad_request");
    check_error(
        scene.post("/api/v1/processes/unknown/policy", "application/json", r#"{"policy": "gap"}"#).await,
        404,
        "not_found",
    );
    check_error(scene.post("/api/v1/hub", "application/json", "{}").await, 400, "bad_request");
}

#[tokio::test]
async fn no_size_of_a_request_can_hurt() {
    let scene = TestHub::new();
    let long = vec![b' '; SHORT_BODY + 1];
    check_error(scene.post("/api/v1/processes/x/policy", "application/json", long).await, 413, "too_large");
    let long = vec![0; MAX_FRAME + 5];
    check_error(scene.post(INGEST_PATH, "application/octet-stream", long).await, 413, "too_large");
    for hostile in [vec![0xff; 4], vec![9, 0, 0, 0, 1], [&[8, 0, 0, 0][..], &[0xff; 8]].concat()] {
        check_error(scene.post(INGEST_PATH, "application/octet-stream", hostile).await, 400, "bad_request");
    }
    let (_, hub) = scene.get("/api/v1/hub").await;
    assert_eq!(hub["ingest"]["refused"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_not_waited_for() {
    struct Endless;
    impl axum::body::HttpBody for Endless {
        type Data = bytes::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }
    let scene = Arc::new(TestHub::new());
    let upload = |scene: Arc<TestHub>| async move {
        scene.post("/api/v1/recordings", "application/octet-stream", Body::new(Endless)).await
    };
    let slow = tokio::spawn(upload(Arc::clone(&scene)));
    while scene.app.uploading.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    check_error(upload(Arc::clone(&scene)).await, 429, "busy");
    check_error(scene.post(INGEST_PATH, "application/octet-stream", Body::new(Endless)).await, 504, "timeout");
    check_error(slow.await.unwrap(), 504, "timeout");
    assert_eq!(scene.app.uploading.available_permits(), 1);
}

#[tokio::test]
async fn a_recording_is_uploaded_drawn_and_deleted() {
    let scene = TestHub::new();
    let mut trace = encode_header(&Header { started_unix_ns: 1_000_000_000, pid: 3, ..Header::default() });
    let mut writer = BlockWriter::new();
    writer.push(&Record::Process { at: 0, rss: 55, cpu_us: 0 });
    writer.push(&collection(500_000_000, 2_000_000));
    writer.push(&Record::RequestStart { at: 600_000_000, id: 1 });
    writer.push(&Record::RequestEnd { at: 640_000_000, id: 1 });
    trace.extend(writer.take());
    let (status, entry) = scene.post("/api/v1/recordings?name=a.ngct", "application/octet-stream", trace.clone()).await;
    assert_eq!((status, &entry["kind"], &entry["name"]), (StatusCode::CREATED, &json!("trace"), &json!("a.ngct")));
    let path = format!("/api/v1/recordings/{}", entry["id"].as_str().unwrap());
    let (_, one) = scene.get(&path).await;
    assert_eq!((&one["process"]["pid"], &one["from_ms"]), (&json!(3), &json!(1000)));
    let (_, chart) = scene.get(&format!("{path}/series?names=memory.rss,fds")).await;
    assert_eq!((&chart["t"], &chart["series"]), (&json!([2000]), &json!({"memory.rss": [55.0], "fds": [null]})));
    let (_, heat) = scene.get(&format!("{path}/latency")).await;
    assert_eq!((&heat["t"], &heat["counts"]), (&json!([2000]), &json!([[[0, 1]]])));
    let level = [&heat["levels_ms"][0], &heat["levels_ms"][1]].map(|ms| ms.as_f64().unwrap());
    assert!(level[0] <= 40.0 && 40.0 < level[1], "{level:?}");
    let (_, found) = scene.get(&format!("{path}/events")).await;
    assert_eq!(found["events"][0]["t"], 1500.0);
    let gone = Request::delete(&path).header("host", "localhost").body(Body::empty()).unwrap();
    assert_eq!(scene.send(gone).await.0, StatusCode::NO_CONTENT);
    check_error(scene.get(&path).await, 404, "not_found");
    check_error(scene.post("/api/v1/recordings", "application/octet-stream", "what").await, 400, "bad_request");
}

#[tokio::test]
async fn a_snapshot_of_pytorch_is_told_and_not_kept() {
    const PATH: &str = "/api/v1/gpu/snapshot";
    let scene = TestHub::new();
    let bytes = neurogc_gpu::sample::training().pickle();
    let (status, told) = scene.post(PATH, "application/octet-stream", bytes.clone()).await;
    assert_eq!((status, &told["complete"], &told["devices"][0]["blocks"]), (StatusCode::OK, &json!(true), &json!(7)));
    assert_eq!(told["map"]["segments"][0]["blocks"][1]["offset"], 16 << 20);
    let (_, cut) = scene.post(PATH, "application/octet-stream", bytes[..bytes.len() / 2].to_vec()).await;
    assert!(cut["remarks"][0].as_str().is_some_and(|it| it.contains("cut off")), "{cut}");
    check_error(scene.post(PATH, "application/octet-stream", "PK\u{3}\u{4}").await, 400, "bad_request");
    check_error(scene.post(PATH, "application/octet-stream", vec![b'N'; (64 << 20) + 1]).await, 413, "too_large");
    let _turn = scene.app.reading_snapshot.try_acquire().unwrap();
    check_error(scene.post(PATH, "application/octet-stream", bytes.clone()).await, 429, "busy");

    let scene = TestHub::with_token(Some("0123456789abcdef"));
    let with = async |token: &str| {
        let request = Request::post(PATH).header("authorization", format!("Bearer {token}"));
        scene.send(request.body(Body::from(bytes.clone())).unwrap()).await
    };
    check_error(with("read-0123456789abcdef").await, 403, "forbidden");
    check_error(with("wrong").await, 401, "unauthorized");
    assert_eq!(with("0123456789abcdef").await.0, StatusCode::OK);
}

#[tokio::test]
async fn without_the_token_there_are_no_data() {
    let scene = TestHub::with_token(Some("0123456789abcdef"));
    for path in ["/api/v1/hub", "/api/v1/processes", "/metrics", "/api/v1/live"] {
        check_error(scene.get(path).await, 401, "unauthorized");
    }
    check_error(scene.post(INGEST_PATH, "application/octet-stream", "").await, 401, "unauthorized");
    let with = Request::get("/api/v1/hub").header("authorization", "Bearer 0123456789abcdef");
    assert_eq!(scene.send(with.body(Body::empty()).unwrap()).await.0, StatusCode::OK);
    assert_eq!(scene.get("/").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_read_only_token_looks_and_does_not_order() {
    let scene = TestHub::with_token(Some("0123456789abcdef"));
    let id = scene.report(7, "gap");
    let order = async |token: &str| {
        let request = Request::post(format!("/api/v1/processes/{id}/policy"))
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        scene.send(request.body(Body::from(r#"{"policy": "gapp"}"#)).unwrap()).await
    };
    check_error(order("read-0123456789abcdef").await, 403, "forbidden");
    check_error(order("report-0123456789abcdef").await, 403, "forbidden");
    // The full token gets as far as the wrong name of the policy.
    check_error(order("0123456789abcdef").await, 400, "bad_request");
    for (token, may_order) in [("read-0123456789abcdef", false), ("0123456789abcdef", true)] {
        let request = Request::get("/api/v1/hub").header("authorization", format!("Bearer {token}"));
        let (_, hub) = scene.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!((&hub["token"], &hub["may_order"]), (&json!(true), &json!(may_order)));
    }
}

#[tokio::test]
async fn the_address_with_the_token_opens_the_page_and_loses_the_token() {
    let scene = TestHub::with_token(Some("0123456789abcdef"));
    let open = async |path: &str| {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        scene.router.clone().oneshot(request).await.unwrap()
    };
    let opened = open("/?token=0123456789abcdef").await;
    assert_eq!((opened.status(), opened.headers()["location"].as_bytes()), (StatusCode::SEE_OTHER, &b"/"[..]));
    let cookie = opened.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let request = Request::get("/api/v1/hub").header("host", "localhost").header("cookie", cookie);
    assert_eq!(scene.send(request.body(Body::empty()).unwrap()).await.0, StatusCode::OK);
    let refused = open("/?token=wrong").await;
    assert!(refused.headers().get("set-cookie").is_none() && refused.headers()["location"] == "/?wrong-token");
}

#[tokio::test]
async fn too_many_processes_are_refused_and_the_others_stay() {
    let scene = TestHub::new();
    let mut refused = 0;
    for pid in 0..6000 {
        let frame = Frame { report: about(pid, 1.0), records: vec![], blocks: &[] };
        refused += u32::from(scene.app.hub.take(frame, &Source::Push).is_err());
    }
    assert_eq!(refused, 1000);
    let frame = Frame { report: about(0, 2.0), records: vec![], blocks: &[] };
    assert!(scene.app.hub.take(frame, &Source::Push).is_ok());
}
