//! Reports and records that the tests show and read back.

use neurogc_sites::{CodeLine, TableBuilder};
use neurogc_wire::allocations::{AllocationSite, Allocations};
use neurogc_wire::gpu::Gpu;
use neurogc_wire::sites::{AllocationDomain, AllocationMode, SiteCounts, SiteTable};
use neurogc_wire::stacks::StallStack;
use neurogc_wire::status::{
    AgentCost, Bound, ByCause, Cause, Child, Compared, Conduct, Cpu, FailedSnapshots, Forecasts, Gc, Gil, Guards, Io,
    Latency, Memory, Net, Orders, PauseTotals, Pauses, Requests, Route, SlowRequest, Snapshots, Spans, Stall, Stalls,
    Status, Waits,
};
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{self, Damage, Header, OrderKind, Record, Trace};
use neurogc_wire::window::{StallSite, TimeByCause, Window, WindowGc, WindowRequests, WindowStalls};

fn pauses(count: u64, total_ms: f64, p50_ms: f64, p99_ms: f64, max_ms: f64) -> Pauses {
    Pauses { count, total_ms, p50_ms, p99_ms, max_ms }
}

fn stall(at_s: f64, ms: f64, cause: Cause, site: &str) -> Stall {
    Stall { at_s, ms, cause, site: site.to_owned(), ..Stall::default() }
}

fn stall_site(cause: Cause, site: &str, count: u64, total_ms: f64, max_ms: f64) -> StallSite {
    StallSite { cause, site: site.to_owned(), count, total_ms, max_ms, ..StallSite::default() }
}

fn full(stall: Stall) -> Stall {
    Stall { stop: "full".to_owned(), objects: 2_310_554, ..stall }
}

fn route(name: &str, count: u64, p99_ms: f64, gc_ms: f64) -> Route {
    let (route, p50_ms, wait_p99_ms) = (name.to_owned(), p99_ms / 8.0, p99_ms / 2.0);
    Route { route, count, p50_ms, p99_ms, wait_p99_ms, gc_ms, stall_ms: gc_ms / 5.0, ..Route::default() }
}

fn failure(reason: &str, count: u64, last_s: f64) -> FailedSnapshots {
    FailedSnapshots { reason: reason.to_owned(), count, last_s }
}

fn child(pid: u32, ppid: u32, rss: u64, pss: Option<u64>) -> Child {
    Child { pid, ppid, command: "python3".to_owned(), rss, pss, worker: None }
}

/// A busy web service.
pub(crate) fn service() -> Status {
    Status {
        pid: 4242,
        command: "uvicorn shop.app:app --port 8000".to_owned(),
        service: "shop.app".to_owned(),
        role: "master".to_owned(),
        python: "CPython 3.12.1".to_owned(),
        neurogc: "0.1.0".to_owned(),
        policy: "gap".to_owned(),
        policy_set: "auto".to_owned(),
        uptime_s: 125.4,
        degraded: vec!["the kernel denies smaps_rollup, so PSS and USS are not known".to_owned()],
        findings: Vec::new(),
        window: Window {
            seconds: 119.4,
            stalls: WindowStalls {
                count: 27,
                by_cause: ByCause { gc: 8, gil_native: 11, python: 6, cpu_starved: 2, unknown: 0 },
                time_ms_by_cause: TimeByCause {
                    gc: 1312.5,
                    gil_native: 210.0,
                    python: 61.0,
                    cpu_starved: 14.0,
                    unknown: 0.0,
                },
                sites: vec![
                    StallSite {
                        stop: "full".to_owned(),
                        objects: 2_310_554,
                        at_s: 124.1,
                        ..stall_site(Cause::Gc, "shop/app.py:41 in basket", 8, 1312.5, 412.5)
                    },
                    stall_site(Cause::GilNative, "shop/image.py:12 in resize (libvips.so.42)", 11, 210.0, 22.5),
                    stall_site(Cause::Python, "shop/rank.py:88 in score", 6, 61.0, 12.0),
                    stall_site(Cause::CpuStarved, "", 2, 14.0, 8.0),
                ],
            },
            gc: WindowGc {
                full: PauseTotals { count: 8, total_ms: 1312.5, max_ms: 412.5 },
                in_request: PauseTotals { count: 1040, total_ms: 1402.0, max_ms: 412.5 },
                in_gap: PauseTotals { count: 200, total_ms: 38.0, max_ms: 9.1 },
                ..WindowGc::default()
            },
            requests: WindowRequests {
                count: 57_402,
                total: Latency { p50_ms: 1.4, p95_ms: 3.8, p99_ms: 19.9, p999_ms: 390.0, max_ms: 415.2 },
                wait: Latency { p99_ms: 11.0, ..Latency::default() },
                service: Latency { p99_ms: 9.1, ..Latency::default() },
            },
        },
        conduct: Conduct {
            acting: true,
            due: "young: young objects have gathered".to_owned(),
            missed: 17,
            deferred: 3,
            orders: vec![
                Orders {
                    what: "young".to_owned(),
                    reason: "young objects have gathered".to_owned(),
                    guard: false,
                    count: 1_204,
                    last_s: 125.1,
                },
                Orders {
                    what: "full".to_owned(),
                    reason: "memory is near its ceiling".to_owned(),
                    guard: true,
                    count: 2,
                    last_s: 60.0,
                },
            ],
            model: Some(Forecasts {
                family: "gru".to_owned(),
                gap_ms: vec![0.4, 1.1, 2.9, 6.4, 14.0],
                latest: Some(Compared { lasted_ms: 3.4, expected_ms: vec![0.4, 1.0, 2.7, 6.1, 13.8] }),
                gaps: 4_127,
                covered: vec![0.11, 0.24, 0.52, 0.77, 0.9],
                astray: 0.21,
                drifted: false,
                drifts: 1,
            }),
            guards: Guards {
                memory_max_mb: 0,
                memory_percent: 90.0,
                growth_percent: 20.0,
                postpone_s: 30.0,
                gc_percent: 10.0,
            },
            ..Conduct::default()
        },
        gc: Gc {
            young: pauses(1200, 84.0, 0.06, 0.21, 0.9),
            middle: pauses(109, 96.2, 0.8, 2.4, 3.1),
            full: pauses(9, 1460.0, 152.0, 401.0, 412.5),
            in_request: PauseTotals { count: 1100, total_ms: 1500.2, max_ms: 412.5 },
            in_gap: PauseTotals { count: 217, total_ms: 42.0, max_ms: 9.1 },
            in_gap_arrivals: PauseTotals { count: 1, total_ms: 98.0, max_ms: 98.0 },
            arrivals: 31,
            collected: 48_213,
            uncollectable: 2,
            tracked: 2_310_554,
            snapshot: Snapshots {
                count: 40,
                failed: 3,
                failures: vec![
                    failure("the clone could not be made: not enough memory", 2, 60.0),
                    failure("the program has frozen its heap meanwhile", 1, 100.2),
                ],
                clone_p50_ms: 2.1,
                clone_max_ms: 4.0,
                flight_p50_ms: 310.0,
                copied_ms: 44.0,
                candidates: 310_000,
                freed: 309_120,
                ..Snapshots::default()
            },
            ..Gc::default()
        },
        bound: Bound {
            goal_bytes: 900 << 20,
            live_bytes: 720 << 20,
            goal_objects: 2_800_000,
            live_objects: 2_240_000,
            objects: 2_940_000,
            over: 0.05,
            launches: 37,
            backstops: 1,
            held_back: 0,
            throttled_ms: 120.5,
            assisted_ms: 64.0,
        },
        gil: Gil {
            busy_percent: 61.3,
            busy: Spans { count: 90_210, p50_ms: 0.4, p99_ms: 6.1, max_ms: 412.9 },
            idle: Spans { count: 90_209, p50_ms: 0.2, p99_ms: 3.8, max_ms: 55.0 },
        },
        gpu: Gpu::default(),
        memory: Memory {
            rss: 812 << 20,
            peak_rss: 901 << 20,
            vms: 3 << 30,
            swap: 0,
            limit: Some(2 << 30),
            ..Memory::default()
        },
        census: neurogc_wire::census::Census::default(),
        allocations: Allocations {
            mode: AllocationMode::Native,
            rate_bytes_s: 48e6,
            live_bytes: 640 << 20,
            attributed: 0.994,
            top: vec![AllocationSite {
                site: "shop/cache.py:41 in remember".to_owned(),
                bytes: 212 << 20,
                blocks: 1_400_000,
                growth_bytes_s: 31_000.0,
            }],
            ..Allocations::default()
        },
        requests: Requests {
            count: 60_213,
            in_flight: 4,
            rps: 480.2,
            recent_p99_ms: 16.0,
            p50_ms: 1.4,
            p95_ms: 3.9,
            p99_ms: 21.7,
            p999_ms: 398.0,
            max_ms: 415.2,
            wait: Latency { p50_ms: 0.1, p95_ms: 0.4, p99_ms: 12.0, p999_ms: 310.0, max_ms: 398.0 },
            service: Latency { p50_ms: 1.3, p95_ms: 3.6, p99_ms: 9.8, p999_ms: 120.0, max_ms: 402.0 },
            waits: Waits { measured: 60_100, estimated: 13, unknown: 100 },
            routes: vec![route("/rank/{id}", 52_000, 24.0, 1_300.0), route("(no route)", 8_213, 2.0, 0.0)],
            slowest: vec![
                SlowRequest {
                    at_s: 100.0,
                    route: "/rank/{id}".to_owned(),
                    total_ms: 415.2,
                    wait_ms: 398.0,
                    gc_ms: 396.0,
                    trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
                    ..SlowRequest::default()
                },
                SlowRequest {
                    at_s: 101.5,
                    route: "/rank/{id}".to_owned(),
                    total_ms: 80.4,
                    python_ms: 61.0,
                    ..SlowRequest::default()
                },
            ],
        },
        stalls: Stalls {
            count: 31,
            max_ms: 412.5,
            by_cause: ByCause { gc: 9, gil_native: 12, python: 7, cpu_starved: 2, unknown: 1 },
            time_ms_by_cause: TimeByCause {
                gc: 1460.0,
                gil_native: 240.2,
                python: 71.0,
                cpu_starved: 14.0,
                unknown: 9.0,
            },
            longest: vec![
                full(stall(124.1, 412.5, Cause::Gc, "shop/app.py:41 in basket")),
                stall(110.0, 22.5, Cause::GilNative, "shop/image.py:12 in resize (libvips.so.42)"),
            ],
            recent: vec![
                stall(101.2, 8.4, Cause::Python, "shop/rank.py:88 in score"),
                stall(110.0, 22.5, Cause::GilNative, "shop/image.py:12 in resize (libvips.so.42)"),
                stall(124.1, 412.5, Cause::Gc, "shop/app.py:41 in basket"),
            ],
            stacks: vec![StallStack {
                cause: Cause::Gc,
                frames: ["shop/app.py:41 in basket", "shop/routes.py:77 in show", "starlette/routing.py:73 in app"]
                    .map(str::to_owned)
                    .to_vec(),
                count: 8,
                total_ms: 1312.5,
                max_ms: 412.5,
            }],
        },
        cpu: Cpu { percent: 74.2 },
        io: Io { read_bytes: 12 << 20, write_bytes: 40_960 },
        net: Net { sent_bytes: 93 << 20, recv_bytes: 11 << 20 },
        fds: 31,
        threads: 9,
        children: vec![
            child(4250, 4242, 210 << 20, Some(96 << 20)),
            child(4251, 4242, 205 << 20, None),
            child(4260, 4250, 30 << 20, None),
        ],
        agent: AgentCost { cpu_ms: 310.0, dropped: 0, rss_bytes: 5 << 20 },
    }
}

/// A process that has done nothing yet.
pub(crate) fn idle() -> Status {
    Status {
        pid: 77,
        command: "python3 worker.py".to_owned(),
        python: "CPython 3.13.0".to_owned(),
        neurogc: "0.1.0".to_owned(),
        policy: "cpython".to_owned(),
        uptime_s: 3.0,
        memory: Memory {
            rss: 14 << 20,
            peak_rss: 14 << 20,
            pss: Some(9 << 20),
            uss: Some(8 << 20),
            ..Memory::default()
        },
        ..Status::default()
    }
}

/// A trace with every kind of record, one request unfinished and a damaged part.
pub(crate) fn trace() -> Trace {
    const MS: u64 = 1_000_000;
    let collection = |at, pause, kind, place, collected, order| Record::Collection {
        at,
        pause,
        kind,
        place,
        collected,
        uncollectable: u64::from(kind == StopKind::Full),
        order,
    };
    let site = "shop/rank.py:88 in score, hot".to_owned();
    let reason = "memory: near its ceiling".to_owned();
    Trace {
        header: Header {
            pid: 4242,
            command: "uvicorn shop.app:app".to_owned(),
            python: "CPython 3.12.1".to_owned(),
            neurogc: "0.1.0".to_owned(),
            policy: "observe".to_owned(),
            service: "shop".to_owned(),
            started_unix_ns: 1_790_000_000_123_456_789,
            thresholds: [700, 10, 10],
            gil_step_ns: 100_000,
        },
        records: vec![
            Record::Process { at: 0, rss: 100 << 20, cpu_us: 50_000 },
            Record::RequestStart { at: 10 * MS, id: 1 },
            Record::RequestStart { at: 11 * MS, id: 2 },
            Record::RequestWait { at: 11 * MS, id: 2, wait: 6 * MS, source: trace::WaitSource::Socket },
            Record::Gap { at: 10 * MS, busy: 15 * MS, idle: 45 * MS },
            Record::RequestEnd { at: 12 * MS, id: 1 },
            collection(20 * MS, 40 * MS, StopKind::Full, trace::Place::InRequest, 512, None),
            Record::Stall { at: 20 * MS, duration: 40 * MS, cause: Cause::Gc, site: String::new() },
            Record::RequestEnd { at: 61 * MS, id: 2 },
            Record::Order { at: 70 * MS, id: 9, guard: true, what: OrderKind::Young, reason },
            collection(70 * MS, MS / 20, StopKind::Young, trace::Place::Forced, 30, Some(9)),
            Record::Gap { at: 70 * MS, busy: 2 * MS, idle: 38 * MS },
            Record::Counts { at: 71 * MS, counts: [12, 3, 1] },
            Record::Stall { at: 80 * MS, duration: 7 * MS, cause: Cause::Python, site },
            Record::RequestStart { at: 90 * MS, id: 3 },
            Record::Dropped { at: 95 * MS, count: 4 },
            Record::Policy { at: 96 * MS, before: "observe".to_owned(), after: "gap".to_owned() },
            Record::Heap { at: 97 * MS, gathered: 701, tenured: 300_000, pending: 20_000 },
            Record::Flight { at: 98 * MS, lasted: 9 * MS, faults: 40, objects: 320_000, found: 9_000 },
            Record::Process { at: 100 * MS, rss: 120 << 20, cpu_us: 110_000 },
        ],
        sites: Vec::new(),
        damage: vec![Damage { offset: 900, length: 128, what: "the last block is cut off" }],
    }
}

/// The sites of a small shop. In each round its cache has more and its buffers have less.
pub(crate) fn sites(round: u64) -> SiteTable {
    let place = |file, function, line| CodeLine { file, function, line, first_line: line / 10 * 10 };
    let app = "/srv/shop/web/app.py";
    let main = place(app, "<module>", 90);
    let handle = place(app, "handle", 31);
    let add = place("/srv/shop/web/cache.py", "add", 41);
    let loads = place("/usr/lib/python3.12/json/decoder.py", "raw_decode", 353);
    let zeros = place("/opt/venv/lib/python3.12/site-packages/numpy/core/numeric.py", "ones", 191);
    let counts = |bytes: u64, blocks: u64, made: u64| SiteCounts {
        live_bytes: bytes,
        live_blocks: blocks,
        made_bytes: made * round,
        made_blocks: made * round / 100,
    };
    let taken_unix_ms = 1_790_000_000_000 + round * 60_000;
    let facts = SiteTable {
        pid: 4242,
        taken_unix_ms,
        since_unix_ms: 1_790_000_000_000,
        mode: AllocationMode::Native,
        sample_bytes: 32 << 10,
        ..SiteTable::default()
    };
    let mut builder = TableBuilder::like(&facts);
    let stacks: [(&[CodeLine<'_>], AllocationDomain, SiteCounts); 5] = [
        (&[main, handle, add], AllocationDomain::Object, counts(round * (180 << 20), round * 91_002, 200 << 20)),
        (&[main, handle, add, loads], AllocationDomain::Object, counts(24 << 20, 300_123, 6 << 30)),
        (&[main, handle, loads], AllocationDomain::Malloc, counts(8 << 20, 2_011, 1 << 30)),
        (&[main, zeros], AllocationDomain::Malloc, counts((64 << 20) / round, 4, 64 << 20)),
        (&[], AllocationDomain::Mmap, counts(16 << 20, 2, 16 << 20)),
    ];
    for (stack, domain, counts) in stacks {
        let node = builder.node(stack.iter().copied());
        builder.site(node, domain).now = counts;
    }
    builder.finish()
}
