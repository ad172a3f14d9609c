//! Programs that leak. Each must be found by its kind, its holder and its line.

use neurogc_wire::finding::FindingKind as Kind;

use super::world::{
    Behaviour, HOUR, HOURS_6, HOURS_50, Leaking, MB, MINUTES_3, MINUTES_10, MINUTES_25, Plan, Truth, World, missed, run,
};
use neurogc_wire::breakdown::Breakdown;

const ADD: &str = "/srv/app/store.py:41 in add";

/// A leak within three minutes: of this kind, in this container, from this line.
const fn quick(
    name: &'static str,
    kind: Kind,
    holder: &'static str,
    line: &'static str,
    scenario: Behaviour,
) -> Leaking {
    Leaking { name, plan: MINUTES_3, kind, holder, line, scenario }
}

const fn slow(
    name: &'static str,
    plan: Plan,
    kind: Kind,
    holder: &'static str,
    line: &'static str,
    scenario: Behaviour,
) -> Leaking {
    Leaking { name, plan, kind, holder, line, scenario }
}

fn parts(used: f64, malloc_used: f64, malloc_free: f64, python_free: f64, arenas: u64) -> Option<Breakdown> {
    let bytes = |mb: f64| (mb * MB) as u64;
    Some(Breakdown {
        python_used: bytes(used),
        python_free: bytes(python_free),
        malloc_used: bytes(malloc_used),
        malloc_free: bytes(malloc_free),
        libraries: bytes(40.0),
        malloc_arenas: arenas,
        ..Breakdown::default()
    })
}

const LEAKS: &[Leaking] = &[
    quick("global dict", Kind::UnboundedContainer, "app.store.items", ADD, |truth, at, _| {
        truth.leak("app.store.items", "dict", ADD, 400.0 * at, 500.0);
    }),
    quick("global list, 50 small objects a second", Kind::UnboundedContainer, "app.store.rows", ADD, |truth, at, _| {
        truth.leak("app.store.rows", "list", ADD, 50.0 * at, 200.0);
    }),
    quick("global set", Kind::UnboundedContainer, "app.store.seen", ADD, |truth, at, _| {
        truth.leak("app.store.seen", "set", ADD, 1000.0 * at, 110.0);
    }),
    quick("deque without maxlen", Kind::UnboundedContainer, "app.store.events", ADD, |truth, at, _| {
        truth.leak("app.store.events", "collections.deque", ADD, 300.0 * at, 900.0);
    }),
    quick("attribute of an object", Kind::UnboundedContainer, "app.server.history", ADD, |truth, at, _| {
        truth.leak("app.server.history", "list", ADD, 200.0 * at, 700.0);
    }),
    quick(
        "lru_cache without maxsize",
        Kind::UnboundedCache,
        "app.views.render.<dict>",
        "/srv/app/views.py:9 in render",
        |truth, at, _| {
            truth.leak("app.views.render.<dict>", "dict", "/srv/app/views.py:9 in render", 300.0 * at, 400.0);
        },
    ),
    quick("dict used as a cache", Kind::UnboundedCache, "app.store.user_cache", ADD, |truth, at, _| {
        truth.leak("app.store.user_cache", "dict", ADD, 250.0 * at, 800.0);
    }),
    quick(
        "cache of a class",
        Kind::UnboundedCache,
        "data.images.ImageDataset.cache",
        "/srv/data/images.py:30 in __getitem__",
        |truth, at, _| {
            truth.leak(
                "data.images.ImageDataset.cache",
                "dict",
                "/srv/data/images.py:30 in __getitem__",
                60.0 * at,
                4000.0,
            );
            truth.objects("numpy.ndarray", 60.0 * at);
        },
    ),
    quick(
        "bound methods in a list",
        Kind::Callbacks,
        "app.bus.on_event",
        "/srv/app/bus.py:17 in subscribe",
        |truth, at, _| {
            truth.leak("app.bus.on_event", "list", "/srv/app/bus.py:17 in subscribe", 120.0 * at, 900.0);
            truth.objects("method", 120.0 * at);
            truth.objects("app.bus.Session", 120.0 * at);
        },
    ),
    quick(
        "closures as listeners",
        Kind::Callbacks,
        "app.bus.listeners",
        "/srv/app/bus.py:21 in listen",
        |truth, at, _| {
            truth.leak("app.bus.listeners", "list", "/srv/app/bus.py:21 in listen", 150.0 * at, 500.0);
            truth.objects("function", 150.0 * at);
            truth.objects("cell", 150.0 * at);
        },
    ),
    quick(
        "stored exceptions",
        Kind::StoredExceptions,
        "app.jobs.failed",
        "/srv/app/jobs.py:55 in work",
        |truth, at, _| {
            truth.leak("app.jobs.failed", "list", "/srv/app/jobs.py:55 in work", 80.0 * at, 1500.0);
            truth.objects("traceback", 240.0 * at);
            truth.objects("ValueError", 80.0 * at);
        },
    ),
    quick("open files", Kind::Descriptors, "descriptors", "/srv/app/files.py:8 in read", |truth, at, _| {
        truth.fds += 2.0 * at;
        truth.allocate("/srv/app/files.py:8 in read", 2.0 * at * 8500.0, 4000.0);
    }),
    quick("sockets", Kind::Descriptors, "descriptors", "/srv/app/client.py:30 in call", |truth, at, _| {
        truth.fds += at;
        truth.allocate("/srv/app/client.py:30 in call", at * 40_000.0, 10_000.0);
        if let Some(site) = truth.sites.get_mut("/srv/app/client.py:30 in call") {
            site.inner = "/usr/lib/python3.12/socket.py:233 in __init__";
        }
    }),
    quick(
        "open files in a list",
        Kind::Descriptors,
        "app.files.opened",
        "/srv/app/files.py:8 in read",
        |truth, at, _| {
            truth.fds += 20.0 * at;
            truth.leak("app.files.opened", "list", "/srv/app/files.py:8 in read", 20.0 * at, 4400.0);
            truth.objects("_io.TextIOWrapper", 20.0 * at);
        },
    ),
    quick(
        "pipes by their numbers",
        Kind::Descriptors,
        "app.files.ends",
        "/srv/app/files.py:8 in read",
        |truth, at, _| {
            truth.fds += 60.0 * at;
            truth.leak("app.files.ends", "list", "/srv/app/files.py:8 in read", 30.0 * at, 3100.0);
            truth.containers.insert("app.files.ends[…]", ("list", 90.0 * at, None));
        },
    ),
    quick("executors whose threads have frames", Kind::Threads, "app.work.pools", ADD, |truth, at, _| {
        truth.threads += 5.0 * at;
        truth.leak("app.work.pools", "list", ADD, 5.0 * at, 33_000.0);
        truth.containers.insert("threading._active", ("dict", 5.0 * at, None));
        truth.objects("threading.Thread", 5.0 * at);
        truth.objects("frame", 5.0 * at);
        truth.objects("method", 10.0 * at);
    }),
    quick("threads that threading knows", Kind::Threads, "threads", "/srv/app/work.py:8 in start", |truth, at, _| {
        truth.threads += 8.0 * at;
        truth.leak("threading._active", "dict", "/srv/app/work.py:8 in start", 8.0 * at, 9000.0);
        truth.containers.insert("threading._dangling.data", ("set", 8.0 * at, None));
        truth.objects("threading.Thread", 8.0 * at);
    }),
    quick("tasks that never end", Kind::Tasks, "", "/srv/app/live.py:12 in watch", |truth, at, _| {
        truth.objects("_asyncio.Task", 60.0 * at);
        truth.objects("coroutine", 60.0 * at);
        truth.allocate("/srv/app/live.py:12 in watch", 60.0 * at * 1200.0, 400.0);
    }),
    quick("threads that never end", Kind::Threads, "threads", "", |truth, at, _| {
        truth.threads += at / 4.0;
        truth.rss += at / 4.0 * 60_000.0;
    }),
    quick(
        "handlers of logging",
        Kind::Logging,
        "logging._handlerList",
        "/srv/app/log.py:5 in logger",
        |truth, at, _| {
            truth.leak("logging._handlerList", "list", "/srv/app/log.py:5 in logger", 50.0 * at, 1500.0);
        },
    ),
    quick(
        "a logger for each request",
        Kind::Logging,
        "logging.Logger.manager.loggerDict",
        "/srv/app/log.py:9 in start",
        |truth, at, _| {
            truth.leak("logging.Logger.manager.loggerDict", "dict", "/srv/app/log.py:9 in start", 90.0 * at, 1100.0);
            truth.objects("logging.Logger", 90.0 * at);
        },
    ),
    quick("context variables", Kind::Contexts, "app.ctx.variables", "/srv/app/ctx.py:3 in enter", |truth, at, _| {
        truth.leak("app.ctx.variables", "list", "/srv/app/ctx.py:3 in enter", 100.0 * at, 600.0);
        truth.objects("_contextvars.ContextVar", 100.0 * at);
    }),
    quick(
        "modules made at run time",
        Kind::Modules,
        "sys.modules",
        "/srv/app/plugins.py:14 in load",
        |truth, at, _| {
            truth.leak("sys.modules", "dict", "/srv/app/plugins.py:14 in load", 50.0 * at, 3000.0);
        },
    ),
    quick("native blocks", Kind::NativeGrowth, "", "/srv/app/native.py:6 in encode", |truth, at, _| {
        truth.native("/srv/app/native.py:6 in encode", 300_000.0 * at, 30_000.0);
    }),
    quick("objects whose holder is not known", Kind::PythonGrowth, "", ADD, |truth, at, _| {
        truth.allocate(ADD, 150_000.0 * at, 200.0);
    }),
    quick("collector switched off", Kind::CyclicGarbage, "", "", |truth, at, _| {
        truth.disabled = true;
        truth.tracked += 900.0 * at;
        truth.rss += 100_000.0 * at;
    }),
    quick("garbage that cannot be collected", Kind::CyclicGarbage, "", "", |truth, at, _| {
        truth.uncollectable = 3.0 * at;
        truth.rss += 20_000.0 * at;
    }),
    quick("garbage that is saved", Kind::CyclicGarbage, "gc.garbage", ADD, |truth, at, _| {
        truth.leak("gc.garbage", "list", ADD, 250.0 * at, 900.0);
    }),
    quick("garbage that is frozen", Kind::CyclicGarbage, "", ADD, |truth, at, _| {
        truth.frozen += 50.0 * (at / 0.2).floor();
        truth.allocate(ADD, 250_000.0 * at, 900.0);
    }),
    quick("functions for the end of the program", Kind::Callbacks, "atexit", ADD, |truth, at, _| {
        truth.leak("atexit", "registered functions", ADD, 200.0 * at, 900.0);
    }),
    quick(
        "handlers of a logger of the program",
        Kind::Logging,
        "app.log.audit.handlers",
        "/srv/app/log.py:5 in start",
        |truth, at, _| {
            truth.leak("app.log.audit.handlers", "list", "/srv/app/log.py:5 in start", 100.0 * at, 1000.0);
            truth.objects("logging.NullHandler", 100.0 * at);
        },
    ),
    quick("a buffer", Kind::UnboundedContainer, "app.store.log", ADD, |truth, at, _| {
        let bytes = 1000.0 + 100_000.0 * at;
        truth.containers.insert("app.store.log", ("bytearray", bytes, None));
        truth.native(ADD, bytes, bytes);
    }),
    quick("arenas whose free memory comes and goes", Kind::ArenaExplosion, "", "", |truth, at, dice| {
        let free = 300.0 + 200.0 * dice.unit();
        truth.rss += 700.0 * MB * (at / 10.0).min(1.0);
        truth.breakdown = if at % 30.0 < 5.0 { parts(120.0, 600.0 - free, free, 10.0, 25) } else { None };
    }),
    quick("many arenas", Kind::ArenaExplosion, "", "", |truth, at, _| {
        let free = 900.0 * (1.0 - (-at / 20.0).exp());
        truth.rss += free * MB;
        truth.breakdown = parts(120.0, 100.0, free, 10.0, 64);
    }),
    quick("free memory in malloc", Kind::MallocFree, "", "", |truth, at, _| {
        let free = 700.0 * (1.0 - (-at / 20.0).exp());
        truth.rss += free * MB;
        truth.breakdown = parts(120.0, 100.0, free, 10.0, 2);
    }),
    quick("pinned arenas of CPython", Kind::PymallocPinned, "", "", |truth, at, _| {
        let free = 400.0 * (1.0 - (-at / 20.0).exp());
        truth.rss += free * MB;
        truth.breakdown = parts(120.0, 100.0, 5.0, free, 2);
    }),
    quick("children that stay", Kind::Children, "processes", "", |truth, at, _| {
        truth.children = 4.0 + at / 10.0;
        truth.children_bytes = truth.children.floor() * 20.0 * MB;
    }),
    slow("children that grow", MINUTES_25, Kind::Children, "", "", |truth, at, dice| {
        truth.children = 4.0;
        truth.children_bytes = 200.0 * MB + 200_000.0 * at + 0.5 * MB * dice.normal();
    }),
    quick(
        "a full deque beside the leak",
        Kind::UnboundedContainer,
        "app.stats.running_stats",
        "/srv/app/stats.py:41 in process_request",
        |truth, at, _| {
            truth.containers.insert("app.log.records", ("collections.deque", (400.0 * at).min(10_000.0), Some(10_000)));
            truth.allocate("/srv/app/log.py:12 in record", (400.0 * at).min(10_000.0) * 3000.0, 1000.0);
            truth.leak("app.stats.running_stats", "dict", "/srv/app/stats.py:41 in process_request", 500.0 * at, 400.0);
        },
    ),
    quick("two leaks, the larger one first", Kind::UnboundedContainer, "app.store.items", ADD, |truth, at, _| {
        truth.leak("app.store.items", "dict", ADD, 800.0 * at, 600.0);
        truth.leak("app.log.lines", "list", "/srv/app/log.py:3 in note", 100.0 * at, 300.0);
    }),
    slow("growth of a vocabulary", MINUTES_10, Kind::UnboundedContainer, "app.store.words", ADD, |truth, at, _| {
        truth.leak("app.store.words", "dict", ADD, 6000.0 * at.powf(0.65), 300.0);
    }),
    slow("large blocks at times", MINUTES_25, Kind::UnboundedContainer, "app.store.frames", ADD, |truth, at, _| {
        truth.leak("app.store.frames", "list", ADD, (at / 60.0).floor() * 40.0, 250_000.0);
    }),
    slow(
        "a local variable of the main loop",
        MINUTES_25,
        Kind::UnboundedContainer,
        "main(): seen",
        "/srv/app/__main__.py:20 in main",
        |truth, at, _| {
            truth.leak("main(): seen", "list", "/srv/app/__main__.py:20 in main", 100.0 * at, 300.0);
        },
    ),
    slow("native growth without sites", MINUTES_25, Kind::NativeGrowth, "", "", |truth, at, _| {
        truth.rss += 120_000.0 * at;
    }),
    slow("a leak below garbage that comes and goes", MINUTES_25, Kind::PythonGrowth, "", ADD, |truth, at, _| {
        truth.allocate(ADD, 60_000.0 * at, 200.0);
        truth.rss += 20.0 * MB * (at % 100.0) / 100.0;
    }),
    slow(
        "a leak per request while traffic grows",
        MINUTES_25,
        Kind::UnboundedContainer,
        "app.store.items",
        ADD,
        |truth, at, _| {
            truth.rps = 50.0 + 0.1 * at;
            truth.in_flight = truth.rps / 25.0;
            truth.leak("app.store.items", "dict", ADD, 50.0 * at + 0.05 * at * at, 900.0);
        },
    ),
    slow("1 MB an hour under load", HOURS_6, Kind::UnboundedContainer, "app.store.items", ADD, |truth, at, _| {
        service_of_500_mb(truth, at);
        truth.leak("app.store.items", "dict", ADD, at * 5000.0 / HOUR, 200.0);
    }),
    slow("1 MB an hour under load, holder not known", HOURS_6, Kind::PythonGrowth, "", ADD, |truth, at, _| {
        service_of_500_mb(truth, at);
        truth.allocate(ADD, at * MB / HOUR, 200.0);
    }),
    slow("2 MB an hour under load, by resident memory only", HOURS_6, Kind::NativeGrowth, "", "", |truth, at, _| {
        service_of_500_mb(truth, at);
        truth.rss += 2.0 * at * MB / HOUR;
    }),
    slow(
        "a leak that begins after two hours",
        Plan { seconds: 2.5 * HOUR, ..HOURS_6 },
        Kind::UnboundedContainer,
        "app.store.items",
        ADD,
        |truth, at, _| {
            truth.leak("app.store.items", "dict", ADD, 200.0 * (at - 2.0 * HOUR).max(0.0), 500.0);
        },
    ),
    slow("a leak below a daily rhythm", HOURS_50, Kind::UnboundedContainer, "app.store.items", ADD, |truth, at, _| {
        day(truth, at);
        truth.leak("app.store.items", "dict", ADD, 2.0 * at, 500.0);
    }),
];

/// Load that goes up and down with the hours, and memory that follows it.
pub(super) fn day(truth: &mut Truth, at: f64) {
    let load = 1.0 - (at * std::f64::consts::TAU / 86_400.0).cos();
    truth.rps = 40.0 + 100.0 * load;
    truth.in_flight = truth.rps / 25.0;
    truth.rss += 60.0 * MB * load;
}

/// A service that has been warm for a while, with a load that varies by a third over some hours.
pub(super) fn service_of_500_mb(truth: &mut Truth, at: f64) {
    let load = (at / 4000.0).sin() + 0.4 * (at / 570.0).sin();
    truth.rps = 100.0 + 25.0 * load;
    truth.in_flight = truth.rps / 25.0;
    truth.rss += 200.0 * MB + 1.5 * MB * load;
}

/// The demo: verdicts within a minute, and one for one leak, though two lines and the table of the dict grow.
#[test]
fn one_fast_leak_is_one_finding_within_a_minute() {
    for seed in 0..5 {
        let mut world = World::new(seed);
        world.census_due = 20.0;
        world.census_every = 5.0;
        let mut found = None;
        for step in 0..12 {
            world.step(f64::from(step) * 5.0, 5.0, &mut |truth, at, _| {
                truth.leak("app.store.items", "dict", ADD, 1000.0 * at, 1100.0);
                truth.allocate("/srv/app/store.py:40 in add", 70_000.0 * at, 70.0);
                truth.native("/srv/app/store.py:42 in add", 60_000.0 * at, 60_000.0 * at);
            });
            let report = world.verdict();
            let alarms: Vec<_> = report.findings.iter().filter(|it| it.finding.is_alarm()).collect();
            assert!(alarms.len() <= 1, "{alarms:?}");
            found = found.or(alarms.first().map(|it| (it.finding.holder.clone(), it.finding.site.clone())));
        }
        assert_eq!(found, Some(("app.store.items".to_owned(), ADD.to_owned())), "seed {seed}");
    }
}

/// What the standard library keeps of the same objects, and what the containers in a container have, is said once.
#[test]
fn one_cause_is_one_finding() {
    let handlers: Behaviour = |truth, at, _| {
        truth.leak("app.log.audit.handlers", "list", "/srv/app/log.py:5 in start", 100.0 * at, 1000.0);
        truth.leak("logging._handlerList", "list", "/srv/app/log.py:6 in start", 100.0 * at, 300.0);
        truth.objects("logging.NullHandler", 100.0 * at);
    };
    let pairs: Behaviour = |truth, at, _| {
        truth.leak("app.store.pairs", "list", ADD, 100.0 * at, 900.0);
        truth.containers.insert("app.store.pairs[…]", ("list", 200.0 * at, None));
    };
    let tasks: Behaviour = |truth, at, _| {
        truth.leak("app.live.waiting", "set", "/srv/app/live.py:12 in watch", 100.0 * at, 1500.0);
        truth.leak("_asyncio._scheduled_tasks.data", "set", "/srv/app/live.py:13 in watch", 100.0 * at, 300.0);
        for name in ["_asyncio.Task", "coroutine", "_contextvars.Context"] {
            truth.objects(name, 100.0 * at);
        }
    };
    let classes: Behaviour = |truth, at, _| {
        truth.leak("app.store.registry", "list", ADD, 60.0 * at, 1500.0);
        truth.objects("type", 60.0 * at);
    };
    for (scenario, holder) in [
        (handlers, "app.log.audit.handlers"),
        (pairs, "app.store.pairs"),
        (tasks, "app.live.waiting"),
        (classes, "app.store.registry"),
    ] {
        let report = run(MINUTES_3, 1, scenario, |_, _| ()).verdict();
        let alarms: Vec<_> =
            report.findings.iter().filter(|it| it.finding.is_alarm()).map(|it| &*it.finding.holder).collect();
        assert_eq!(alarms, [holder]);
    }
}

#[test]
fn leaks_are_found() {
    let (mut tried, mut all) = (0, Vec::new());
    for leak in LEAKS {
        let seeds = if leak.plan.seconds > 2000.0 { 2 } else { 5 };
        tried += seeds;
        all.extend((0..seeds).filter_map(|seed| missed(leak, seed as u64)));
    }
    let share = 1.0 - all.len() as f64 / f64::from(tried);
    assert!(LEAKS.len() >= 25 && share >= 0.95, "{} of {tried} were missed:\n{}", all.len(), all.join("\n"));
    if !all.is_empty() {
        eprintln!("{} of {tried} leaks were missed:\n{}", all.len(), all.join("\n"));
    }
}
