//! Programs that look as if they leaked. None may raise an alarm at any time.

use super::leaking::{day, service_of_500_mb};
use super::world::{Behaviour, HOUR, HOURS_6, HOURS_50, Healthy, MB, MINUTES_10, MINUTES_25, Plan, alarmed};
use neurogc_wire::breakdown::Breakdown;

const ADD: &str = "/srv/app/store.py:41 in add";

const fn short(name: &'static str, scenario: Behaviour) -> Healthy {
    Healthy { name, plan: MINUTES_10, scenario }
}

const fn long(name: &'static str, plan: Plan, scenario: Behaviour) -> Healthy {
    Healthy { name, plan, scenario }
}

const HEALTHY: &[Healthy] = &[
    short("nothing happens", |_, _, _| ()),
    long("nothing happens for long", HOURS_6, |truth, at, _| service_of_500_mb(truth, at)),
    long("noise that wanders", Plan { noise: 6.0 * MB, ..MINUTES_25 }, |_, _, _| ()),
    long("noise of a large process", Plan { noise: 30.0 * MB, ..MINUTES_25 }, |truth, _, _| truth.rss += 8000.0 * MB),
    short("warm-up within a minute", |truth, at, _| truth.allocate(ADD, 80.0 * MB * (1.0 - (-at / 20.0).exp()), 300.0)),
    short("warm-up within some minutes", |truth, at, _| {
        truth.allocate(ADD, 80.0 * MB * (1.0 - (-at / 60.0).exp()), 300.0);
    }),
    short("warm-up that takes ten minutes", |truth, at, _| truth.rss += 80.0 * MB * (1.0 - (-at / 200.0).exp())),
    long("warm-up of half an hour", Plan { seconds: 1.5 * HOUR, ..MINUTES_25 }, |truth, at, _| {
        truth.rss += 120.0 * MB * (1.0 - (-at / 500.0).exp());
    }),
    short("a model is loaded", |truth, at, _| {
        if at > 200.0 {
            truth.native("/srv/app/model.py:8 in load", 400.0 * MB, 1e6);
        }
    }),
    short("a model is loaded slowly", |truth, at, _| {
        truth.native("/srv/app/model.py:8 in load", 400.0 * MB * ((at - 150.0) / 60.0).clamp(0.0, 1.0), 1e6);
    }),
    short("three modules are loaded on demand", |truth, at, _| {
        let loaded = [100.0, 240.0, 410.0].iter().filter(|moment| at > **moment).count();
        truth.allocate("/srv/app/lazy.py:2 in load", loaded as f64 * 25.0 * MB, 300.0);
    }),
    short("a deque with maxlen fills up", |truth, at, _| {
        let length = (60.0 * at).min(20_000.0);
        truth.containers.insert("app.log.records", ("collections.deque", length, Some(20_000)));
        truth.allocate(ADD, length * 900.0, 900.0);
    }),
    short("a cache with a known bound fills up", |truth, at, _| {
        let length = (40.0 * at).min(18_000.0);
        truth.containers.insert("app.views.render.<dict>", ("dict", length, Some(18_000)));
        truth.allocate(ADD, length * 900.0, 900.0);
    }),
    short("a dict that the program bounds fills up within a minute", |truth, at, _| {
        let length = (300.0 * at).min(20_000.0);
        truth.containers.insert("app.store.recent", ("dict", length, None));
        truth.allocate(ADD, length * 500.0, 500.0);
    }),
    short("a cache of a fixed number of keys", |truth, at, _| {
        let length = 30_000.0 * (1.0 - (-at / 70.0).exp());
        truth.containers.insert("app.store.user_cache", ("dict", length, None));
        truth.allocate(ADD, length * 800.0, 800.0);
    }),
    short("entries that expire after a minute", |truth, at, dice| {
        let length = 200.0 * at.min(60.0) + 100.0 * dice.normal();
        truth.containers.insert("app.store.sessions", ("dict", length.max(0.0), None));
        truth.allocate(ADD, length.max(0.0) * 900.0, 900.0);
    }),
    short("garbage that comes and goes", |truth, at, _| {
        truth.rss += 60.0 * MB * (at % 45.0) / 45.0;
        truth.tracked += 200_000.0 * (at % 45.0) / 45.0;
    }),
    long("garbage that comes and goes slowly", MINUTES_25, |truth, at, _| {
        truth.rss += 80.0 * MB * (at % 170.0) / 170.0;
        truth.tracked += 200_000.0 * (at % 170.0) / 170.0;
    }),
    long("batches of four minutes", MINUTES_25, |truth, at, _| {
        let done = (at % 300.0).min(240.0);
        let rows = if at % 300.0 < 250.0 { 400.0 * done } else { 0.0 };
        truth.containers.insert("run(): rows", ("list", rows, None));
        truth.rss += rows * 700.0;
    }),
    long("a batch every hour", HOURS_6, |truth, at, _| {
        let part = at % HOUR;
        if (1200.0..1320.0).contains(&part) {
            truth.allocate(ADD, (part - 1200.0) * 2.0 * MB, 500.0);
        }
    }),
    long("traffic grows, and buffers with it", MINUTES_25, |truth, at, _| {
        truth.rps = 50.0 + 0.15 * at;
        truth.in_flight = truth.rps / 5.0;
        truth.allocate(ADD, truth.in_flight * 0.6 * MB, 4000.0);
    }),
    long("traffic grows, and sessions with it", MINUTES_25, |truth, at, _| {
        truth.rps = 50.0 + 0.15 * at;
        truth.in_flight = truth.rps / 25.0;
        let sessions = truth.rps * 60.0;
        truth.containers.insert("app.store.sessions", ("dict", sessions, None));
        truth.allocate(ADD, sessions * 2000.0, 500.0);
    }),
    short("traffic doubles at once", |truth, at, _| {
        truth.rps = if at > 250.0 { 200.0 } else { 100.0 };
        truth.rss += truth.rps * 0.3 * MB;
    }),
    long("days and nights", HOURS_50, |truth, at, _| day(truth, at)),
    long("allocators keep the memory of a peak", MINUTES_25, |truth, at, _| {
        let peak = if (300.0..360.0).contains(&at) { 300.0 } else { 0.0 };
        let kept = if at >= 300.0 { 300.0 } else { 0.0 };
        truth.rss += kept * MB;
        truth.breakdown = Some(Breakdown {
            python_used: 150_000_000,
            malloc_used: ((60.0 + peak) * MB) as u64,
            malloc_free: ((kept - peak) * 0.2 * MB) as u64,
            malloc_arenas: 3,
            ..Breakdown::default()
        });
    }),
    short("a pool of connections fills up", |truth, at, _| {
        truth.fds += (at / 3.0).min(20.0);
        truth.threads += (at / 10.0).min(8.0);
    }),
    short("workers are started one after the other", |truth, at, _| {
        truth.children = (at / 5.0).floor().min(8.0);
        truth.children_bytes = truth.children * 40.0 * MB;
    }),
    long("a few hundred kilobytes in an hour", HOURS_6, |truth, at, _| truth.rss += 0.05 * MB * at / HOUR),
    short("a report is built in a local variable", |truth, at, _| {
        let rows = if (60.0..300.0).contains(&at) { 300.0 * (at - 60.0) } else { 0.0 };
        truth.containers.insert("report(): lines", ("list", rows, None));
        truth.rss += rows * 500.0;
    }),
    short("a fixed number of blocks gets larger up to a bound", |truth, at, _| {
        let block = (200.0 + 20.0 * at).min(3000.0);
        truth.native(ADD, 5000.0 * block, block);
    }),
    short("buffers in a list grow to the size of messages", |truth, at, _| {
        let bytes = (2500.0 * at).min(1_000_000.0);
        truth.containers.insert("app.net.buffers[…]", ("bytearray", 40.0 * bytes, None));
        truth.containers.insert("app.net.buffer", ("bytearray", bytes, None));
        truth.native(ADD, 40.0 * bytes, bytes);
    }),
    short("tasks come and go", |truth, at, dice| {
        truth.objects("_asyncio.Task", 300.0 + 200.0 * (at / 40.0).sin() + 20.0 * dice.normal());
        truth.objects("coroutine", 300.0 + 200.0 * (at / 40.0).sin());
    }),
    short("one container empties into another", |truth, at, _| {
        truth.containers.insert("app.queue.todo", ("list", 200_000.0 - 300.0 * at, None));
        truth.containers.insert("run(): done", ("list", 300.0 * at, None));
    }),
];

#[test]
fn healthy_programs_raise_no_alarm() {
    let mut all = Vec::new();
    for healthy in HEALTHY {
        let seeds = if healthy.plan.seconds > 2000.0 { 2 } else { 5 };
        all.extend((0..seeds).filter_map(|seed| alarmed(healthy, seed)));
    }
    assert!(HEALTHY.len() >= 20 && all.is_empty(), "{} false alarms:\n{}", all.len(), all.join("\n"));
}
