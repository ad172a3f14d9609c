//! The scenarios: what each one does, how it is loaded, and who takes part without being named.

use std::time::Duration;

use neurogc_load::{Arrivals, Asks, Load, LoadPlan, Phase, PlanPart, Target, Users};

use super::arrivals::Pattern;
use super::surroundings::Surroundings;

/// The part of a drive that counts.
pub(crate) const MEASURED: &str = "measured";
/// The part of a drive in which more is asked for than can be done.
pub(crate) const OVERLOAD: &str = "overload";
/// The part of a drive before anything counts.
const WARM_UP: &str = "warm-up";

/// How a scenario is driven.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DriveMode {
    /// Independent clients, at a share of what the service can do.
    Open,
    /// Users who join ten in a second, ask, and think for one to two seconds.
    Users(u32),
    /// A closed loop of so many clients, who ask again as soon as they are answered: the service is never idle.
    Closed(u32),
    /// Twice what the service can do, then what it can bear.
    Overload,
    /// A loop that needs no load.
    Loop,
}

/// One scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// One sentence for the help and the report, which add how requests arrive.
    about: &'static str,
    pub(crate) script: &'static str,
    pub(crate) drive: DriveMode,
    pub(crate) surroundings: Surroundings,
    /// What its service is asked for.
    asks: &'static [(u32, &'static str)],
    /// Who takes part without being named, with commas.
    pub(crate) contenders: &'static str,
    /// How long the part that counts lasts, in seconds.
    seconds: u64,
    /// What a trial takes besides, in seconds: measured, for the budget.
    pub(crate) overhead: f64,
    /// Whether it runs without being named.
    pub(crate) by_default: bool,
}

const ALL_CONTENDERS: &str = "default,off,each,threshold:10000,10,10,threshold:50000,500,1000,freeze,\
                         freeze+threshold:50000,500,1000,every:100,thread:3,gap";
const LIMITS_AND_US: &str = "default,off,each,gap";

const WATCHED_AND_US: &str = "default,observe,gap";

const FORECASTS_AND_US: &str = "default,off,gap,neural";

const FLOOR_AND_US: &str = "default,off,auto";

const MIXED: &[(u32, &str)] = &[(1, "/cpu/{}"), (1, "/memory/{}"), (1, "/io/{}"), (1, "/network/{}")];

/// All of them, in the order of the report.
pub(crate) const CATALOGUE: &[Scenario] = &[
    Scenario {
        name: "attribution",
        about: "a service that explains answers token by token, beside a large feature store; open loop",
        script: "attribution.py",
        drive: DriveMode::Open,
        surroundings: Surroundings::Free,
        asks: &[(1, "/explain/{}")],
        contenders: ALL_CONTENDERS,
        seconds: 5,
        overhead: 1.6,
        by_default: true,
    },
    Scenario {
        name: "mixed",
        about: "processor, memory, files and network in four endpoints; 100 users, of whom ten join each second",
        script: "mixed.py",
        drive: DriveMode::Users(100),
        surroundings: Surroundings::Free,
        asks: MIXED,
        contenders: LIMITS_AND_US,
        seconds: 2,
        overhead: 1.4,
        by_default: true,
    },
    Scenario {
        name: "mixed-500",
        about: "the same with 500 users",
        script: "mixed.py",
        drive: DriveMode::Users(500),
        surroundings: Surroundings::Free,
        asks: MIXED,
        contenders: LIMITS_AND_US,
        seconds: 10,
        overhead: 1.4,
        by_default: false,
    },
    Scenario {
        name: "mixed-open",
        about: "the same, open loop",
        script: "mixed.py",
        drive: DriveMode::Open,
        surroundings: Surroundings::Free,
        asks: MIXED,
        contenders: LIMITS_AND_US,
        seconds: 4,
        overhead: 1.4,
        by_default: true,
    },
    Scenario {
        name: "llm-loop",
        about: "an engine's 20 ms steps that wait for an accelerator, with a million tracked objects",
        script: "llm_loop.py",
        drive: DriveMode::Loop,
        surroundings: Surroundings::Free,
        asks: &[],
        contenders: LIMITS_AND_US,
        seconds: 6,
        overhead: 2.0,
        by_default: true,
    },
    Scenario {
        name: "train",
        about: "a torch training loop on the processor, with callbacks and hooks",
        script: "train.py",
        drive: DriveMode::Loop,
        surroundings: Surroundings::Free,
        asks: &[],
        contenders: LIMITS_AND_US,
        seconds: 4,
        overhead: 3.0,
        by_default: true,
    },
    Scenario {
        name: "overload",
        about: "twice saturation, then 60 % load: does it recover? Latency counts after the rush",
        script: "overload.py",
        drive: DriveMode::Overload,
        surroundings: Surroundings::Free,
        asks: &[(1, "/explain/{}")],
        contenders: "default,off,gap",
        seconds: 5,
        overhead: 2.0,
        by_default: true,
    },
    Scenario {
        name: "acyclic",
        about: "programs without garbage: the cost of the agent",
        script: "acyclic.py",
        drive: DriveMode::Loop,
        surroundings: Surroundings::Free,
        asks: &[],
        contenders: "default,off,observe,gap",
        seconds: 3,
        overhead: 1.0,
        by_default: true,
    },
    Scenario {
        name: "leak",
        about: "memory that only grows, in cycles and not: no collection helps, and nothing may hang",
        script: "leak.py",
        drive: DriveMode::Loop,
        surroundings: Surroundings::Free,
        asks: &[],
        contenders: LIMITS_AND_US,
        seconds: 3,
        overhead: 1.1,
        by_default: true,
    },
    Scenario {
        name: "peers",
        about: "third-party programs: pyperformance's collector benchmarks and a type-checker, if they are installed",
        script: "peers.py",
        drive: DriveMode::Loop,
        surroundings: Surroundings::Free,
        asks: &[],
        contenders: "default,gap",
        seconds: 1,
        overhead: 9.0,
        by_default: true,
    },
    Scenario {
        name: "large-heap",
        about: "a service with a million tracked objects, cycles in every request, and sessions that die old; open loop",
        script: "large_heap.py",
        drive: DriveMode::Open,
        surroundings: Surroundings::Free,
        asks: &[(1, "/item/{}")],
        contenders: FLOOR_AND_US,
        seconds: 20,
        overhead: 3.0,
        by_default: false,
    },
    Scenario {
        name: "huge-heap",
        about: "the service of `large-heap` with six million tracked objects; open loop",
        script: "huge_heap.py",
        drive: DriveMode::Open,
        surroundings: Surroundings::Free,
        asks: &[(1, "/item/{}")],
        contenders: FLOOR_AND_US,
        seconds: 80,
        overhead: 8.0,
        by_default: false,
    },
    Scenario {
        name: "saturated",
        about: "a service with a large heap, and 64 clients that send the next request at once: it is never idle",
        script: "saturated.py",
        drive: DriveMode::Closed(64),
        surroundings: Surroundings::Free,
        asks: &[(1, "/explain/{}")],
        contenders: WATCHED_AND_US,
        seconds: 20,
        overhead: 4.5,
        by_default: false,
    },
    Scenario {
        name: "contended",
        about: "the service of `saturated` beside two busy loops",
        script: "saturated.py",
        drive: DriveMode::Closed(64),
        surroundings: Surroundings::Busy(2),
        asks: &[(1, "/explain/{}")],
        contenders: WATCHED_AND_US,
        seconds: 20,
        overhead: 5.5,
        by_default: false,
    },
    Scenario {
        name: "one-core",
        about: "the service of `saturated` and its children on one core",
        script: "saturated.py",
        drive: DriveMode::Closed(64),
        surroundings: Surroundings::OneCore,
        asks: &[(1, "/explain/{}")],
        contenders: WATCHED_AND_US,
        seconds: 20,
        overhead: 4.5,
        by_default: false,
    },
    Scenario {
        name: "container",
        about: "the service of `saturated` with 1.4 times the memory that CPython needs; open loop",
        script: "saturated.py",
        drive: DriveMode::Open,
        surroundings: Surroundings::Container(1.4),
        asks: &[(1, "/explain/{}")],
        contenders: WATCHED_AND_US,
        seconds: 20,
        overhead: 4.5,
        by_default: false,
    },
    Scenario {
        name: "container-tight",
        about: "the service of `saturated` with 1.08 times the memory that CPython needs; open loop",
        script: "saturated.py",
        drive: DriveMode::Open,
        surroundings: Surroundings::Container(1.08),
        asks: &[(1, "/explain/{}")],
        contenders: WATCHED_AND_US,
        seconds: 20,
        overhead: 4.5,
        by_default: false,
    },
    Scenario {
        name: "scheduled-gaps",
        about: "steps that wait for 15 ms, and each tenth for 60 ms, beside a small heap",
        script: "scheduled_gaps.py",
        drive: DriveMode::Loop,
        surroundings: Surroundings::Free,
        asks: &[],
        contenders: FORECASTS_AND_US,
        seconds: 20,
        overhead: 1.2,
        by_default: false,
    },
    Scenario {
        name: "daily",
        about: "a small heap, and work that comes and goes as in a day, which lasts ten seconds",
        script: "daily.py",
        drive: DriveMode::Loop,
        surroundings: Surroundings::Free,
        asks: &[],
        contenders: FORECASTS_AND_US,
        seconds: 30,
        overhead: 1.2,
        by_default: false,
    },
    Scenario {
        name: "heavy-objects",
        about: "a loop without a rest, whose garbage is few objects that hold 100 KB each",
        script: "heavy_objects.py",
        drive: DriveMode::Loop,
        surroundings: Surroundings::Free,
        asks: &[],
        contenders: WATCHED_AND_US,
        seconds: 10,
        overhead: 1.1,
        by_default: false,
    },
];

/// How long things last, and how large they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// A look that proves nothing.
    pub(crate) quick: bool,
    /// How long the part that counts lasts in every scenario; each has its own by default.
    pub(crate) measured: Option<Duration>,
}

impl Size {
    /// The share of the live heap that is built.
    pub(crate) fn heap(self) -> f64 {
        if self.quick { 0.1 } else { 1.0 }
    }

    fn seconds(self, full: f64) -> Duration {
        Duration::from_secs_f64(if self.quick { (full / 5.0).max(1.0) } else { full })
    }
}

impl Scenario {
    /// The one of this name.
    pub(crate) fn find(name: &str) -> Result<&'static Self, String> {
        CATALOGUE.iter().find(|scenario| scenario.name == name).ok_or_else(|| {
            let names = || CATALOGUE.iter().map(|scenario| scenario.name);
            let near = neurogc_policy::suggestion(name, names());
            format!("there is no scenario {name:?}.{near} Scenarios: {}", names().collect::<Vec<_>>().join(" "))
        })
    }

    /// What it does, in one sentence.
    pub(crate) fn about(&self, arrivals: &Pattern) -> String {
        match self.drive {
            DriveMode::Open => format!("{}, {}", self.about, arrivals.title()),
            _ => self.about.to_owned(),
        }
    }

    /// How long the part that counts lasts.
    pub(crate) fn measured(&self, size: Size) -> Duration {
        size.measured.unwrap_or_else(|| size.seconds(self.seconds as f64))
    }

    /// The parts of its drive.
    fn parts(&self, size: Size) -> Vec<PlanPart> {
        let before = match self.drive {
            DriveMode::Loop => return vec![PlanPart { name: MEASURED, lasts: self.measured(size) }],
            DriveMode::Open => PlanPart { name: WARM_UP, lasts: size.seconds(1.0) },
            DriveMode::Closed(_) => PlanPart { name: WARM_UP, lasts: size.seconds(3.0) },
            DriveMode::Users(count) => PlanPart { name: WARM_UP, lasts: size.seconds(f64::from(count) / 10.0) },
            DriveMode::Overload => PlanPart { name: OVERLOAD, lasts: size.seconds(20.0) },
        };
        vec![before, PlanPart { name: MEASURED, lasts: self.measured(size) }]
    }

    /// What one trial takes, for the budget.
    pub(crate) fn trial_seconds(&self, size: Size) -> f64 {
        self.parts(size).iter().map(|part| part.lasts.as_secs_f64()).sum::<f64>() + self.overhead
    }

    /// How its service is driven, given what it can do in a second.
    pub(crate) fn plan(&self, target: Target, capacity: f64, arrivals: &Pattern, seed: u64, size: Size) -> LoadPlan {
        let parts = self.parts(size);
        let load = match self.drive {
            DriveMode::Users(count) => Load::Users(Users {
                count: if size.quick { count / 5 } else { count },
                per_second: 10.0,
                think: (Duration::from_secs(1), Duration::from_secs(2)),
            }),
            DriveMode::Closed(count) => Load::Users(Users::closed(count)),
            DriveMode::Overload => Load::Open(Arrivals::Phases(vec![
                Phase { lasts: parts[0].lasts, per_second: 2.0 * capacity },
                Phase { lasts: parts[1].lasts, per_second: arrivals.utilisation() * capacity },
            ])),
            DriveMode::Open | DriveMode::Loop => {
                Load::Open(arrivals.at(capacity, parts.iter().map(|part| part.lasts).sum()))
            }
        };
        // Under an overload a real service stands behind something that turns requests away.
        let overloaded = self.drive == DriveMode::Overload;
        LoadPlan {
            target,
            asks: Asks::weighted(self.asks),
            load,
            parts,
            patience: Duration::from_secs(8),
            connections: if overloaded { 64 } else { 2048 },
            shed: overloaded,
            seed,
        }
    }

    /// A closed loop that shows what its service can do.
    pub(crate) fn saturation(&self, target: Target, size: Size) -> LoadPlan {
        LoadPlan {
            target,
            asks: Asks::weighted(self.asks),
            load: Load::Users(Users::closed(4)),
            parts: vec![
                PlanPart { name: WARM_UP, lasts: size.seconds(0.5) },
                PlanPart { name: MEASURED, lasts: size.seconds(2.0) },
            ],
            patience: Duration::from_secs(5),
            connections: 64,
            shed: false,
            seed: 1,
        }
    }

    /// Whether its load follows from what its service can do.
    pub(crate) fn needs_capacity(&self) -> bool {
        matches!(self.drive, DriveMode::Open | DriveMode::Overload)
    }

    /// How many trials' time goes into what has to be known before the first one.
    pub(crate) fn calibrations(&self) -> u32 {
        u32::from(self.needs_capacity()) + u32::from(self.surroundings.limit().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::contender::Contender;
    use crate::bench::scripts;

    #[test]
    fn every_scenario_has_its_script_and_its_contenders() {
        for scenario in CATALOGUE {
            assert!(scripts::is_known(scenario.script), "{}", scenario.script);
            let contenders = Contender::parse_list(scenario.contenders);
            assert!(contenders.is_ok_and(|all| all[0].name == "default"), "{}", scenario.name);
        }
    }

    #[test]
    fn seconds_are_those_that_were_asked_for() {
        let asked = Size { quick: true, measured: Some(Duration::from_secs(600)) };
        let own = Size { quick: false, measured: None };
        for scenario in CATALOGUE {
            assert_eq!(scenario.measured(asked), Duration::from_secs(600));
            assert_eq!(scenario.measured(own), Duration::from_secs(scenario.seconds));
        }
    }

    #[test]
    fn a_scenario_that_is_not_there_has_near_misses() {
        let error = Scenario::find("atribution").map(|scenario| scenario.name);
        assert!(error.is_err_and(|error| error.contains("Did you mean attribution?")));
    }
}
