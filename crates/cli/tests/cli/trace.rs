//! `neurogc trace`: whole, damaged and foreign files.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use neurogc_wire::status::Cause;
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{BlockWriter, Header, Place, Record, encode_header};
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::scene::{CliScene, check, text};

/// A trace of two blocks: 1000 requests, then a collection and a stall.
fn bytes() -> Vec<u8> {
    let header = Header { pid: 99, command: "python app.py".to_owned(), ..Header::default() };
    let mut bytes = encode_header(&header);
    let mut writer = BlockWriter::new();
    for id in 0..1000 {
        writer.push(&Record::RequestStart { at: id * 1_000_000, id });
        writer.push(&Record::RequestEnd { at: id * 1_000_000 + 500_000, id });
    }
    bytes.extend(writer.take());
    let (at, pause) = (1_000_000_000, 8_000_000);
    let (kind, place) = (StopKind::Full, Place::InGap);
    writer.push(&Record::Collection { at, pause, kind, place, collected: 5, uncollectable: 0, order: None });
    writer.push(&Record::Stall { at, duration: pause, cause: Cause::Gc, site: "app.py:3 in work".to_owned() });
    bytes.extend(writer.take());
    bytes
}

#[test]
fn a_whole_trace_is_summed_up() {
    let scene = CliScene::new();
    scene.file("t.ngct", bytes());
    let output = scene.check(&["trace", "show", "t.ngct"], 0, "");
    assert!(output.stderr.is_empty());
    assert!(text(&output).contains("1,000 finished, 0 unfinished"), "{}", text(&output));
    let json = scene.check(&["trace", "show", "t.ngct", "--json"], 0, "");
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["requests"]["p99_ms"], 0.5);
    assert_eq!(value["collections"]["full"]["max_ms"], 8.0);
    assert_eq!(value["header"]["pid"], 99);
}

#[test]
fn a_cut_trace_gives_what_is_whole() {
    let scene = CliScene::new();
    let whole = bytes();
    scene.file("t.ngct", &whole[..whole.len() - 3]);
    let output = scene.check(&["trace", "show", "t.ngct"], 0, "warning: t.ngct is damaged");
    assert!(text(&output).contains("1,000 finished"), "{}", text(&output));
    scene.check(&["trace", "export", "t.ngct", "--to", "csv"], 0, "wrote 2000 records");
}

#[test]
fn a_file_of_another_kind_is_an_error() {
    let scene = CliScene::new();
    scene.file("t.ngct", "PK");
    scene.check(&["trace", "show", "t.ngct"], 1, "this is not a NeuroGC trace");
    scene.file("t.ngct", &bytes()[..12]);
    scene.check(&["trace", "show", "t.ngct"], 1, "header is cut off");
    scene.check(&["trace", "show", "missing.ngct"], 1, "cannot read missing.ngct");
    scene.check(&["trace", "export", "missing.ngct", "--to", "csv"], 1, "cannot read missing.ngct");
    scene.check(&["trace", "export", "t.ngct", "--to", "xml"], 2, "parquet");
}

#[test]
fn every_export_reads_back() {
    let scene = CliScene::new();
    scene.file("t.ngct", bytes());
    for format in ["csv", "parquet", "perfetto"] {
        scene.check(&["trace", "export", "t.ngct", "--to", format], 0, "wrote 2002 records");
    }
    let csv = fs::read_to_string(scene.work().join("t.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2002);
    assert!(csv.ends_with("stall,1000000000,,8000000,,,,,,,gc,app.py:3 in work,,,,,,,,,,,,,,,,,\n"), "{csv}");
    let parquet = fs::File::open(scene.work().join("t.parquet")).unwrap();
    assert_eq!(SerializedFileReader::new(parquet).unwrap().metadata().file_metadata().num_rows(), 2002);
    let perfetto = fs::read(scene.work().join("t.perfetto.json")).unwrap();
    let perfetto: serde_json::Value = serde_json::from_slice(&perfetto).unwrap();
    let events = perfetto["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|event| event["ph"] == "b").count(), 1000);
}

#[test]
fn a_trace_is_never_overwritten_by_its_own_export() {
    let scene = CliScene::new();
    scene.file("t.ngct", bytes());
    std::os::unix::fs::symlink("t.ngct", scene.work().join("link")).unwrap();
    for path in ["t.ngct", "./t.ngct", "link"] {
        let export = ["trace", "export", "t.ngct", "--to", "csv", "--force", "-o", path];
        scene.check(&export, 1, "is the trace itself. Name another file with -o");
    }
    assert_eq!(fs::read(scene.work().join("t.ngct")).unwrap(), bytes());
}

#[test]
fn an_existing_file_is_kept_unless_forced() {
    let scene = CliScene::new();
    scene.file("t.ngct", bytes());
    let export = ["trace", "export", "t.ngct", "--to", "csv", "-o", "out.csv"];
    scene.file("out.csv", "mine");
    scene.check(&export, 1, "Use --force");
    assert_eq!(fs::read_to_string(scene.work().join("out.csv")).unwrap(), "mine");
    check(scene.neurogc(&export).arg("--force"), 0, "wrote");
    assert!(fs::read_to_string(scene.work().join("out.csv")).unwrap().starts_with("kind,"));
    let names = fs::read_dir(scene.work()).unwrap().count();
    assert_eq!(names, 2, "no part file is left");
    scene.check(
        &["trace", "export", "t.ngct", "--to", "csv", "-o", "/nowhere/x.csv"],
        1,
        "cannot write /nowhere/x.csv: No such file",
    );
    scene.check(&["trace", "export", "t.ngct", "--to", "csv", "-o", "/dev/null"], 0, "wrote");
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn standard_output_takes_text_only() {
    let scene = CliScene::new();
    scene.file("t.ngct", bytes());
    let csv = scene.check(&["trace", "export", "t.ngct", "--to", "csv", "-o", "-"], 0, "");
    assert_eq!(text(&csv).lines().count(), 1 + 2002);
    scene.check(&["trace", "export", "t.ngct", "--to", "parquet", "-o", "-"], 2, "Name a file with -o");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let scene = CliScene::new();
    scene.file("t.ngct", bytes());
    let mut command = scene.neurogc(&["trace", "export", "t.ngct", "--to", "perfetto", "-o", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 16];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
