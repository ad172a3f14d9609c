// Follows one process: loads its series and events for a window of time and adds what arrives live.

import { ApiError, aborted, get, message, part } from "./api";
import { type Frame, append, empty, framed, trim } from "./charts/frame";
import type { Live } from "./live";
import { Log, MOST_EVENTS } from "./log";
import type { Conduct, Happening, Happenings, LiveMessage, Stretch } from "./types";

/** Up to here a window is shown second by second. */
const FINE_MS = 15 * 60_000;
const POINTS = 1000;

export type Window = { kind: "live"; span_ms: number } | { kind: "fixed"; from: number; to: number };

type Sample = Extract<LiveMessage, { type: "sample" }>;

export class Follow {
  frame: Frame = empty();
  log = new Log();
  from = 0;
  to = 0;
  conduct: Conduct | null = null;
  trouble = "";
  /** The hub has never heard of the process, or has forgotten it. */
  unknown = false;
  paused = false;
  /** Samples that came while paused. */
  waiting = 0;

  private loading: AbortController | null = null;
  private early: Sample[] = [];
  private fresh: Happening[] = [];
  private undo: (() => void)[] = [];
  private timer = 0;
  private loaded_at = 0;

  constructor(
    readonly id: string,
    private live: Live,
    public window: Window,
    /** When the process ended, where it has. */
    private ended: () => number | null,
    private changed: () => void,
  ) {
    this.undo = [
      live.on("sample", (sample) => sample.id === id && this.sample(sample)),
      live.on("events", (news) => news.id === id && this.news(news.events)),
      live.on("skipped", () => this.load()),
      live.onReturn(() => this.load()),
    ];
    this.timer = every_second(() => this.tick());
    void this.load();
  }

  destroy(): void {
    clearInterval(this.timer);
    this.loading?.abort();
    for (const act of this.undo) act();
  }

  show(window: Window): void {
    this.window = window;
    this.paused = false;
    this.waiting = 0;
    void this.load();
  }

  pause(paused: boolean): void {
    this.paused = paused;
    this.waiting = 0;
    if (!paused) void this.load();
  }

  /** Whether new samples move the window. */
  get moving(): boolean {
    return this.window.kind === "live" && !this.paused && this.ended() === null;
  }

  async load(): Promise<void> {
    if (this.paused) return;
    this.loading?.abort();
    const mine = new AbortController();
    this.loading = mine;
    this.early = [];
    this.fresh = [];
    const end = this.ended();
    let query: Record<string, string | number>;
    // Lines of a fixed window come in from the left and leave to the right.
    let beyond = 0;
    if (this.window.kind === "fixed") {
      query = { from: Math.floor(this.window.from), to: Math.ceil(this.window.to) };
      beyond = 2 * Math.max(1000, (this.window.to - this.window.from) / POINTS);
    } else if (end !== null) query = { from: Math.floor(end - this.window.span_ms), to: Math.ceil(end) };
    else query = { range: `${Math.round(this.window.span_ms / 1000)}s` };
    try {
      const path = `processes/${part(this.id)}`;
      const [stretch, happened] = await Promise.all([
        get<Stretch>(`${path}/series`, { ...query, ...wider(query, beyond), points: POINTS }, mine.signal),
        get<Happenings>(`${path}/events`, { ...query, limit: MOST_EVENTS }, mine.signal),
      ]);
      this.frame = framed(stretch);
      this.log.replace(happened);
      [this.from, this.to] = [stretch.from_ms, stretch.to_ms];
      if (this.window.kind === "fixed") [this.from, this.to] = [this.window.from, this.window.to];
      this.trouble = "";
      this.unknown = false;
      this.loaded_at = Date.now();
      this.loading = null;
      for (const sample of this.early) this.add(sample);
      const last = this.log.events.at(-1)?.t ?? 0;
      this.news(this.fresh.filter((event) => event.t > last));
    } catch (error) {
      if (aborted(error)) return;
      this.loading = null;
      this.trouble = message(error);
      this.unknown = error instanceof ApiError && error.status === 404;
    }
    this.changed();
  }

  private sample(sample: Sample): void {
    this.conduct = sample.conduct;
    if (this.paused) {
      this.waiting += 1;
      this.changed();
    } else if (this.loading) this.early.push(sample);
    else if (this.moving) {
      this.add(sample);
      this.changed();
    }
  }

  private add(sample: Sample): void {
    if (this.window.kind !== "live") return;
    const { span_ms } = this.window;
    if (span_ms <= FINE_MS && this.frame.step_ms <= 1000) append(this.frame, sample.t, sample.values);
    this.to = Math.max(this.to, sample.t);
    this.from = this.to - span_ms;
    trim(this.frame, this.from);
  }

  private news(events: Happening[]): void {
    if (!this.moving) return;
    if (this.loading) {
      this.fresh.push(...events);
      return;
    }
    this.log.add(events, this.from);
  }

  /** Coarse windows are loaded again now and then; a process that says nothing still grows older. */
  private tick(): void {
    if (!this.moving || this.loading || this.live.connection.kind !== "live") return;
    const due = Math.min(60_000, Math.max(5000, this.frame.step_ms));
    if (this.frame.step_ms > 1000 || (this.window.kind === "live" && this.window.span_ms > FINE_MS)) {
      if (Date.now() - this.loaded_at >= due) void this.load();
    } else if (this.window.kind === "live" && this.live.now_ms() - this.to > 3000) {
      this.to = this.live.now_ms();
      this.from = this.to - this.window.span_ms;
      this.changed();
    }
  }
}

function wider({ from, to }: Record<string, string | number>, by: number): Record<string, number> {
  return by ? { from: Math.floor(Number(from) - by), to: Math.ceil(Number(to) + by) } : {};
}

function every_second(act: () => void): number {
  return globalThis.setInterval(act, 1000) as unknown as number;
}
