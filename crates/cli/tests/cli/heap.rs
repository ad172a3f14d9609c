//! `neurogc heap`: made-up dumps, whole and damaged, through every view.

use std::fs;

use neurogc_heap::sample::{HeapSample, types};

use crate::scene::{CliScene, text};

/// A service that has leaked so many sessions.
fn service(leaked: u32, taken_s: u64) -> Vec<u8> {
    let mut sample = HeapSample::new();
    let session = sample.class("app.Session", &["user", "history"]);
    let registry = sample.class("app.Registry", &["sessions"]);
    let sessions: Vec<u32> = (0..leaked)
        .map(|number| {
            let user = sample.text(&format!("user \x1b[2J{number}"));
            let history = sample.list(&[]);
            sample.instance(session, &[user, history])
        })
        .collect();
    let list = sample.list(&sessions);
    let the_registry = sample.instance(registry, &[list]);
    let blob = sample.object(types::BYTES, 40_000, vec![]);
    let cache = sample.named(&[("user:42", blob)]);
    sample.module("app", &[("registry", the_registry), ("cache", cache)]);
    let code = sample.code("serve", &["request"]);
    let request = sample.text("GET /");
    sample.frame(0, code, &[Some(request)]);
    sample.taken(1_790_000_000_000_000_000 + taken_s * 1_000_000_000);
    sample.encode()
}

fn scene() -> CliScene {
    let scene = CliScene::new();
    scene.file("a.ngch", service(10, 0));
    scene.file("b.ngch", service(2_010, 60));
    scene
}

#[test]
fn show_has_suspects_types_and_paths() {
    let scene = scene();
    insta::assert_snapshot!(text(&scene.check(&["heap", "show", "b.ngch", "--top", "6"], 0, "")));
    let json = scene.check(&["heap", "show", "b.ngch", "--json", "--top", "3"], 0, "");
    let value: serde_json::Value = serde_json::from_str(&text(&json)).unwrap();
    assert_eq!(value["types"].as_array().map(Vec::len), Some(3));
    assert_eq!(value["largest"][0]["path"], "app.registry");
    assert_eq!(value["summary"]["pid"], 4242);
}

#[test]
fn every_view_is_shown() {
    let scene = scene();
    let views = ["--tree", "--threads", "--strings", "--containers", "--from-c", "--garbage"];
    let all: Vec<&str> = ["heap", "show", "b.ngch", "--top", "4"].into_iter().chain(views).collect();
    insta::assert_snapshot!(text(&scene.check(&all, 0, "")));
    let json = scene.check(&[all, vec!["--json"]].concat(), 0, "");
    let value: serde_json::Value = serde_json::from_str(&text(&json)).unwrap();
    for view in ["tree", "threads", "strings", "containers", "from_c", "garbage"] {
        assert!(!value[view].is_null(), "{view}");
    }
}

#[test]
fn paths_are_found_by_type_address_and_expression() {
    let scene = scene();
    insta::assert_snapshot!(text(&scene.check(&["heap", "path", "b.ngch", "Session"], 0, "")));
    insta::assert_snapshot!(text(&scene.check(&["heap", "path", "b.ngch", r#"app.cache["user:42"]"#], 0, "")));
    let json = text(&scene.check(&["heap", "path", "b.ngch", "app.registry.sessions", "--json"], 0, ""));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let address = value["object"]["address"].as_str().unwrap();
    assert!(text(&scene.check(&["heap", "path", "b.ngch", address], 0, "")).contains("app.registry.sessions"));
    scene.check(&["heap", "path", "b.ngch", "app.nothing"], 1, "`app` has no attribute `nothing`");
    scene.check(&["heap", "path", "b.ngch", "0x1"], 1, "the dump has no object at 0x1");
}

#[test]
fn diff_names_the_attribute_that_grew() {
    let scene = scene();
    insta::assert_snapshot!(text(&scene.check(&["heap", "diff", "a.ngch", "b.ngch"], 0, "")));
    let three = text(&scene.check(&["heap", "diff", "a.ngch", "b.ngch", "a.ngch"], 0, ""));
    assert!(!three.contains("app.Session"), "{three}");
    scene.check(&["heap", "diff", "b.ngch", "a.ngch"], 0, "A was taken after B");
}

#[test]
fn flame_is_one_page_that_loads_nothing() {
    let scene = scene();
    scene.check(&["heap", "flame", "b.ngch", "-o", "heap.html"], 0, "wrote heap.html");
    let page = fs::read_to_string(scene.work().join("heap.html")).unwrap();
    assert!(page.contains("app.registry.sessions") && !page.contains("src=") && !page.contains("://"));
    scene.check(&["heap", "flame", "b.ngch", "-o", "heap.html"], 1, "--force");
}

#[test]
fn damaged_dumps_are_read_as_far_as_they_go() {
    let scene = scene();
    let whole = service(2_010, 60);
    scene.file("cut.ngch", &whole[..whole.len() - 60]);
    scene.check(&["heap", "show", "cut.ngch"], 0, "the heap dump is cut off");
    let mut damaged = whole.clone();
    let block = whole.windows(4).position(|it| it == b"BLCK").unwrap();
    damaged[block + 200] ^= 1;
    scene.file("damaged.ngch", &damaged);
    scene.check(&["heap", "show", "damaged.ngch"], 0, "1 parts of the heap dump cannot be read");
    let mut newer = whole;
    newer[4] = 7;
    scene.file("newer.ngch", &newer);
    scene.check(&["heap", "show", "newer.ngch"], 1, "use a newer neurogc");
    scene.file("other.ngch", b"text");
    scene.check(&["heap", "show", "other.ngch"], 1, "this is not a heap dump");
    scene.check(&["heap", "show", "none.ngch"], 1, "cannot read none.ngch");
}
