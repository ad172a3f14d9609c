//! Every setting there is: add one here and it works from all sources, is checked, and shows in `neurogc doctor`.

use std::path::PathBuf;
use std::time::Duration;

use neurogc_policy::Name;

/// The values that an agent runs with.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The policy.
    pub policy: Name,
    /// Where to record a trace.
    pub trace: Option<PathBuf>,
    /// What counts as a stall.
    pub stall: Duration,
    /// How often the process is looked at.
    pub sample: Duration,
    /// Whether web frameworks and servers are adapted by themselves.
    pub adapters: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Name::Auto,
            trace: None,
            stall: Duration::from_millis(5),
            sample: Duration::from_secs(1),
            adapters: true,
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
    /// Takes a written value over, or says what would be right.
    pub(crate) apply: fn(&mut Settings, &str) -> Result<(), String>,
    /// The value in force, as it would be written.
    pub show: fn(&Settings) -> String,
}

/// All settings.
pub const CATALOGUE: &[Setting] = &[
    Setting {
        name: "policy",
        help: "when to collect: auto, observe, cpython, gap, freeze, every:N or threshold:G0,G1,G2",
        apply: |settings, text| {
            settings.policy = text.parse().map_err(|error: neurogc_policy::NameError| error.to_string())?;
            Ok(())
        },
        show: |settings| settings.policy.to_string(),
    },
    Setting {
        name: "trace",
        help: "file to record a trace in, over what is there; child processes add their pid to the name",
        apply: |settings, text| {
            settings.trace = (!text.is_empty()).then(|| PathBuf::from(text));
            Ok(())
        },
        show: |settings| settings.trace.as_ref().map_or_else(String::new, |path| path.display().to_string()),
    },
    Setting {
        name: "stall_ms",
        help: "time without progress that counts as a stall, in milliseconds (1 to 60000)",
        apply: |settings, text| {
            settings.stall = milliseconds(text, 1.0, 60_000.0)?;
            Ok(())
        },
        show: |settings| show_milliseconds(settings.stall),
    },
    Setting {
        name: "sample_ms",
        help: "how often memory, processor and I/O are looked at, in milliseconds (100 to 60000)",
        apply: |settings, text| {
            settings.sample = milliseconds(text, 100.0, 60_000.0)?;
            Ok(())
        },
        show: |settings| show_milliseconds(settings.sample),
    },
    Setting {
        name: "adapters",
        help: "measure the requests of known web servers and frameworks by themselves: true or false",
        apply: |settings, text| {
            settings.adapters = switch(text)?;
            Ok(())
        },
        show: |settings| settings.adapters.to_string(),
    },
];

fn milliseconds(text: &str, least: f64, most: f64) -> Result<Duration, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(Duration::from_secs_f64(value / 1000.0)),
        _ => Err(format!("it must be a number from {least} to {most}")),
    }
}

fn show_milliseconds(value: Duration) -> String {
    (value.as_secs_f64() * 1000.0).to_string()
}

fn switch(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Ok(true),
        "false" | "0" | "off" | "no" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}
