//! What the kernel of this machine means for NeuroGC: pure judgements over the texts of `/proc` and `/sys`.

use serde::Serialize;

use crate::figures::bytes;

/// How a fact is for NeuroGC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Nothing to do.
    Ok,
    /// Worth knowing.
    Note,
    /// Something does not work, or not well.
    Degraded,
}

impl Verdict {
    /// The word used in the report.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Degraded => "degraded",
        }
    }
}

/// One fact with what follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) verdict: Verdict,
    /// The fact.
    pub(crate) found: String,
    /// What it means for NeuroGC, and what to do where something can be done.
    pub(crate) consequence: String,
}

fn check(name: &'static str, verdict: Verdict, found: impl Into<String>, consequence: impl Into<String>) -> Check {
    Check { name, verdict, found: found.into(), consequence: consequence.into() }
}

/// `/proc/sys/vm/overcommit_memory`.
pub(crate) fn overcommit(text: Option<&str>) -> Check {
    const NAME: &str = "memory overcommit";
    match text.map(str::trim) {
        Some("0") => check(NAME, Verdict::Ok, "heuristic (0)", "snapshots of large processes are possible"),
        Some("1") => check(NAME, Verdict::Ok, "always (1)", "snapshots of large processes are possible"),
        Some("2") => check(
            NAME,
            Verdict::Note,
            "never (2)",
            "observing is not affected; copy-on-write snapshots of a large process will be refused. \
             To allow them: sysctl vm.overcommit_memory=0",
        ),
        _ => check(NAME, Verdict::Note, "not known", "observing is not affected"),
    }
}

/// `/sys/kernel/mm/transparent_hugepage/enabled`: the choice in force stands in brackets.
pub(crate) fn huge_pages(text: Option<&str>) -> Check {
    const NAME: &str = "transparent huge pages";
    let chosen = text.and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0));
    match chosen {
        Some("always") => check(
            NAME,
            Verdict::Note,
            "always",
            "a heap of Python objects from 16 MiB on lies in huge pages (setting huge_arenas), so snapshots stop the \
             program for less. RSS of all memory grows in steps of 2 MiB and can exceed what Python holds. \
             To see it finer: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some("madvise") => check(
            NAME,
            Verdict::Ok,
            "madvise",
            "a heap of Python objects from 16 MiB on lies in huge pages (setting huge_arenas), so snapshots stop the \
             program for less",
        ),
        _ => check(
            NAME,
            Verdict::Note,
            chosen.unwrap_or("not supported here"),
            "snapshots stop the program for 15 to 25 ms per GB of heap instead of 2 to 3; RSS follows what Python holds. \
             Where the kernel has them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
    }
}

/// `/proc/sys/kernel/yama/ptrace_scope`; without Yama there is no such file.
pub(crate) fn ptrace(text: Option<&str>) -> Check {
    let found = match text.map(str::trim) {
        None => "unrestricted (no Yama)".to_owned(),
        Some("0") => "unrestricted (0)".to_owned(),
        Some("1") => "descendants only (1)".to_owned(),
        Some("2") => "administrators only (2)".to_owned(),
        Some("3") => "not allowed (3)".to_owned(),
        Some(other) => format!("scope {other}"),
    };
    check("ptrace", Verdict::Ok, found, "not needed: the agent runs inside the process that it observes")
}

/// `/proc/sys/kernel/perf_event_paranoid`.
pub(crate) fn perf_events(text: Option<&str>) -> Check {
    let found =
        text.map_or_else(|| "not supported here".to_owned(), |level| format!("paranoid level {}", level.trim()));
    check("perf events", Verdict::Ok, found, "not needed: run-queue waits come from /proc")
}

/// `/proc/self/schedstat`: time on a processor, time waiting for one, time slices.
pub(crate) fn run_queue(text: Option<&str>) -> Check {
    const NAME: &str = "run-queue waits";
    let numbers: Vec<u64> = text.unwrap_or_default().split_whitespace().flat_map(str::parse).collect();
    match numbers[..] {
        [on_processor, _, _] if on_processor > 0 => {
            check(NAME, Verdict::Ok, "visible", "cpu_starved stalls are detected")
        }
        _ => check(
            NAME,
            Verdict::Degraded,
            "/proc/self/schedstat does not count",
            "cpu_starved stalls may be reported as unknown. A kernel with CONFIG_SCHED_INFO reports them",
        ),
    }
}

/// `/proc/self/smaps_rollup`.
pub(crate) fn memory_detail(text: Option<&str>) -> Check {
    const NAME: &str = "memory detail";
    if text.is_some_and(|text| text.lines().any(|line| line.starts_with("Pss:"))) {
        check(NAME, Verdict::Ok, "smaps_rollup is readable", "PSS and USS are reported")
    } else {
        check(
            NAME,
            Verdict::Degraded,
            "smaps_rollup is not readable",
            "PSS and USS are null in reports; RSS is still measured. Linux 4.14 or newer has it",
        )
    }
}

/// The kind of control groups, from the kernel's list of mounts (`/proc/self/mounts`).
pub(crate) fn cgroups(mounts: Option<&str>) -> Check {
    const NAME: &str = "control groups";
    let mounts = mounts.unwrap_or_default();
    let has = |kind: &str, option: &str| {
        mounts.lines().any(|line| {
            let mut fields = line.split(' ').skip(2);
            fields.next() == Some(kind)
                && fields.next().is_some_and(|all| option.is_empty() || all.split(',').any(|o| o == option))
        })
    };
    // On a hybrid system memory is still limited by version 1.
    if has("cgroup", "memory") {
        check(NAME, Verdict::Ok, "version 1", "the memory limit of the process's group is found")
    } else if has("cgroup2", "") {
        check(NAME, Verdict::Ok, "version 2", "the memory limit of the process's group is found")
    } else {
        check(
            NAME,
            Verdict::Note,
            "none is mounted",
            "a memory limit, if there is one, is not seen. In a container, mount /sys/fs/cgroup read-only",
        )
    }
}

/// Where the limit of processes of this process's group is, from `/proc/self/cgroup`.
pub(crate) fn pids_max_path(groups: &str) -> Option<String> {
    let version_1 = groups.lines().find_map(|line| Some(line.split_once(":pids:")?.1));
    let version_2 = groups.lines().find_map(|line| line.strip_prefix("0::"));
    match (version_1, version_2) {
        (Some(group), _) => Some(format!("/sys/fs/cgroup/pids{group}/pids.max")),
        (None, Some(group)) => Some(format!("/sys/fs/cgroup{group}/pids.max")),
        (None, None) => None,
    }
}

/// `/proc/self/limits` and the group's `pids.max`: every process under the agent has a thread more.
pub(crate) fn processes(limits: Option<&str>, pids_max: Option<&str>) -> Check {
    const NAME: &str = "process limit";
    let of_user = limits
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("Max processes")))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let of_group = pids_max.and_then(|text| text.trim().parse::<u64>().ok());
    match of_user.into_iter().chain(of_group).min() {
        Some(least) if least < 64 => check(
            NAME,
            Verdict::Degraded,
            format!("{least} processes and threads"),
            "the agent's thread may not start in many workers. Raise it with ulimit -u or the container's pids limit",
        ),
        Some(least) => {
            check(NAME, Verdict::Ok, format!("{least} processes and threads"), "the agent's thread can start")
        }
        None => check(NAME, Verdict::Ok, "unlimited", "the agent's thread can start"),
    }
}

/// `/proc/meminfo`.
pub(crate) fn swap(meminfo: Option<&str>) -> Check {
    const NAME: &str = "swap";
    let total = meminfo
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("SwapTotal:")))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    match total {
        Some(0) => check(
            NAME,
            Verdict::Ok,
            "none",
            "collections never wait for swapped pages; a process over its memory limit is killed at once",
        ),
        Some(kib) => check(
            NAME,
            Verdict::Note,
            bytes(kib.saturating_mul(1024)),
            "a collection that touches swapped pages takes far longer; reports show what is swapped",
        ),
        None => check(NAME, Verdict::Note, "not known", "observing is not affected"),
    }
}

/// The processors that this process may use.
pub(crate) fn cores(usable: Option<usize>) -> Check {
    const NAME: &str = "processors";
    match usable {
        Some(1) => check(
            NAME,
            Verdict::Note,
            "1",
            "the agent's threads share it with the program; expect some cpu_starved stalls",
        ),
        Some(usable) => check(NAME, Verdict::Ok, usable.to_string(), "the agent's threads can run beside the program"),
        None => check(NAME, Verdict::Note, "not known", "observing is not affected"),
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Degraded, Note, Ok};
    use super::*;

    fn expect(check: &Check, verdict: Verdict, found: &str) {
        assert_eq!((check.verdict, check.found.as_str()), (verdict, found));
        assert!(!check.consequence.is_empty());
    }

    #[test]
    fn overcommit_is_judged() {
        expect(&overcommit(Some("0\n")), Ok, "heuristic (0)");
        expect(&overcommit(Some("2\n")), Note, "never (2)");
        expect(&overcommit(None), Note, "not known");
    }

    #[test]
    fn the_bracketed_choice_is_in_force() {
        expect(&huge_pages(Some("[always] madvise never\n")), Note, "always");
        expect(&huge_pages(Some("always [madvise] never\n")), Ok, "madvise");
        expect(&huge_pages(Some("always madvise [never]\n")), Note, "never");
        expect(&huge_pages(None), Note, "not supported here");
    }

    #[test]
    fn ptrace_and_perf_are_only_told() {
        expect(&ptrace(None), Ok, "unrestricted (no Yama)");
        expect(&ptrace(Some("3\n")), Ok, "not allowed (3)");
        expect(&perf_events(Some("4\n")), Ok, "paranoid level 4");
    }

    #[test]
    fn run_queue_waits_need_a_counting_kernel() {
        expect(&run_queue(Some("1500000 20000 12\n")), Ok, "visible");
        expect(&run_queue(Some("0 0 0\n")), Degraded, "/proc/self/schedstat does not count");
        expect(&run_queue(None), Degraded, "/proc/self/schedstat does not count");
    }

    #[test]
    fn memory_detail_needs_the_rollup() {
        expect(&memory_detail(Some("5581 [rollup]\nRss: 1 kB\nPss:  10 kB\n")), Ok, "smaps_rollup is readable");
        expect(&memory_detail(None), Degraded, "smaps_rollup is not readable");
    }

    #[test]
    fn the_version_of_control_groups_is_found() {
        expect(&cgroups(Some("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n")), Ok, "version 2");
        let hybrid =
            "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
        expect(&cgroups(Some(hybrid)), Ok, "version 1");
        expect(&cgroups(Some("proc /proc proc rw 0 0\n")), Note, "none is mounted");
    }

    #[test]
    fn the_group_of_either_version_is_found() {
        assert_eq!(pids_max_path("0::/a/b\n").as_deref(), Some("/sys/fs/cgroup/a/b/pids.max"));
        assert_eq!(
            pids_max_path("9:pids:/docker/x\n0::/y\n").as_deref(),
            Some("/sys/fs/cgroup/pids/docker/x/pids.max")
        );
        assert_eq!(pids_max_path(""), None);
    }

    #[test]
    fn the_smaller_process_limit_counts() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax processes             1000                 2000                 processes\n";
        expect(&processes(Some(limits), Some("50\n")), Degraded, "50 processes and threads");
        expect(&processes(Some(limits), Some("max\n")), Ok, "1000 processes and threads");
        expect(&processes(Some("Max processes   unlimited  unlimited  processes\n"), None), Ok, "unlimited");
    }

    #[test]
    fn swap_and_processors_are_judged() {
        expect(&swap(Some("MemTotal: 1 kB\nSwapTotal:       0 kB\n")), Ok, "none");
        expect(&swap(Some("SwapTotal:       2097152 kB\n")), Note, "2.0 GiB");
        expect(&cores(Some(1)), Note, "1");
        expect(&cores(Some(8)), Ok, "8");
    }
}
