//! Every setting there is: add one here and it works from all sources, is checked, and shows in `neurogc doctor`.

use std::path::PathBuf;
use std::time::Duration;

use neurogc_policy::{Bytes, Limits, Name, Tuning};

use crate::dumps::HeapDumpOn;
use crate::hub::{HubAddress, Secret};

/// The values that an agent runs with.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The policy.
    pub policy: Name,
    /// The service that the process belongs to; empty where it is named for its application.
    pub service: String,
    /// Where to record a trace.
    pub trace: Option<PathBuf>,
    /// The hub to report to, and the word that it wants to hear.
    pub hub: Option<HubAddress>,
    /// See `hub`.
    pub hub_token: Secret,
    /// Whether hubs are sent what a trace records, too.
    pub hub_trace: bool,
    /// What counts as a stall.
    pub stall: Duration,
    /// How often the process is looked at.
    pub sample: Duration,
    /// Whether web frameworks and servers are adapted by themselves.
    pub adapters: bool,
    /// What becomes of the program's own full collections.
    pub explicit_collect: ExplicitCollect,
    /// Whether the heap may be collected from snapshots.
    pub snapshots: bool,
    /// Whether small objects are put into huge pages.
    pub huge_arenas: bool,
    /// Whether small pages are put together before a heap dump.
    pub gather_pages: bool,
    /// Whether free memory of the C library goes back to the system, where a policy acts.
    pub trim: bool,
    /// Which allocations are sampled.
    pub allocations: AllocationSetting,
    /// The distance of two sampling points that sampling begins with, in bytes.
    pub sample_bytes: u64,
    /// When heap dumps are written without being asked for, where, and how many at most.
    pub heap_dump_on: HeapDumpOn,
    /// See `heap_dump_on`.
    pub heap_dump_folder: PathBuf,
    /// See `heap_dump_on`.
    pub heap_dump_files: u32,
    /// See `heap_dump_on`.
    pub heap_dump_text: bool,
    /// How often a process that takes no snapshots has what is in its heap counted; never, also in snapshots, if not set.
    pub census: Option<Duration>,
    /// What the policy is told.
    pub tuning: Tuning,
    /// What holds whatever the policy says.
    pub limits: Limits,
}

/// What becomes of a `gc.collect()` in the program or its libraries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExplicitCollect {
    /// It happens there and then.
    #[default]
    Keep,
    /// It becomes due, and happens in a gap.
    Defer,
}

/// Which allocations are sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocationSetting {
    /// Those of native code too, where the preloaded library is there, else those of CPython.
    #[default]
    Auto,
    /// Those of CPython.
    Python,
    /// Those of native code too.
    Native,
    /// None.
    Off,
}

impl AllocationSetting {
    /// All, with the names they are written by.
    const ALL: [(Self, &'static str); 4] =
        [(Self::Auto, "auto"), (Self::Python, "python"), (Self::Native, "native"), (Self::Off, "off")];

    /// Whether the library is to be preloaded for it.
    #[must_use]
    pub fn wants_preload(self) -> bool {
        matches!(self, Self::Auto | Self::Native)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Name::Auto,
            service: String::new(),
            trace: None,
            hub: None,
            hub_token: Secret::default(),
            hub_trace: false,
            stall: Duration::from_millis(5),
            sample: Duration::from_secs(1),
            adapters: true,
            explicit_collect: ExplicitCollect::default(),
            snapshots: true,
            huge_arenas: true,
            gather_pages: false,
            trim: true,
            allocations: AllocationSetting::default(),
            sample_bytes: 32 * 1024,
            heap_dump_on: HeapDumpOn::default(),
            heap_dump_folder: PathBuf::from("."),
            heap_dump_files: 2,
            heap_dump_text: true,
            census: Some(Duration::from_secs(600)),
            tuning: Tuning::default(),
            limits: Limits::default(),
        }
    }
}

/// One setting: its name and how a written value is taken over.
#[derive(Debug)]
pub struct Setting {
    /// Its name in a keyword argument, in `--set` and in the file.
    pub name: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// What may be written.
    pub kind: SettingKind,
    /// Takes a written value over, or says what would be right.
    pub(crate) apply: fn(&mut Settings, &str) -> Result<(), String>,
    /// The value in force, as it would be written.
    pub show: fn(&Settings) -> String,
}

/// What may be written for a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SettingKind {
    /// The name of a policy.
    Policy,
    /// A text, or nothing.
    Text,
    /// The address of a hub, or nothing.
    Address,
    /// A text that is never shown, or nothing.
    Secret,
    /// A number from the first to the second.
    Number(f64, f64),
    /// True or false.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl SettingKind {
    /// Whether a written value is allowed; the error says what would be right. Policies and addresses check themselves.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        let text = text.trim();
        match self {
            Self::Number(least, most) => match text.parse::<f64>() {
                Ok(value) if (least..=most).contains(&value) => Ok(()),
                _ => Err(format!("it must be a number from {least} to {most}")),
            },
            Self::Switch if switch(text).is_none() => Err("it must be true or false".to_owned()),
            Self::Choice(words) if !words.contains(&text) => Err(format!("it must be {}", words.join(" or "))),
            _ => Ok(()),
        }
    }
}

/// The setting whose value is never shown.
pub(crate) const HUB_TOKEN: &str = "hub_token";

/// All settings.
pub const CATALOGUE: &[Setting] = &[
    Setting {
        name: "policy",
        help: "when to collect: one of the policies of `neurogc policy --help`",
        kind: SettingKind::Policy,
        apply: |settings, text| {
            settings.policy = text.parse().map_err(|error: neurogc_policy::NameError| error.to_string())?;
            Ok(())
        },
        show: |settings| settings.policy.to_string(),
    },
    Setting {
        name: "service",
        help: "name of the service that the process belongs to; else OTEL_SERVICE_NAME, or the application's name",
        kind: SettingKind::Text,
        apply: |settings, text| {
            text.trim().clone_into(&mut settings.service);
            Ok(())
        },
        show: |settings| settings.service.clone(),
    },
    Setting {
        name: "trace",
        help: "file to record a trace to, overwriting it; child processes add their pid to the name",
        kind: SettingKind::Text,
        apply: |settings, text| {
            settings.trace = (!text.is_empty()).then(|| PathBuf::from(text));
            Ok(())
        },
        show: |settings| settings.trace.as_ref().map_or_else(String::new, |path| path.display().to_string()),
    },
    Setting {
        name: "hub",
        help: "hub on another machine to report to, for instance http://10.1.2.3:7077; a hub on this machine finds its agents automatically",
        kind: SettingKind::Address,
        apply: |settings, text| {
            settings.hub = if text.is_empty() { None } else { Some(text.parse()?) };
            Ok(())
        },
        show: |settings| settings.hub.as_ref().map_or_else(String::new, ToString::to_string),
    },
    Setting {
        name: HUB_TOKEN,
        help: "token of that hub; prefer the environment to a file",
        kind: SettingKind::Secret,
        apply: |settings, text| {
            settings.hub_token = Secret::new(text)?;
            Ok(())
        },
        show: |settings| if settings.hub_token.is_empty() { String::new() } else { "(hidden)".to_owned() },
    },
    Setting {
        name: "hub_trace",
        help: "also send hubs what a trace records, 30 to 60 bytes a request, so that `neurogc train --from-hub` can use it: true or false",
        kind: SettingKind::Switch,
        apply: |settings, text| {
            settings.hub_trace = switch(text).unwrap_or(settings.hub_trace);
            Ok(())
        },
        show: |settings| settings.hub_trace.to_string(),
    },
    Setting {
        name: "stall_ms",
        help: "time without progress that counts as a stall, in milliseconds (1 to 60000)",
        kind: SettingKind::Number(1.0, 60_000.0),
        apply: |settings, text| {
            settings.stall = milliseconds(text)?;
            Ok(())
        },
        show: |settings| show_milliseconds(settings.stall),
    },
    Setting {
        name: "sample_ms",
        help: "interval at which memory, processor and I/O are read, in milliseconds (100 to 60000)",
        kind: SettingKind::Number(100.0, 60_000.0),
        apply: |settings, text| {
            settings.sample = milliseconds(text)?;
            Ok(())
        },
        show: |settings| show_milliseconds(settings.sample),
    },
    Setting {
        name: "adapters",
        help: "measure the requests of known web servers and frameworks automatically: true or false",
        kind: SettingKind::Switch,
        apply: |settings, text| {
            settings.adapters = switch(text).unwrap_or(settings.adapters);
            Ok(())
        },
        show: |settings| settings.adapters.to_string(),
    },
    Setting {
        name: "explicit_collect",
        help: "what a gc.collect() of the program does, where a policy acts: keep (collect at once), or defer it to a gap",
        kind: SettingKind::Choice(&["keep", "defer"]),
        apply: |settings, text| {
            settings.explicit_collect =
                if text.trim() == "defer" { ExplicitCollect::Defer } else { ExplicitCollect::Keep };
            Ok(())
        },
        show: |settings| match settings.explicit_collect {
            ExplicitCollect::Keep => "keep".to_owned(),
            ExplicitCollect::Defer => "defer".to_owned(),
        },
    },
    Setting {
        name: "snapshots",
        help: "collect a large heap from a copy-on-write snapshot instead of stopping the program: true or false",
        kind: SettingKind::Switch,
        apply: |settings, text| {
            settings.snapshots = switch(text).unwrap_or(settings.snapshots);
            Ok(())
        },
        show: |settings| settings.snapshots.to_string(),
    },
    Setting {
        name: "huge_arenas",
        help: "put small objects into huge pages once they take 16 MiB, where a policy acts, which makes clones faster: true or false",
        kind: SettingKind::Switch,
        apply: |settings, text| {
            settings.huge_arenas = switch(text).unwrap_or(settings.huge_arenas);
            Ok(())
        },
        show: |settings| settings.huge_arenas.to_string(),
    },
    Setting {
        name: "gather_pages",
        help: "put small pages together before a heap dump that is asked for, which makes its stop shorter, and the program slower before it: true or false",
        kind: SettingKind::Switch,
        apply: |settings, text| {
            settings.gather_pages = switch(text).unwrap_or(settings.gather_pages);
            Ok(())
        },
        show: |settings| settings.gather_pages.to_string(),
    },
    Setting {
        name: "trim",
        help: "give memory back to the system that the program has freed and malloc keeps, where a policy acts and it pays: auto or off",
        kind: SettingKind::Choice(&["auto", "off"]),
        apply: |settings, text| {
            settings.trim = text.trim() != "off";
            Ok(())
        },
        show: |settings| if settings.trim { "auto" } else { "off" }.to_owned(),
    },
    Setting {
        name: "allocations",
        help: "which allocations are sampled: auto (those of native code too under `neurogc run`, else those of CPython), python, native or off",
        kind: SettingKind::Choice(&["auto", "python", "native", "off"]),
        apply: |settings, text| {
            let found = AllocationSetting::ALL.iter().find(|(_, name)| *name == text.trim());
            settings.allocations = found.map_or(settings.allocations, |(allocations, _)| *allocations);
            Ok(())
        },
        show: |settings| {
            let found = AllocationSetting::ALL.iter().find(|(allocations, _)| *allocations == settings.allocations);
            found.map_or_else(String::new, |(_, name)| (*name).to_owned())
        },
    },
    Setting {
        name: "sample_kib",
        help: "mean distance of two sampled allocations at first, in KiB (0.25 to 65536); it grows with the heap, and from 32 on where a program allocates fast what it soon frees",
        kind: SettingKind::Number(0.25, 65_536.0),
        apply: |settings, text| {
            settings.sample_bytes = (number(text)? * 1024.0) as u64;
            Ok(())
        },
        show: |settings| (settings.sample_bytes as f64 / 1024.0).to_string(),
    },
    Setting {
        name: "heap_dump_on",
        help: "when to write a heap dump: oom (a MemoryError ends a thread or a request), limit=90 (percent of the memory limit), a signal such as USR2; several with commas",
        kind: SettingKind::Text,
        apply: |settings, text| {
            settings.heap_dump_on = text.parse()?;
            Ok(())
        },
        show: |settings| settings.heap_dump_on.to_string(),
    },
    Setting {
        name: "heap_dump_folder",
        help: "folder for the dumps of heap_dump_on; the working directory if it is not set",
        kind: SettingKind::Text,
        apply: |settings, text| {
            settings.heap_dump_folder = PathBuf::from(if text.is_empty() { "." } else { text });
            Ok(())
        },
        show: |settings| settings.heap_dump_folder.display().to_string(),
    },
    Setting {
        name: "heap_dump_files",
        help: "heap_dump_on writes none where so many dumps (heap-*.ngch) are in the folder (0 to 1000)",
        kind: SettingKind::Number(0.0, 1000.0),
        apply: |settings, text| {
            settings.heap_dump_files = number(text)? as u32;
            Ok(())
        },
        show: |settings| settings.heap_dump_files.to_string(),
    },
    Setting {
        name: "heap_dump_text",
        help: "write the beginning of every string, and small integers, into the dumps of heap_dump_on: true or false; they are user data",
        kind: SettingKind::Switch,
        apply: |settings, text| {
            settings.heap_dump_text = switch(text).unwrap_or(settings.heap_dump_text);
            Ok(())
        },
        show: |settings| settings.heap_dump_text.to_string(),
    },
    Setting {
        name: "census_s",
        help: "how often what is in the heap is counted by type in a process that takes no snapshots, in seconds (0 to 86400); 0 switches it off, also in snapshots",
        kind: SettingKind::Number(0.0, 86_400.0),
        apply: |settings, text| {
            let seconds = number(text)?;
            settings.census = (seconds > 0.0).then(|| Duration::from_secs_f64(seconds));
            Ok(())
        },
        show: |settings| settings.census.map_or(0.0, |every| every.as_secs_f64()).to_string(),
    },
    Setting {
        name: "pause_ms",
        help: "how long a collection of young objects may take under gap, in milliseconds (0.1 to 1000)",
        kind: SettingKind::Number(0.1, 1000.0),
        apply: |settings, text| {
            settings.tuning.pause_budget = milliseconds(text)?;
            Ok(())
        },
        show: |settings| show_milliseconds(settings.tuning.pause_budget),
    },
    Setting {
        name: "memory_price",
        help: "cost of a megabyte of garbage under neural, in milliseconds of delay for every request (0 to 10)",
        kind: SettingKind::Number(0.0, 10.0),
        apply: |settings, text| {
            settings.tuning.memory_price = number(text)?;
            Ok(())
        },
        show: |settings| settings.tuning.memory_price.to_string(),
    },
    Setting {
        name: "align_steps",
        help: "all ranks of a training job collect together at every so many steps, under gap and neural (0 to 1000000); 0 switches it off; must be the same on all ranks",
        kind: SettingKind::Number(0.0, 1e6),
        apply: |settings, text| {
            settings.tuning.align_steps = number(text)? as u32;
            Ok(())
        },
        show: |settings| settings.tuning.align_steps.to_string(),
    },
    Setting {
        name: "memory_max_mb",
        help: "memory that the process should not exceed, in megabytes; 0 for the limit of its cgroup alone",
        kind: SettingKind::Number(0.0, 1e9),
        apply: |settings, text| {
            let megabytes = number(text)? as u64;
            settings.limits.ceiling = (megabytes > 0).then(|| Bytes::mebibytes(megabytes));
            Ok(())
        },
        show: |settings| settings.limits.ceiling.map_or(0, |ceiling| ceiling.get() >> 20).to_string(),
    },
    Setting {
        name: "memory_percent",
        help: "share of that maximum, or of the cgroup's limit, at which everything is collected at once, in percent (10 to 100)",
        kind: SettingKind::Number(10.0, 100.0),
        apply: |settings, text| {
            settings.limits.ceiling_share = number(text)? / 100.0;
            Ok(())
        },
        show: |settings| show_percent(settings.limits.ceiling_share),
    },
    Setting {
        name: "growth_percent",
        help: "how far the heap may grow beyond what the last whole-heap collection left alive, in percent (5 to 1000)",
        kind: SettingKind::Number(5.0, 1000.0),
        apply: |settings, text| {
            settings.limits.growth_share = number(text)? / 100.0;
            Ok(())
        },
        show: |settings| show_percent(settings.limits.growth_share),
    },
    Setting {
        name: "postpone_s",
        help: "how long a full collection requested by the program waits for a gap, with explicit_collect=defer, in seconds (0 to 86400)",
        kind: SettingKind::Number(0.0, 86_400.0),
        apply: |settings, text| {
            settings.limits.patience = Duration::from_secs_f64(number(text)?);
            Ok(())
        },
        show: |settings| settings.limits.patience.as_secs_f64().to_string(),
    },
    Setting {
        name: "gc_percent",
        help: "share of time for full collections that only growth in bytes asks for, in percent (1 to 100)",
        kind: SettingKind::Number(1.0, 100.0),
        apply: |settings, text| {
            settings.limits.gc_share = number(text)? / 100.0;
            Ok(())
        },
        show: |settings| show_percent(settings.limits.gc_share),
    },
];

/// A number whose limits have been checked.
fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| "it must be a number".to_owned())
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    number(text).map(|value| Duration::from_secs_f64(value / 1000.0))
}

fn show_milliseconds(value: Duration) -> String {
    (value.as_secs_f64() * 1000.0).to_string()
}

fn show_percent(share: f64) -> String {
    // Shares come from percentages, so what is left of rounding is noise.
    ((share * 1e6).round() / 1e4).to_string()
}

fn switch(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}
