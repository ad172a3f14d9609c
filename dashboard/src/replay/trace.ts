// A recorded trace, played: the charts of a process up to the position of the player.

import { aborted, get, message, part } from "../api";
import { LATENCY, PAUSES, STALLS, TRACED, siteSummary } from "../charts/catalogue";
import { type Frame, empty, framed, latest, until } from "../charts/frame";
import { Group } from "../charts/group";
import { HeatMap } from "../charts/heat";
import { LineChart } from "../charts/lines";
import { PauseChart } from "../charts/pauses";
import { tiles } from "../charts/tiles";
import type { Context } from "../context";
import { h, say, section, segments } from "../dom";
import { Extent } from "../extent";
import { brief, moment, position, span } from "../format";
import { sites } from "../sites";
import type { Collection, Happenings, Heat, Stall, Stretch, Trace } from "../types";
import { Player } from "./player";

const WIDTHS: Record<string, number> = { "10s": 10_000, "30s": 30_000, "1m": 60_000, "5m": 300_000, "1h": 3_600_000, all: Infinity };
/** The hub gives so many points at once. */
const POINTS = 5000;
const EVENTS = 20_000;

export function playTrace(root: HTMLElement, context: Context, trace: Trace): () => void {
  const { view, announce, onTheme } = context;
  const length = Math.max(1, trace.to_ms - trace.from_ms);
  const stop = new AbortController();
  let frame: Frame = empty();
  let latencies: Heat | null = null;
  let collections: Collection[] = [];
  let stops: Stall[] = [];
  let left_out = 0;
  /** What part of the recording is loaded, in its own time. */
  let loaded: [number, number] | null = null;
  let loading = false;

  const extent = new Extent(view, announce, moved, { least_ms: 200, most_ms: length, end: length });
  const group = new Group(view, extent, announce, true);
  const player = new Player(view, length, show);
  const widths = segments("Window", Object.keys(WIDTHS).map((value) => ({ value, label: value })), view.get("window") ?? "1m", (value) => {
    widths.set(value);
    view.set({ window: value, from: null, to: null });
    show();
  });
  const back = h("button", { type: "button", hidden: true, onclick: extent.reset }, "Reset zoom");
  const when = h("output", { class: "when" });
  const trouble = h("p", { class: "trouble", role: "status", hidden: true });
  const strip = tiles();
  const heat = new HeatMap(group);
  const latency = new LineChart(LATENCY, group);
  const pauses = new PauseChart<Collection>(PAUSES, group);
  const stalls = new PauseChart<Stall>(STALLS, group);
  const stalled = sites();
  const small = TRACED.map((plan) => new LineChart(plan, group));
  const { process } = trace;

  root.append(
    h(
      "p",
      { class: "facts" },
      h("span", { title: process.command }, brief(process.command)),
      h("span", {}, `pid ${process.pid}`),
      h("span", {}, process.python),
      h("span", { class: "chip" }, process.policy),
      h("span", {}, `recorded ${moment(trace.from_ms)}, ${span(length / 1000)} long`),
    ),
    h("ul", { class: "warnings", hidden: trace.damage.length === 0 }, ...trace.damage.map((words) => h("li", {}, words))),
    player.element,
    h("div", { class: "toolbar" }, widths.element, back, h("span", { class: "spring" }), when),
    trouble,
    strip.element,
    heat.element,
    latency.element,
    pauses.element,
    h("div", { class: "beside" }, stalls.element, section("Where it stalled", "", stalled.element)),
    h("div", { class: "charts" }, ...small.map((chart) => chart.element)),
  );

  function width(): number {
    return Math.min(length, WIDTHS[view.get("window") ?? "1m"] ?? WIDTHS["1m"]);
  }

  function moved(): void {
    if (extent.zoomed) player.pause();
    show();
  }

  /** Loads what the window needs and some of what comes next; a short recording is loaded whole. */
  async function need(from: number, to: number): Promise<void> {
    const whole = length <= POINTS * 1000;
    const reach = Math.max(to - from, player.playing ? player.speed * 8000 : 0);
    const enough = loaded && loaded[0] <= from && loaded[1] >= Math.min(length, to + (player.playing ? reach / 2 : 0));
    if (enough || loading) return;
    const [first, last] = whole ? [0, length] : [Math.max(0, from - reach / 4), Math.min(length, to + reach)];
    loading = true;
    try {
      const query = { from: Math.floor(trace.from_ms + first), to: Math.ceil(trace.from_ms + last) };
      const [stretch, counted, happened] = await Promise.all([
        get<Stretch>(`recordings/${part(trace.id)}/series`, { ...query, points: POINTS }, stop.signal),
        get<Heat>(`recordings/${part(trace.id)}/latency`, { ...query, points: POINTS }, stop.signal),
        get<Happenings>(`recordings/${part(trace.id)}/events`, { ...query, kinds: "collection,stall", limit: EVENTS }, stop.signal),
      ]);
      // The last step may end after the recording does.
      const own = (t: number) => Math.min(t - trace.from_ms, length);
      frame = framed({ ...stretch, t: stretch.t.map(own) });
      latencies = { ...counted, t: counted.t.map(own) };
      const events = happened.events.map((event) => ({ ...event, t: event.t - trace.from_ms }));
      collections = events.filter((event): event is Collection => event.kind === "collection");
      stops = events.filter((event): event is Stall => event.kind === "stall");
      left_out = happened.left_out;
      loaded = [first, last];
      trouble.hidden = true;
    } catch (error) {
      if (aborted(error)) return;
      trouble.hidden = false;
      say(trouble, `This part could not be loaded: ${message(error)}`);
      player.pause();
      loaded = [0, length];
    }
    loading = false;
    show();
  }

  function show(): void {
    const at = player.at;
    const { zoomed } = extent;
    let [from, to] = zoomed ?? [at - width(), at];
    if (!zoomed && from < 0) [from, to] = [0, width()];
    void need(from, to);
    group.window(from, to);
    back.hidden = zoomed === null;
    const now = until(frame, at);
    const stopped = collections.filter((event) => event.t <= at);
    heat.set(latencies && played(latencies, at), stopped);
    latency.set(now);
    pauses.set(stopped, left_out);
    const stood = stops.filter((event) => event.t <= at);
    stalls.set(stood);
    stalled.set(siteSummary(stood.filter((event) => event.t >= from)), at);
    for (const chart of small) {
      // What a trace does not hold is not drawn as an empty chart.
      chart.element.hidden = loaded !== null && !chart.plan.lines.some((line) => latest(frame, line.name) !== null);
      chart.set(now);
    }
    const value = (name: string) => latest(now, name, to);
    strip.set({
      p50: value("requests.p50_ms"),
      p95: value("requests.p95_ms"),
      p99: value("requests.p99_ms"),
      rps: value("requests.rps"),
      waited: value("gc.in_request_ms"),
      pause: Math.max(0, ...(now.series["gc.max_ms"] ?? []).map((each) => each ?? 0)),
      rss: value("memory.rss"),
      cpu: value("cpu.percent"),
      gil: value("gil.busy_percent"),
    });
    strip.step(frame.step_ms);
    strip.note("pause", "so far");
    if (group.hovered === null) say(when, `${position(from)} – ${position(to)}`);
  }

  group.onHover = (t) => say(when, t === null ? "" : position(t, true));
  onTheme(() => group.recolour());
  const keys = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (event.key !== " " || target.closest("button, input, select, a, textarea")) return;
    event.preventDefault();
    player.toggle();
  };
  document.addEventListener("keydown", keys);
  if (view.number("at") === null) player.seek(Math.min(length, width()));
  else show();

  return () => {
    document.removeEventListener("keydown", keys);
    stop.abort();
    player.destroy();
    group.destroy();
  };
}

/** The latencies up to a position. */
function played(heat: Heat, at: number): Heat {
  const later = heat.t.findIndex((t) => t > at);
  return later < 0 ? heat : { ...heat, t: heat.t.slice(0, later), counts: heat.counts.slice(0, later) };
}
