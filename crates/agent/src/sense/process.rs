//! The process as the kernel sees it: memory, processor, I/O, descriptors and threads.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use neurogc_wire::status::{Cpu, Io, Memory, Net};

use super::cgroup;
use super::rest::Rest;
use super::workers::Rollup;
use crate::sys::native::{monotonic_ns, process_cpu_ns};

/// How soon `smaps_rollup` is read again, and how soon after the start.
const ROLLUP_SOONEST_NS: u64 = 10_000_000_000;
const ROLLUP_FIRST_NS: u64 = 1_000_000_000;

/// When a client asks for a report and the last read took less than this, it is read again.
const ROLLUP_CHEAP_NS: u64 = 5_000_000;

/// The shortest time that a share of the processor is taken over: two questions may come right after each other.
const CPU_WINDOW_NS: u64 = 100_000_000;

/// What was seen at the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessFigures {
    pub(crate) memory: Memory,
    pub(crate) cpu: Cpu,
    pub(crate) cpu_us: u64,
    pub(crate) io: Io,
    pub(crate) net: Net,
    pub(crate) fds: u64,
    pub(crate) threads: u64,
}

/// Looks at this process.
#[derive(Debug)]
pub(crate) struct ProcessReader {
    seen: ProcessFigures,
    /// The clock and the processor time when the running window began.
    cpu_before: (u64, u64),
    net_before: Option<Net>,
    limit_due: u64,
    rollup_rest: Rest,
    rollup_took: u64,
}

impl ProcessReader {
    /// Has seen nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            seen: ProcessFigures::default(),
            cpu_before: (monotonic_ns(), process_cpu_ns()),
            net_before: None,
            limit_due: 0,
            // Most processes that start do not live to see it.
            rollup_rest: Rest::until(monotonic_ns() + ROLLUP_FIRST_NS),
            rollup_took: 0,
        }
    }

    /// Reads everything that is cheap, and the rest when it is due. When a client has `asked`, it reads the rest too,
    /// unless that is expensive. What has been sent and received is read where the figures are `heard`.
    pub(crate) fn look(&mut self, heard: bool, asked: bool) -> ProcessFigures {
        let now = monotonic_ns();
        if asked && self.rollup_took < ROLLUP_CHEAP_NS {
            self.rollup_rest = Rest::until(now);
        }
        self.look_at_status(now);
        self.look_at_cpu(now);
        if heard || asked || self.net_before.is_none() {
            self.look_at_transfers();
        }
        self.seen.fds = count_fds();
        self.seen
    }

    fn look_at_transfers(&mut self) {
        if let Some(io) = fs::read_to_string("/proc/self/io").ok().and_then(|text| parse_io(&text)) {
            self.seen.io = io;
        }
        if let Some(net) = fs::read_to_string("/proc/self/net/dev").ok().map(|text| parse_net(&text)) {
            let before = *self.net_before.get_or_insert(net);
            self.seen.net = Net {
                sent_bytes: net.sent_bytes.saturating_sub(before.sent_bytes),
                recv_bytes: net.recv_bytes.saturating_sub(before.recv_bytes),
            };
        }
    }

    fn look_at_status(&mut self, now: u64) {
        let memory = &mut self.seen.memory;
        if let Ok(status) = fs::read_to_string("/proc/self/status") {
            memory.rss = kilobytes(&status, "VmRSS:").unwrap_or(0);
            memory.vms = kilobytes(&status, "VmSize:").unwrap_or(0);
            memory.peak_rss = kilobytes(&status, "VmHWM:").unwrap_or(0).max(memory.rss);
            memory.swap = kilobytes(&status, "VmSwap:").unwrap_or(0);
            self.seen.threads = number(&status, "Threads:").unwrap_or(0);
        }
        if now >= self.limit_due {
            memory.limit = cgroup::memory_limit(Path::new("/"));
            self.limit_due = now + ROLLUP_SOONEST_NS;
        }
        if self.rollup_rest.is_over(now) {
            let text = read_slowly("/proc/self/smaps_rollup");
            let rollup = text.as_deref().and_then(Rollup::parse);
            memory.pss = rollup.map(|rollup| rollup.pss);
            memory.uss = rollup.map(|rollup| rollup.private);
            memory.huge_pages = text.as_deref().and_then(|text| kilobytes(text, "AnonHugePages:"));
            self.rollup_took = monotonic_ns() - now;
            self.rollup_rest = Rest::after(self.rollup_took, now, now + ROLLUP_SOONEST_NS);
        }
    }

    fn look_at_cpu(&mut self, now: u64) {
        let cpu = process_cpu_ns();
        self.seen.cpu_us = cpu / 1000;
        let (then, cpu_then) = self.cpu_before;
        let wall = now.saturating_sub(then);
        if wall >= CPU_WINDOW_NS {
            let percent = 100.0 * cpu.saturating_sub(cpu_then) as f64 / wall as f64;
            self.seen.cpu.percent = (percent * 10.0).round() / 10.0;
            self.cpu_before = (now, cpu);
        }
    }
}

fn read_slowly(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Open descriptors. From Linux 6.2 on the folder's size says it; before that they are listed.
fn count_fds() -> u64 {
    match fs::metadata("/proc/self/fd").map(|folder| folder.size()) {
        Ok(count) if count > 0 => count,
        _ => fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
    }
}

/// Resident memory in bytes, by the cheapest way: a file that is not kept open, because the descriptor table may be the
/// program's.
pub(crate) fn resident() -> Option<u64> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten()?;
    let pages: u64 = fs::read_to_string("/proc/self/statm").ok()?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(page).ok()?)
}

/// Whether this process, of which so much is resident, could get this share of it once more.
pub(crate) fn has_room(resident: u64, share: f64) -> bool {
    headroom().is_none_or(|room| room as f64 >= resident as f64 * share)
}

/// What this process may come to where its cgroup has a limit: others in the same cgroup take their part of it.
pub(crate) fn ceiling(resident: u64, limit: Option<u64>) -> Option<u64> {
    let limit = limit?;
    // Not the limit itself: files that are mapped into the process may be charged to others.
    Some(cgroup::memory_left_here().map_or(limit, |left| resident.saturating_add(left)))
}

/// All memory of the machine, in bytes.
pub(crate) fn machine_memory() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// Memory that this process could still get: what the machine has, and what its cgroup leaves.
pub(crate) fn headroom() -> Option<u64> {
    let available = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    Some(cgroup::memory_left_here().map_or(available, |left| left.min(available)))
}

fn parse_io(text: &str) -> Option<Io> {
    Some(Io { read_bytes: number(text, "read_bytes:")?, write_bytes: number(text, "write_bytes:")? })
}

/// All interfaces of the network namespace together.
fn parse_net(text: &str) -> Net {
    let mut net = Net::default();
    for line in text.lines().skip(2) {
        let Some((_, numbers)) = line.split_once(':') else { continue };
        let numbers: Vec<u64> = numbers.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect();
        net.recv_bytes += numbers.first().copied().unwrap_or(0);
        net.sent_bytes += numbers.get(8).copied().unwrap_or(0);
    }
    net
}

/// The memory of this process, which the kernel takes a while to add up.
pub(crate) fn own_rollup() -> Option<Rollup> {
    Rollup::parse(&read_slowly("/proc/self/smaps_rollup")?)
}

fn number(text: &str, name: &str) -> Option<u64> {
    value(text, name)?.parse().ok()
}

pub(super) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    Some(value(text, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// What stands behind a name at the beginning of a line.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(number("VmSwap: 0 kB\nThreads:\t9\n", "Threads:"), Some(9));
        let io = "rchar: 5\nwchar: 6\nread_bytes: 70\nwrite_bytes: 80\ncancelled_write_bytes: 1\n";
        assert_eq!(parse_io(io), Some(Io { read_bytes: 70, write_bytes: 80 }));
        assert_eq!(kilobytes("Rss: 3 kB\nPss:      12 kB\n", "Pss:"), Some(12 * 1024));
        let net = "Inter-| x\n face | y\n    lo: 10 1 0 0 0 0 0 0 20 1 0\n  eth0: 1 1 0 0 0 0 0 0 2 1 0\n";
        assert_eq!(parse_net(net), Net { recv_bytes: 11, sent_bytes: 22 });
    }

    #[test]
    fn this_process_is_seen() {
        let seen = ProcessReader::new().look(false, false);
        assert!(seen.memory.rss > 0 && seen.memory.peak_rss >= seen.memory.rss && seen.memory.vms > seen.memory.rss);
        assert!(resident().is_some_and(|rss| rss > 0 && rss < 100 * seen.memory.rss));
        assert!(seen.threads >= 1 && seen.fds >= 3);
    }

    #[test]
    fn questions_in_quick_succession_give_no_absurd_processor_share() {
        let mut process = ProcessReader::new();
        let most = (0..100).map(|_| process.look(true, true).cpu.percent).fold(0.0, f64::max);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        assert!(most <= 101.0 * cores, "{most} %");
    }
}
