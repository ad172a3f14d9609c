//! What `/proc` says about a process that is to be attached to, and about this command's rights.

use std::fs;

use crate::container::numbers_in_namespaces;
use crate::process::kernel_text;

/// What is known about the target before it is touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TargetFacts {
    pub(crate) pid: u32,
    /// The letter of its state.
    pub(crate) state: char,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) tracer: u32,
    /// Its number in its own pid namespace.
    pub(crate) inner_pid: u32,
    pub(crate) seccomp: u32,
    pub(crate) has_shadow_stack: bool,
    /// It was told not to let anything in, by this.
    pub(crate) disabled_by: Option<&'static str>,
    /// Its files in `/proc` belong to root though it does not: it is not dumpable.
    pub(crate) is_guarded: bool,
    /// How far the stack of its first thread may grow, in bytes.
    pub(crate) stack_limit: u64,
}

impl TargetFacts {
    /// Reads them. None where there is no such process.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let bytes = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let owner = fs::metadata(format!("/proc/{pid}/fd")).map(|metadata| metadata.uid());
        let mut facts = Self::parse(pid, &status)?;
        facts.disabled_by = disabled_by(&bytes("environ"), &bytes("cmdline"));
        facts.is_guarded = owner.is_ok_and(|owner| owner != facts.uid);
        facts.stack_limit = stack_limit(&kernel_text(&format!("/proc/{pid}/limits")).unwrap_or_default());
        Some(facts)
    }

    fn parse(pid: u32, status: &str) -> Option<Self> {
        let field = |name: &str| field(status, name);
        let number = |name: &str, place: usize| field(name)?.split_whitespace().nth(place)?.parse().ok();
        Some(Self {
            pid,
            state: field("State:")?.chars().next()?,
            uid: number("Uid:", 1)?,
            gid: number("Gid:", 1)?,
            tracer: number("TracerPid:", 0).unwrap_or(0),
            inner_pid: numbers_in_namespaces(status).last().copied().unwrap_or(pid),
            seccomp: number("Seccomp:", 0).unwrap_or(0),
            has_shadow_stack: field("x86_Thread_features:").is_some_and(|features| features.contains("shstk")),
            disabled_by: None,
            is_guarded: false,
            stack_limit: 0,
        })
    }
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The soft limit on the stack. Without one, and where it cannot be read, what Linux gives by default.
fn stack_limit(limits: &str) -> u64 {
    const BY_DEFAULT: u64 = 8 << 20;
    let soft = field(limits, "Max stack size").and_then(|line| line.split_whitespace().next()?.parse().ok());
    soft.unwrap_or(BY_DEFAULT)
}

/// What was said against remote debugging when the process was started.
fn disabled_by(environ: &[u8], command_line: &[u8]) -> Option<&'static str> {
    const VARIABLE: &[u8] = b"PYTHON_DISABLE_REMOTE_DEBUG=";
    const OPTION: &[u8] = b"disable-remote-debug";
    let said = |line: &[u8]| line.strip_prefix(VARIABLE).is_some_and(|value| !value.is_empty());
    if environ.split(|byte| *byte == 0).any(said) {
        return Some("PYTHON_DISABLE_REMOTE_DEBUG is set in its environment");
    }
    let words: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
    let option = |pair: &[&[u8]]| pair[0].ends_with(b"X") && pair[0].starts_with(b"-") && pair[1] == OPTION;
    let joined = |word: &&[u8]| word.strip_prefix(b"-X") == Some(OPTION);
    let is_option = words.windows(2).any(option) || words.iter().any(joined);
    is_option.then_some("it was started with -X disable-remote-debug")
}

/// What this command may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnRights {
    pub(crate) uid: u32,
    pub(crate) may_trace_any: bool,
    pub(crate) seccomp: u32,
    /// `kernel.yama.ptrace_scope`; zero where there is no Yama.
    pub(crate) ptrace_scope: u32,
}

impl OwnRights {
    pub(crate) fn read() -> Self {
        let status = kernel_text("/proc/self/status").unwrap_or_default();
        let scope = kernel_text("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        Self::parse(&status, &scope)
    }

    fn parse(status: &str, scope: &str) -> Self {
        const CAP_SYS_PTRACE: u64 = 1 << 19;
        let capabilities = field(status, "CapEff:").and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
        let number = |name: &str, place: usize| field(status, name)?.split_whitespace().nth(place)?.parse().ok();
        Self {
            uid: number("Uid:", 1).unwrap_or(u32::MAX),
            may_trace_any: capabilities & CAP_SYS_PTRACE != 0,
            seccomp: number("Seccomp:", 0).unwrap_or(0),
            ptrace_scope: scope.trim().parse().unwrap_or(0),
        }
    }
}

/// Why the kernel does not let this command trace the target, and what would help.
pub(crate) fn denial(target: &TargetFacts, own: &OwnRights) -> String {
    let pid = target.pid;
    let lacks = !own.may_trace_any;
    if target.tracer != 0 {
        let tracer = target.tracer;
        let name = kernel_text(&format!("/proc/{tracer}/comm")).unwrap_or_default();
        return format!(
            "process {pid} is being traced by process {tracer} ({}), and one process can have one tracer only. End that \
             first, then run `neurogc attach {pid}` again",
            name.trim()
        );
    }
    if own.ptrace_scope >= 3 {
        return format!(
            "this machine allows no tracing at all (kernel.yama.ptrace_scope is {}), until it is restarted with another \
             value. Start the program with `neurogc run` instead",
            own.ptrace_scope
        );
    }
    if lacks && own.uid == 0 {
        return format!(
            "this command runs as root without CAP_SYS_PTRACE, as in most containers. Run `neurogc attach {pid}` on the \
             host, or give the container the capability: `docker run --cap-add SYS_PTRACE …`, or in Kubernetes \
             `securityContext: {{capabilities: {{add: [SYS_PTRACE]}}}}`"
        );
    }
    if lacks && target.uid != own.uid {
        let user = crate::process::user_name(target.uid);
        return format!("process {pid} belongs to user {user}. Run `sudo neurogc attach {pid}`");
    }
    if lacks && own.ptrace_scope > 0 {
        let scope = own.ptrace_scope;
        return format!(
            "this machine lets users trace only what they started from the tracer itself (kernel.yama.ptrace_scope is \
             {scope}). Run `sudo neurogc attach {pid}`, or `sudo sysctl kernel.yama.ptrace_scope=0`"
        );
    }
    if lacks && target.is_guarded {
        return format!(
            "process {pid} does not let its user look into it (it is not dumpable). Run `sudo neurogc attach {pid}`"
        );
    }
    if own.seccomp != 0 {
        return format!(
            "the kernel refuses to trace process {pid}. This command runs under a seccomp filter, which may be the \
             reason: run it on the host, or start its container with `--security-opt seccomp=unconfined`"
        );
    }
    format!(
        "the kernel refuses to trace process {pid}: a security module (SELinux, AppArmor) or a user namespace may be the \
         reason. Run `neurogc attach {pid}` as root on the host"
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tpython3\nState:\tS (sleeping)\nUid:\t1000\t1001\t1000\t1000\nGid:\t5\t6\t5\t5\nTracerPid:\t0\n\
                          NSpid:\t4242\t17\nSeccomp:\t2\nx86_Thread_features:\tshstk \n";

    #[test]
    fn the_facts_of_a_process_are_read() {
        let facts = TargetFacts::parse(4242, STATUS).unwrap();
        assert_eq!((facts.state, facts.uid, facts.gid, facts.inner_pid), ('S', 1001, 6, 17));
        assert!(facts.has_shadow_stack && facts.seccomp == 2 && facts.tracer == 0);
        assert!(TargetFacts::read(std::process::id()).unwrap().disabled_by.is_none());
    }

    #[test]
    fn the_limit_of_the_stack_is_the_soft_one() {
        let check =
            |line: &str| stack_limit(&format!("Limit      Soft Limit\n{line}\nMax core file size  0  0 bytes\n"));
        assert_eq!(check("Max stack size            524288               unlimited            bytes     "), 512 << 10);
        assert_eq!(check("Max stack size            unlimited            unlimited            bytes     "), 8 << 20);
        assert_eq!(check(""), 8 << 20);
    }

    #[test]
    fn a_no_of_the_program_is_heard() {
        let check = |environ: &str, line: &str| disabled_by(environ.as_bytes(), line.as_bytes()).is_some();
        assert!(check("A=1\0PYTHON_DISABLE_REMOTE_DEBUG=1\0", "python\0"));
        assert!(check("", "python\0-X\0disable-remote-debug\0app.py\0"));
        assert!(check("", "python\0-Xdisable-remote-debug\0app.py\0"));
        assert!(!check("PYTHON_DISABLE_REMOTE_DEBUG=\0", "python\0-X\0dev\0"));
        assert!(!check("XPYTHON_DISABLE_REMOTE_DEBUG=1\0", "python\0disable-remote-debug\0"));
    }

    #[test]
    fn every_denial_says_what_would_help() {
        let target = |change: fn(&mut TargetFacts)| {
            let mut facts = TargetFacts { pid: 7, uid: 1000, ..TargetFacts::default() };
            change(&mut facts);
            facts
        };
        let own = |uid, ptrace_scope| OwnRights { uid, ptrace_scope, ..OwnRights::default() };
        let check = |target: TargetFacts, own: OwnRights, expect: &str| {
            let text = denial(&target, &own);
            assert!(text.contains(expect), "{text}");
        };
        check(target(|it| it.tracer = 1), own(1000, 0), "traced by process 1 (");
        check(target(|_| ()), own(0, 0), "--cap-add SYS_PTRACE");
        check(target(|_| ()), own(1001, 1), "Run `sudo neurogc attach 7`");
        check(target(|_| ()), own(1000, 1), "sysctl kernel.yama.ptrace_scope=0");
        check(target(|_| ()), own(1000, 3), "allows no tracing at all");
        check(target(|it| it.is_guarded = true), own(1000, 0), "not dumpable");
        check(target(|_| ()), OwnRights { seccomp: 2, ..own(1000, 0) }, "seccomp=unconfined");
        check(target(|_| ()), own(1000, 0), "security module");
    }
}
