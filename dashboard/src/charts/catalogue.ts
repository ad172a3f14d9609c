// The charts of a process, live or recorded. A new one is an entry here.

import { count, place } from "../format";
import { cause } from "../lost";
import type { Collection, Stall } from "../types";
import type { Plan } from "./lines";
import type { PausePlan } from "./pauses";

export const LATENCY: Plan = {
  id: "latency",
  title: "Latency percentiles",
  unit: "ms",
  help: "How long requests took, their wait included, by percentile.",
  log: "first",
  height: 220,
  lines: [
    { name: "requests.p50_ms", label: "p50", colour: "p50" },
    { name: "requests.p95_ms", label: "p95", colour: "p95" },
    { name: "requests.p99_ms", label: "p99", colour: "p99", width: 2 },
    { name: "requests.p999_ms", label: "p99.9", colour: "p999" },
    { name: "requests.max_ms", label: "longest", colour: "longest", dash: [3, 3], hidden: true },
  ],
};

export const PAUSES: PausePlan<Collection> = {
  id: "pauses",
  title: "GC pauses",
  help: "Every collection: when it began, how long it stopped the program, and where it fell.",
  kinds: [
    { key: "in_gap", label: "in gap", colour: "gap", shape: "circle" },
    { key: "reap", label: "reap", colour: "reap", shape: "square" },
    { key: "clone", label: "snapshot clone", colour: "clone", shape: "diamond" },
    { key: "forced", label: "forced", colour: "forced", shape: "triangle" },
    { key: "in_request", label: "in request", colour: "request", shape: "cross" },
  ],
  kindOf: (event) => event.class,
  describe: (event) =>
    [
      event.what === "clone" ? "snapshot clone" : event.what === "reap" ? "reap slice" : `${event.what} collection`,
      event.place.replace("_", " "),
      event.collected ? `freed ${count(event.collected)}` : "freed nothing",
      event.uncollectable ? `${count(event.uncollectable)} uncollectable` : "",
    ]
      .filter((words) => words && !(event.what === "clone" && words.startsWith("freed")))
      .join(", "),
  head: ["class", "what", "place", "freed", "uncollectable"],
  row: (event) => [event.class, event.what, event.place, event.collected, event.uncollectable],
};

export const STALLS: PausePlan<Stall> = {
  id: "stalls",
  title: "Stalls",
  help: "Times in which the program was ready to run and could not, by cause.",
  height: 150,
  kinds: [
    { key: "unknown", label: cause("unknown"), colour: "longest", shape: "circle" },
    { key: "cpu_starved", label: cause("cpu_starved"), colour: "forced", shape: "triangle" },
    { key: "python", label: cause("python"), colour: "reap", shape: "square" },
    { key: "gil_native", label: cause("gil_native"), colour: "clone", shape: "diamond" },
    { key: "gc", label: cause("gc"), colour: "request", shape: "cross" },
  ],
  kindOf: (event) => event.cause,
  describe: (event) => `${cause(event.cause)}, ${place(event.site)}`,
  head: ["cause", "site"],
  row: (event) => [event.cause, event.site],
};

export const RATE: Plan = {
  id: "rate",
  title: "Requests",
  unit: "1/s",
  help: "Requests ended in a second.",
  lines: [{ name: "requests.rps", label: "per second", colour: "p95", fill: 0.1 }],
};

export const GC_TIME: Plan = {
  id: "gc-time",
  title: "Time in collections",
  unit: "ms/s",
  help: "Milliseconds of each second in which a collection stopped the program, by place.",
  stacked: true,
  lines: [
    { name: "gc.in_request_ms", label: "in request", colour: "request" },
    { name: "gc.forced_ms", label: "forced", colour: "forced" },
    { name: "gc.in_gap_ms", label: "in gap", colour: "gap" },
  ],
};

export const MEMORY: Plan = {
  id: "memory",
  title: "Memory",
  unit: "bytes",
  help: "Resident, proportional and unique set, with the limit where it is near.",
  lines: [
    { name: "memory.rss", label: "RSS", colour: "p99", width: 2, fill: 0.08 },
    { name: "memory.pss", label: "PSS", colour: "clone" },
    { name: "memory.uss", label: "USS", colour: "gap" },
    { name: "memory.children", label: "children", colour: "p50", hidden: true },
    { name: "memory.swap", label: "swap", colour: "forced", hidden: true },
    { name: "memory.limit", label: "limit", colour: "request", dash: [6, 4], limit: true },
  ],
};

export const BREAKDOWN: Plan = {
  id: "breakdown",
  title: "Where the resident memory is",
  unit: "bytes",
  help: "The resident set by what it is used for, read every half minute.",
  height: 220,
  stacked: true,
  lines: [
    { name: "memory.breakdown.python_used", label: "Python objects", colour: "p99" },
    { name: "memory.breakdown.python_free", label: "pymalloc free", colour: "p50" },
    { name: "memory.breakdown.malloc_used", label: "malloc in use", colour: "clone" },
    { name: "memory.breakdown.malloc_free", label: "malloc free", colour: "forced" },
    { name: "memory.breakdown.mapped", label: "mapped", colour: "gap" },
    { name: "memory.breakdown.libraries", label: "libraries", colour: "p999" },
    { name: "memory.breakdown.stacks", label: "stacks", colour: "request" },
    { name: "memory.breakdown.other", label: "other", colour: "longest" },
  ],
};

export const GPU: Plan = {
  id: "gpu",
  title: "Memory of GPUs",
  unit: "bytes",
  help: "What tensors take, what PyTorch's allocator has taken, and free pieces of segments in use. All devices together.",
  height: 220,
  lines: [
    { name: "gpu.allocated", label: "in use", colour: "p99", width: 2 },
    { name: "gpu.reserved", label: "reserved", colour: "p50" },
    { name: "gpu.inactive", label: "in pieces", colour: "forced" },
    { name: "gpu.pinned", label: "pinned host memory", colour: "gap", hidden: true },
  ],
};

export const GPU_STEPS: Plan = {
  id: "gpu-steps",
  title: "Steps",
  unit: "1/s",
  help: "Optimizer steps that ended in a second, and errors \"out of memory\".",
  lines: [
    { name: "gpu.steps", label: "steps", colour: "p95", fill: 0.1 },
    { name: "gpu.ooms", label: "out of memory", colour: "request" },
  ],
};

export const CPU: Plan = {
  id: "cpu",
  title: "CPU",
  unit: "percent",
  help: "Processor use; 100 is one core.",
  lines: [
    { name: "cpu.percent", label: "process", colour: "p95", fill: 0.1 },
    { name: "agent.cpu_percent", label: "agent", colour: "forced" },
  ],
};

export const GIL: Plan = {
  id: "gil",
  title: "GIL busy",
  unit: "percent",
  help: "Share of time in which a thread held the GIL. The rest is gaps.",
  lines: [{ name: "gil.busy_percent", label: "busy", colour: "clone", fill: 0.1 }],
};

export const STORAGE: Plan = {
  id: "storage",
  title: "Storage",
  unit: "bytes/s",
  help: "Read from and written to storage.",
  lines: [
    { name: "io.read", label: "read", colour: "p95" },
    { name: "io.write", label: "written", colour: "forced" },
  ],
};

export const NETWORK: Plan = {
  id: "network",
  title: "Network",
  unit: "bytes/s",
  help: "Traffic of the network namespace: the kernel does not count it by process.",
  lines: [
    { name: "net.recv", label: "received", colour: "p95" },
    { name: "net.sent", label: "sent", colour: "forced" },
  ],
};

export const COLLECTIONS: Plan = {
  id: "collections",
  title: "Collections",
  unit: "1/s",
  help: "Collections per second, by kind.",
  lines: [
    { name: "gc.young", label: "young", colour: "gap" },
    { name: "gc.middle", label: "middle", colour: "p95" },
    { name: "gc.full", label: "full", colour: "request" },
    { name: "gc.snapshots", label: "snapshots", colour: "clone" },
    { name: "gc.reap", label: "reap slices", colour: "reap" },
  ],
};

export const OBJECTS: Plan = {
  id: "objects",
  title: "Tracked objects",
  unit: "count",
  help: "Objects that the collector tracks, and those in the permanent generation.",
  lines: [
    { name: "gc.tracked", label: "tracked", colour: "p99" },
    { name: "gc.frozen", label: "frozen", colour: "p50" },
  ],
};

export const FREED: Plan = {
  id: "freed",
  title: "Objects freed",
  unit: "1/s",
  help: "Objects that collections freed in a second.",
  lines: [{ name: "gc.collected", label: "freed", colour: "gap", fill: 0.1 }],
};

export const IN_FLIGHT: Plan = {
  id: "in-flight",
  title: "In flight",
  unit: "count",
  help: "Requests being served at once.",
  lines: [{ name: "requests.in_flight", label: "requests", colour: "p95" }],
};

export const HANDLES: Plan = {
  id: "handles",
  title: "Descriptors, threads, children",
  unit: "count",
  lines: [
    { name: "fds", label: "descriptors", colour: "p95" },
    { name: "threads", label: "threads", colour: "clone" },
    { name: "children", label: "children", colour: "gap" },
  ],
};

/** For policies with a model. */
export const FORECASTS: Plan = {
  id: "forecasts",
  title: "Gaps, expected and real",
  unit: "ms",
  help: "The latest gap of each second: how long it lasted, and what the model predicted.",
  log: "first",
  lines: [
    { name: "conduct.gap_p90_ms", label: "90 % over by", colour: "p50", dash: [4, 3] },
    { name: "conduct.gap_p50_ms", label: "half over by", colour: "p95", width: 2 },
    { name: "conduct.gap_p10_ms", label: "10 % over by", colour: "p50", dash: [4, 3] },
    { name: "conduct.gap_ms", label: "real", colour: "request" },
  ],
};

/** The smaller charts of a process, in their order. */
export const SMALL: Plan[] = [RATE, GC_TIME, MEMORY, CPU, GIL, COLLECTIONS, OBJECTS, FREED, IN_FLIGHT];

/** Those that are seldom looked at. */
export const MORE: Plan[] = [STORAGE, NETWORK, HANDLES];

/** Those for which a trace may hold values. */
export const TRACED: Plan[] = [RATE, GC_TIME, MEMORY, CPU, GIL, COLLECTIONS, OBJECTS, FREED, IN_FLIGHT];

/** Of a group of stalls at one site, in words. */
export function siteSummary(stalls: Stall[]) {
  const sites = new Map<string, { site: string; cause: string; count: number; total: number; longest: number; last: number }>();
  for (const stall of stalls) {
    const key = `${stall.cause} ${stall.site}`;
    const sum = sites.get(key) ?? { site: stall.site, cause: stall.cause, count: 0, total: 0, longest: 0, last: 0 };
    sum.count += 1;
    sum.total += stall.ms;
    sum.longest = Math.max(sum.longest, stall.ms);
    sum.last = Math.max(sum.last, stall.t);
    sites.set(key, sum);
  }
  return [...sites.values()].sort((one, other) => other.total - one.total);
}

