//! What paths are called, on heaps that are made for it.

use neurogc_ngch::{InterpreterPart, Kind, RootKind, TaskRow, TaskState, TypeFlags};

use crate::heap::Heap;
use crate::names::{FindError, Found, Names};
use crate::paths::Paths;
use crate::reader::Dump;
use crate::sample::{HeapSample, Run, types};

pub(crate) fn analysed(sample: &HeapSample) -> Heap {
    Heap::analyse(Dump::from_bytes(sample.encode()).unwrap(), &mut |_| {}).unwrap()
}

/// The path to an object is this expression, and the expression leads back to the object.
#[track_caller]
fn check(sample: &HeapSample, object: u32, expected: &str) {
    let heap = analysed(sample);
    let (names, paths) = (Names::of(&heap), Paths::find(&heap).unwrap());
    assert_eq!(names.path(&paths, object).as_deref(), Some(expected));
    if !expected.contains('<') && !expected.contains("held from") && !expected.contains('+') {
        assert_eq!(names.find(expected), Ok(Found::Object(object)), "{expected}");
    }
}

#[test]
fn a_path_through_a_module_is_what_a_programmer_writes() {
    let mut sample = HeapSample::new();
    let user = sample.class("app.User", &["name", "items"]);
    let item = sample.class("app.Item", &["parent"]);
    let name = sample.text("Ada");
    let parent = sample.object(types::BYTES, 100, vec![]);
    let third = sample.instance(item, &[parent]);
    let nothing: Vec<u32> = (0..3).map(|_| sample.object(types::BYTES, 33, vec![])).collect();
    let items = sample.list(&[nothing[0], nothing[1], nothing[2], third]);
    let ada = sample.instance(user, &[name, items]);
    let cache = sample.named(&[("user:42", ada)]);
    sample.module("app", &[("cache", cache)]);
    check(&sample, parent, r#"app.cache["user:42"].items[3].parent"#);
    check(&sample, third, r#"app.cache["user:42"].items[3]"#);
    check(&sample, cache, "app.cache");
    check(&sample, name, r#"app.cache["user:42"].name"#);
}

#[test]
fn submodules_classes_and_instance_dicts_are_attributes() {
    let mut sample = HeapSample::new();
    let held = sample.object(types::BYTES, 64, vec![]);
    let own = sample.named(&[("registry", held)]);
    let class = sample.object(types::TYPE, 1064, vec![Run::Fields(vec![(33, own)])]);
    let inside = sample.object(types::BYTES, 64, vec![]);
    let keys = ["left", "right"].map(|name| Some(sample.text(name)));
    sample.class("app.db.Pool", &[]);
    let shape = 0;
    let (pool, first) = (types::COUNT, shape);
    let dict = sample.object(types::DICT, 104, vec![Run::Split(first + 1, vec![None, Some(inside)])]);
    let instance = sample.object(pool, 56, vec![Run::Fields(vec![(0, dict)])]);
    sample.class("unused", &[]);
    sample.module("app.db", &[("Model", class), ("pool", instance)]);
    let _ = keys;
    check(&sample, held, "app.db.Model.registry");
    let heap = analysed(&sample);
    let path = Names::of(&heap).path(&Paths::find(&heap).unwrap(), dict);
    assert_eq!(path.as_deref(), Some("app.db.pool.__dict__"));
    let path = Names::of(&heap).path(&Paths::find(&heap).unwrap(), inside);
    assert_eq!(path.as_deref(), Some("app.db.pool[…]"), "the shape has no name for it");
}

#[test]
fn a_closure_names_its_variable() {
    let mut sample = HeapSample::new();
    let code = sample.code("make.<locals>.handler", &["request", "seen", "limit"]);
    let held = sample.object(types::BYTES, 64, vec![]);
    let other = sample.integer(10);
    let cells = [held, other].map(|content| sample.object(types::CELL, 40, vec![Run::Fields(vec![(2, content)])]));
    let closure = sample.tuple(&cells);
    let function = sample.object(types::FUNCTION, 160, vec![Run::Fields(vec![(6, code), (10, closure)])]);
    sample.module("app", &[("handler", function)]);
    let heap = analysed(&sample);
    let (names, paths) = (Names::of(&heap), Paths::find(&heap).unwrap());
    assert_eq!(names.path(&paths, held).as_deref(), Some(r#"app.handler.__closure__["seen"]"#));
    assert_eq!(names.path(&paths, other).as_deref(), Some(r#"app.handler.__closure__["limit"]"#));
    assert_eq!(names.object(function), "function make.<locals>.handler");
}

#[test]
fn locals_of_frames_have_their_function_and_thread() {
    let mut sample = HeapSample::new();
    let code = sample.code("handle", &["request", "rows"]);
    let rows = sample.list(&[]);
    let worker = sample.thread("worker-1");
    let (first, last) = (sample.object(types::BYTES, 64, vec![]), sample.object(types::BYTES, 64, vec![]));
    sample.append(rows, first);
    sample.frame(0, code, &[None, Some(rows)]);
    sample.frame(worker, code, &[Some(last)]);
    check(&sample, first, "handle(): rows[0]");
    check(&sample, last, "worker-1 handle(): request");
}

#[test]
fn a_task_names_the_variables_of_its_coroutine() {
    let mut sample = HeapSample::new();
    let code = sample.code("Session.run", &["self", "buffer"]);
    let buffer = sample.object(types::BYTES, 64, vec![]);
    let slots = Run::Index(vec![None, Some(buffer)]);
    let coroutine = sample.object(types::COROUTINE, 200, vec![Run::Fields(vec![(5, code)]), slots]);
    let task = sample.object(types::TASK, 200, vec![Run::Fields(vec![(4, coroutine)])]);
    sample.hold(task);
    let name = sample.integer(7);
    sample.task(TaskRow {
        object: task,
        state: TaskState::Pending,
        coroutine: Some(coroutine),
        awaits: None,
        name: Some(name),
    });
    let heap = analysed(&sample);
    let (names, paths) = (Names::of(&heap), Paths::find(&heap).unwrap());
    assert_eq!(names.path(&paths, buffer).as_deref(), Some("task Task-7._coro(): buffer"));
    assert_eq!(names.object(task), "task Task-7");
    assert_eq!(names.object(coroutine), "coroutine Session.run");
}

#[test]
fn a_module_is_preferred_to_a_frame_that_is_nearer() {
    let mut sample = HeapSample::new();
    let cache = sample.dict(&[]);
    sample.module("app", &[("cache", cache)]);
    let code = sample.code("main", &["cache"]);
    sample.frame(0, code, &[Some(cache)]);
    check(&sample, cache, "app.cache");
}

#[test]
fn keys_that_are_no_identifiers_stay_keys() {
    let mut sample = HeapSample::new();
    let (one, two) = (sample.integer(1), sample.text("x"));
    let objects: Vec<u32> = (0..5).map(|_| sample.object(types::BYTES, 50, vec![])).collect();
    let pair = sample.tuple(&[two, one]);
    let long = sample.text(&"long".repeat(40));
    let quote = sample.text("say \"hi\"\n");
    let dict = sample.dict(&[(one, objects[0]), (pair, objects[1]), (long, objects[2]), (quote, objects[3])]);
    let odd = sample.set(&[objects[4]]);
    sample.module("app", &[("table", dict), ("odd name", odd)]);
    check(&sample, objects[0], "app.table[1]");
    let heap = analysed(&sample);
    let (names, paths) = (Names::of(&heap), Paths::find(&heap).unwrap());
    let path = |object| names.path(&paths, object).unwrap();
    assert_eq!(path(objects[1]), r#"app.table[("x", 1)]"#);
    assert_eq!(path(objects[2]), format!("app.table[\"{}…\"]", "long".repeat(15)));
    assert_eq!(path(objects[3]), r#"app.table["say \"hi\"\n"]"#);
    assert_eq!(path(objects[4]), r#"app["odd name"].<member>"#);
    assert_eq!(path(pair), r#"app.table.<key ("x", 1)>"#);
}

#[test]
fn what_only_native_code_holds_has_its_library() {
    let mut sample = HeapSample::new();
    let image = sample.image("/usr/lib/libfoo.so.1");
    let (known, unknown) = (sample.list(&[]), sample.list(&[]));
    let (inner, below) = (sample.object(types::BYTES, 64, vec![]), sample.object(types::BYTES, 64, vec![]));
    sample.append(known, inner);
    sample.append(unknown, below);
    sample.root(RootKind::Image, image, 0x123, known);
    sample.hold(unknown);
    let callbacks = sample.list(&[]);
    sample.root(RootKind::Interpreter, InterpreterPart::Callbacks as u32, 0, callbacks);
    check(&sample, inner, "libfoo.so.1+0x2123[0]");
    check(&sample, below, "held from C: list[0]");
    let heap = analysed(&sample);
    let path = Names::of(&heap).path(&Paths::find(&heap).unwrap(), callbacks);
    assert_eq!(path.as_deref(), Some("gc.callbacks"));
}

#[test]
fn a_word_without_a_name_is_a_word_and_slots_have_names() {
    let mut sample = HeapSample::new();
    let slotted = sample.plain_type("app.Point", Kind::Other, TypeFlags::HEAP, &[(2, "x"), (3, "y")]);
    let (x, strange) = (sample.object(types::BYTES, 64, vec![]), sample.object(types::BYTES, 64, vec![]));
    let point = sample.object(slotted, 48, vec![Run::Fields(vec![(3, x), (7, strange)])]);
    sample.module("app", &[("origin", point)]);
    check(&sample, x, "app.origin.y");
    check(&sample, strange, "app.origin.<word 7>");
}

#[test]
fn without_texts_keys_are_types() {
    let mut sample = HeapSample::new();
    let secret = sample.object(types::STR, 60, vec![]);
    sample.objects[secret as usize].value = Some(crate::sample::SampleValue::Withheld(12));
    let held = sample.object(types::BYTES, 64, vec![]);
    let dict = sample.dict(&[(secret, held)]);
    sample.module("app", &[("users", dict)]);
    let heap = analysed(&sample);
    let (names, paths) = (Names::of(&heap), Paths::find(&heap).unwrap());
    assert_eq!(names.path(&paths, held).as_deref(), Some("app.users[<str>]"));
}

#[test]
fn a_path_of_a_million_steps_is_cut_in_the_middle() {
    let mut sample = HeapSample::new();
    let node = sample.class("app.Node", &["next"]);
    let last = sample.instance(node, &[]);
    let first = (0..1_000_000).fold(last, |next, _| sample.instance(node, &[next]));
    sample.module("app", &[("head", first)]);
    let heap = analysed(&sample);
    let (names, paths) = (Names::of(&heap), Paths::find(&heap).unwrap());
    let path = names.path(&paths, last).unwrap();
    assert!(path.starts_with("app.head.next.next") && path.contains(" … 999963 steps … "), "{path}");
    assert_eq!(names.folded_path(&paths, last).as_deref(), Some("app.head.next … 999963 steps … "));
}

#[test]
fn what_is_asked_for_is_found_or_refused_with_a_reason() {
    let mut sample = HeapSample::new();
    let session = sample.class("app.web.Session", &["user"]);
    let user = sample.text("u");
    let one = sample.instance(session, &[user]);
    sample.module("app.web", &[("last", one)]);
    sample.module("__main__", &[("state", one)]);
    let heap = analysed(&sample);
    let names = Names::of(&heap);
    assert_eq!(names.find("app.web.Session"), Ok(Found::Types(vec![session])));
    assert_eq!(names.find("Session"), Ok(Found::Types(vec![session])));
    assert_eq!(names.find("app.web.last"), Ok(Found::Object(one)));
    assert_eq!(names.find("state.user"), Ok(Found::Object(user)));
    assert_eq!(names.find(r#"sys.modules["app.web"].last"#), Ok(Found::Object(one)));
    assert_eq!(names.find(&format!("{:#x}", crate::sample::address(one))), Ok(Found::Object(one)));
    assert_eq!(names.find("0x10"), Err(FindError::NoAddress(16)));
    assert_eq!(names.find("app.web.last.users").unwrap_err().to_string(), "`app.web.last` has no attribute `users`");
    assert_eq!(
        names.find("sess").unwrap_err().to_string(),
        "the dump has no type and no module `sess`. Similar types: app.web.Session"
    );
    assert!(matches!(names.find("a b"), Err(FindError::Unreadable(_))));
}
