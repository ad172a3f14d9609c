// Written by `cargo run -p xtask -- docs` from crates/hub, crates/gpu, crates/heap, crates/sites and crates/cli: what the hub answers. Change it there.

import type { Cause, Conduct, Status } from "./status";

/** Values by the names of series. */
export type Values = Record<string, number | null>;

/** What an alert says. */
export type AlertDetails = {
  /** What is the matter, as a sentence. */
  text: string;
  /** The kind of the finding; empty where it is none. */
  kind: string;
  /** `certain`, `likely` or `possible`; empty where it is no finding. */
  certainty: string;
  holder: string;
  site: string;
  advice: string;
  /** The page of the documentation. */
  doc: string;
  /** What the rule measures: bytes per hour, milliseconds of a percentile, or seconds until the limit. */
  value: number | null;
  unit: AlertUnit;
};

/** The process that an alert is about. */
export type AlertProcess = {
  id: string;
  host: string;
  pid: number;
  service: string;
  role: string;
  command: string;
};

/** One alert. */
export type AlertReport = AlertDetails & {
  id: string;
  rule: string;
  state: AlertState;
  process: AlertProcess;
  /** Since when the condition has held. */
  since_ms: number;
  /** When it was told. */
  fired_ms: number | null;
  resolved_ms: number | null;
  /** How often a change was told. */
  changes: number;
};

/** Whether an alert is told already, or over. */
export type AlertState = "pending" | "firing" | "resolved";

/** The unit of a value. */
export type AlertUnit = "bytes_per_hour" | "milliseconds" | "seconds_left";

/** The state of alerts: the answer of `/api/v1/alerts`. */
export type AlertsReport = {
  /** Whether the hub was started with rules. */
  enabled: boolean;
  /** Where the rules are; empty where there are none. */
  file: string;
  /** Why the file as it is now is not used; the rules that were read before are in force. */
  file_error: string | null;
  rules: RuleReport[];
  channels: ChannelReport[];
  /** Those that fire, and those that will if their condition holds for long enough. */
  alerts: AlertReport[];
  /** The latest that have ended, the last one first. */
  resolved: AlertReport[];
  /** Alerts that there was no room for. */
  dropped: number;
};

/** One block. */
export type BlockLine = {
  /** PyTorch's number for the device. */
  device: number;
  /** The stream that it is for. */
  stream: number;
  /** Its address, in hexadecimal. */
  address: string;
  /** Its size. */
  bytes: number;
  /** What was asked for. */
  requested_bytes: number;
  /** Whether the program has freed it, and another stream may still use it. */
  pending: boolean;
  /** The line of the program that is nearest; empty where no stack was recorded. */
  site: string;
  /** All frames, the innermost first. */
  frames: string[];
};

/** Each is an object of numbers, by the names of budgets. */
export type BudgetReport = {
  limits: unknown;
  used: unknown;
  dropped: unknown;
};

/** What was in the heap, as it is told. */
export type CensusAnswer = CensusCourse & {
  id: string;
  from_ms: number;
  to_ms: number;
  /** Why there are none of the past, in words, where none are kept. */
  not_kept: string | null;
};

/** The course of the largest types and containers: one array of times, and arrays of as many values. */
export type CensusCourse = {
  t: number[];
  objects: number[];
  bytes: number[];
  types: TypeCourse[];
  containers: ContainerCourse[];
};

/** A channel, without its secrets. */
export type ChannelReport = {
  name: string;
  /** What it is, with the host of a webhook or the program of a command. */
  what: string;
  sent: number;
  /** Messages that did not arrive after all attempts. */
  failed: number;
  /** Messages that there was no room for. */
  dropped: number;
  waiting: number;
  last_error: string | null;
};

/** Values of several series at the same times. */
export type Chart = {
  from_ms: number;
  to_ms: number;
  step_ms: number;
  t: number[];
  series: Record<string, (number | null)[]>;
};

export type ClientCounts = {
  connected: number;
  skipped: number;
};

/** A line of code, as text. */
export type CodeLine = {
  /** The file. */
  file: string;
  /** The function. */
  function: string;
  /** The line, or 0 where it is not known. */
  line: number;
  /** The line at which the function begins. */
  first_line: number;
};

export type Comparison = {
  a: ProcessFacts;
  b: ProcessFacts;
  align: string;
  from_ms: number;
  to_ms: number;
  step_ms: number;
  t: number[];
  series: Record<string, Pair<(number | null)[]>>;
  whole: Record<string, Whole>;
};

/** One container. Those without a name cannot be told apart, and are left out. */
export type ContainerCourse = {
  name: string;
  type: string;
  length: (number | null)[];
  bytes: (number | null)[];
};

/** All trials of one contender in one scenario. */
export type ContenderTrials = {
  contender: string;
  title: string;
  trials: Trial[];
  /** Why there is none, where there is none. */
  failed: string | null;
};

/** A moment. Of the events that it stands for, the one with the most in use. */
export type CoursePoint = {
  /** The number of the event, from 1. */
  event: number;
  /** Seconds since the first event. */
  at_s: number;
  /** In use after it. */
  allocated_bytes: number;
  /** Taken from the device after it. */
  reserved_bytes: number;
};

/** The memory of one trial over time. */
export type Courses = {
  /** Resident memory of the process itself. */
  rss: [number, number][];
  /** The process and its children, with shared pages counted once: what the processes of its cgroup have mapped, or the proportional memory of the tree where it has no cgroup of its own. */
  tree: [number, number][];
};

/** The events of one device. Sizes are as they were asked for, before rounding. */
export type DeviceHistory = {
  /** PyTorch's number for the device. */
  device: number;
  /** How many events there are. */
  events: number;
  /** Seconds from the first to the last; 0 where the times are not recorded. */
  seconds: number;
  /** Blocks that the program got. */
  allocs: number;
  /** Blocks that it freed. */
  frees: number;
  /** How often memory was taken from the device. */
  segment_allocs: number;
  /** How often memory was given back to it. */
  segment_frees: number;
  /** Errors "CUDA out of memory". */
  ooms: number;
  /** In use before the first event. */
  start_bytes: number;
  /** In use after the last. */
  end_bytes: number;
  /** The most that was in use, and after how many events. */
  peak_bytes: number;
  /** See `peak_bytes`. */
  peak_event: number;
  /** Whether sizes are known from what is in use at the end; otherwise they count from the lowest. */
  anchored: boolean;
  /** In use and reserved over the events. */
  course: CoursePoint[];
  /** The first errors. */
  errors: OutOfMemory[];
  /** What had been allocated since the first event and was in use at the peak, by call stack. */
  at_peak: SiteLine[];
  /** The same at the end. */
  at_end: SiteLine[];
};

/** The memory of one device. Allocated, pending, inactive and cached add up to reserved. */
export type DeviceMemory = {
  /** PyTorch's number for it. */
  device: number;
  /** What the allocator has taken, in how many segments. */
  reserved_bytes: number;
  /** See `reserved_bytes`. */
  segments: number;
  /** Blocks in use. */
  allocated_bytes: number;
  /** How many. */
  blocks: number;
  /** What was asked for; the rest of the blocks in use is rounding. */
  requested_bytes: number;
  /** Blocks in use and those that another stream may still use. */
  active_bytes: number;
  /** Those that another stream may still use. */
  pending_bytes: number;
  /** Free pieces of segments that are in use in part. */
  inactive_bytes: number;
  /** Segments without a block in use: `torch.cuda.empty_cache()` gives them back. */
  cached_bytes: number;
  /** Free blocks, and the largest of them. */
  free_blocks: number;
  /** See `free_blocks`. */
  largest_free_bytes: number;
  /** The share of the free memory that is not in the largest free block, from 0 to 1. */
  fragmentation: number;
  /** Segments that can grow (`expandable_segments`), and bytes of pools of their own, such as those of CUDA graphs. */
  expandable_segments: number;
  /** See `expandable_segments`. */
  private_bytes: number;
  /** The same by stream, the largest first. */
  streams: StreamMemory[];
};

/** One event. `t` is in milliseconds since 1970, or whatever the epoch was that the records count from. */
export type Event = What & {
  /** When it began. */
  t: number;
};

/** Events as they are told, of processes and of recordings. */
export type Events = {
  id: string;
  from_ms: number;
  to_ms: number;
  left_out: number;
  /** Why there are none of the past, in words, where none are kept. */
  not_kept: string | null;
  events: Event[];
};

/** A flame graph as data. The page in `dashboard/src/flame` draws it. */
export type Flame = TableHead & {
  /** What the widths are. */
  measure: FlameMeasure;
  /** Places that nodes refer to. */
  frames: FlameFrame[];
  /** The tree. The first node is the root and a parent comes before its children. */
  nodes: FlameNode[];
};

/** A place in the code. */
export type FlameFrame = {
  /** The function. */
  function: string;
  /** The file. */
  file: string;
  /** The line, or 0. */
  line: number;
};

/** What the widths of a flame graph are. */
export type FlameMeasure = "live" | "growth" | "rate" | "stalls" | "retained";

/** A frame below its callers. */
export type FlameNode = {
  /** The node of the caller; the root is its own. */
  parent: number;
  /** The place. */
  frame: number;
  /** The width: bytes, bytes in a second, or milliseconds, of this node and all below it. */
  value: number;
  /** Blocks, blocks in a second, or stalls. */
  blocks: number;
  /** By how many bytes the live memory has changed since the moment of comparison; 0 without one. */
  change: number;
};

/** A snapshot of PyTorch's allocator, summed up. */
export type GpuSnapshot = {
  /** The size of the file. */
  file_bytes: number;
  /** The protocol of its pickle. */
  protocol: number;
  /** Whether all of it was read. */
  complete: boolean;
  /** What could not be read, and what is strange about the file. */
  remarks: string[];
  /** Settings of the allocator. */
  settings: Record<string, string>;
  /** The devices. */
  devices: DeviceMemory[];
  /** Blocks in use by the call stack that allocated them, the largest sums first. */
  sites: SiteLine[];
  /** The largest blocks in use. */
  largest: BlockLine[];
  /** What the allocator did before, for each device with recorded events. */
  history: DeviceHistory[];
  /** Segments and blocks for a drawing. */
  map: SegmentMap;
};

/** What sites of one group have in common. */
export type GroupBy = "line" | "function" | "file" | "stack" | "domain";

/** A place that grew. */
export type GrowthLine = {
  /** What it is called. */
  place: string;
  /** The type of what is there. */
  type: string;
  /** More objects. */
  objects: number;
  /** More bytes that they retain. */
  retained: number;
  /** Objects before. */
  objects_before: number;
  /** Objects after. */
  objects_after: number;
  /** With three dumps: how many of the new objects are still there in the last. */
  kept: number | null;
  /** What else is new below. */
  parts: GrowthPart[];
};

/** A part of what was added. */
export type GrowthPart = {
  /** Where, seen from what was added. */
  place: string;
  /** The type. */
  type: string;
  /** More objects. */
  objects: number;
  /** More bytes of their own. */
  bytes: number;
};

/** What grew. */
export type GrowthReport = {
  /** The process of the later dump. */
  pid: number;
  /** Milliseconds between the two. */
  between_ms: number;
  /** More objects in all. */
  objects: number;
  /** More bytes in all. */
  bytes: number;
  /** The places that grew, by what they retain more. */
  rows: GrowthLine[];
  /** How many places grew. */
  grown: number;
  /** The two dumps are of different processes. */
  other_process: boolean;
};

/** What is shown of a dump first. */
export type HeapAnswer = {
  entry: HeapEntry;
  summary: HeapSummary;
  types: TypeLine[];
  /** How many types there are. */
  all_types: number;
  suspects: Suspect[];
  largest: ObjectLine[];
};

/** One level of the tree of who holds what. */
export type HeapBranches = {
  rows: TreeLine[];
  /** How many objects the holder holds alone. */
  all: number;
};

/** A dump that is kept. */
export type HeapEntry = {
  id: string;
  /** The process that it is of. */
  process: string;
  taken_ms: number;
  bytes: number;
};

/** What grew since an earlier dump. */
export type HeapGrowth = {
  before: HeapEntry;
  after: HeapEntry;
  growth: GrowthReport;
};

/** The dumps that the hub keeps. */
export type HeapList = {
  heaps: HeapEntry[];
  /** What all of them take on disk. */
  bytes: number;
  /** What they may take. */
  most_bytes: number;
  /** How many there may be. */
  most_heaps: number;
};

/** Paths to one object, or to all objects of a type. */
export type HeapPaths = {
  what: string;
  object: ObjectPath | null;
  merged: MergedPaths | null;
};

/** What a dump is of, and how much of it is held by what. */
export type HeapSummary = {
  /** The process. */
  pid: number;
  /** CPython's version, for instance 3.12.1. */
  python: string;
  /** When the dump was taken, in milliseconds since 1970. */
  taken_unix_ms: number;
  /** When the program began, or zero. */
  started_unix_ms: number;
  /** Objects. */
  objects: number;
  /** References. */
  references: number;
  /** Bytes of all objects. */
  bytes: number;
  /** Bytes below a root that has a name. */
  named_bytes: number;
  /** Bytes that only native code holds, without a name. */
  from_c_bytes: number;
  /** Objects that nothing reaches: garbage that is not collected yet. */
  garbage_objects: number;
  /** Their bytes. */
  garbage_bytes: number;
  /** Objects that may own memory which their sizes leave out. */
  native_objects: number;
  /** Resident memory of the process, or zero if that is not known. */
  resident_bytes: number;
  /** How long the program stood still for the dump, or zero if that is not known. */
  pause_ms: number;
  /** Whether strings have their text. */
  texts: boolean;
  /** What could not be read, in a sentence. */
  missing: string | null;
};

/** Latencies as they are told. */
export type HeatAnswer = LatencyHeat & {
  id: string;
};

/** Which kind of history it is. */
export type HistoryKind = "sqlite" | "prometheus";

/** An object that refers to another. */
export type HolderLine = {
  /** The path to the object through this holder. */
  path: string;
  /** What the holder is. */
  what: string;
  /** What it retains. */
  retained: number;
};

/** What the hub says about itself. */
export type HubReport = {
  neurogc: string;
  host: string;
  now_ms: number;
  started_ms: number;
  /** Whether it requires a token. */
  token: boolean;
  /** Whether the token that was sent may change a policy and have processes collect. */
  may_order: boolean;
  processes: ProcessCounts;
  ingest: IngestCounts;
  budget: BudgetReport;
  store: StoreReport;
  traces: TraceStoreReport | null;
  clients: ClientCounts;
  cpu_ms: number;
  rss: number;
};

export type IngestCounts = {
  reports: number;
  events: number;
  missed: number;
  refused: number;
  impostors: number;
  last_impostor: string | null;
};

/** What a recording is. */
export type Kind = "trace" | "bench";

/** Counts of requests by step and by latency. */
export type LatencyHeat = {
  from_ms: number;
  to_ms: number;
  step_ms: number;
  /** Where each level begins, and where the last one ends. */
  levels_ms: number[];
  t: number[];
  /** For each step the levels that have requests, and how many. */
  counts: [number, number][][];
};

export type List = {
  now_ms: number;
  processes: ProcessSummary[];
  services: ServiceSummary[];
};

/** One message; docs/api.md says when each is sent. */
export type LiveMessage =
  | {
  type: "hello";
  neurogc: string;
  now_ms: number;
  started_ms: number;
}
  | {
  type: "processes";
  now_ms: number;
  processes: ProcessSummary[];
  services: ServiceSummary[];
}
  | {
  type: "sample";
  id: string;
  t: number;
  values: Values;
  conduct: Conduct | null;
}
  | {
  type: "events";
  id: string;
  events: Event[];
}
  | {
  type: "gone";
  id: string;
}
  | {
  type: "skipped";
  count: number;
}
  | {
  type: "error";
  message: string;
};

/** What a reader needs to judge a figure. */
export type MachineFacts = {
  date: string;
  python: string;
  processor: string;
  cores: number;
  /** In bytes. */
  memory: number;
  kernel: string;
  /** Of the last minute, before anything was started: above one, other programs were busy. */
  load_average: number;
  /** Whether it is a virtual machine. */
  virtual_machine: boolean;
};

/** A block, or several small ones beside each other. */
export type MapBlock = {
  /** Where it begins in its segment. */
  offset: number;
  /** Its size. */
  bytes: number;
  /** What is in use of it. */
  used_bytes: number;
  /** What another stream may still use of it. */
  pending_bytes: number;
  /** How many blocks it is. */
  blocks: number;
  /** Where it was allocated, as a number in `stacks`; `None` for several, or where that is not recorded. */
  stack: number | null;
};

/** One segment. */
export type MapSegment = {
  /** PyTorch's number for the device. */
  device: number;
  /** The stream that it is for. */
  stream: number;
  /** Its address, in hexadecimal: it may be larger than a page's numbers. */
  address: string;
  /** Its size. */
  bytes: number;
  /** Its blocks, in their order. */
  blocks: MapBlock[];
};

/** A way to look at the counts of a site. */
export type Measure = "live" | "growth" | "rate";

/** One scenario. */
export type Measured = {
  scenario: string;
  about: string;
  /** Why it was left out. */
  skipped: string | null;
  /** What its service can do in a second with the collector off. */
  capacity: number | null;
  /** The memory limit of its cgroup, in bytes. */
  limit: number | null;
  entries: ContenderTrials[];
};

/** Paths to objects that are called the same, positions and keys left out. */
export type MergedPath = {
  /** What they are called: `app.cache[…].items[…]`. */
  path: string;
  /** How many of the objects. */
  objects: number;
  /** Their own bytes. */
  bytes: number;
  /** What they retain, nested ones counted twice. */
  retained: number;
  /** The path to the one that retains most. */
  example: string;
  /** The address of that. */
  address: string;
};

/** All paths to objects of a type. */
export type MergedPaths = {
  /** How many objects there are. */
  objects: number;
  /** Objects that nothing reaches. */
  garbage: number;
  /** How many different paths there are. */
  paths: number;
  /** The paths, the one with most objects first. */
  rows: MergedPath[];
};

/** An object. */
export type ObjectLine = {
  /** Its address, as `id()` gives it in the program. */
  address: string;
  /** What it is. */
  what: string;
  /** Its type. */
  type: string;
  /** Its own bytes. */
  bytes: number;
  /** What it retains. */
  retained: number;
  /** The share of all that is reached. */
  share: number;
  /** The shortest path to it. */
  path: string | null;
};

/** The path to one object. */
export type ObjectPath = {
  /** The object. */
  object: ObjectLine;
  /** The steps, the root first; empty for garbage. */
  steps: PathLine[];
  /** All that refer to it, some of them by name. */
  holders: HolderLine[];
  /** How many refer to it. */
  referred: number;
};

export type One = ProcessSummary & {
  status: Status | null;
  status_ms: number | null;
};

/** An error "CUDA out of memory". */
export type OutOfMemory = {
  /** The number of the event, from 1. */
  event: number;
  /** Seconds since the first event. */
  at_s: number;
  /** What was asked for. */
  asked_bytes: number;
  /** What was free on the device. */
  device_free_bytes: number;
  /** What was in use. */
  allocated_bytes: number;
  /** The line of the program that asked; empty where it is not recorded. */
  site: string;
  /** All frames, the innermost first. */
  frames: string[];
};

export type Pair<T> = {
  a: T;
  b: T;
  diff: T;
};

/** A step of the path to an object. */
export type PathLine = {
  /** The path so far. */
  path: string;
  /** What is there. */
  what: string;
  /** Its own bytes. */
  bytes: number;
  /** What it retains. */
  retained: number;
};

/** What a collection is coloured by. */
export type PauseClass = "in_request" | "in_gap" | "forced" | "clone" | "reap";

/** A policy as it is offered. */
export type PolicyOffer = {
  name: string;
  written: string;
  example: string;
  help: string;
  acts: boolean;
  snapshots: boolean;
};

/** Whether a process is there. */
export type Presence = "live" | "silent" | "gone";

export type ProcessCounts = {
  live: number;
  known: number;
};

/** A process as the hub knows it. */
export type ProcessFacts = {
  /** The same for as long as the process lives, also over restarts of the hub. */
  id: string;
  host: string;
  pid: number;
  command: string;
  /** The service that it belongs to, and what it is in it. */
  service: string;
  role: string;
  python: string;
  neurogc: string;
  policy: string;
  started_ms: number;
};

/** A process as the API tells it. */
export type ProcessSummary = ProcessFacts & {
  policy_shown: string;
  state: Presence;
  source: ReportWay;
  seen_ms: number;
  acting: boolean;
  due: string;
  overdue_s: number;
  warnings: string[];
  latest: Values | null;
};

/** What all recordings have. The result of a benchmark follows as `run`, as it was written. */
export type RecordingHead = {
  id: string;
  name: string;
  kind: Kind;
};

/** How its reports come. */
export type ReportWay = "socket" | "push" | "history";

/** A rule. */
export type RuleReport = {
  name: string;
  /** What must be so, in words. */
  condition: string;
  /** The channels that are told. */
  to: string[];
  firing: number;
};

/** A whole run. */
export type Run = {
  format: number;
  neurogc: string;
  machine: MachineFacts;
  /** How often each contender ran. */
  runs: number;
  /** A look that proves nothing. */
  quick: boolean;
  /** How long it took, in seconds. */
  seconds: number;
  scenarios: Measured[];
};

/** What a page draws. */
export type SegmentMap = {
  /** The largest segments, by device, stream and address. */
  segments: MapSegment[];
  /** How many others there are, and what they take. */
  left_out: number;
  /** See `left_out`. */
  left_out_bytes: number;
  /** Call stacks that blocks refer to, the innermost frame first. */
  stacks: string[][];
};

/** Series as they are told, of processes and of recordings. */
export type SeriesAnswer = Chart & {
  id: string;
};

/** One service. */
export type ServiceSummary = {
  service: string;
  processes: number;
  latest: Values;
};

/** One recording. */
export type ShelfEntry = {
  id: string;
  name: string;
  kind: Kind;
  bytes: number;
  added_ms: number;
  uploaded: boolean;
};

/** The figures of a group. Sizes are bytes, and rates bytes or blocks in a second. */
export type SiteFigures = {
  /** Live memory. */
  live_bytes: number;
  /** Live blocks. */
  live_blocks: number;
  /** Growth since the moment of comparison; `None` without one. */
  growth_bytes: number | null;
  /** The same in blocks. */
  growth_blocks: number | null;
  /** Allocated in a second since the moment of comparison, or since sampling began. */
  rate_bytes_s: number;
  /** The same in blocks. */
  rate_blocks_s: number;
};

/** Blocks that one call stack allocated. */
export type SiteLine = {
  /** Their bytes. */
  bytes: number;
  /** How many. */
  blocks: number;
  /** The line of the program that is nearest; empty where no stack was recorded. */
  site: string;
  /** All frames, the innermost first. */
  frames: string[];
};

/** Groups of sites, the largest first. */
export type SiteReport = TableHead & {
  /** How sites are grouped. */
  by: GroupBy;
  /** What groups are ordered by. */
  measure: Measure;
  /** Everything, all groups together. */
  total: SiteFigures;
  /** How many groups there are. */
  groups: number;
  /** The largest ones. */
  rows: SiteRow[];
};

/** A group. */
export type SiteRow = SiteFigures & {
  /** The places, from the innermost on: one by line, function and file, all by stack, none by allocator. */
  places: CodeLine[];
  /** The allocators. */
  domains: string[];
  /** What it is ordered by: bytes, or bytes in a second. */
  value: number;
  /** Its share of all live memory, of all growth of those that grow, or of all that is allocated. */
  share: number;
};

/** The places, and the tree that the page draws. */
export type Sites = SiteReport & {
  id: string;
  flame: Flame;
};

/** The state of the history, wherever it is. */
export type StoreReport = {
  kind: HistoryKind;
  /** The file, or the host and port of the server. */
  path: string;
  bytes: number;
  limit_bytes: number;
  written: number;
  dropped: number;
  /** Why nothing can be written or read, in words. */
  trouble: string | null;
  /** What happened to the history at the start, in words. */
  notice: string | null;
  /** What this kind of history does not have, in words. */
  not_kept: string[];
  tiers: Tier[];
};

/** The memory that is for one stream. */
export type StreamMemory = {
  /** Its number; 0 is the default stream. */
  stream: number;
  /** See `DeviceMemory`. */
  segments: number;
  /** See `DeviceMemory`. */
  reserved_bytes: number;
  /** See `DeviceMemory`. */
  allocated_bytes: number;
  /** See `DeviceMemory`. */
  active_bytes: number;
  /** See `DeviceMemory`. */
  inactive_bytes: number;
  /** See `DeviceMemory`. */
  cached_bytes: number;
};

/** Something that holds much. */
export type Suspect = {
  /** What it retains. */
  retained: number;
  /** The share of all that is reached. */
  share: number;
  /** The object; none if it is many objects of a type. */
  holder: ObjectLine | null;
  /** Where below it the memory gathers. */
  gathers: ObjectLine | null;
  /** The largest groups of objects there, by type. */
  parts: SuspectPart[];
  /** The same in a sentence, without figures that a terminal writes better. */
  text: string;
};

/** Objects of one type below something. */
export type SuspectPart = {
  /** The type. */
  type: string;
  /** How many. */
  objects: number;
  /** What they retain. */
  retained: number;
};

/** The process, the moments, and how it was sampled. */
export type TableHead = {
  /** Process id. */
  pid: number;
  /** When the table was taken. */
  taken_unix_ms: number;
  /** The start of sampling. */
  since_unix_ms: number;
  /** The moment of comparison. */
  compared_unix_ms: number | null;
  /** What was sampled. */
  mode: string;
  /** Mean distance of two sampling points. */
  sample_bytes: number;
  /** Sampled blocks that are missing. */
  lost: number;
};

/** Rows of one length. */
export type Tier = {
  step_s: number;
  keep_s: number;
};

/** A trace. */
export type TraceAnswer = RecordingHead & {
  process: TracedProcess;
  from_ms: number;
  to_ms: number;
  /** What could not be read, in words. */
  damage: string[];
};

/** How the traces are, as the hub tells it. */
export type TraceStoreReport = {
  bytes: number;
  limit_bytes: number;
  keep_s: number;
  /** Reports whose records were not written. */
  dropped: number;
  /** Why nothing can be written, in words. */
  trouble: string | null;
};

/** The process that wrote a trace. */
export type TracedProcess = {
  pid: number;
  command: string;
  python: string;
  neurogc: string;
  policy: string;
  service: string;
};

/** An object below its holder. */
export type TreeLine = {
  /** The object's number in the dump. */
  object: number;
  /** Its address. */
  address: string;
  /** How it is reached from its holder, as a programmer would write it; empty if the holder does not refer to it itself. */
  step: string;
  /** What it is. */
  what: string;
  /** Its own bytes. */
  bytes: number;
  /** What it retains. */
  retained: number;
  /** The share of all that is reached. */
  share: number;
  /** How many objects it holds alone. */
  children: number;
};

/** One run of one contender in one scenario. */
export type Trial = {
  /** Which repetition: trials of the same number are compared with each other. */
  run: number;
  figures: Record<string, number>;
  /** Times of the programs of a scenario that has several, in milliseconds. */
  programs?: Record<string, number>;
  /** Share of requests and the latency that they do not exceed, in milliseconds. */
  curve: [number, number][];
  /** Memory over time. */
  courses?: Courses;
  /** Why it ended before its time, where it did. */
  ended_early?: string | null;
  /** What makes it less than trustworthy. */
  doubts: string[];
};

/** One type. A value is missing where it was not among the largest. */
export type TypeCourse = {
  type: string;
  count: (number | null)[];
  bytes: (number | null)[];
};

/** A type and its objects. */
export type TypeLine = {
  /** The full name. */
  type: string;
  /** Objects of exactly this type. */
  objects: number;
  /** Their own bytes. */
  bytes: number;
  /** What they retain together, nested ones counted once. */
  retained: number;
};

/** The kinds of events; docs/api.md describes their fields. */
export type What =
  | {
  kind: "collection";
  class: PauseClass;
  what: string;
  place: string;
  ms: number;
  collected: number;
  uncollectable: number;
  order: number | null;
}
  | {
  kind: "stall";
  ms: number;
  cause: Cause;
  site: string;
}
  | {
  kind: "order";
  id: number;
  guard: boolean;
  what: string;
  reason: string;
}
  | {
  kind: "dropped";
  count: number;
}
  | {
  kind: "policy";
  before: string;
  after: string;
};

export type Whole = Pair<number | null> & {
  percent: number | null;
};
