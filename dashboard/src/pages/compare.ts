// Compare: two processes on shared axes, with the running difference.

import { aborted, get, message, part } from "../api";
import { PAUSES } from "../charts/catalogue";
import { framed } from "../charts/frame";
import { Group } from "../charts/group";
import { LineChart, type Plan } from "../charts/lines";
import { PauseChart } from "../charts/pauses";
import type { Context, Page } from "../context";
import { h, left, mark, say, section, segments, table } from "../dom";
import { BOUNDS, Extent, RANGES, range } from "../extent";
import { brief, figure, signed } from "../format";
import { Log, MOST_EVENTS } from "../log";
import { Picker } from "../picker";
import { Toolbar } from "../toolbar";
import type { Collection, Comparison, Happenings, Process } from "../types";
import { link } from "../view";

interface Metric {
  name: string;
  title: string;
  unit: string;
  /** Which way is better; 0 where it is shown and not judged. */
  better: -1 | 0 | 1;
  /** Whether it has charts, or only a row in the table. */
  charted?: boolean;
}

const METRICS: Metric[] = [
  { name: "requests.p99_ms", title: "p99", unit: "ms", better: -1, charted: true },
  { name: "requests.p95_ms", title: "p95", unit: "ms", better: -1, charted: true },
  { name: "requests.p50_ms", title: "p50", unit: "ms", better: -1, charted: true },
  { name: "memory.rss", title: "RSS", unit: "bytes", better: -1, charted: true },
  { name: "cpu.percent", title: "CPU", unit: "percent", better: -1, charted: true },
  { name: "requests.p999_ms", title: "p99.9", unit: "ms", better: -1 },
  { name: "requests.max_ms", title: "Longest request", unit: "ms", better: -1 },
  { name: "requests.rps", title: "Requests", unit: "1/s", better: 0 },
  { name: "gc.max_ms", title: "Longest pause", unit: "ms", better: 0 },
  { name: "gc.in_request_ms", title: "GC in requests", unit: "ms/s", better: -1 },
  { name: "gc.in_gap_ms", title: "GC in gaps", unit: "ms/s", better: 0 },
  { name: "stalls.max_ms", title: "Longest stall", unit: "ms", better: -1 },
  { name: "gil.busy_percent", title: "GIL busy", unit: "percent", better: 0 },
];

/** The order of the table: latency from the middle to the tail, then the rest. */
const TABLE = ["requests.p50_ms", "requests.p95_ms", "requests.p99_ms", "requests.p999_ms", "requests.max_ms", "requests.rps", "gc.in_request_ms", "gc.in_gap_ms", "gc.max_ms", "stalls.max_ms", "memory.rss", "cpu.percent", "gil.busy_percent"];

/** A difference of less than this many percent is not called better or worse. */
const NOTHING = 2;

function mount(root: HTMLElement, context: Context): () => void {
  const { view, processes } = context;
  if (view.get("a") && view.get("b")) return side_by_side(root, context, view.get("a") as string, view.get("b") as string);
  root.append(
    h("div", { class: "title" }, h("h1", {}, "Compare")),
    h("div", { class: "nothing" }, h("p", {}, "Two processes are needed: one without and one with NeuroGC, for instance. This starts such a pair:"), h("pre", {}, "neurogc demo")),
  );
  return processes.on(() => {
    const pair = couple(processes.list, view.get("a"), view.get("b"));
    if (pair) location.replace(link("compare", { a: pair[0].id, b: pair[1].id, range: view.get("range"), from: view.get("from"), to: view.get("to"), slo: view.get("slo") }));
  });
}

/** What is most worth comparing: one that only watches beside one that acts, of the same command where possible. */
function couple(list: Process[], a: string | null, b: string | null): [Process, Process] | null {
  const lively = list.filter((process) => process.state !== "gone");
  let best: [Process, Process] | null = null;
  let most = -1;
  for (const one of lively) {
    for (const other of lively) {
      if (one.id === other.id || (a && one.id !== a) || (b && other.id !== b)) continue;
      const fit = (one.command === other.command ? 4 : 0) + (!one.acting && other.acting ? 2 : 0) + (one.acting && !other.acting ? -1 : 0);
      if (fit > most) [best, most] = [[one, other], fit];
    }
  }
  return best;
}

function side_by_side(root: HTMLElement, context: Context, a: string, b: string): () => void {
  const { view, live, announce, onTheme } = context;
  let answer: Comparison | null = null;
  let loading: AbortController | null = null;
  let loaded_at = 0;
  let paused = false;
  let waiting = 0;
  const logs = { a: new Log(), b: new Log() };

  const relative = () => view.get("align") === "start";
  const extent = new Extent(view, announce, () => pause(false), { ...BOUNDS, least_ms: 2000 });
  const group = new Group(view, extent, announce, relative());
  const pick = (side: "a" | "b", text: string, now: string) =>
    new Picker(text, context, now, (id) => (location.hash = link("compare", { a, b, range: view.get("range"), align: view.get("align"), [side]: id })), heads);
  const [one, other] = [pick("a", "A, without", a), pick("b", "B, with", b)];
  const swap = h("button", { type: "button", title: "Exchange A and B", onclick: () => (location.hash = link("compare", { a: b, b: a, range: view.get("range"), align: view.get("align") })) }, "⇄ Swap");
  const align = segments(
    "Align",
    [
      { value: "clock", label: "By the clock" },
      { value: "start", label: "From their start" },
    ],
    relative() ? "start" : "clock",
    (value) => {
      align.set(value);
      view.set({ align: value === "start" ? value : null, from: null, to: null });
      group.relative = relative();
      group.recolour();
      void load();
    },
  );
  const toolbar = new Toolbar(view, { range: extent.range, reset: extent.reset, zoom: extent.zoom, pause }, announce);
  toolbar.element.prepend(align.element);
  const verdict = h("p", { class: "verdict" });
  const trouble = h("p", { class: "trouble", role: "status", hidden: true });
  const names = { a: h("th", { scope: "col", class: "side-a" }, "A"), b: h("th", { scope: "col", class: "side-b" }, "B") };
  const whole = table("Both processes over the whole range", [left("Over the whole range"), names.a, names.b, "B − A", "%"], "compare-table");
  const rows = new Map(
    TABLE.map((name) => {
      const metric = METRICS.find((each) => each.name === name) as Metric;
      const cells = Array.from({ length: 4 }, () => h("td"));
      const row = h("tr", { "data-metric": name }, h("th", { scope: "row", class: "text" }, metric.title), ...cells);
      return [name, { row, cells, metric }];
    }),
  );
  whole.set([...rows.values()].map(({ row }) => row));
  const charts = METRICS.filter((metric) => metric.charted).map((metric) => pair(metric, group));
  const pauses = (["a", "b"] as const).map((side) => new PauseChart<Collection>({ ...PAUSES, id: `pauses-${side}`, title: `GC pauses of ${side.toUpperCase()}`, height: 150 }, group));

  root.append(
    h("div", { class: "title" }, h("h1", {}, "Compare")),
    h("div", { class: "sides" }, h("div", { class: "side side-a" }, one.element), swap, h("div", { class: "side side-b" }, other.element)),
    toolbar.element,
    trouble,
    verdict,
    h("div", { class: "compared" }, h("div", { class: "table-frame" }, whole.element), charts[0].element),
    h("div", { class: "charts two" }, ...charts.slice(1).map((chart) => chart.element)),
    section("Pauses", "Both on the same scale.", ...pauses.map((chart) => chart.element)),
  );

  function pause(now: boolean): void {
    paused = now;
    waiting = 0;
    if (paused) status();
    else void load();
  }

  function status(): void {
    toolbar.set({ range: range(view), zoomed: extent.zoomed !== null, paused, waiting });
  }

  function heads(): void {
    for (const [side, picker, id] of [["a", one, a], ["b", other, b]] as const) {
      const known = picker.find(id);
      say(names[side], `${side.toUpperCase()}: ${known?.policy_shown ?? "?"}`);
      names[side].title = known ? `${brief(known.command)} · ${known.pid}` : id;
    }
  }

  function query(): Record<string, string | number | null> {
    const words = { align: relative() ? "start" : null };
    const { zoomed } = extent;
    return zoomed ? { ...words, from: zoomed[0], to: zoomed[1] } : { ...words, range: range(view) };
  }

  async function load(): Promise<void> {
    if (loading) loading.abort();
    const mine = new AbortController();
    loading = mine;
    try {
      const list = METRICS.map((metric) => metric.name).join(",");
      const first = answer === null || Date.now() - loaded_at > 15_000 || extent.zoomed || relative() !== (answer.align === "start") || answer.to_ms - answer.from_ms !== RANGES[range(view)];
      const got = await get<Comparison>("compare", { a, b, ...query(), names: list, points: 800 }, mine.signal);
      if (first) await events(got, mine.signal);
      answer = got;
      loaded_at = Date.now();
      trouble.hidden = logs.a.not_kept === "";
      say(trouble, logs.a.not_kept);
    } catch (error) {
      if (aborted(error)) return;
      trouble.hidden = false;
      say(trouble, `This could not be loaded: ${message(error)}`);
    }
    loading = null;
    show();
  }

  /** Collections of both; where time counts from the start, so do they. */
  async function events(got: Comparison, signal: AbortSignal): Promise<void> {
    await Promise.all(
      ([["a", a], ["b", b]] as const).map(async ([side, id]) => {
        const begun = born(side);
        const happened = await get<Happenings>(
          `processes/${part(id)}/events`,
          { from: Math.floor(got.from_ms + begun), to: Math.ceil(got.to_ms + begun), kinds: "collection", limit: MOST_EVENTS / 2 },
          signal,
        );
        happened.events = happened.events.map((event) => ({ ...event, t: event.t - begun }));
        logs[side].replace(happened);
      }),
    );
  }

  function born(side: "a" | "b"): number {
    if (!relative()) return 0;
    return (side === "a" ? one.find(a) : other.find(b))?.started_ms ?? 0;
  }

  function show(): void {
    status();
    if (!answer || paused) return;
    heads();
    const [from, to] = extent.zoomed ?? [answer.from_ms, answer.to_ms];
    group.window(from, to);
    for (const chart of charts) chart.set(answer);
    const reach = Math.max(...pauses.map((chart) => chart.longest()));
    pauses.forEach((chart, i) => {
      const log = i === 0 ? logs.a : logs.b;
      chart.reach = reach;
      chart.set(log.of("collection"), log.left_out);
    });
    for (const [name, { row, cells, metric }] of rows) {
      const whole = answer.whole[name];
      row.hidden = !whole || (whole.a === null && whole.b === null);
      if (!whole) continue;
      say(cells[0], figure(whole.a, metric.unit));
      say(cells[1], figure(whole.b, metric.unit));
      say(cells[2], signed(whole.diff, metric.unit));
      say(cells[3], whole.percent === null ? "–" : signed(whole.percent, "percent"));
      const tone = judged(whole.percent, metric.better);
      for (const cell of cells.slice(2)) mark(cell, "data-tone", tone);
    }
    say(verdict, words(answer));
    if (group.hovered === null) toolbar.point(null, from, to, relative());
  }

  const off = [
    live.on("sample", (sample) => {
      if (sample.id !== a && sample.id !== b) return;
      if (paused) {
        if (sample.id === b) waiting += 1;
        status();
        return;
      }
      if (extent.zoomed || loading) return;
      const width = RANGES[range(view)];
      const wait = width <= 300_000 ? 900 : width <= 900_000 ? 1900 : Math.min(60_000, Math.max(5000, answer?.step_ms ?? 0));
      if (Date.now() - loaded_at >= wait) void load();
    }),
    live.on("events", (news) => {
      const side = news.id === a ? "a" : news.id === b ? "b" : null;
      if (side === null || paused || extent.zoomed || !answer) return;
      const begun = born(side);
      const fresh = news.events.filter((event) => event.kind === "collection").map((event) => ({ ...event, t: event.t - begun }));
      logs[side].add(fresh, answer.from_ms);
    }),
    live.on("skipped", () => void load()),
    live.onReturn(() => void load()),
  ];
  live.watch([a, b]);
  group.onHover = (t) => toolbar.point(t, group.from, group.to, relative());
  onTheme(() => group.recolour());
  heads();
  void load();

  return () => {
    for (const act of off) act();
    loading?.abort();
    one.destroy();
    other.destroy();
    group.destroy();
  };
}

/** Both courses of one figure, and below them how they differ. */
function pair(metric: Metric, group: Group) {
  const both: Plan = {
    id: `compare-${metric.title}`,
    title: metric.title,
    unit: metric.unit,
    help: `${metric.title} of both processes.`,
    log: metric.unit === "ms" ? "offered" : undefined,
    height: metric.name === "requests.p99_ms" ? 250 : 150,
    lines: [
      { name: "a", label: "A", colour: "side-a", width: 1.75 },
      { name: "b", label: "B", colour: "side-b", width: 1.75 },
    ],
  };
  const difference: Plan = {
    id: `difference-${metric.title}`,
    title: `${metric.title}: B − A`,
    unit: metric.unit,
    help: "Below zero, B is lower than A.",
    height: metric.name === "requests.p99_ms" ? 130 : 86,
    difference: true,
    lines: [{ name: "diff", label: "B − A", colour: "good" }],
  };
  const [above, below] = [new LineChart(both, group), new LineChart(difference, group)];
  below.element.classList.add("under");
  return {
    element: h("div", { class: "pair", "data-pair": metric.name }, above.element, below.element),
    set(answer: Comparison): void {
      const series = answer.series[metric.name] ?? { a: [], b: [], diff: [] };
      const frame = framed({ step_ms: answer.step_ms, t: answer.t, series: { ...series } });
      above.set(frame);
      below.set(frame);
    },
  };
}

function judged(percent: number | null, better: -1 | 0 | 1): string | null {
  if (percent === null || better === 0 || Math.abs(percent) < NOTHING) return null;
  return Math.sign(percent) === better ? "good" : "bad";
}

/** The comparison in one sentence. */
function words(answer: Comparison): string {
  const p99 = answer.whole["requests.p99_ms"];
  if (!p99 || p99.a === null || p99.b === null || p99.percent === null) return "";
  const rss = answer.whole["memory.rss"];
  const way = (percent: number) => (Math.abs(percent) < NOTHING ? "about the same" : `${Math.abs(percent).toFixed(0)} % ${percent < 0 ? "lower" : "higher"}`);
  const memory = rss?.percent == null ? "" : `, and memory is ${way(rss.percent)}`;
  return `p99 of B (${answer.b.policy}) is ${way(p99.percent)}: ${figure(p99.b, "ms")} against ${figure(p99.a, "ms")}${memory}.`;
}

export const compare: Page = { name: "compare", title: "Compare", mount };
