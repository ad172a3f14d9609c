//! The generator against real sockets: services that stall, close, answer in pieces, or answer garbage.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use neurogc_load::{Arrivals, Asks, Flow, Load, LoadOutcome, LoadPlan, PlanPart, Target, Users, drive, get};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A service that hands every request of every connection to `answer`, which tells whether to go on.
fn service(answer: impl Fn(&str, &mut TcpStream) -> bool + Send + Sync + 'static) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::new(listener.local_addr().unwrap()).unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let mut writer = stream.try_clone().unwrap();
                let mut lines = BufReader::new(stream).lines();
                while let Some(Ok(first)) = lines.next() {
                    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                    if !answer(first.split(' ').nth(1).unwrap_or(""), &mut writer) {
                        return;
                    }
                }
            });
        }
    });
    target
}

fn plan(target: Target, load: Load, milliseconds: u64) -> LoadPlan {
    LoadPlan {
        target,
        asks: Asks::of("/item/{}"),
        load,
        parts: vec![PlanPart { name: "measured", lasts: Duration::from_millis(milliseconds) }],
        patience: Duration::from_secs(5),
        connections: 256,
        shed: false,
        seed: 7,
    }
}

fn poisson(per_second: f64) -> Load {
    Load::Open(Arrivals::Poisson { per_second })
}

fn run(plan: &LoadPlan) -> LoadOutcome {
    drive(plan, &mut |_| Flow::On).unwrap()
}

#[test]
fn a_good_service_is_asked_as_often_as_planned_on_connections_that_are_kept() {
    let target = service(|_, stream| stream.write_all(OK).is_ok());
    let outcome = run(&plan(target, poisson(300.0), 1000));
    let part = outcome.part("measured").unwrap();
    assert_eq!(part.sent, Arrivals::Poisson { per_second: 300.0 }.schedule(Duration::from_secs(1), 7).count() as u64);
    assert_eq!(part.latencies.count(), part.sent);
    assert_eq!((part.failures.total(), part.unanswered), (0, 0));
    assert!(outcome.connections < 100, "{} connections", outcome.connections);
    assert!(part.latencies.figures().p50_ms < 50.0);
}

#[test]
fn the_same_seed_asks_for_the_same_paths() {
    let paths = || {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let target = service(move |path, stream| {
            kept.lock().unwrap().push(path.to_owned());
            stream.write_all(OK).is_ok()
        });
        let asks = Asks::weighted(&[(1, "/a/{}"), (2, "/b/{}")]);
        run(&LoadPlan { asks, ..plan(target, poisson(200.0), 500) });
        let mut seen = seen.lock().unwrap().clone();
        seen.sort();
        seen
    };
    assert_eq!(paths(), paths());
}

#[test]
fn a_stall_is_charged_to_every_request_that_came_meanwhile() {
    let began = Instant::now();
    let stalled = Arc::new(AtomicU64::new(0));
    let target = service(move |_, stream| {
        // Each request that comes between 300 and 600 ms waits for the end of it.
        let at = began.elapsed();
        if (300..600).contains(&at.as_millis()) && stalled.fetch_add(1, Ordering::Relaxed) < 10_000 {
            thread::sleep(Duration::from_millis(600).saturating_sub(at));
        }
        stream.write_all(OK).is_ok()
    });
    let outcome = run(&plan(target, poisson(200.0), 1000));
    let part = outcome.part("measured").unwrap();
    assert_eq!((part.failures.total(), part.unanswered), (0, 0));
    let figures = part.latencies.figures();
    assert!(figures.max_ms > 200.0, "{figures:?}");
    // A third of the time stood still, so far more than one request in ten is slow: a client that waits for its answer
    // before it sends again would have seen one slow request.
    assert!(part.latencies.at_ms(0.85) > 50.0, "{figures:?}");
}

#[test]
fn an_answer_may_come_in_pieces_and_in_chunks() {
    let target = service(|path, stream| {
        let text = if path.ends_with('1') {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        } else {
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
        };
        text.as_bytes().chunks(7).all(|piece| {
            thread::sleep(Duration::from_micros(300));
            stream.write_all(piece).is_ok()
        })
    });
    let outcome = run(&plan(target, poisson(100.0), 600));
    let part = outcome.part("measured").unwrap();
    assert!(part.sent > 30);
    assert_eq!((part.latencies.count(), part.failures.total()), (part.sent, 0));
}

#[test]
fn every_way_to_fail_is_counted_apart() {
    let target = service(|path, stream| {
        let number: u64 = path.rsplit('/').next().unwrap().parse().unwrap();
        match number % 4 {
            0 => stream.write_all(OK).is_ok(),
            1 => stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").is_ok(),
            2 => stream.write_all(b"\x00\x01what?").is_ok(),
            _ => false,
        }
    });
    let outcome = run(&plan(target, poisson(200.0), 500));
    let part = outcome.part("measured").unwrap();
    let failures = part.failures;
    assert_eq!(part.latencies.count() + failures.total(), part.sent);
    for count in [failures.status, failures.garbage, failures.broken] {
        assert!(count.abs_diff(part.sent / 4) <= 1, "{failures:?} of {}", part.sent);
    }
    assert_eq!(failures.refused, 0);
}

#[test]
fn a_service_that_closes_after_each_answer_gets_a_new_connection_each_time() {
    let target = service(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        false
    });
    let outcome = run(&plan(target, poisson(200.0), 400));
    let part = outcome.part("measured").unwrap();
    assert_eq!((part.latencies.count(), part.failures.total()), (part.sent, 0));
}

#[test]
fn a_missing_service_is_a_failure_of_each_request_and_not_of_the_generator() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = run(&plan(Target::new(free).unwrap(), Load::Users(Users::closed(4)), 300));
    let part = outcome.part("measured").unwrap();
    assert!(part.sent > 4 && part.sent < 200, "{}", part.sent);
    assert_eq!(part.failures.refused, part.sent);
}

#[test]
fn what_is_never_answered_is_charged_with_the_time_it_waited() {
    let target = service(|_, _| {
        thread::sleep(Duration::from_secs(60));
        false
    });
    let silent = LoadPlan { patience: Duration::from_millis(300), ..plan(target, poisson(50.0), 300) };
    let began = Instant::now();
    let outcome = run(&silent);
    assert!(began.elapsed() < Duration::from_secs(3));
    let part = outcome.part("measured").unwrap();
    assert!(part.sent > 5);
    assert_eq!((part.unanswered, part.latencies.count()), (part.sent, part.sent));
    assert!(part.latencies.figures().max_ms > 300.0);
}

#[test]
fn with_all_connections_busy_requests_wait_or_are_shed() {
    let slow = || {
        service(|_, stream| {
            thread::sleep(Duration::from_millis(20));
            stream.write_all(OK).is_ok()
        })
    };
    let waiting = run(&LoadPlan { connections: 2, ..plan(slow(), poisson(200.0), 500) });
    let part = waiting.part("measured").unwrap();
    assert_eq!((part.latencies.count(), part.shed, waiting.connections), (part.sent, 0, 2));
    assert!(part.latencies.figures().max_ms > 200.0, "they queue up: {:?}", part.latencies.figures());
    let shedding = run(&LoadPlan { connections: 2, shed: true, ..plan(slow(), poisson(200.0), 500) });
    let part = shedding.part("measured").unwrap();
    assert!(part.shed > part.sent / 4);
    assert_eq!(part.latencies.count() + part.shed, part.sent);
}

#[test]
fn a_closed_loop_has_as_many_under_way_as_it_has_users() {
    let target = service(|_, stream| {
        thread::sleep(Duration::from_millis(10));
        stream.write_all(OK).is_ok()
    });
    let mut most = 0;
    let outcome = drive(&plan(target, Load::Users(Users::closed(4)), 600), &mut |live| {
        most = most.max(live.in_flight);
        Flow::On
    });
    let outcome = outcome.unwrap();
    assert!(most <= 4);
    assert!(outcome.part("measured").unwrap().per_second() > 100.0);
    assert_eq!(outcome.connections, 4);
}

#[test]
fn parts_are_counted_apart_and_a_drive_can_be_stopped() {
    let target = service(|_, stream| stream.write_all(OK).is_ok());
    let lasts = Duration::from_millis(300);
    let parts = vec![PlanPart { name: "warm-up", lasts }, PlanPart { name: "measured", lasts }];
    let two = LoadPlan { parts, ..plan(target, poisson(200.0), 0) };
    let outcome = run(&two);
    for name in ["warm-up", "measured"] {
        assert!((30..100).contains(&outcome.part(name).unwrap().sent), "{name}");
    }
    let began = Instant::now();
    let stopped = drive(&two, &mut |live| if live.elapsed.as_millis() >= 150 { Flow::Stop } else { Flow::On }).unwrap();
    assert!(stopped.stopped && began.elapsed() < Duration::from_millis(500));
}

#[test]
fn a_report_is_fetched_with_its_body() {
    let target = service(|path, stream| {
        let status = if path == "/report" { "200 OK" } else { "404 Not Found" };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 9\r\n\r\n{{\"a\": 12}}").is_ok()
    });
    let patience = Duration::from_secs(5);
    assert_eq!(get(target, "/report", patience).unwrap(), "{\"a\": 12}");
    assert!(get(target, "/other", patience).unwrap_err().to_string().contains("404"));
}
