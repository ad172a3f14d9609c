//! A made-up run, for the tests of the reports.

use crate::bench::course::Courses;
use crate::bench::machine::MachineFacts;
use crate::bench::record::{ContenderTrials, FiguresByName, Measured, Run, Trial};

fn trial(run: u32, scale: f64, figures: &[(&str, f64)]) -> Trial {
    // A little different each time.
    let noise = 1.0 + 0.02 * f64::from(run);
    let figures: FiguresByName = figures.iter().map(|(name, value)| ((*name).to_owned(), value * noise)).collect();
    let curve = vec![(0.0, 1.5), (0.5, 2.5), (0.9, 4.0 * scale), (0.99, 10.0 * scale), (1.0, 31.0 * scale)];
    Trial { run, figures, curve, courses: courses(scale), ..Trial::default() }
}

/// Two seconds in which memory rises, and a child takes some besides.
fn courses(scale: f64) -> Courses {
    let points =
        |first: f64| (0..=4).map(|at| f64::from(at) / 2.0).map(|at| (at, (first + at * scale) * 1e6)).collect();
    Courses { rss: points(300.0), tree: points(330.0) }
}

fn entry(contender: &str, title: &str, scale: f64, mib: f64) -> ContenderTrials {
    let mut figures = vec![
        ("p50_ms", 2.5),
        ("p95_ms", 4.0 * scale),
        ("p99_ms", 10.0 * scale),
        ("p999_ms", 30.0 * scale),
        ("max_ms", 31.0 * scale),
        ("per_second", 180.0),
        ("in_request_count", 40.0 * scale),
        ("in_request_ms", 90.0 * scale),
        ("in_request_max_ms", 20.0 * scale),
        ("cpu_percent", 61.0),
        ("cpu_each_ms", 3.4),
        ("rss_peak", mib * 1024.0 * 1024.0),
        ("rss_trend", scale * 1e6),
        ("all_peak", mib * 1.1 * 1024.0 * 1024.0),
        ("stop_max_ms", 20.0 * scale),
        ("garbage", 1234.0),
    ];
    if contender == "gap" {
        figures.extend([("forced_count", 0.0), ("stalls", 3.0)]);
    }
    let trials = (0..3).map(|run| trial(run, scale, &figures)).collect();
    ContenderTrials { contender: contender.to_owned(), title: title.to_owned(), trials, failed: None }
}

fn programs(contender: &str, title: &str, scale: f64) -> ContenderTrials {
    let trials = (0..3).map(|run| Trial {
        run,
        figures: FiguresByName::from([("time_ms".to_owned(), 2.0 * scale)]),
        programs: FiguresByName::from([("floats".to_owned(), 4.0 * scale), ("texts".to_owned(), 1.0 * scale)]),
        ..Trial::default()
    });
    ContenderTrials { contender: contender.to_owned(), title: title.to_owned(), trials: trials.collect(), failed: None }
}

/// A contender in a container: whether it was killed in each run.
fn contained(contender: &str, title: &str, killed: [bool; 3]) -> ContenderTrials {
    let trials = (0..).zip(killed).map(|(run, killed)| {
        let figures = [("killed", f64::from(u8::from(killed))), ("group_peak", 372e6)];
        let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
        let ended_early =
            killed.then(|| "out of memory after 3.2 s of the measured part: the kernel killed the service".into());
        Trial { run, figures, ended_early, ..Trial::default() }
    });
    ContenderTrials { contender: contender.to_owned(), title: title.to_owned(), trials: trials.collect(), failed: None }
}

/// Four scenarios, one of which was skipped.
pub(crate) fn run() -> Run {
    let machine = MachineFacts {
        date: "2026-11-15 08:00:00 UTC".to_owned(),
        python: "CPython 3.12.1".to_owned(),
        processor: "An Example CPU".to_owned(),
        cores: 2,
        memory: 8 << 30,
        kernel: "6.18.0".to_owned(),
        load_average: 0.08,
        virtual_machine: true,
    };
    let mut late = entry("every:100", "neurogc `every:100`", 6.0, 300.0);
    late.trials[1].doubts.push("the generator could not keep up: sends were 2.3 ms late at p99".to_owned());
    let mut gone = entry("freeze", "neurogc `freeze`", 1.0, 1.0);
    gone.trials.clear();
    gone.failed = Some("the script has ended (exit status: 1): MemoryError".to_owned());
    Run {
        seconds: 312.0,
        scenarios: vec![
            Measured {
                scenario: "attribution".to_owned(),
                about: "a service that explains answers".to_owned(),
                skipped: None,
                capacity: Some(301.4),
                limit: None,
                entries: vec![
                    entry("default", "CPython default", 4.0, 358.0),
                    entry("off", "collector off (latency floor)", 1.0, 367.0),
                    entry("each", "collect after each request (memory floor)", 9.0, 290.0),
                    late,
                    gone,
                    entry("gap", "neurogc `gap`", 1.1, 340.0),
                ],
            },
            Measured {
                scenario: "acyclic".to_owned(),
                about: "programs without garbage".to_owned(),
                entries: vec![
                    programs("default", "CPython default", 1.0),
                    programs("observe", "neurogc `observe`", 1.004),
                ],
                ..Measured::default()
            },
            Measured {
                scenario: "container-tight".to_owned(),
                about: "a service in a container".to_owned(),
                limit: Some(372 << 20),
                entries: vec![
                    contained("default", "CPython default", [false; 3]),
                    contained("gap", "neurogc `gap`", [true, false, true]),
                    contained("freeze", "neurogc `freeze`", [true; 3]),
                ],
                ..Measured::default()
            },
            Measured {
                scenario: "train".to_owned(),
                about: "a torch training loop".to_owned(),
                skipped: Some("torch is not installed: pip install torch".to_owned()),
                ..Measured::default()
            },
        ],
        ..Run::new(machine, 3, false)
    }
}
