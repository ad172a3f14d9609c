//! The machine that figures were taken on.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::figures::utc;
use crate::process::kernel_text;

/// What a reader needs to judge a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineFacts {
    pub(crate) date: String,
    pub(crate) python: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// In bytes.
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// Of the last minute, before anything was started: above one, other programs were busy.
    pub(crate) load_average: f64,
    /// Whether it is a virtual machine.
    pub(crate) virtual_machine: bool,
}

impl MachineFacts {
    /// This one, now.
    pub(crate) fn look(python: String) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let text = |path: &str| kernel_text(path).unwrap_or_default();
        let cpu = text("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let memory = text("/proc/meminfo");
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
        Self {
            date: utc(u64::try_from(now.as_nanos()).unwrap_or(0)),
            python,
            processor: model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: total.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024,
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_average: text("/proc/loadavg").split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0),
            virtual_machine: cpu.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor")),
        }
    }

    /// One sentence.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "{}; {} with {} cores{}, {} of memory, Linux {}; {}; load average {:.2} before it began.",
            self.python,
            self.processor,
            self.cores,
            if self.virtual_machine { " (virtual)" } else { "" },
            crate::figures::bytes(self.memory),
            self.kernel,
            self.date,
            self.load_average
        )
    }
}
