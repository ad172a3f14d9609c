// A result of `neurogc bench` or `neurogc demo`, played: trials come in one after another, as they were run.

import uPlot from "uplot";
import { colour, font } from "../charts/colours";
import type { Context } from "../context";
import { h, left, mark, say, section, table } from "../dom";
import { csv, download, picture } from "../export";
import { bytes, figure, ms, signed, span } from "../format";
import type { Bench, Entry, Scenario, Trial } from "../types";
import { Player } from "./player";

const FIGURES: [name: string, title: string, unit: string, better: -1 | 0 | 1][] = [
  ["p50_ms", "p50", "ms", -1],
  ["p95_ms", "p95", "ms", -1],
  ["p99_ms", "p99", "ms", -1],
  ["p999_ms", "p99.9", "ms", -1],
  ["max_ms", "longest", "ms", -1],
  ["time_ms", "time", "ms", -1],
  ["per_second", "per second", "1/s", 1],
  ["in_request_ms", "GC in requests", "ms", -1],
  ["cpu_percent", "CPU", "percent", 0],
  ["rss_peak", "peak RSS", "bytes", -1],
];

const COLOURS = ["side-a", "side-b", "clone", "forced", "reap", "gap", "request", "p50", "p999", "longest"];
/** How long one trial takes at normal speed. */
const TRIAL_MS = 1000;

/** Trials in the order in which they were run: all contenders once, then all of them again. */
function course(scenario: Scenario): { contender: string; trial: Trial }[] {
  return scenario.entries
    .flatMap((entry) => entry.trials.map((trial) => ({ contender: entry.contender, trial })))
    .sort((one, other) => one.trial.run - other.trial.run);
}

export function playBench(root: HTMLElement, context: Context, bench: Bench): () => void {
  const { view, announce, onTheme } = context;
  const { run } = bench;
  const shown = run.scenarios.filter((scenario) => scenario.entries.some((entry) => entry.trials.length > 0));
  const left = run.scenarios.filter((scenario) => !shown.includes(scenario));
  const total = shown.reduce((sum, scenario) => sum + course(scenario).length, 0);
  if (view.get("at") === null) view.set({ at: total * TRIAL_MS });
  const stages = shown.map((scenario) => stage(scenario, announce));
  const player = new Player(view, total * TRIAL_MS, show, (at) => `trial ${Math.min(total, Math.floor(at / TRIAL_MS))} of ${total}`);
  const { machine } = run;

  root.append(
    h(
      "p",
      { class: "facts" },
      h("span", {}, `NeuroGC ${run.neurogc}`),
      h("span", {}, machine.date),
      h("span", {}, machine.python),
      h("span", {}, `${machine.processor}, ${machine.cores} cores, ${bytes(machine.memory)}`),
      h("span", {}, `${run.runs} ${run.runs === 1 ? "run" : "runs"} each, ${span(run.seconds)}`),
      run.quick ? h("span", { class: "state", "data-state": "silent" }, "run with --quick: not conclusive") : null,
    ),
    player.element,
    ...stages.map((each) => each.element),
    left.length > 0 ? h("p", { class: "note" }, `Without results: ${left.map((scenario) => scenario.scenario + (scenario.skipped ? ` (${scenario.skipped})` : "")).join(", ")}.`) : "",
  );

  function show(at: number): void {
    let trials = Math.floor(at / TRIAL_MS + 1e-6);
    for (const each of stages) trials = each.show(trials);
  }
  onTheme(() => stages.forEach((each) => each.recolour()));
  show(player.at);
  return () => {
    player.destroy();
    for (const each of stages) each.destroy();
  };
}

/** The title of a contender, which is written for Markdown. */
function plain(entry: Entry): string {
  return entry.title.replaceAll("`", "");
}

function median(values: number[]): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** One scenario: its table and the curve of its latencies. */
function stage(scenario: Scenario, announce: Context["announce"]) {
  const order = course(scenario);
  const figures = FIGURES.filter(([name]) => scenario.entries.some((entry) => entry.trials.some((trial) => name in trial.figures)));
  const shown = table(`Medians of ${scenario.scenario}`, [left("Contender"), "Trials", ...figures.map(([, title]) => title)]);
  const curve = scenario.entries.some((entry) => entry.trials.some((trial) => trial.curve.length > 2)) ? new Curve(scenario) : null;
  const base = scenario.entries.find((entry) => entry.contender === "default") ?? scenario.entries[0];
  let seen = -1;

  const rows = scenario.entries.map((entry, i) => {
    const swatch = h("i", { class: "swatch line", "aria-hidden": "true" });
    swatch.style.setProperty("--c", `var(--${COLOURS[i % COLOURS.length]})`);
    const cells = Array.from({ length: figures.length + 1 }, () => h("td"));
    const row = h("tr", { "data-contender": entry.contender }, h("th", { scope: "row", class: "text" }, swatch, plain(entry)), ...cells);
    return { entry, cells, row };
  });
  shown.set(rows.map((each) => each.row));

  const save = () => {
    const lines = order.map(({ contender, trial }) => [contender, trial.run, ...figures.map(([name]) => trial.figures[name] ?? null)]);
    download(new Blob([csv(["contender", "run", ...figures.map(([name]) => name)], lines)], { type: "text/csv" }), `neurogc-${scenario.scenario}.csv`);
    announce(`${scenario.scenario} saved as CSV`);
  };
  const draw = async () => {
    const canvas = curve?.canvas();
    if (!canvas) return;
    const legend = scenario.entries.map((entry, i) => ({ text: plain(entry), colour: colour(COLOURS[i % COLOURS.length]) }));
    download(await picture(`${scenario.scenario}: latency by share of requests`, legend, canvas), `neurogc-${scenario.scenario}.png`);
  };
  const element = section(
    scenario.scenario,
    scenario.about,
    h(
      "div",
      { class: "chart-actions", role: "group", "aria-label": `Actions for ${scenario.scenario}` },
      h("button", { type: "button", onclick: save }, "CSV"),
      curve ? h("button", { type: "button", onclick: () => void draw() }, "PNG") : null,
    ),
    h("div", { class: "table-frame" }, shown.element),
    curve?.element,
  );
  element.classList.add("bench");

  function trials(entry: Entry, many: number): Trial[] {
    return order.slice(0, many).flatMap((each) => (each.contender === entry.contender ? [each.trial] : []));
  }

  return {
    element,
    recolour: () => curve?.recolour(),
    destroy: () => curve?.destroy(),
    /** Shows the first trials and returns how many are left for the scenarios after this one. */
    show(many: number): number {
      const mine = Math.min(order.length, many);
      if (mine !== seen) {
        seen = mine;
        const first = trials(base, mine);
        for (const { entry, cells } of rows) {
          const own = trials(entry, mine);
          say(cells[0], entry.failed ? "failed" : String(own.length));
          mark(cells[0], "title", entry.failed);
          figures.forEach(([name, , unit, better], i) => {
            const value = median(own.flatMap((trial) => trial.figures[name] ?? []));
            const against = median(first.flatMap((trial) => trial.figures[name] ?? []));
            const cell = cells[i + 1];
            say(cell, figure(value, unit));
            const percent = value !== null && against ? (100 * (value - against)) / against : null;
            mark(cell, "title", percent === null || entry === base ? null : `${signed(percent, "percent")} against ${plain(base)}`);
            mark(cell, "data-tone", percent === null || better === 0 || Math.abs(percent) < 5 ? null : Math.sign(percent) === better ? "good" : "bad");
          });
        }
        curve?.set(scenario.entries.map((entry) => trials(entry, mine)));
      }
      return many - mine;
    },
  };
}

/** Latency by share of requests, stretched towards the slowest. */
class Curve {
  readonly element = h("div", { class: "plot curve", role: "img", "aria-label": "Latency by share of requests; the table above has the figures" });
  private plot: uPlot | null = null;
  private observer: ResizeObserver;
  private data: uPlot.AlignedData = [[]];

  constructor(private scenario: Scenario) {
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  canvas(): HTMLCanvasElement | null {
    return this.plot?.ctx.canvas ?? null;
  }

  /** Of each contender the median over its trials, on a common axis: the number of nines. */
  set(trials: Trial[][]): void {
    const axis = Array.from({ length: 61 }, (_, i) => i / 20);
    const at = (trial: Trial, nines: number) => {
      const share = 1 - 10 ** -nines;
      const point = trial.curve.find(([other]) => other >= share - 1e-9);
      return point ? point[1] : (trial.curve.at(-1)?.[1] ?? null);
    };
    const columns = trials.map((own) => axis.map((nines) => median(own.flatMap((trial) => (trial.curve.length > 2 ? (at(trial, nines) ?? []) : [])))));
    this.data = [axis, ...columns];
    if (this.plot) this.plot.setData(this.data);
    else this.draw();
  }

  recolour(): void {
    this.plot?.destroy();
    this.plot = null;
    this.draw();
  }

  destroy(): void {
    this.observer.disconnect();
    this.plot?.destroy();
  }

  private draw(): void {
    const width = this.element.clientWidth;
    if (width < 50 || this.data.length < 2) return;
    if (this.plot) {
      this.plot.setSize({ width, height: this.plot.height });
      return;
    }
    const line = { stroke: colour("grid"), width: 1 };
    const axis = { stroke: colour("muted"), font: font(11), grid: line, ticks: { ...line, size: 4 } };
    this.plot = new uPlot(
      {
        width,
        height: 230,
        legend: { show: false },
        padding: [8, 30, 0, 0],
        cursor: { y: false, drag: { x: false, y: false } },
        scales: { x: { time: false, range: [0, 3] }, y: { distr: 3, log: 10 } },
        axes: [
          { ...axis, size: 26, splits: () => [0, 0.301, 1, 1.301, 2, 2.301, 3], values: () => ["all", "p50", "p90", "p95", "p99", "p99.5", "p99.9"] },
          { ...axis, size: 66, values: (_, splits) => splits.map((value) => (value && Math.abs(Math.log10(value) % 1) < 1e-6 ? ms(value).replace(".0 ", " ") : "")) },
        ],
        series: [{}, ...this.scenario.entries.map((entry, i) => ({ label: plain(entry), stroke: colour(COLOURS[i % COLOURS.length]), width: i < 2 ? 2 : 1.5, points: { show: false } }))],
      },
      this.data,
      this.element,
    );
  }
}
