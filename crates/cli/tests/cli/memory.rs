//! `neurogc memory`: files of every kind, an agent that answers, and what is said where there is nothing.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use neurogc_sites::{CodeLine, TableBuilder, compare, export};
use neurogc_wire::control::{self, Answer, Ask, Question};
use neurogc_wire::sites::{AllocationDomain, AllocationMode, SiteCounts, SiteTable};
use neurogc_wire::trace::{BlockWriter, Header, Record, encode_header, encode_sites};

use crate::scene::{CliScene, text};

const HOSTILE: &str = "</script><script>alert(1)</script>";

/// A program whose cache has so many MB at a second of its life.
fn table(pid: u32, second: u64, cache_mb: u64) -> SiteTable {
    let line = |function, line| CodeLine { file: "/srv/shop/web/cache.py", function, line, first_line: 1 };
    let facts = SiteTable {
        pid,
        taken_unix_ms: 1_790_000_000_000 + second * 1000,
        since_unix_ms: 1_790_000_000_000,
        mode: AllocationMode::Native,
        sample_bytes: 32 << 10,
        ..SiteTable::default()
    };
    let mut builder = TableBuilder::like(&facts);
    for (function, number, domain, mb) in
        [("add", 41, AllocationDomain::Object, cache_mb), (HOSTILE, 7, AllocationDomain::Malloc, 10)]
    {
        let node = builder.node([line("<module>", 90), line(function, number)]);
        let bytes = mb << 20;
        builder.site(node, domain).now =
            SiteCounts { live_bytes: bytes, live_blocks: mb * 1000, made_bytes: bytes, made_blocks: mb * 1000 };
    }
    builder.finish()
}

/// An agent for a process of its own, which gives out a table for each question.
struct Agent {
    process: Child,
    socket: std::path::PathBuf,
}

impl Agent {
    fn answering(answer: impl Fn(u32, u32) -> Answer + Send + 'static) -> Self {
        let process = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let folder = control::socket_folder(nix::unistd::geteuid().as_raw());
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let pid = process.id();
        let socket = control::socket_path(&folder, pid);
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            let mut count = 0;
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // Other tests list all agents of this user, and hang up when they like.
                let Ok(question) = control::read::<Question>(&mut stream, control::MAX_QUESTION) else { continue };
                let given = if matches!(question.ask, Ask::Sites(_)) {
                    count += 1;
                    answer(pid, count - 1)
                } else {
                    Answer::Refused("it has sites only".to_owned())
                };
                let _ = stream.write_all(&control::encode(&given).unwrap());
            }
        });
        Self { process, socket }
    }

    fn pid(&self) -> String {
        self.process.id().to_string()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn growing() -> Agent {
    Agent::answering(|pid, count| {
        Answer::Sites(Box::new(table(pid, 60 + u64::from(count), 100 + 5 * u64::from(count))))
    })
}

#[test]
fn sites_of_a_process_are_listed() {
    let (scene, agent) = (CliScene::new(), growing());
    let shown = text(&scene.check(&["memory", "sites", &agent.pid()], 0, ""));
    assert!(shown.starts_with(&format!("process {}: 110 MiB live", agent.pid())), "{shown}");
    let line = shown.lines().find(|line| line.contains("cache.py:41 in add")).unwrap();
    assert!(line.contains("100 MiB") && line.contains("object"), "{shown}");
    let json = scene.check(&["memory", "sites", &agent.pid(), "--native", "--json"], 0, "");
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((value["groups"].as_u64(), value["rows"][0]["live_bytes"].as_u64()), (Some(1), Some(10 << 20)));
    assert_eq!(value["rows"][0]["places"][0]["line"], 7);
    // The summary is the same in short.
    assert!(text(&scene.check(&["memory", &agent.pid()], 0, "")).contains("cache.py:41 in add"));
}

#[test]
fn a_process_that_is_not_sampled_says_why() {
    let scene = CliScene::new();
    let agent = Agent::answering(|_, _| Answer::Refused("the allocators are debug allocators".to_owned()));
    scene.check(&["memory", "sites", &agent.pid()], 1, "the allocators are debug allocators");
    let agent = Agent::answering(|pid, _| Answer::Sites(Box::new(SiteTable { pid, ..SiteTable::default() })));
    scene.check(&["memory", "flame", &agent.pid()], 1, "its setting `allocations` is off");
    assert_eq!(fs::read_dir(scene.work()).unwrap().count(), 0, "no file is left");
}

#[test]
fn a_recording_is_compared_with_its_start_and_with_another() {
    let (scene, agent) = (CliScene::new(), growing());
    let pid = agent.pid();
    let record = |out: &str| scene.check(&["memory", "record", &pid, "--for", "1s", "-o", out], 0, "wrote 2 sites");
    record("a.pb.gz");
    record("b.json");
    scene.check(&["memory", "record", &pid, "--for", "1h", "-o", "a.pb.gz"], 1, "exists already");
    let profile = export::pprof::decode(&fs::read(scene.work().join("a.pb.gz")).unwrap()).unwrap();
    let add = profile.sites.iter().map(|site| site.now).find(|now| now.live_bytes == 105 << 20).unwrap();
    assert_eq!(add.made_bytes, 5 << 20, "what was allocated meanwhile");
    let shown = text(&scene.check(&["memory", "diff", "a.pb.gz", "b.json"], 0, ""));
    assert!(shown.contains("+10.0 MiB") && !shown.contains("RATE"), "{shown}");
    let first = shown.lines().find(|line| line.contains(" in ") && line.contains('%')).unwrap();
    assert!(first.contains("cache.py:41 in add"), "{shown}");
    for (out, part) in [
        ("c.speedscope.json", "speedscope.app"),
        ("c.collapsed.txt", ";add (shop/web/cache.py:41) "),
        ("c.txt", "STACK"),
    ] {
        record(out);
        let written = fs::read_to_string(scene.work().join(out)).unwrap();
        assert!(written.contains(part), "{out}: {written}");
    }
}

#[test]
fn a_flame_graph_is_one_file_in_which_names_are_harmless() {
    let scene = CliScene::new();
    let earlier = table(7, 10, 20);
    scene.file("x.json", serde_json::to_vec(&compare(&earlier, &table(7, 70, 90))).unwrap());
    scene.check(&["memory", "flame", "x.json", "-o", "x.html"], 0, "wrote x.html");
    let page = fs::read_to_string(scene.work().join("x.html")).unwrap();
    assert!(page.contains("\"measure\":\"growth\"") && !page.contains(HOSTILE), "the name is not escaped");
    assert!(
        !page.contains("http://") && !page.contains("https://") && !page.contains(" src="),
        "the page loads something"
    );
    scene.check(&["memory", "flame", "x.json", "-o", "x.html"], 1, "--force");
    scene.check(&["memory", "flame", "x.json", "-o", "x.html", "--rate", "--force"], 0, "");
}

#[test]
fn a_trace_gives_its_last_table_and_what_grew() {
    let scene = CliScene::new();
    let mut bytes = encode_header(&Header { pid: 7, ..Header::default() });
    for second in [10, 20, 30, 40] {
        bytes.extend(encode_sites(&table(7, second, second)));
        let mut writer = BlockWriter::new();
        writer.push(&Record::Dropped { at: second, count: 1 });
        bytes.extend(writer.take());
    }
    scene.file("t.ngct", &bytes);
    assert!(text(&scene.check(&["memory", "sites", "t.ngct"], 0, "")).contains("40.0 MiB"));
    let grown = text(&scene.check(&["memory", "sites", "t.ngct", "--since", "20s"], 0, ""));
    assert!(grown.contains("+20.0 MiB in 20 s"), "{grown}");
    assert!(text(&scene.check(&["trace", "show", "t.ngct"], 0, "")).contains("allocation sites"), "they are mentioned");
    scene.file("none.ngct", encode_header(&Header::default()));
    scene.check(&["memory", "sites", "none.ngct"], 1, "has no allocation sites");
}

#[test]
fn what_cannot_be_read_is_said() {
    let scene = CliScene::new();
    scene.check(&["memory", "sites", "4190000"], 1, "there is no process 4190000");
    scene.check(&["memory", "4190000"], 1, "there is no process 4190000");
    scene.check(&["memory", "sites", &std::process::id().to_string()], 1, "Start it with `neurogc run -- …`");
    scene.check(&["memory", "sites", "nothing.pb.gz"], 1, "cannot read nothing.pb.gz");
    scene.file("x.bin", "PK\x03\x04");
    scene.check(&["memory", "diff", "x.bin", "x.bin"], 1, "x.bin cannot be read: it is no pprof profile");
    scene.file("x.json", "{\"a\": 1}");
    scene.check(&["memory", "flame", "x.json"], 1, "it is not what `neurogc memory record --format json` writes");
    scene.file("one.json", serde_json::to_vec(&table(7, 5, 5)).unwrap());
    scene.check(&["memory", "sites", "one.json", "--since", "5m"], 1, "holds one moment");
    scene.check(&["memory", "sites", "one.json", "--by", "colour"], 2, "line, function, file, stack, domain");
    scene.check(&["memory"], 2, "PID");
}
