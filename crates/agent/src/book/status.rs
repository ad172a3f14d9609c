//! The status report, put together from what the agent knows.

use neurogc_diagnose::{Evidence, diagnose};
use neurogc_policy::next_shared_step;
use neurogc_settings::Settings;
use neurogc_wire::finding::Finding;
use neurogc_wire::report::Sample;
use neurogc_wire::status::{AgentCost, Bound, Compared, Conduct, Forecasts, Guards, Memory, Status, TrainingLoop};

use crate::act::acting::Acting;
use crate::act::actor::Actor;
use crate::alloc;
use crate::book::books::Books;
use crate::book::order_log::OrderLog;
use crate::book::recent::LONGEST_NS;
use crate::decide::director::PolicyState;
use crate::host::Host;
use crate::sense::sensors::Sensors;
use crate::sense::spans::{ms, seconds};
use crate::sense::training::LoopProgress;
use crate::sys::heap;
use crate::sys::locks::lock;
use crate::sys::native::{monotonic_ns, own_library};

/// The version of this build.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a report is made of: everything the agent knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportSources<'a> {
    pub(crate) host: &'a Host,
    pub(crate) sensors: &'a Sensors,
    pub(crate) acting: &'a Acting,
    pub(crate) books: &'a Books,
}

/// Which stops in gaps the report counts by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stops {
    /// All, for people. A stop may change its place for a moment after its end.
    All,
    /// Those that have their place for good, for hubs: no sum ever falls.
    Settled,
}

impl ReportSources<'_> {
    /// Everything the agent knows. It reads files below `/proc`, so it must not run with the program waiting.
    pub(crate) fn report(self) -> Status {
        self.report_with(self.sensors.hooks.in_flight(), Stops::All, LONGEST_NS)
    }

    /// The same with so many requests in flight, where that was looked at before the books were brought up to date: each
    /// request is in one of the two numbers at least. `length` is that of the window, in nanoseconds.
    pub(crate) fn report_with(self, in_flight: u64, stops: Stops, length: u64) -> Status {
        let Self { host, sensors, acting, books } = self;
        let pid = std::process::id();
        // What may take long comes first: the books are wanted by others.
        let children = sensors.children.read();
        let frozen = host.interpreter.collector.map_or(0, |collector| lock(&sensors.frozen).count(collector));
        let (library, tables) = (library_size(), alloc::resident());
        let state = acting.actor.policy_state();
        let allocations = sensors.sites.summary(host.installed);
        let census = lock(&books.census).report();
        let breakdown = lock(&sensors.breakdown).latest().map(|latest| latest.breakdown).unwrap_or_default();
        let trim = lock(&acting.trimming).totals();
        let (gpu, of_gpu) = {
            let book = lock(&sensors.gpu);
            (book.report(host.installed), book.findings())
        };
        let now = monotonic_ns();
        let uptime = now.saturating_sub(host.installed);
        let ledger = books.ledger();
        let second = ledger.second(now);
        let memory = Memory { breakdown, trim, ..ledger.seen.memory };
        let mut gc = ledger.collections.report(second, stops == Stops::Settled);
        gc.tracked = host.interpreter.collector.map_or(0, |collector| collector.tracked_estimate());
        gc.frozen = frozen;
        gc.snapshot = acting.snapshots.figures().report(host.installed);
        let mut degraded = host.interpreter.degraded.clone();
        degraded.extend(sensors.sites.sampling.reason.clone());
        degraded.extend(ledger.troubles.report());
        let mut status = Status {
            pid,
            command: host.start.command.clone(),
            service: host.start.identity.service.clone(),
            role: host.start.identity.role(),
            python: host.interpreter.version.to_string(),
            neurogc: VERSION.to_owned(),
            policy: acting.policy.in_force().to_string(),
            policy_set: acting.policy.set().to_string(),
            uptime_s: seconds(uptime),
            degraded,
            findings: Vec::new(),
            window: ledger.recent.report(now, length),
            gc,
            conduct: conduct(self, &ledger.orders, state, now),
            bound: bound(state),
            gil: ledger.gaps.report(),
            memory,
            gpu,
            allocations,
            census,
            requests: ledger.requests.report(&sensors.hooks.routes, in_flight, host.installed, second),
            stalls: ledger.stalls.report(),
            cpu: ledger.seen.cpu,
            io: ledger.seen.io,
            net: ledger.seen.net,
            fds: ledger.seen.fds,
            threads: ledger.seen.threads,
            children,
            agent: AgentCost {
                cpu_ms: ms(ledger.sampler_cpu_ns + ledger.uplink_cpu_ns),
                dropped: sensors.hooks.dropped() + ledger.lost_blocks,
                rss_bytes: heap::allocated() as u64 + library + tables,
            },
        };
        drop(ledger);
        status.findings = diagnose(&Evidence::from(&status));
        add_memory(&mut status.findings, of_gpu);
        add_memory(&mut status.findings, lock(&books.growth).findings());
        status
    }

    /// The report with everything that a hub keeps. Like `report`, it must not run with the program waiting.
    pub(crate) fn sample(self) -> Sample {
        let status = self.report_with(self.sensors.hooks.in_flight(), Stops::Settled, LONGEST_NS);
        let ledger = self.books.ledger();
        let (gil_busy_ms, gil_idle_ms) = ledger.gaps.totals_ms();
        let [latency, wait, service] = ledger.requests.distributions();
        Sample {
            status,
            latency,
            wait,
            service,
            pauses: ledger.collections.distributions(),
            stalls: ledger.stalls.distribution(),
            gil_busy_ms,
            gil_idle_ms,
        }
    }
}

/// Puts leaks that are likely before everything else, and what may be a leak behind it.
fn add_memory(findings: &mut Vec<Finding>, of_memory: Vec<Finding>) {
    let (alarms, others): (Vec<_>, Vec<_>) = of_memory.into_iter().partition(Finding::is_alarm);
    findings.splice(0..0, alarms);
    findings.extend(others);
}

/// What the policy does.
fn conduct(of: ReportSources<'_>, orders: &OrderLog, state: Option<PolicyState>, now: u64) -> Conduct {
    let ReportSources { host, sensors, acting, .. } = of;
    let PolicyState { overdue_since, trust, .. } = state.unwrap_or_default();
    let waited = overdue_since.map(|since| acting.actor.since_install(now).saturating_sub(since));
    Conduct {
        acting: acting.conducts(),
        due: if acting.actor.is_deferred() {
            "full: the program has asked for a collection".to_owned()
        } else {
            String::new()
        },
        overdue_s: waited.map_or(0.0, |waited| waited.as_secs_f64()),
        missed: 0,
        deferred: acting.actor.deferrals(),
        orders: orders.report(),
        model: trust.map(|trust| Forecasts {
            family: trust.family.to_owned(),
            gap_ms: trust.gap_ms.to_vec(),
            latest: trust
                .latest
                .map(|latest| Compared { lasted_ms: latest.lasted_ms, expected_ms: latest.expected_ms.to_vec() }),
            gaps: trust.gaps,
            covered: trust.covered.to_vec(),
            astray: trust.astray,
            drifted: trust.drifted,
            drifts: trust.drifts,
        }),
        guards: guards(&host.settings),
        training: training(&host.settings, &sensors.hooks.training, &acting.actor),
    }
}

/// How the promise on memory stands.
fn bound(state: Option<PolicyState>) -> Bound {
    let bound = state.unwrap_or_default().bound;
    Bound {
        goal_bytes: bound.goal_bytes.get(),
        live_bytes: bound.live_bytes.get(),
        goal_objects: bound.goal_objects,
        live_objects: bound.live_objects,
        objects: bound.objects,
        over: bound.over,
        launches: bound.launches,
        backstops: bound.backstops,
        held_back: bound.held_back,
        throttled_ms: bound.throttled.as_secs_f64() * 1e3,
        assisted_ms: bound.assisted.as_secs_f64() * 1e3,
    }
}

/// How far the training loop has come, and with how many ranks it collects.
fn training(settings: &Settings, progress: &LoopProgress, actor: &Actor) -> TrainingLoop {
    let at = progress.ranks().filter(|_| actor.is_aligned());
    let (aligned, unaligned) = progress.stops();
    TrainingLoop {
        ranks: at.map_or(0, |at| at.ranks),
        step: at.map_or(0, |at| at.step),
        next_step: at.map_or(0, |at| next_shared_step(settings.tuning.align_steps, at.step)),
        aligned,
        unaligned,
        boundaries: progress.boundaries(),
    }
}

/// What the guards go by, as the settings have it.
fn guards(settings: &Settings) -> Guards {
    let limits = settings.limits;
    let percent = |share: f64| (share * 1e4).round() / 1e2;
    Guards {
        memory_max_mb: limits.ceiling.map_or(0, |ceiling| ceiling.get() >> 20),
        memory_percent: percent(limits.ceiling_share),
        growth_percent: percent(limits.growth_share),
        postpone_s: limits.patience.as_secs_f64(),
        gc_percent: percent(limits.gc_share),
    }
}

/// The size of the agent's library, which is the most that its code can take.
fn library_size() -> u64 {
    own_library().and_then(|path| std::fs::metadata(path).ok()).map_or(0, |file| file.len())
}
