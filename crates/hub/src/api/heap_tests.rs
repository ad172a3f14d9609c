//! Heap dumps: taken from an agent on a socket, kept, and asked about.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use neurogc_heap::sample::HeapSample;
use neurogc_wire::control::{self, Answer, Ask, GatheredPages, MAX_QUESTION, Outcome, Question};
use neurogc_wire::report::Frame;
use serde_json::{Value, json};

use super::tests::{TestHub, about, check_error};
use crate::peer::Peer;
use crate::process::Source;

/// The dump of a service that keeps so many sessions.
fn dump(sessions: u32) -> Vec<u8> {
    let mut sample = HeapSample::new();
    let session = sample.class("app.Session", &["user"]);
    let all: Vec<u32> = (0..sessions)
        .map(|number| {
            let user = sample.text(&format!("user {number}"));
            sample.instance(session, &[user])
        })
        .collect();
    let sessions = sample.list(&all);
    sample.module("app", &[("sessions", sessions)]);
    sample.encode()
}

/// An agent that writes this to the pipe it is given, and then says what came of it.
fn agent(folder: &Path, dump: Vec<u8>, outcome: Outcome) -> PathBuf {
    let (path, folder) = (folder.join("7.sock"), folder.to_owned());
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Ok(question) = control::read::<Question>(&mut stream, MAX_QUESTION) else { continue };
            let answer = match question.ask {
                Ask::Dump { pipe, .. } => {
                    let mut to = OpenOptions::new().write(true).open(folder.join(pipe)).unwrap();
                    to.write_all(&dump).unwrap();
                    Answer::Ticket(1)
                }
                Ask::Outcome(_) => Answer::Outcome(outcome.clone()),
                other => panic!("{other:?}"),
            };
            control::write(&mut stream, &answer).unwrap();
        }
    });
    path
}

/// Has a process with this agent report, and asks for a dump of it.
async fn taken(scene: &TestHub, folder: &Path, dump: Vec<u8>, outcome: Outcome) -> (StatusCode, Value) {
    let path = agent(folder, dump, outcome);
    let stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    let peer = Peer::of(&stream, &path).unwrap();
    drop(stream);
    let source = Source::Socket { path, connection: 1, peer };
    scene.app.hub.take(Frame { report: about(7, 1.0), records: vec![], blocks: &[] }, &source).unwrap();
    scene.post("/api/v1/processes/there-7-5/heap", "application/json", "{}").await
}

fn dumped() -> Outcome {
    Outcome::Dumped { objects: 9, bytes: 9, pause_ms: 1.0, flight_ms: 2.0, pages: GatheredPages::default() }
}

#[tokio::test]
async fn a_dump_is_taken_kept_and_removed() {
    let (scene, folder) = (TestHub::new(), tempfile::tempdir().unwrap());
    let (status, entry) = taken(&scene, folder.path(), dump(3), dumped()).await;
    assert_eq!((status, entry["process"].as_str()), (StatusCode::CREATED, Some("there-7-5")), "{entry}");
    let (_, list) = scene.get("/api/v1/heaps?process=there-7-5").await;
    assert_eq!((&list["heaps"], &list["bytes"]), (&json!([entry]), &entry["bytes"]));
    assert_eq!(scene.get("/api/v1/heaps?process=x").await.1["heaps"], json!([]));
    let kept = &scene.app.heaps.list()[0];
    assert_eq!(std::fs::metadata(&kept.path).unwrap().permissions().mode() & 0o777, 0o600);
    // The pipe is gone; the socket is left.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let path = format!("/api/v1/heaps/{}", kept.id);
    let remove = || Request::delete(&path).header("host", "localhost").body(Body::empty()).unwrap();
    assert_eq!(scene.send(remove()).await.0, StatusCode::NO_CONTENT);
    check_error(scene.send(remove()).await, 404, "not_found");
    check_error(scene.get(&path).await, 404, "not_found");
}

#[tokio::test]
async fn a_dump_that_fails_is_not_kept_and_says_why() {
    for (bytes, outcome, expect) in [
        (vec![], Outcome::Failed("no memory for a clone".to_owned()), "no memory for a clone"),
        (dump(3)[..200].to_vec(), dumped(), "before the heap dump was complete"),
        (vec![7; 5000], Outcome::Failed("the clone was killed".to_owned()), "the clone was killed"),
    ] {
        let (scene, folder) = (TestHub::new(), tempfile::tempdir().unwrap());
        let answer = taken(&scene, folder.path(), bytes, outcome).await;
        let why = answer.1["error"]["message"].as_str().unwrap().to_owned();
        check_error(answer, 422, "refused");
        assert!(why.contains(expect), "{why}");
        assert!(scene.app.heaps.list().is_empty() && std::fs::read_dir(folder.path()).unwrap().count() == 1);
    }
}

#[tokio::test]
async fn a_dump_is_not_asked_for_where_it_cannot_come_to() {
    let scene = TestHub::new();
    let ask = async |id: &str, body: &'static str| {
        scene.post(&format!("/api/v1/processes/{id}/heap"), "application/json", body).await
    };
    check_error(ask("there-7-5", "{}").await, 404, "not_found");
    // An agent that posts is on another machine.
    scene.report(7, "observe");
    check_error(ask("there-7-5", "{}").await, 422, "refused");
    check_error(ask("there-7-5", "[").await, 400, "bad_request");
    let _turn = scene.app.dumping.try_acquire().unwrap();
    check_error(ask("there-7-5", "{}").await, 429, "busy");
}

#[tokio::test]
async fn a_dump_is_understood() {
    let scene = TestHub::new();
    scene.app.heaps.keep("p", 1, &dump(500)).unwrap();
    let get = async |rest: &str| scene.get(&format!("/api/v1/heaps/1-p.ngch{rest}")).await.1;
    let one = get("?by=objects&top=2").await;
    assert_eq!(one["entry"]["id"], "1-p.ngch");
    assert_eq!((&one["types"][1]["type"], &one["types"][1]["objects"]), (&json!("app.Session"), &json!(500)));
    assert_eq!((one["types"].as_array().map(Vec::len), one["all_types"].as_u64() > Some(2)), (Some(2), true));
    assert!(one["suspects"][0]["text"].as_str().unwrap().contains("app.sessions"), "{one}");
    assert_eq!(one["largest"][0]["path"], "app.sessions");

    let top = get("/tree").await;
    let inside = get(&format!("/tree?object={}&top=1", top["rows"][0]["object"])).await;
    assert!(top["all"].as_u64() > Some(0) && inside["rows"].as_array().map(Vec::len) == Some(1), "{top} {inside}");
    assert!(inside["rows"][0]["retained"].as_u64() < top["rows"][0]["retained"].as_u64());

    let merged = get("/path?what=app.Session").await;
    assert_eq!(merged["merged"]["rows"][0]["path"], "app.sessions[…]");
    let object = get("/path?what=app.sessions%5B3%5D.user").await;
    assert_eq!(object["object"]["steps"].as_array().unwrap().last().unwrap()["path"], "app.sessions[3].user");
    for wrong in ["?by=size", "?top=0", "/tree?object=4000000000", "/tree?object=x", "/path", "/growth"] {
        check_error(scene.get(&format!("/api/v1/heaps/1-p.ngch{wrong}")).await, 400, "bad_request");
    }
    for missing in ["/path?what=app.Nothing", "/growth?since=2-p.ngch"] {
        check_error(scene.get(&format!("/api/v1/heaps/1-p.ngch{missing}")).await, 404, "not_found");
    }
}

#[tokio::test]
async fn what_grew_between_two_dumps_is_told_by_place() {
    let scene = TestHub::new();
    scene.app.heaps.keep("p", 1, &dump(10)).unwrap();
    scene.app.heaps.keep("p", 2, &dump(400)).unwrap();
    let (_, found) = scene.get("/api/v1/heaps/2-p.ngch/growth?since=1-p.ngch").await;
    assert_eq!((&found["before"]["id"], &found["after"]["id"]), (&json!("1-p.ngch"), &json!("2-p.ngch")));
    let first = &found["growth"]["rows"][0];
    assert_eq!((&first["place"], &first["objects"]), (&json!("app.sessions[…]"), &json!(390)));
}

#[tokio::test]
async fn a_dump_is_shown_to_the_full_token_only() {
    let scene = TestHub::with_token(Some("full-0123456789abcdef"));
    scene.app.heaps.keep("p", 1, &dump(1)).unwrap();
    let ask = async |method: &str, path: &str, token: &str| {
        let request = Request::builder().method(method).uri(path).header("authorization", format!("Bearer {token}"));
        scene.send(request.header("host", "localhost").body(Body::empty()).unwrap()).await
    };
    let (full, read) = ("full-0123456789abcdef", "read-0123456789abcdef");
    assert_eq!(ask("GET", "/api/v1/heaps", read).await.0, StatusCode::OK);
    let one = "/api/v1/heaps/1-p.ngch";
    for rest in ["", "/tree", "/path?what=str", "/growth?since=1-p.ngch"] {
        check_error(ask("GET", &format!("{one}{rest}"), read).await, 403, "forbidden");
        assert_eq!(ask("GET", &format!("{one}{rest}"), full).await.0, StatusCode::OK, "{rest}");
    }
    check_error(ask("DELETE", one, read).await, 403, "forbidden");
    check_error(ask("POST", "/api/v1/processes/x/heap", read).await, 403, "forbidden");
    assert_eq!(ask("DELETE", one, full).await.0, StatusCode::NO_CONTENT);
}
