//! Allocation sites of an agent that posts, as JSON and as profiles.

use std::process::Command;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use neurogc_sites::{CodeLine, TableBuilder, export};
use neurogc_wire::control::{Answer, Ask};
use neurogc_wire::report::{Report, Settled, encode};
use neurogc_wire::sites::{AllocationDomain, AllocationMode, SiteCounts, SiteTable};
use serde_json::{Value, json};

use super::tests::{TestHub, about, check_error};
use super::*;

fn table() -> SiteTable {
    let facts = SiteTable {
        pid: 7,
        taken_unix_ms: 1_790_000_060_000,
        since_unix_ms: 1_790_000_000_000,
        mode: AllocationMode::Native,
        sample_bytes: 32 << 10,
        ..SiteTable::default()
    };
    let mut builder = TableBuilder::like(&facts);
    let line = |function, line| CodeLine { file: "/srv/app.py", function, line, first_line: 1 };
    for (function, bytes, domain) in
        [("load", 9 << 20, AllocationDomain::Object), ("resize", 4 << 20, AllocationDomain::Malloc)]
    {
        let node = builder.node([line("main", 3), line(function, 12)]);
        builder.site(node, domain).now =
            SiteCounts { live_bytes: bytes, live_blocks: 9, made_bytes: 6 * bytes, made_blocks: 60 };
    }
    builder.finish()
}

/// Asks for a path, has the agent answer, and gives what came of it and what the agent was asked.
async fn asked(path: &str, answer: Answer) -> (StatusCode, Vec<u8>, Ask) {
    let scene = Arc::new(TestHub::new());
    scene.report(7, "observe");
    let asking = {
        let (scene, path) = (Arc::clone(&scene), path.to_owned());
        tokio::spawn(async move {
            let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
            let answer = scene.answer(request).await;
            (answer.status(), to_bytes(answer.into_body(), 64 << 20).await.unwrap().to_vec())
        })
    };
    let post = async |report: &Report| {
        scene.post(INGEST_PATH, "application/octet-stream", encode(report, &[]).unwrap()).await.1
    };
    let wanted = loop {
        let reply = post(&about(7, 3.0)).await;
        if let Some(wanted) = reply["wanted"].get(0) {
            break wanted.clone();
        }
        tokio::task::yield_now().await;
    };
    let number = wanted["number"].as_u64().unwrap();
    post(&Report { answers: vec![Settled { number, answer }], ..about(7, 4.0) }).await;
    let (status, body) = asking.await.unwrap();
    (status, body, serde_json::from_value(wanted["ask"].clone()).unwrap())
}

#[tokio::test]
async fn sites_come_with_their_flame_graph() {
    let answer = || Answer::Sites(Box::new(table()));
    let (status, body, ask) = asked("/api/v1/processes/there-7-5/sites?since=10m&by=function&top=1", answer()).await;
    let sites: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, ask), (StatusCode::OK, Ask::Sites(Some(600))));
    assert_eq!((sites["groups"].as_u64(), sites["rows"].as_array().unwrap().len()), (Some(2), 1));
    assert_eq!(sites["rows"][0]["places"][0]["function"], "load");
    assert_eq!(sites["flame"]["nodes"][0]["value"], f64::from(13 << 20));
    let (_, body, ask) = asked("/api/v1/processes/there-7-5/sites?measure=rate&native=true", answer()).await;
    let sites: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(ask, Ask::Sites(None));
    assert_eq!(sites["rows"][0]["value"], f64::from(6 * (4 << 20)) / 60.0);
}

#[tokio::test]
async fn a_process_that_is_not_sampled_says_why() {
    let refused = Answer::Refused("the allocators are debug allocators".to_owned());
    let (status, body, _) = asked("/api/v1/processes/there-7-5/sites", refused).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(String::from_utf8_lossy(&body).contains("debug allocators"));
    let off = Answer::Sites(Box::default());
    assert_eq!(asked("/debug/pprof/heap", off).await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_profile_can_be_scraped() {
    for path in ["/debug/pprof/heap", "/debug/pprof/heap?process=7", "/processes/there-7-5/debug/pprof/heap?seconds=30"]
    {
        let (status, body, ask) = asked(path, Answer::Sites(Box::new(table()))).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(ask, Ask::Sites(path.contains("seconds").then_some(30)));
        let back = export::pprof::decode(&body).unwrap();
        assert_eq!(back.sites.iter().map(|site| site.now.live_bytes).sum::<u64>(), 13 << 20);
    }
}

#[tokio::test]
async fn wrong_questions_are_told() {
    let scene = TestHub::new();
    check_error(scene.get("/debug/pprof/heap").await, 404, "not_found");
    let one = scene.report(7, "observe");
    for wrong in ["by=colour", "measure=weight", "since=soon", "top=0", "top=9999999"] {
        check_error(scene.get(&format!("/api/v1/processes/{one}/sites?{wrong}")).await, 400, "bad_request");
    }
    check_error(scene.get("/debug/pprof/heap?process=absent").await, 404, "not_found");
    check_error(scene.get("/api/v1/processes/absent/sites").await, 404, "not_found");
    scene.report(8, "observe");
    check_error(scene.get("/debug/pprof/heap").await, 400, "bad_request");
}

#[tokio::test]
async fn profiles_need_the_token() {
    let scene = TestHub::with_token(Some("0123456789abcdef"));
    for path in ["/debug/pprof/heap", "/processes/x/debug/pprof/heap", "/api/v1/processes/x/sites"] {
        check_error(scene.get(path).await, 401, "unauthorized");
    }
}

/// A reader that shares no code with what writes the profile: it knows the official profile.proto only.
#[tokio::test]
async fn another_reader_reads_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap.pb.gz");
    let (_, body, _) = asked("/debug/pprof/heap", Answer::Sites(Box::new(table()))).await;
    std::fs::write(&path, body).unwrap();
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pprof.py");
    let output = Command::new("python3").args(["-I", reader]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [load, resize] = &profile["samples"].as_array().unwrap()[..] else { panic!("{profile}") };
    assert_eq!(load["stack"], json!([["/srv/app.py", 12, "load"], ["/srv/app.py", 3, "main"]]));
    assert_eq!(resize["labels"], json!({"domain": "malloc"}));
    let values =
        |bytes: u64| json!({"inuse_objects": 9, "inuse_space": bytes, "alloc_objects": 60, "alloc_space": 6 * bytes});
    assert_eq!((&load["values"], &resize["values"]), (&values(9 << 20), &values(4 << 20)));
    assert_eq!(profile["duration_nanos"], 60_000_000_000_u64);
    assert_eq!(profile["time_nanos"], 1_790_000_060_000_000_000_u64);
    assert_eq!(profile["types"][1], json!(["inuse_space", "bytes"]));
}

/// The real tool reads what the hub gives.
#[tokio::test]
#[ignore = "needs Go: cargo nextest run -p neurogc-hub --run-ignored all go_reads"]
async fn go_reads_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap.pb.gz");
    let (_, body, _) = asked("/debug/pprof/heap", Answer::Sites(Box::new(table()))).await;
    std::fs::write(&path, body).unwrap();
    for (kind, first) in [("inuse_space", "9MB"), ("alloc_space", "54MB"), ("inuse_objects", "9")] {
        let kind = format!("-sample_index={kind}");
        let output = Command::new("go")
            .args(["tool", "pprof", "-top", &kind])
            .arg(&path)
            .env("HOME", folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let line = text.lines().find(|line| line.ends_with("load")).unwrap_or_default();
        assert!(line.trim_start().starts_with(first), "{text}");
    }
    let traces =
        Command::new("go").args(["tool", "pprof", "-traces"]).arg(&path).env("HOME", folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&traces.stdout).into_owned();
    assert!(text.contains("domain:  malloc") && text.contains("main"), "{text}");
}
