// What the hub answers, by the names that the page uses. The types are written from their definitions in Rust.

import type { Event, ProcessSummary, RecordingHead, Run, One, TraceAnswer, Values } from "./generated/hub";

export type { Cause, Conduct, Forecasts, Orders, Status } from "./generated/status";
export type {
  Comparison,
  ContenderTrials as Entry,
  Event as Happening,
  Events as Happenings,
  HubReport as Hub,
  HeatAnswer as Heat,
  List,
  LiveMessage,
  Measured as Scenario,
  One,
  PauseClass,
  PolicyOffer as Offered,
  SeriesAnswer as Stretch,
  ServiceSummary as Service,
  ShelfEntry as Recording,
  Sites,
  Trial,
  Values,
} from "./generated/hub";

export type Column = (number | null)[];

/** A process; `whole` in context.ts gives one without figures empty ones. */
export type Process = ProcessSummary & { latest: Values };
export type Detail = One & { latest: Values };

export type Collection = Extract<Event, { kind: "collection" }>;
export type Stall = Extract<Event, { kind: "stall" }>;
export type Ordered = Extract<Event, { kind: "order" }>;
export type Switched = Extract<Event, { kind: "policy" }>;

export type Trace = TraceAnswer & { kind: "trace" };
export type Bench = RecordingHead & { kind: "bench"; run: Run };

/** The shares of gaps of which a model says by when they are over. */
export const LEVELS = [10, 25, 50, 75, 90];
