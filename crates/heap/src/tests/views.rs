//! Views: what a person is shown of heaps that are made for it.

use neurogc_ngch::{InterpreterPart, Kind, RootKind, TaskRow, TaskState, TypeFlags};

use super::names::analysed;
use crate::heap::Heap;
use crate::names::{HeapTarget, Names};
use crate::paths::Paths;
use crate::places::HeapPlaces;
use crate::sample::{HeapSample, ReferenceRun, types};
use crate::views::{self, GrowthReport, PlaceTable, TypeOrder};

fn with_paths(sample: &HeapSample) -> (Heap, Paths) {
    let heap = analysed(sample);
    let paths = Paths::find(&heap).unwrap();
    (heap, paths)
}

fn place_table(sample: &HeapSample) -> PlaceTable {
    let (heap, paths) = with_paths(sample);
    PlaceTable::new(&HeapPlaces::of(&heap, &paths).unwrap(), &views::summary(&heap))
}

/// A service with a cache of `records`, and a registry of `leaked` sessions. Objects are made in an order that `seed`
/// chooses, so that no address is the same in two of these.
fn service(records: u32, leaked: u32, seed: u32) -> HeapSample {
    let mut sample = HeapSample::new();
    for _ in 0..seed % 1000 {
        sample.text("moved");
    }
    let record = sample.class("app.Record", &["key", "tags"]);
    let session = sample.class("app.Session", &["user", "history"]);
    let registry = sample.class("app.Registry", &["sessions", "name"]);
    let mut sessions = Vec::new();
    let mut pairs = Vec::new();
    for number in 0..records.max(leaked) {
        if number < leaked {
            let user = sample.text(&format!("user {}", number ^ seed));
            let history = sample.list(&[]);
            sessions.push(sample.instance(session, &[user, history]));
        }
        if number < records {
            let key = sample.text(&format!("record {}", number ^ seed));
            let tag = sample.text("tag");
            let tags = sample.list(&[tag]);
            let value = sample.instance(record, &[key, tags]);
            pairs.push((key, value));
        }
    }
    // As many of the others are replaced as possible, and one module's counters change by a little.
    pairs.rotate_left((seed % 7) as usize);
    let cache = sample.dict(&pairs);
    let all = sample.list(&sessions);
    let name = sample.text("main registry");
    let the_registry = sample.instance(registry, &[all, name]);
    let counters: Vec<u32> = (0..seed % 5).map(|it| sample.integer(i64::from(it) + 100_000)).collect();
    let counters = sample.list(&counters);
    sample.module("app", &[("cache", cache), ("registry", the_registry), ("counters", counters)]);
    sample.module("json", &[]);
    sample.taken(1_790_000_000_000_000_000 + u64::from(seed) * 1_000_000_000);
    sample
}

#[test]
fn a_planted_leak_is_in_the_first_place_named_to_the_attribute() {
    let (before, after) = (place_table(&service(200_000, 0, 1)), place_table(&service(200_000, 20_000, 604)));
    assert!(before.objects > 800_000);
    let report = views::growth(&before, &after, None, 5);
    let first = &report.rows[0];
    assert_eq!((first.place.as_str(), first.class.as_str()), ("app.registry.sessions[…]", "app.Session"));
    assert_eq!((first.objects, first.objects_before, first.objects_after), (20_000, 0, 20_000));
    let parts: Vec<_> = first.parts.iter().map(|it| (it.place.as_str(), it.class.as_str(), it.objects)).collect();
    assert_eq!(parts, [(".history", "list", 20_000), (".user", "str", 20_000)]);
    assert_eq!(report.between_ms, 603_000);
    // The list itself grew, and little else did: the texts that only move everything.
    let second = &report.rows[1];
    assert_eq!((second.place.as_str(), second.objects), ("app.registry.sessions", 0));
    assert!(report.rows[2..].iter().all(|row| row.retained < 50_000), "{:?}", report.rows);
}

#[test]
fn three_dumps_show_what_is_new_and_still_there() {
    let [a, b, c] = [(100, 10, 3), (100, 5_000, 4), (100, 4_000, 6)]
        .map(|(records, leaked, seed)| place_table(&service(records, leaked, seed)));
    let report: GrowthReport = views::growth(&a, &b, Some(&c), 3);
    assert_eq!((report.rows[0].place.as_str(), report.rows[0].kept), ("app.registry.sessions[…]", Some(3_990)));
    // What was given back is no growth.
    let gone = views::growth(&a, &b, Some(&a), 3);
    assert!(gone.rows.iter().all(|row| row.class != "app.Session"), "{:?}", gone.rows);
}

#[test]
fn a_tree_and_a_linked_list_are_one_place_each() {
    let mut sample = HeapSample::new();
    let node = sample.class("app.Node", &["next", "children"]);
    let mut next = sample.instance(node, &[]);
    for _ in 0..50_000 {
        next = sample.instance(node, &[next]);
    }
    // A tree whose nodes hold lists of nodes.
    let mut level: Vec<u32> = (0..1024).map(|_| sample.object(node, 48, vec![])).collect();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| {
                let children = sample.list(pair);
                sample.object(node, 48, vec![ReferenceRun::Attributes(vec![None, Some(children)])])
            })
            .collect();
    }
    sample.module("app", &[("head", next), ("tree", level[0])]);
    let (heap, paths) = with_paths(&sample);
    let places = HeapPlaces::of(&heap, &paths).unwrap();
    assert!(places.nodes.len() < 40, "{}", places.nodes.len());
    let of = |name: &str| {
        let place = (0..places.nodes.len() as u32).find(|it| places.name(*it) == name).unwrap();
        (places.nodes[place as usize].objects, places.nodes[place as usize].retained)
    };
    assert_eq!(of("app.head"), (50_001, 50_001 * 48));
    assert_eq!(of("app.tree.children").0, 1023);
    assert_eq!(of("app.tree.children[…]").0, 2046);
}

#[test]
fn suspects_are_named_where_the_memory_gathers() {
    let (heap, paths) = with_paths(&service(500, 20_000, 5));
    let suspects = views::suspects(&heap, &paths);
    assert_eq!(suspects[0].text, "`app.registry`, an app.Registry; it gathers at `app.registry.sessions`, a list");
    assert!(suspects[0].share > 0.8);
    assert_eq!((suspects[0].parts[0].class.as_str(), suspects[0].parts[0].objects), ("app.Session", 20_000));
    assert_eq!(suspects.len(), 1, "modules themselves are none");
}

#[test]
fn many_small_ones_of_a_type_are_a_suspect_together() {
    let mut sample = HeapSample::new();
    let blob = sample.plain_type("app.Blob", Kind::Other, 0, &[]);
    for number in 0..50 {
        let one = sample.object(blob, 1000, vec![]);
        sample.module(&format!("plugin{number}"), &[("blob", one)]);
    }
    for _ in 0..2000 {
        let other = sample.object(types::BYTES, 20, vec![]);
        sample.hold(other);
    }
    let (heap, paths) = with_paths(&sample);
    let texts: Vec<_> = views::suspects(&heap, &paths).into_iter().map(|it| it.text).collect();
    assert!(texts.contains(&"2000 objects of type bytes under different holders".to_owned()), "{texts:?}");
}

#[test]
fn types_count_nested_ones_once() {
    let mut sample = HeapSample::new();
    let inner = sample.list(&[]);
    let middle = sample.tuple(&[inner]);
    let outer = sample.list(&[middle]);
    sample.module("app", &[("rows", outer)]);
    let (heap, _) = with_paths(&sample);
    let lines = views::types(&heap, TypeOrder::Bytes);
    let list = lines.iter().find(|line| line.name == "list").unwrap();
    assert_eq!((list.objects, list.bytes, list.retained), (2, 56 + 64, 56 + 64 + 48));
    let by_objects = views::types(&heap, TypeOrder::Objects);
    assert_eq!(by_objects[0].name, "str");
}

#[test]
fn paths_to_all_objects_of_a_type_are_merged() {
    let (heap, paths) = with_paths(&service(10, 3_000, 2));
    let Ok(HeapTarget::Types(of)) = Names::of(&heap).find("app.Session") else { panic!("it is a type") };
    let objects: Vec<u32> =
        (0..heap.graph.objects() as u32).filter(|it| heap.graph.types[*it as usize] == of[0]).collect();
    let merged = views::merged_paths(&heap, &paths, &objects, 5);
    assert_eq!((merged.objects, merged.garbage, merged.paths), (3_000, 0, 1));
    assert_eq!((merged.rows[0].path.as_str(), merged.rows[0].objects), ("app.registry.sessions[…]", 3_000));
    assert_eq!(merged.rows[0].example, "app.registry.sessions[1000]", "the first of those with the longest name");
}

#[test]
fn paths_to_all_nodes_of_a_long_list_pass_each_node_once() {
    let mut sample = HeapSample::new();
    let (even, odd) = (sample.class("app.Even", &["next"]), sample.class("app.Odd", &["after"]));
    let mut head = sample.list(&[]);
    for number in 0..400_000 {
        head = sample.instance(if number % 2 == 0 { even } else { odd }, &[head]);
    }
    sample.module("app", &[("head", head)]);
    let (heap, paths) = with_paths(&sample);
    let of_list = |it: &u32| heap.graph.types[*it as usize] >= even;
    let objects: Vec<u32> = (0..heap.graph.objects() as u32).filter(of_list).collect();
    // From the far end on, so that no node's beginning is known.
    let merged = views::merged_paths(&heap, &paths, &objects, 5);
    assert_eq!((merged.objects, merged.garbage), (400_000, 0));
    let first = &merged.rows[0];
    assert!(first.path.starts_with("app.head.after.next.after") && first.path.ends_with('…'), "{}", first.path);
    assert!(first.path.len() < 320 && first.objects > 399_000, "{first:?}");
}

#[test]
fn the_path_to_one_object_has_its_steps_and_its_other_holders() {
    let mut sample = HeapSample::new();
    let blob = sample.object(types::BYTES, 5000, vec![]);
    let list = sample.list(&[blob]);
    let other = sample.tuple(&[blob]);
    sample.module("app", &[("rows", list), ("last", other)]);
    let (heap, paths) = with_paths(&sample);
    let path = views::object_path(&heap, &paths, blob);
    let steps: Vec<_> = path.steps.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(steps, ["sys.modules", "app", "app.__dict__", "app.rows", "app.rows[0]"]);
    let mut holders: Vec<_> = path.holders.iter().map(|it| it.path.as_str()).collect();
    holders.sort_unstable();
    assert_eq!((holders, path.referred), (vec!["app.last[0]", "app.rows[0]"], 2));
}

#[test]
fn duplicate_strings_are_counted_by_their_whole_text() {
    let mut sample = HeapSample::new();
    let long = "x".repeat(100);
    let texts: Vec<u32> = (0..30).map(|_| sample.text("again")).collect();
    let long_ones: Vec<u32> = [&long, &long, &format!("{long}y")].map(|it| sample.text(it)).to_vec();
    let list = sample.list(&[texts, long_ones].concat());
    sample.module("app", &[("words", list)]);
    let (heap, paths) = with_paths(&sample);
    let report = views::strings(&heap, &paths, 5);
    let rows: Vec<_> = report.rows.iter().map(|it| (it.text.as_str(), it.objects, it.wasted)).collect();
    assert_eq!(rows[0], ("\"again\"", 30, 29 * 46));
    assert_eq!((rows[1].1, rows[1].2), (2, 141));
    assert_eq!(report.rows[0].path.as_deref(), Some("app.words[…]"));
}

#[test]
fn threads_show_what_their_variables_retain() {
    let mut sample = HeapSample::new();
    let code = sample.code("handle", &["request", "rows", "config"]);
    let blob = sample.object(types::BYTES, 9000, vec![]);
    let rows = sample.list(&[blob]);
    let config = sample.object(types::BYTES, 700, vec![]);
    sample.module("app", &[("config", config)]);
    let worker = sample.thread("worker-1");
    sample.frame(worker, code, &[None, Some(rows), Some(config)]);
    // As in CPython 3.10, where a frame is an object that refers to its variables.
    let frames = sample.plain_type("frame", Kind::Frame, 0, &[]);
    let frame = sample.object(frames, 400, vec![ReferenceRun::Fields(vec![(9, rows)])]);
    sample.hold(frame);
    let coroutine_code = sample.code("poll", &["buffer"]);
    let buffer = sample.object(types::BYTES, 400, vec![]);
    let runs = vec![ReferenceRun::Fields(vec![(5, coroutine_code), (8, buffer)])];
    let coroutine = sample.object(types::COROUTINE, 200, runs);
    let task = sample.object(types::TASK, 100, vec![ReferenceRun::Fields(vec![(4, coroutine)])]);
    sample.hold(task);
    let (state, name) = (TaskState::Pending, sample.text("poller"));
    sample.task(TaskRow { object: task, state, coroutine: Some(coroutine), awaits: Some(rows), name: Some(name) });
    let report = views::threads(&analysed(&sample), 5);
    let worker = &report.threads[1];
    assert_eq!((worker.name.as_str(), worker.retained), ("worker-1", 9000 + 64));
    let locals: Vec<_> =
        worker.frames[0].locals.iter().map(|it| (it.name.as_str(), it.retained, it.only_here)).collect();
    assert_eq!(locals, [("rows", 9064, true), ("config", 700, false)]);
    assert_eq!(worker.frames[0].place.as_deref(), Some("app/service.py:41"));
    let task = &report.tasks[0];
    assert_eq!((task.name.as_str(), task.coroutine.as_deref(), task.state), ("poller", Some("poll"), "pending"));
    assert_eq!((task.awaits.as_deref(), task.retained > 700), (Some("list"), true));
}

#[test]
fn containers_garbage_and_what_is_held_from_c_have_their_views() {
    let mut sample = HeapSample::new();
    let empty: Vec<u32> = (0..5).map(|_| sample.list(&[])).collect();
    let long = sample.list(&empty);
    sample.module("app", &[("lists", long)]);
    let finalizer = sample.plain_type("app.Handle", Kind::Other, TypeFlags::FINALIZER, &[(2, "peer")]);
    let (one, other) = (sample.object(finalizer, 64, vec![]), sample.object(finalizer, 64, vec![]));
    sample.link(one, ReferenceRun::Fields(vec![(2, other)]));
    sample.link(other, ReferenceRun::Fields(vec![(2, one)]));
    let image = sample.image("/lib/libssl.so.3");
    let (known, unknown) = (sample.dict(&[]), sample.object(types::BYTES, 3000, vec![]));
    sample.root(RootKind::Image, image, 8, known);
    sample.hold(unknown);
    let kept = sample.object(types::BYTES, 77, vec![]);
    let list = sample.list(&[kept]);
    sample.root(RootKind::Interpreter, InterpreterPart::Garbage as u32, 0, list);
    let (heap, paths) = with_paths(&sample);

    let report = views::containers(&heap, &paths, 3);
    assert_eq!((report.longest[0].length, report.longest[0].object.path.as_deref()), (5, Some("app.lists")));
    let lists = report.empty.iter().find(|line| line.class == "list").unwrap();
    assert_eq!((lists.objects, lists.all, lists.bytes), (5, 7, 5 * 56));

    let report = views::garbage(&heap, &paths, 5);
    assert_eq!((report.objects, report.bytes, report.finalizers.as_slice()), (2, 128, &["app.Handle".to_owned()][..]));
    assert_eq!((report.kept_objects, report.kept[0].path.as_deref()), (1, Some("gc.garbage[0]")));

    let report = views::outside(&heap, &paths, 5);
    let rows: Vec<_> = report.rows.iter().map(|it| (it.by.as_str(), it.retained)).collect();
    assert_eq!(rows, [("native code without a name", 3000), ("libssl.so.3", 64)]);
    let summary = views::summary(&heap);
    assert_eq!((summary.garbage_objects, summary.garbage_bytes, summary.from_c_bytes), (2, 128, 3000));
    assert_eq!(summary.python, "3.12.1");
}

#[test]
fn the_tree_opens_level_by_level() {
    let (heap, _) = with_paths(&service(10, 100, 2));
    let steps = |lines: &[views::TreeLine]| lines.iter().map(|it| it.step.clone()).collect::<Vec<_>>();
    let top = views::branches(&heap, None, 3);
    assert_eq!(top[0].step, "sys.modules");
    let modules = views::branches(&heap, Some(top[0].object), 1);
    assert_eq!(steps(&modules), [".app"]);
    let globals = views::branches(&heap, Some(modules[0].object), 1);
    assert_eq!((steps(&globals), globals[0].what.as_str()), (vec![".__dict__".to_owned()], "globals of app"));
    let inside = views::branches(&heap, Some(globals[0].object), 2);
    assert_eq!(steps(&inside), [".registry", ".cache"]);
    assert_eq!(inside[0].what, "app.Registry");
}

#[test]
fn a_function_elsewhere_does_not_hide_the_module_of_its_globals() {
    let mut sample = HeapSample::new();
    let blob = sample.object(types::BYTES, 90_000, vec![]);
    let cache = sample.list(&[blob]);
    let module = sample.module("app", &[("cache", cache)]);
    // The globals are the object before the module; a frame holds a function that refers to them.
    let globals = module - 1;
    let function = sample.object(types::FUNCTION, 160, vec![ReferenceRun::Fields(vec![(2, globals)])]);
    let code = sample.code("main", &["callback"]);
    sample.frame(0, code, &[Some(function)]);
    let (heap, paths) = with_paths(&sample);
    assert_eq!((heap.tree.holders[globals as usize], heap.tree.holders[cache as usize]), (module, globals));
    assert_eq!(views::summary(&heap).from_c_bytes, 0, "its references still count");
    let places = HeapPlaces::of(&heap, &paths).unwrap();
    let names: Vec<String> = (1..places.nodes.len() as u32).map(|it| places.name(it)).collect();
    assert!(names.contains(&"app.cache".to_owned()) && names.contains(&"app.cache[…]".to_owned()), "{names:?}");
}

#[test]
fn threads_have_the_names_that_python_gives_them() {
    let mut sample = HeapSample::new();
    let thread = sample.class("threading.Thread", &["_name"]);
    let name = sample.text("pool-7");
    let object = sample.instance(thread, &[name]);
    let ident = sample.integer(101);
    let active = sample.dict(&[(ident, object)]);
    sample.module("threading", &[("_active", active)]);
    sample.thread("python");
    let report = views::threads(&analysed(&sample), 5);
    let names: Vec<_> = report.threads.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["MainThread", "pool-7"]);
}
