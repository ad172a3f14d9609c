//! Figures of the process as the kernel sees it, of its identity, and of the agent in it.

use super::super::figure::{Across, Attribute, Figure, Metric, Unit, figure, item};

/// Who it is.
pub(crate) const IDENTITY: &[Figure] = &[
    figure!(pid).latest(Unit::None, "Process id").across(Across::Apart),
    figure!(command).text("The command line, shortened").info("command"),
    figure!(service).text("The service that the process belongs to").note(
        "The setting `service`, else `OTEL_SERVICE_NAME`, else `service.name` in `OTEL_RESOURCE_ATTRIBUTES`, else the \
             name of the application: the module given to the server or to `-m`, or the script.",
    ),
    figure!(role)
        .text("What the process is in its service")
        .note("`main`, `master`, `worker 1`, `child of 4242` or `resource tracker`.")
        .info("role"),
    figure!(python).text("Interpreter and version").info("python"),
    figure!(neurogc).text("Version of NeuroGC").info("version"),
    figure!(policy)
        .text("The policy in force")
        .note("Never `auto`.")
        .metric(Metric::shared("neurogc_policy_info", "The policy in force; always 1"))
        .each(&["policy"], |sample, to| to(&[("policy", &sample.status.policy)], 1.0)),
    figure!(policy_set)
        .text("The policy as it was set: `auto`, or the one in force")
        .note("`auto` is shown together with what it is: `auto (gap)`."),
    figure!(uptime_s)
        .latest(Unit::Seconds, "Time since the agent was installed")
        .across(Across::Max)
        .prometheus("neurogc_uptime_seconds")
        .otlp("process.uptime", "s"),
    figure!(degraded)
        .list("What does not work here, and why, in words")
        .note(
            "Empty is best. At most 32 that came up while the agent ran, of at most 300 characters each, and a last \
             line that counts the rest.",
        )
        .metric(Metric::shared("neurogc_degraded", "How many things do not work here")),
];

const CHILDREN_MEMORY: &str = "Its memory";

/// What the kernel knows.
pub(crate) const PROCESS: &[Figure] = &[
    figure!(memory.rss)
        .peak(Unit::Bytes, "Resident set")
        .series("memory.rss")
        .prometheus("neurogc_memory_rss_bytes")
        .otlp("process.memory.usage", "By"),
    figure!(memory.peak_rss).largest(Unit::Bytes, "Largest resident set so far"),
    figure!(memory.pss)
        .peak(Unit::Bytes, "Proportional set")
        .note("Shared pages divided among the processes that share them. Read rarely, because it is expensive.")
        .series("memory.pss")
        .prometheus("neurogc_memory_pss_bytes"),
    figure!(memory.uss)
        .peak(Unit::Bytes, "Unique set")
        .note("What would be free if the process ended. Read as rarely.")
        .series("memory.uss")
        .prometheus("neurogc_memory_uss_bytes"),
    figure!(memory.vms).peak(Unit::Bytes, "Address space").otlp("process.memory.virtual", "By"),
    figure!(memory.swap).peak(Unit::Bytes, "Swapped out").series("memory.swap").prometheus("neurogc_memory_swap_bytes"),
    figure!(memory.limit)
        .latest(Unit::Bytes, "The smallest cgroup limit")
        .note("`null` where there is none.")
        .across(Across::Apart)
        .series("memory.limit")
        .prometheus("neurogc_memory_limit_bytes"),
    figure!(cpu.percent)
        .mean(Unit::Percent, "Processor use, 100 being one core")
        .series("cpu.percent")
        .metric(Metric::shared("neurogc_cpu_ratio", "Processor use, 1 being one core"))
        .otlp("process.cpu.utilization", "1"),
    figure!(io.read_bytes)
        .counter(Unit::Bytes, "Read from storage")
        .series("io.read")
        .prometheus("neurogc_io_read_bytes_total")
        .otlp_part("process.disk.io", "By", "disk.io.direction", Attribute::Text("read")),
    figure!(io.write_bytes)
        .counter(Unit::Bytes, "Written to storage")
        .series("io.write")
        .prometheus("neurogc_io_written_bytes_total")
        .otlp_part("process.disk.io", "By", "disk.io.direction", Attribute::Text("write")),
    figure!(net.sent_bytes)
        .counter(Unit::Bytes, "Sent by the network namespace")
        .note("The kernel does not count it by process.")
        .series("net.sent")
        .prometheus("neurogc_network_sent_bytes_total")
        .otlp_part("process.network.io", "By", "network.io.direction", Attribute::Text("transmit")),
    figure!(net.recv_bytes)
        .counter(Unit::Bytes, "Received by the network namespace")
        .note("The kernel does not count it by process.")
        .series("net.recv")
        .prometheus("neurogc_network_received_bytes_total")
        .otlp_part("process.network.io", "By", "network.io.direction", Attribute::Text("receive")),
    figure!(fds)
        .peak(Unit::Count, "Open file descriptors")
        .series("fds")
        .prometheus("neurogc_open_fds")
        .otlp("process.unix.file_descriptor.count", "{file_descriptor}"),
    figure!(threads)
        .peak(Unit::Count, "Threads, the agent's own included")
        .series("threads")
        .prometheus("neurogc_threads")
        .otlp("process.thread.count", "{thread}"),
    figure!(children).list("Child processes, and theirs").series("children").prometheus("neurogc_children"),
    item!("children[].pid").latest(Unit::None, "Its process id").across(Across::Apart),
    item!("children[].ppid").latest(Unit::None, "Its parent: this process or another child").across(Across::Apart),
    item!("children[].command").text("The command's name"),
    item!("children[].rss")
        .peak(Unit::Bytes, CHILDREN_MEMORY)
        .metric(Metric::shared("neurogc_children_rss_bytes", "Resident sets of the child processes"))
        .each(&[], |sample, to| to(&[], sample.status.children.iter().map(|child| child.rss as f64).sum())),
    item!("children[].pss").peak(Unit::Bytes, CHILDREN_MEMORY),
    item!("children[].worker.kind")
        .text("What forked it, if it is a worker")
        .note("`server`, `dataloader` or `pool`. The parts are measured as rarely as the proportional set."),
    item!("children[].worker.shared").latest(Unit::Bytes, "What it shares with others").across(Across::Apart),
    item!("children[].worker.shared_pss").latest(Unit::Bytes, "Its proportional part of that").across(Across::Apart),
    item!("children[].worker.copied")
        .latest(Unit::Bytes, "What it inherited and has for itself now, because it was written to")
        .across(Across::Apart),
    item!("children[].worker.own").latest(Unit::Bytes, "What it has allocated itself").across(Across::Apart),
];

/// Where live memory was allocated.
pub(crate) const ALLOCATIONS: &[Figure] = &[
    figure!(allocations.mode)
        .text("Which allocations are sampled")
        .note("`native` is all, `python` is those of CPython's own allocators, `off` is none."),
    figure!(allocations.reason)
        .text("Why no more is sampled")
        .note("Empty where everything is that was asked for. The same reason is in `degraded`."),
    figure!(allocations.rate_bytes_s)
        .mean(Unit::Bytes, "Bytes allocated per second")
        .note("An estimate from samples, over the last 10 seconds or so. Memory that was freed again counts too.")
        .series("allocations.rate")
        .prometheus("neurogc_allocation_rate_bytes"),
    figure!(allocations.live_bytes)
        .peak(Unit::Bytes, "Live bytes that were allocated since sampling began")
        .note("An estimate from samples.")
        .series("allocations.live")
        .prometheus("neurogc_allocation_live_bytes"),
    figure!(allocations.attributed)
        .latest(Unit::Ratio, "Share of them whose line of Python code is known, from 0 to 1")
        .across(Across::Apart),
    figure!(allocations.top)
        .list("The ten lines of code with the most live bytes")
        .note("`neurogc memory sites` shows all, with their call stacks."),
    item!("allocations.top[].site").text("The place: `file.py:12 in function`"),
    item!("allocations.top[].bytes").peak(Unit::Bytes, "Bytes allocated there that have not been freed"),
    item!("allocations.top[].blocks").peak(Unit::Count, "Blocks of them"),
    item!("allocations.top[].growth_bytes_s")
        .latest(Unit::Bytes, "How fast they have grown, per second, over the last 10 minutes or since sampling began")
        .across(Across::Apart),
];

/// What is in the heap.
pub(crate) const CENSUS: &[Figure] = &[
    figure!(census.at_s)
        .latest(Unit::Seconds, "When the census was taken, in seconds since the agent was installed")
        .note("0 where there has been none.")
        .across(Across::Apart),
    figure!(census.compared_s)
        .latest(Unit::Seconds, "How much earlier the census was taken that growth is measured from")
        .note("That is the latest one that is at least a minute older, else the first one. 0 where there is none.")
        .across(Across::Apart),
    figure!(census.objects)
        .peak(Unit::Count, "Reachable objects that the collector tracks")
        .series("census.objects")
        .prometheus("neurogc_census_objects"),
    figure!(census.bytes)
        .peak(Unit::Bytes, "Their bytes")
        .note("Strings, numbers and other objects that the collector does not track are not in it.")
        .series("census.bytes")
        .prometheus("neurogc_census_bytes"),
    figure!(census.types).list("The 20 types with the most bytes").note("`neurogc.heap.count()` counts all types."),
    item!("census.types[].type").text("The type: `module.Class`, without the module for builtins"),
    item!("census.types[].count")
        .peak(Unit::Count, "Reachable objects of the type")
        .prometheus("neurogc_census_type_objects")
        .each(&["type"], |sample, to| {
            for row in &sample.status.census.types {
                to(&[("type", &row.r#type)], row.count as f64);
            }
        }),
    item!("census.types[].bytes")
        .peak(Unit::Bytes, "Bytes of the objects of the type")
        .prometheus("neurogc_census_type_bytes")
        .each(&["type"], |sample, to| {
            for row in &sample.status.census.types {
                to(&[("type", &row.r#type)], row.bytes as f64);
            }
        }),
    item!("census.types[].growth")
        .latest(Unit::Bytes, "Growth of these bytes per hour, since the census of `compared_s` before")
        .note("`null` where that had no such type, or there is none.")
        .across(Across::Apart),
    figure!(census.containers)
        .list("The 20 largest lists, dicts, sets, deques and bytearrays")
        .note("Of those that the collector does not track, only the ones with a name are found."),
    item!("census.containers[].name")
        .text("Where it is: `module.name`, `module.object.attribute`, `module.Class.attribute`, `function(): variable`")
        .note("Empty where it is none of these; a heap dump tells more."),
    item!("census.containers[].type").text("Its type"),
    item!("census.containers[].length").peak(Unit::Count, "How many entries it has"),
    item!("census.containers[].bytes").peak(Unit::Bytes, "Its bytes, without those of what it holds"),
    item!("census.containers[].growth")
        .latest(Unit::Count, "Growth of its length per hour, since the census of `compared_s` before")
        .note("`null` where it was not among the largest then, or there is none.")
        .across(Across::Apart),
    figure!(census.pinned)
        .peak(Unit::Count, "Objects in arenas of CPython's allocator of which little is in use")
        .note("Zero where there are few such arenas. Counted: tracked objects, and what they refer to directly."),
    figure!(census.pins).list("The types that most of these objects have"),
    item!("census.pins[].type").text("The type: `module.Class`, without the module for builtins"),
    item!("census.pins[].count").peak(Unit::Count, "How many of these objects have this type"),
];

/// What being observed costs.
pub(crate) const AGENT: &[Figure] = &[
    figure!(agent.cpu_ms)
        .counter(Unit::Milliseconds, "Processor time of the agent")
        .prometheus("neurogc_agent_cpu_seconds_total"),
    figure!(agent.dropped)
        .counter(Unit::Count, "Events that the agent dropped")
        .note("Because its queue was full, or because a block of the trace could not be written.")
        .series("agent.dropped")
        .prometheus("neurogc_agent_dropped_total"),
    figure!(agent.rss_bytes)
        .latest(Unit::Bytes, "Memory of the agent")
        .note("Its heap, the tables of its allocation sampler, and its library.")
        .prometheus("neurogc_agent_memory_bytes"),
];
