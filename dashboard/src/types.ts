// What the hub says, as docs/api.md describes it. The report of a process is written from its definition in Rust.

import type { Bound, Cause, Conduct, Forecasts, Orders, Status } from "./generated/status";

export type { Bound, Cause, Conduct, Forecasts, Orders, Status };

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
  /** The same with what was set: `auto (gap)`. */
  policy_shown: string;
  /** The service that it belongs to, where it is known. */
  service?: string;
  acting: boolean;
  due: string;
  overdue_s: number;
  warnings: string[];
  latest: Values;
}

/** The shares of gaps of which a model says by when they are over. */
export const LEVELS = [10, 25, 50, 75, 90];

export type Detail = Process & { status: Status | null; status_ms: number | null };

export interface Described {
  name: string;
  unit: string;
  fold: string;
  help: string;
}

/** How many requests took how long, in each step. */
export interface Heat {
  id: string;
  from_ms: number;
  to_ms: number;
  step_ms: number;
  /** Where each level begins, and where the last one ends. */
  levels_ms: number[];
  t: number[];
  counts: [level: number, requests: number][][];
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
  written: string;
  example: string;
  help: string;
  acts: boolean;
  snapshots: boolean;
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
