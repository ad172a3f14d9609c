// What the hub says, as docs/api.md describes it.

export type Values = Record<string, number | null>;
export type Column = (number | null)[];

export interface Hub {
  neurogc: string;
  host: string;
  now_ms: number;
  started_ms: number;
  token: boolean;
  may_order: boolean;
  processes: { live: number; known: number };
  ingest: { reports: number; events: number; missed: number; refused: number };
  store: {
    path: string;
    bytes: number;
    limit_bytes: number;
    written: number;
    dropped: number;
    trouble: string | null;
    tiers: { step_s: number; keep_s: number }[];
  };
  clients: { connected: number; skipped: number };
  cpu_ms: number;
  rss: number;
}

export interface Process {
  id: string;
  host: string;
  pid: number;
  command: string;
  python: string;
  neurogc: string;
  state: "live" | "silent" | "gone";
  source: "socket" | "push" | "history";
  started_ms: number;
  seen_ms: number;
  policy: string;
  acting: boolean;
  due: string;
  overdue_s: number;
  warnings: string[];
  latest: Values;
}

export interface Orders {
  what: string;
  reason: string;
  guard: boolean;
  count: number;
  last_s: number;
}

/** The shares of gaps of which a model says by when they are over. */
export const LEVELS = [10, 25, 50, 75, 90];

/** A model at work, and how far it can be relied on. Lists are by `LEVELS`. */
export interface Forecasts {
  family: string;
  /** What it expects of this gap, or of the next one. */
  gap_ms: number[];
  /** The latest gap that is over, and what was expected of it. */
  latest: { lasted_ms: number; expected_ms: number[] } | null;
  /** Gaps whose end was compared with what was expected. */
  gaps: number;
  /** The share of the latest gaps that were over by then. */
  covered: number[];
  /** The share of the latest gaps outside of the outer two. */
  astray: number;
  drifted: boolean;
  drifts: number;
}

/** What the guards go by: settings of these names. */
export interface Guarded {
  memory_max_mb: number;
  memory_percent: number;
  growth_percent: number;
  postpone_s: number;
  gc_percent: number;
}

export interface Conduct {
  acting: boolean;
  due: string;
  overdue_s: number;
  missed: number;
  deferred: number;
  orders: Orders[];
  guards?: Guarded;
  /** Null under policies that go by rules. */
  model: Forecasts | null;
}

/** How large the heap may get, and what it took to keep it there; all zero where nothing is promised. */
export interface Bound {
  goal_bytes: number;
  live_bytes: number;
  goal_objects: number;
  live_objects: number;
  objects: number;
  /** How far above its goal the heap is now, as a share of the goal. */
  over: number;
  launches: number;
  backstops: number;
  throttled_ms: number;
  assisted_ms: number;
}

interface Spans {
  count: number;
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
}

interface Place {
  count: number;
  total_ms: number;
  max_ms: number;
}

export interface Status {
  policy: string;
  uptime_s: number;
  degraded: string[];
  conduct: Conduct;
  bound: Bound;
  gc: {
    in_request: Place;
    in_gap: Place;
    forced: Place;
    tracked: number;
    frozen: number;
    snapshot: {
      count: number;
      failed: number;
      failures: { reason: string; count: number; last_s: number }[];
      clone_p50_ms: number;
      clone_max_ms: number;
      flight_p50_ms: number;
      copied_ms: number;
      extra_max_mb: number;
      candidates: number;
      freed: number;
    };
  };
  gil: { busy_percent: number; busy: Spans; idle: Spans };
  memory: { rss: number; limit: number | null };
}

export type Detail = Process & { status: Status | null; status_ms: number | null };

export interface Described {
  name: string;
  unit: string;
  fold: string;
  help: string;
}

export interface Stretch {
  id: string;
  from_ms: number;
  to_ms: number;
  step_ms: number;
  t: number[];
  series: Record<string, Column>;
}

export type PauseClass = "in_request" | "in_gap" | "forced" | "clone" | "reap";
export type Cause = "gc" | "gil_native" | "python" | "cpu_starved" | "unknown";

export interface Collection {
  t: number;
  kind: "collection";
  class: PauseClass;
  what: string;
  place: string;
  ms: number;
  collected: number;
  uncollectable: number;
  /** The id of the order that led to it, where it is known. */
  order: number | null;
}

export interface Stall {
  t: number;
  kind: "stall";
  ms: number;
  cause: Cause;
  site: string;
}

export interface Ordered {
  t: number;
  kind: "order";
  /** Its number within the process, 0 where it has none. */
  id: number;
  guard: boolean;
  what: string;
  reason: string;
}

export interface Dropped {
  t: number;
  kind: "dropped";
  count: number;
}

export interface Switched {
  t: number;
  kind: "policy";
  before: string;
  after: string;
}

export type Happening = Collection | Stall | Ordered | Dropped | Switched;

export interface Happenings {
  id: string;
  from_ms: number;
  to_ms: number;
  left_out: number;
  events: Happening[];
}

interface Side {
  id: string;
  command: string;
  policy: string;
}

export interface Comparison {
  a: Side;
  b: Side;
  align: "clock" | "start";
  from_ms: number;
  to_ms: number;
  step_ms: number;
  t: number[];
  series: Record<string, { a: Column; b: Column; diff: Column }>;
  whole: Record<string, { a: number | null; b: number | null; diff: number | null; percent: number | null }>;
}

export interface Offered {
  name: string;
  example: string;
  help?: string;
}

export interface Recording {
  id: string;
  name: string;
  kind: "trace" | "bench";
  bytes: number;
  added_ms: number;
  uploaded: boolean;
}

export interface Trace {
  id: string;
  name: string;
  kind: "trace";
  process: { pid: number; command: string; python: string; neurogc: string; policy: string };
  from_ms: number;
  to_ms: number;
  damage: string[];
}

export interface Trial {
  run: number;
  figures: Record<string, number>;
  programs?: Record<string, number>;
  curve: [number, number][];
  doubts: string[];
}

export interface Entry {
  contender: string;
  title: string;
  trials: Trial[];
  failed: string | null;
}

export interface Scenario {
  scenario: string;
  about: string;
  skipped: string | null;
  capacity: number | null;
  entries: Entry[];
}

export interface Bench {
  id: string;
  name: string;
  kind: "bench";
  run: {
    neurogc: string;
    machine: { date: string; python: string; processor: string; cores: number; memory: number; kernel: string };
    runs: number;
    quick: boolean;
    seconds: number;
    scenarios: Scenario[];
  };
}

export type LiveMessage =
  | { type: "hello"; neurogc: string; now_ms: number; started_ms: number }
  | { type: "processes"; now_ms: number; processes: Process[] }
  | { type: "sample"; id: string; t: number; values: Values; conduct: Conduct }
  | { type: "events"; id: string; events: Happening[] }
  | { type: "gone"; id: string }
  | { type: "skipped"; count: number }
  | { type: "error"; message: string };
