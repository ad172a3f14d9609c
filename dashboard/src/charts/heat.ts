// The latency heat map: how many requests took how long, with the stops of the program as bands across it.

import type uPlot from "uplot";
import { count, figure, ms } from "../format";
import type { Collection, Heat } from "../types";
import { decades, valueAxis } from "./axes";
import { faint } from "./colours";
import type { Group } from "./group";
import { threshold } from "./threshold";
import { Timeline, type Traits } from "./timeline";

/** The classes of stops, by where they fell. */
const STOPS = [
  { key: "in_request", label: "stop in a request", colour: "request", shape: "band" },
  { key: "in_gap_arrivals", label: "stop in a gap, requests arrived", colour: "forced", shape: "band" },
  { key: "in_gap", label: "stop in a gap", colour: "gap", shape: "band" },
  { key: "forced", label: "stop that a guard ordered", colour: "clone", shape: "band" },
];

/** Shorter stops are drawn only where they are a pixel wide: thousands of lines would hide the map. */
const LONG_MS = 5;

const NOTHING: Heat = { id: "", from_ms: 0, to_ms: 0, step_ms: 1000, levels_ms: [], t: [], counts: [] };

export class HeatMap extends Timeline {
  private heat = NOTHING;
  private stops: Collection[] = [];
  /** A latency that requests should keep below, in milliseconds. */
  slo: number | null = null;

  constructor(group: Group) {
    super(group, { id: "heat", title: "Request latency, wait included", help: "How many requests took how long. The darker a cell, the more requests. Vertical bands are stops by garbage collection." }, [
      { key: "requests", label: "requests", colour: "accent", shape: "square" },
      ...STOPS,
    ]);
    for (const { key } of STOPS) this.card.visible(key, this.shown(key));
  }

  set(heat: Heat | null, stops: Collection[]): void {
    this.heat = heat ?? NOTHING;
    this.stops = stops;
    this.show();
  }

  show(): void {
    super.show();
    this.sums();
  }

  point(t: number | null): void {
    if (this.plot) this.guide(this.plot, t);
  }

  protected tip(plot: uPlot, t: number, value: number): string[] {
    const { levels_ms, step_ms } = this.heat;
    const at = this.heat.t.findIndex((end) => t > end - step_ms && t <= end);
    const level = levels_ms.findIndex((from, i) => value >= from && value < (levels_ms[i + 1] ?? 0));
    const cell = this.heat.counts[at]?.find(([its]) => its === level);
    const all = (this.heat.counts[at] ?? []).reduce((sum, [, many]) => sum + many, 0);
    const reach = plot.posToVal(3, "x") - plot.posToVal(0, "x");
    const stop = this.bands(plot)
      .filter((each) => each.t - reach <= t && t <= each.t + each.ms + reach)
      .reduce<Collection | null>((longest, each) => (longest && longest.ms >= each.ms ? longest : each), null);
    return [
      this.group.time(t),
      at < 0 ? "no requests" : `${count(cell?.[1] ?? 0)} of ${count(all)} requests`,
      level < 0 ? "" : `${figure(levels_ms[level], "ms")} – ${figure(levels_ms[level + 1], "ms")}`,
      stop ? `${ms(stop.ms)} ${STOPS.find(({ key }) => key === stop.place)?.label ?? stop.place} (${stop.what})` : "",
    ];
  }

  rows() {
    const { levels_ms, counts } = this.heat;
    const list = this.heat.t.flatMap((t, i) => (t < this.group.from || t > this.group.to ? [] : counts[i].map(([level, many]) => [t, levels_ms[level], levels_ms[level + 1], many])));
    return {
      head: ["time", "from ms", "to ms", "requests"],
      rows: list.toReversed().map(([t, from, to, many]) => [this.group.time(t), ms(from), ms(to), count(many)]),
      cells: list.map(([t, ...rest]) => [this.group.exact(t), ...rest]),
    };
  }

  toggle(key: string): void {
    this.group.flip(`heat.${key}`);
    this.card.visible(key, this.shown(key));
    this.show();
  }

  step(by: number): void {
    const { t, counts, levels_ms } = this.heat;
    if (t.length === 0) return;
    const hovered = this.group.hovered;
    const now = hovered === null ? t.length : t.findIndex((end) => end >= hovered);
    const next = Math.max(0, Math.min(t.length - 1, (now < 0 ? t.length : now) + by));
    this.group.point(t[next]);
    const all = counts[next].reduce((sum, [, many]) => sum + many, 0);
    const worst = counts[next].at(-1);
    this.group.announce(`${this.group.time(t[next])}: ${count(all)} requests${worst ? `, the slowest ${ms(levels_ms[worst[0]])} to ${ms(levels_ms[worst[0] + 1])}` : ""}`);
  }

  private shown(key: string): boolean {
    return !this.group.flipped(`heat.${key}`);
  }

  private inside(): Collection[] {
    const { from, to } = this.group;
    return this.stops.filter((stop) => stop.t + stop.ms >= from && stop.t <= to);
  }

  /** The stops that are drawn. */
  private bands(plot: uPlot): Collection[] {
    const pixel = (this.group.to - this.group.from) / Math.max(1, plot.over.clientWidth);
    return this.inside().filter((stop) => (stop.ms >= LONG_MS || stop.ms >= pixel) && this.shown(stop.place));
  }

  private sums(): void {
    const inside = this.inside();
    for (const { key } of STOPS) {
      const mine = inside.filter((stop) => stop.place === key);
      this.card.value(key, mine.length ? `${count(mine.length)} · ${ms(mine.reduce((sum, stop) => sum + stop.ms, 0))}` : "0");
    }
    let [all, over] = [0, 0];
    for (const [i, t] of this.heat.t.entries()) {
      if (t < this.group.from || t > this.group.to) continue;
      for (const [level, many] of this.heat.counts[i]) {
        all += many;
        if (this.slo !== null && this.heat.levels_ms[level] >= this.slo) over += many;
      }
    }
    this.card.value("requests", count(all));
    const share = all ? (100 * over) / all : 0;
    const said = this.slo === null ? "" : `${count(over)} of ${count(all)} requests (${share.toFixed(share < 1 ? 2 : 1)} %) took longer than ${ms(this.slo)}. `;
    this.card.note.textContent = `${said}Stops of ${LONG_MS} ms and more are drawn; shorter ones when you zoom in.`;
  }

  protected build(): string {
    return String(this.group.relative);
  }

  protected data(): uPlot.AlignedData {
    return [this.heat.t, this.heat.t.map(() => null)];
  }

  private range(): [number, number] {
    const { levels_ms } = this.heat;
    const most = Math.max(levels_ms.at(-1) ?? 10, this.slo ?? 0);
    return decades(Math.max(0.01, levels_ms[0] ?? 1), most);
  }

  protected traits(): Traits {
    return {
      height: 280,
      marks: { show: false },
      values: { distr: 3, log: 10, range: () => this.range() },
      left: valueAxis("ms", true),
      series: [{ paths: () => null, points: { show: false } }],
      paint: (plot) => this.paint(plot),
    };
  }

  private paint(plot: uPlot): void {
    const { ctx: pen, bbox } = plot;
    const { levels_ms, step_ms, t, counts } = this.heat;
    pen.save();
    pen.beginPath();
    pen.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    pen.clip();
    for (const { key, colour: name } of STOPS) {
      pen.fillStyle = faint(name, key === "in_gap" ? 0.3 : 0.45);
      for (const stop of this.bands(plot)) {
        if (stop.place !== key) continue;
        const x = plot.valToPos(stop.t, "x", true);
        const wide = Math.max(1.5 * devicePixelRatio, plot.valToPos(stop.t + stop.ms, "x", true) - x);
        pen.fillRect(x, bbox.top, wide, bbox.height);
      }
    }
    if (this.shown("requests")) {
      const most = counts.reduce((top, step) => step.reduce((high, [, many]) => Math.max(high, many), top), 1);
      const edges = levels_ms.map((level) => plot.valToPos(Math.max(level, 1e-3), "y", true));
      for (const [i, end] of t.entries()) {
        const [left, right] = [Math.floor(plot.valToPos(end - step_ms, "x", true)), Math.floor(plot.valToPos(end, "x", true))];
        for (const [level, many] of counts[i]) {
          pen.fillStyle = faint("accent", 0.25 + 0.75 * (Math.log(many) / Math.log(most + 1)));
          const top = Math.floor(edges[level + 1]);
          pen.fillRect(left, top, Math.max(1, right - left), Math.max(1, Math.floor(edges[level]) - top));
        }
      }
    }
    if (this.slo !== null) threshold(plot, this.slo);
    pen.restore();
  }
}
