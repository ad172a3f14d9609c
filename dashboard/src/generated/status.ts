// Written by `cargo run -p xtask -- docs` from crates/wire: the status report of a process. Change it there.

export interface AgentCost {
  /** Processor time of the agent. */
  cpu_ms: number;
  /** Events that the agent dropped. */
  dropped: number;
  /** Memory of the agent. */
  rss_bytes: number;
}

export type AllocationMode = "off" | "python" | "native";

export interface AllocationSite {
  /** The place: `file.py:12 in function`. */
  site: string;
  /** Bytes allocated there that have not been freed. */
  bytes: number;
  /** Blocks of them. */
  blocks: number;
  /** How fast they have grown, per second, over the last 10 minutes or since sampling began. */
  growth_bytes_s: number;
}

export interface Allocations {
  /** Which allocations are sampled. */
  mode: AllocationMode;
  /** Why no more is sampled. */
  reason: string;
  /** Bytes allocated per second. */
  rate_bytes_s: number;
  /** Live bytes that were allocated since sampling began. */
  live_bytes: number;
  /** Share of them whose line of Python code is known, from 0 to 1. */
  attributed: number;
  /** The ten lines of code with the most live bytes. */
  top: AllocationSite[];
}

export interface Bound {
  /** Resident memory that the process may grow to until the next collection of everything is over. */
  goal_bytes: number;
  /** Resident memory that the last collection of everything left. */
  live_bytes: number;
  /** What the heap may grow to, in objects. */
  goal_objects: number;
  /** Objects that the last collection of everything left. */
  live_objects: number;
  /** Objects that there are now, about. */
  objects: number;
  /** How far above its goal the heap is now, in objects. */
  over: number;
  /** Snapshots that the pacer launched. */
  launches: number;
  /** Plain collections, and slices of any length, because the goal or the ceiling could not be held otherwise. */
  backstops: number;
  /** Full collections near the memory ceiling that were put off. */
  held_back: number;
  /** How long threads that allocate were held up because the program outran the walk. */
  throttled_ms: number;
  /** How long the slices took that freed what snapshots found. */
  assisted_ms: number;
}

export interface Breakdown {
  /** Small Python objects. */
  python_used: number;
  /** Free memory in those arenas. */
  python_free: number;
  /** Blocks of `malloc` in use. */
  malloc_used: number;
  /** Free memory that `malloc` keeps. */
  malloc_free: number;
  /** Memory mapped without `malloc`, and files that are no libraries. */
  mapped: number;
  /** Stacks of all threads. */
  stacks: number;
  /** Code and data of the interpreter and of libraries. */
  libraries: number;
  /** Everything else. */
  other: number;
  /** When it was read, since the agent was installed. */
  at_s: number;
  /** How long the reading took; the program went on meanwhile. */
  took_ms: number;
  /** The share of the resident set that is not `other`, from 0 to 1. */
  explained: number;
  /** Whose `malloc` it is: `glibc`, or `unknown`. */
  malloc: MallocKind;
  /** Arenas of `malloc`. */
  malloc_arenas: number;
  /** What the arenas other than the main one keep free. */
  malloc_arenas_free: number;
  /** Large blocks of `malloc` with a mapping of their own. */
  malloc_mapped: number;
  /** Whole pages in free blocks of `malloc`, which `trim` can give back. */
  trimmable: number;
  /** Arenas of CPython's allocator. */
  python_arenas: number;
  /** Those of which less than a quarter is in use. */
  python_sparse_arenas: number;
  /** Free memory in those. */
  python_sparse_free: number;
  /** Files that are no libraries, and shared memory. */
  mapped_files: number;
  /** The agent's own memory, without its library. */
  ours: number;
}

export interface ByCause {
  gc: number;
  gil_native: number;
  python: number;
  cpu_starved: number;
  unknown: number;
}

export type Cause = "gc" | "gil_native" | "python" | "cpu_starved" | "unknown";

export interface Census {
  /** When the census was taken, in seconds since the agent was installed. */
  at_s: number;
  /** How much earlier the census was taken that growth is measured from. */
  compared_s: number;
  /** Reachable objects that the collector tracks. */
  objects: number;
  /** Their bytes. */
  bytes: number;
  /** The 20 types with the most bytes. */
  types: CensusType[];
  /** The 20 largest lists, dicts, sets, deques and bytearrays. */
  containers: CensusContainer[];
  /** Objects in arenas of CPython's allocator of which little is in use. */
  pinned: number;
  /** The types that most of these objects have. */
  pins: CensusPin[];
}

export interface CensusContainer {
  /** Where it is: `module.name`, `module.object.attribute`, `module.Class.attribute`, `function(): variable`. */
  name: string;
  /** Its type. */
  type: string;
  /** How many entries it has. */
  length: number;
  /** Its bytes, without those of what it holds. */
  bytes: number;
  /** Growth of its length per hour, since the census of `compared_s` before. */
  growth: number | null;
}

export interface CensusPin {
  /** The type: `module.Class`, without the module for builtins. */
  type: string;
  /** How many of these objects have this type. */
  count: number;
}

export interface CensusType {
  /** The type: `module.Class`, without the module for builtins. */
  type: string;
  /** Reachable objects of the type. */
  count: number;
  /** Bytes of the objects of the type. */
  bytes: number;
  /** Growth of these bytes per hour, since the census of `compared_s` before. */
  growth: number | null;
}

export interface Child {
  /** Its process id. */
  pid: number;
  /** Its parent: this process or another child. */
  ppid: number;
  /** The command's name. */
  command: string;
  /** Its memory. */
  rss: number;
  /** Its memory. */
  pss: number | null;
  worker: WorkerMemory | null;
}

export interface Compared {
  /** How long the latest gap lasted. */
  lasted_ms: number;
  /** What was expected of it. */
  expected_ms: number[];
}

export interface Conduct {
  /** Whether the policy acts. */
  acting: boolean;
  /** A full collection that the program has asked for and that waits for a gap. */
  due: string;
  /** For how long a full collection has been overdue. */
  overdue_s: number;
  /** Always 0. */
  missed: number;
  /** Full collections of the program that were put off. */
  deferred: number;
  /** What was ordered, by reason. */
  orders: Orders[];
  model: Forecasts | null;
  guards: Guards;
  training: TrainingLoop;
}

export interface Cpu {
  /** Processor use, 100 being one core. */
  percent: number;
}

export interface FailedSnapshots {
  /** The latest reason. */
  reason: string;
  /** How often. */
  count: number;
  /** When last, in seconds since the agent was installed. */
  last_s: number;
}

export interface Finding {
  /** What kind of finding it is. */
  kind: FindingKind;
  /** How sure it is, from 0 to 1. */
  confidence: number;
  /** What is the matter, as a sentence with its number and its place. */
  text: string;
  /** What holds the memory; empty where the finding is not about memory. */
  holder: string;
  /** Where in the code; empty where it is no single place. */
  site: string;
  /** How fast memory grows, per hour; zero where the finding is not about growth. */
  rate_bytes_h: number;
  /** What to do next; empty where nothing is to be done. */
  advice: string;
  /** How the program came to it; empty where the finding is not about memory. */
  pattern: string;
  /** Where to read more. */
  doc: string;
  /** What is held now; zero where that is not known. */
  bytes: number;
  /** The share of the growth of the whole process, from 0 to 1. */
  share: number;
  /** Since when it has been so, in seconds since the agent was installed. */
  since_s: number;
}

export type FindingKind = "nothing" | "too_early" | "gc" | "gil_native" | "python" | "cpu_starved" | "unknown" | "queueing" | "memory_over_goal" | "degraded" | "unbounded_container" | "unbounded_cache" | "callbacks" | "stored_exceptions" | "logging" | "contexts" | "modules" | "tasks" | "threads" | "descriptors" | "children" | "cyclic_garbage" | "python_growth" | "native_growth" | "arena_explosion" | "malloc_free" | "pymalloc_pinned" | "dataloader_copies" | "gpu_leak" | "gpu_fragmented" | "growing" | "plateau" | "filling" | "follows_load" | "rises_and_falls" | "allocator_keeps" | "gpu_cache_keeps";

export interface Forecasts {
  /** The kind of model by which `neural` decides, for instance `gru`. */
  family: string;
  /** By when 10, 25, 50, 75 and 90 % of gaps like this one are over, as the model expects. */
  gap_ms: number[];
  latest: Compared | null;
  /** Gaps whose end was compared with what was expected. */
  gaps: number;
  /** The share of the latest gaps that were over by each of these quantiles. */
  covered: number[];
  /** The share of the latest gaps outside of the outer quantiles. */
  astray: number;
  /** Whether the model does not fit the program, so that `gap` decides for now. */
  drifted: boolean;
  /** How often that has begun. */
  drifts: number;
}

export interface Gc {
  young: Pauses;
  middle: Pauses;
  full: Pauses;
  reap: Pauses;
  snapshot: Snapshots;
  in_request: PauseTotals;
  in_gap: PauseTotals;
  in_gap_arrivals: PauseTotals;
  /** Requests that arrived during collections in gaps. */
  arrivals: number;
  forced: PauseTotals;
  /** The longest collection of the last second that is over, and of the running one. */
  recent_max_ms: number;
  /** Objects freed by collections. */
  collected: number;
  /** Objects that could not be freed. */
  uncollectable: number;
  /** Objects in the permanent generation. */
  frozen: number;
  /** Objects that the collector tracks. */
  tracked: number;
}

export interface Gil {
  /** Share of time in which a thread held the GIL. */
  busy_percent: number;
  busy: Spans;
  idle: Spans;
}

export interface Gpu {
  /** When the memory of GPUs was read, in seconds since the agent was installed. */
  at_s: number;
  /** Steps of PyTorch's optimizers that have ended, where a GPU is used. */
  steps: number;
  /** Memory of GPUs that tensors and other blocks take, on all devices. */
  allocated_bytes: number;
  /** Memory of GPUs that PyTorch's allocator has taken. */
  reserved_bytes: number;
  /** Free pieces of segments that are in use in part. */
  inactive_bytes: number;
  /** Pinned memory of the host that PyTorch's allocator has in use. */
  pinned_bytes: number | null;
  /** Errors "CUDA out of memory". */
  ooms: number;
  /** Those after which the program went on. */
  ooms_handled: number;
  /** The file with the report on the latest one. */
  oom_report: string;
  /** The devices that are in use. */
  devices: GpuDevice[];
  /** The latest 120 steps, the oldest first. */
  recent: GpuMoment[];
}

export interface GpuDevice {
  /** PyTorch's number for the device. */
  device: number;
  /** Memory of a GPU that tensors and other blocks take. */
  allocated_bytes: number;
  /** The most that they took, as PyTorch counts it. */
  peak_bytes: number;
  /** Memory of a GPU that PyTorch's allocator has taken. */
  reserved_bytes: number;
  /** Blocks in use, and those that a stream still needs. */
  active_bytes: number;
  /** Free pieces of a GPU's segments that are in use in part. */
  inactive_bytes: number;
  /** Blocks in use. */
  blocks: number;
  /** How often the allocator had to give its cache back and try again. */
  retries: number;
  /** Errors "CUDA out of memory" on this device, as PyTorch counts them. */
  ooms: number;
  /** Memory of the whole card. */
  card_bytes: number;
  /** What is free of the card, for all processes. */
  card_free_bytes: number;
  /** Other processes on the card. */
  other_processes: number | null;
  /** What they have on it together. */
  other_processes_bytes: number | null;
}

export interface GpuMoment {
  /** When the step ended. */
  at_s: number;
  /** Steps that had ended. */
  steps: number;
  /** As above, at that moment. */
  allocated_bytes: number;
  /** As above, at that moment. */
  reserved_bytes: number;
  /** As above, at that moment. */
  inactive_bytes: number;
}

export interface Guards {
  /** The [setting](settings.md) of this name. */
  memory_max_mb: number;
  /** The [setting](settings.md) of this name. */
  memory_percent: number;
  /** The [setting](settings.md) of this name. */
  growth_percent: number;
  /** The [setting](settings.md) of this name. */
  postpone_s: number;
  /** The [setting](settings.md) of this name. */
  gc_percent: number;
}

export interface Io {
  /** Read from storage. */
  read_bytes: number;
  /** Written to storage. */
  write_bytes: number;
}

export interface Latency {
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
  p999_ms: number;
  max_ms: number;
}

export type MallocKind = "unknown" | "glibc";

export interface Memory {
  /** Resident set. */
  rss: number;
  /** Largest resident set so far. */
  peak_rss: number;
  /** Proportional set. */
  pss: number | null;
  /** Unique set. */
  uss: number | null;
  /** Address space. */
  vms: number;
  /** Swapped out. */
  swap: number;
  /** The smallest cgroup limit. */
  limit: number | null;
  /** Memory in transparent huge pages. */
  huge_pages: number | null;
  breakdown: Breakdown;
  trim: Trims;
}

export interface Net {
  /** Sent by the network namespace. */
  sent_bytes: number;
  /** Received by the network namespace. */
  recv_bytes: number;
}

export interface Orders {
  /** `young`, `middle`, `full`, `freeze`, `snapshot`, `reap`, `throttle` or `trim`. */
  what: string;
  /** Why. */
  reason: string;
  /** Whether memory could not wait any longer. */
  guard: boolean;
  /** What the policy and its guards ordered. */
  count: number;
  /** When last, in seconds since the agent was installed. */
  last_s: number;
}

export interface PauseTotals {
  count: number;
  total_ms: number;
  max_ms: number;
}

export interface Pauses {
  count: number;
  total_ms: number;
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
}

export interface Requests {
  /** Requests ended. */
  count: number;
  /** Requests being served. */
  in_flight: number;
  /** Requests ended per second. */
  rps: number;
  /** The 99th percentile of the last ten to twenty seconds. */
  recent_p99_ms: number;
  /** Half of the requests took less. */
  p50_ms: number;
  /** 95 of 100 requests took less. */
  p95_ms: number;
  /** 99 of 100 requests took less. */
  p99_ms: number;
  /** 999 of 1000 requests took less. */
  p999_ms: number;
  /** The longest request. */
  max_ms: number;
  wait: Latency;
  service: Latency;
  waits: Waits;
  /** Requests by route, the most frequent first. */
  routes: Route[];
  /** The 20 slowest requests of the last 150 to 300 seconds, slowest first. */
  slowest: SlowRequest[];
}

export interface Route {
  /** The template of FastAPI or Flask, `(no route)` where they found none. */
  route: string;
  /** Requests by route. */
  count: number;
  /** Latency of the route, wait included. */
  p50_ms: number;
  /** Latency of the route, wait included. */
  p99_ms: number;
  /** Latency of the route, wait included. */
  max_ms: number;
  /** The wait of its requests. */
  wait_p50_ms: number;
  /** The wait of its requests. */
  wait_p99_ms: number;
  /** Time of collections during its requests. */
  gc_ms: number;
  /** How many of its requests met a collection. */
  gc_requests: number;
  /** Time of other stalls during its requests. */
  stall_ms: number;
}

export interface SlowRequest {
  /** When it arrived, in seconds since the agent was installed. */
  at_s: number;
  /** Its route. */
  route: string;
  /** From its arrival to its last byte. */
  total_ms: number;
  /** From its arrival to the call of the application. */
  wait_ms: number;
  /** Collections meanwhile. */
  gc_ms: number;
  /** Native code that held the GIL meanwhile. */
  gil_native_ms: number;
  /** Python code that ran on meanwhile. */
  python_ms: number;
  /** CPU starvation meanwhile. */
  cpu_starved_ms: number;
  /** The trace id of its `traceparent` header; empty where it had none. */
  trace_id: string;
}

export interface Snapshots {
  /** Snapshots. */
  count: number;
  /** Snapshots that failed. */
  failed: number;
  /** Why snapshots failed. */
  failures: FailedSnapshots[];
  /** How long the program was stopped for the clone. */
  clone_p50_ms: number;
  /** How long the program was stopped for the clone. */
  clone_max_ms: number;
  /** How long the walk took, beside the program. */
  flight_p50_ms: number;
  /** Time that the program lost to copies of pages during all walks. */
  copied_ms: number;
  /** The same for the latest walk. */
  latest_copied_ms: number;
  /** The most memory that a walk took besides the program's own. */
  extra_max_mb: number;
  /** Snapshots that walked only the new objects. */
  new_walks: number;
  /** Objects that snapshots found unreachable. */
  candidates: number;
  /** Objects of these that were freed. */
  freed: number;
}

export interface Spans {
  count: number;
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
}

export interface Stall {
  at_s: number;
  ms: number;
  cause: Cause;
  site: string;
  stop: string;
  objects: number;
}

export interface StallSite {
  /** The cause of the stalls there. */
  cause: Cause;
  /** The place; empty where it is not known. */
  site: string;
  /** How many. */
  count: number;
  /** How long they lasted together. */
  total_ms: number;
  /** The longest. */
  max_ms: number;
  /** When the longest began, in seconds since the agent was installed. */
  at_s: number;
  /** What kind of stop it was: `young`, `middle`, `full`, `reap` or `clone`; empty for other causes. */
  stop: string;
  /** How many objects that stop dealt with; zero where it is not known. */
  objects: number;
}

export interface StallStack {
  /** One of the causes above. */
  cause: Cause;
  /** The place and its callers, the nearest caller first. */
  frames: string[];
  /** How many. */
  count: number;
  /** How long they lasted together. */
  total_ms: number;
  /** The longest. */
  max_ms: number;
}

export interface Stalls {
  /** All stalls. */
  count: number;
  /** The longest stall. */
  max_ms: number;
  by_cause: ByCause;
  time_ms_by_cause: TimeByCause;
  /** The ten longest stalls since the agent was installed, longest first. */
  longest: Stall[];
  /** The latest stalls, oldest first. */
  recent: Stall[];
  /** Stalls by the Python stack at which they were met, those that lasted longest together first. */
  stacks: StallStack[];
}

export interface Status {
  /** Process id. */
  pid: number;
  /** The command line, shortened. */
  command: string;
  /** The service that the process belongs to. */
  service: string;
  /** What the process is in its service. */
  role: string;
  /** Interpreter and version. */
  python: string;
  /** Version of NeuroGC. */
  neurogc: string;
  /** The policy in force. */
  policy: string;
  /** The policy as it was set: `auto`, or the one in force. */
  policy_set: string;
  /** Time since the agent was installed. */
  uptime_s: number;
  /** What does not work here, and why, in words. */
  degraded: string[];
  /** What is the matter, the most important first. */
  findings: Finding[];
  window: Window;
  gc: Gc;
  conduct: Conduct;
  bound: Bound;
  gil: Gil;
  memory: Memory;
  gpu: Gpu;
  allocations: Allocations;
  census: Census;
  requests: Requests;
  stalls: Stalls;
  cpu: Cpu;
  io: Io;
  net: Net;
  /** Open file descriptors. */
  fds: number;
  /** Threads, the agent's own included. */
  threads: number;
  /** Child processes, and theirs. */
  children: Child[];
  agent: AgentCost;
}

export interface TimeByCause {
  gc: number;
  gil_native: number;
  python: number;
  cpu_starved: number;
  unknown: number;
}

export interface TrainingLoop {
  /** Ranks of the training job that collect at the same steps, this one included. */
  ranks: number;
  /** Steps of the optimizer that have ended since the ranks know of each other. */
  step: number;
  /** The step at whose end ranks collect next. */
  next_step: number;
  /** Collections, clones and slices at steps that ranks share. */
  aligned: number;
  /** Collections, clones and slices of a rank at other steps. */
  unaligned: number;
  /** Ends of epochs and evaluations that were seen. */
  boundaries: number;
}

export interface Trims {
  /** How often free memory of `malloc` was given back. */
  count: number;
  /** Resident memory that this has saved. */
  saved_bytes: number;
  /** How long it took; the program went on meanwhile. */
  total_ms: number;
  /** The longest time that an arena of `malloc` was locked for it. */
  max_lock_ms: number;
}

export interface Waits {
  /** Requests whose wait the kernel or a proxy has told. */
  measured: number;
  /** Requests whose wait is estimated from the stop right before it. */
  estimated: number;
  /** Requests whose wait is not known. */
  unknown: number;
}

export interface Window {
  /** How long the window is. */
  seconds: number;
  stalls: WindowStalls;
  gc: WindowGc;
  requests: WindowRequests;
}

export interface WindowGc {
  full: PauseTotals;
  in_request: PauseTotals;
  in_gap_arrivals: PauseTotals;
  in_gap: PauseTotals;
  forced: PauseTotals;
}

export interface WindowRequests {
  /** Requests ended. */
  count: number;
  total: Latency;
  wait: Latency;
  service: Latency;
}

export interface WindowStalls {
  /** Stalls. */
  count: number;
  by_cause: ByCause;
  time_ms_by_cause: TimeByCause;
  /** Where the stalls happened: at most ten places for each cause. */
  sites: StallSite[];
}

export type WorkerKind = "server" | "dataloader" | "pool";

export interface WorkerMemory {
  /** What forked it, if it is a worker. */
  kind: WorkerKind;
  /** What it shares with others. */
  shared: number;
  /** Its proportional part of that. */
  shared_pss: number;
  /** What it inherited and has for itself now, because it was written to. */
  copied: number;
  /** What it has allocated itself. */
  own: number;
}

/** The series of the hub. */
export type SeriesName =
  | "gc.young"
  | "gc.middle"
  | "gc.full"
  | "gc.reap"
  | "gc.in_request_ms"
  | "gc.in_gap_ms"
  | "gc.in_gap_arrivals_ms"
  | "gc.forced_ms"
  | "gc.snapshots"
  | "gc.new_walks"
  | "gc.collected"
  | "gc.frozen"
  | "gc.tracked"
  | "gc.max_ms"
  | "gc.paused_ms"
  | "conduct.overdue_s"
  | "conduct.gap_ms"
  | "conduct.gap_p10_ms"
  | "conduct.gap_p50_ms"
  | "conduct.gap_p90_ms"
  | "requests.in_flight"
  | "requests.p50_ms"
  | "requests.p95_ms"
  | "requests.p99_ms"
  | "requests.p999_ms"
  | "requests.max_ms"
  | "requests.wait_max_ms"
  | "requests.service_max_ms"
  | "requests.rps"
  | "stalls.gc"
  | "stalls.gil_native"
  | "stalls.python"
  | "stalls.cpu_starved"
  | "stalls.unknown"
  | "stalls.max_ms"
  | "memory.rss"
  | "memory.pss"
  | "memory.uss"
  | "memory.swap"
  | "memory.limit"
  | "memory.breakdown.python_used"
  | "memory.breakdown.python_free"
  | "memory.breakdown.malloc_used"
  | "memory.breakdown.malloc_free"
  | "memory.breakdown.mapped"
  | "memory.breakdown.stacks"
  | "memory.breakdown.libraries"
  | "memory.breakdown.other"
  | "memory.malloc_arenas"
  | "memory.trimmable"
  | "memory.trims"
  | "memory.children"
  | "cpu.percent"
  | "io.read"
  | "io.write"
  | "net.sent"
  | "net.recv"
  | "fds"
  | "threads"
  | "children"
  | "gpu.steps"
  | "gpu.allocated"
  | "gpu.reserved"
  | "gpu.inactive"
  | "gpu.pinned"
  | "gpu.ooms"
  | "allocations.rate"
  | "allocations.live"
  | "census.objects"
  | "census.bytes"
  | "agent.dropped"
  | "agent.cpu_percent"
  | "gil.busy_percent";
