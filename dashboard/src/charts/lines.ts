// A chart of series over time.

import type uPlot from "uplot";
import { h, mark } from "../dom";
import { figure } from "../format";
import type { Column } from "../types";
import { decades, linear, valueAxis } from "./axes";
import { colour, faint } from "./colours";
import { threshold } from "./threshold";
import { type Frame, empty, latest } from "./frame";
import type { Group } from "./group";
import { Timeline, type Traits } from "./timeline";

export interface Line {
  name: string;
  label: string;
  colour: string;
  width?: number;
  dash?: number[];
  fill?: number;
  /** Hidden until the user switches it on. */
  hidden?: boolean;
  /** A limit: the scale reaches up to it only where the other lines come near it. */
  limit?: boolean;
}

export interface Plan {
  id: string;
  title: string;
  unit: string;
  lines: Line[];
  help?: string;
  height?: number;
  /** Lines are parts of a whole and stand on each other. */
  stacked?: boolean;
  /** Whether a logarithmic scale is offered, and whether it is the one to begin with. */
  log?: "offered" | "first";
  /** Around zero, good below and bad above. */
  difference?: boolean;
}

export class LineChart extends Timeline {
  private frame: Frame = empty();
  /** A value that is drawn as a line to keep below. */
  slo: number | null = null;

  constructor(
    readonly plan: Plan,
    group: Group,
  ) {
    const items = plan.lines.map((line) => ({ key: line.name, label: line.label, colour: line.colour, shape: line.dash ? "dashed" : "line" }));
    super(group, plan, plan.difference ? [] : items);
    for (const line of plan.lines) this.card.visible(line.name, this.shown(line));
    if (plan.log) {
      const button = h("button", { type: "button", title: "Logarithmic scale", onclick: () => this.flipLog(button) }, "Log");
      mark(button, "aria-pressed", String(this.logarithmic()));
      this.card.bar.prepend(button);
    }
  }

  /** New values. The frame is not copied. */
  set(frame: Frame): void {
    this.frame = frame;
    this.show();
  }

  point(t: number | null): void {
    const at = t === null ? null : this.nearest(t);
    for (const line of this.plan.lines) {
      const value = at === null ? latest(this.frame, line.name, this.group.to) : (this.frame.series[line.name]?.[at] ?? null);
      this.card.value(line.name, figure(value, this.plan.unit));
    }
    if (this.plot) this.guide(this.plot, t);
  }

  protected tip(_: uPlot, t: number): string[] {
    const at = this.nearest(t);
    if (at === null) return [this.group.time(t), "no samples"];
    const lines = this.plan.lines.filter((line) => this.shown(line) && this.frame.series[line.name]);
    return [this.group.time(this.frame.t[at]), ...lines.map((line) => `${line.label}  ${figure(this.frame.series[line.name][at], this.plan.unit)}`)];
  }

  note(text: string): void {
    this.card.note.textContent = text;
  }

  // What the card asks for.

  rows() {
    const { lines, unit } = this.plan;
    const shown = lines.filter((line) => this.shown(line) && this.frame.series[line.name]);
    const inside = this.frame.t.flatMap((t, i) =>
      t >= this.group.from && t <= this.group.to && shown.some((line) => this.frame.series[line.name][i] != null) ? [i] : [],
    );
    return {
      head: ["time", ...shown.map((line) => line.label)],
      rows: inside.toReversed().map((i) => [
        this.group.time(this.frame.t[i]),
        ...shown.map((line) => figure(this.frame.series[line.name][i], unit)),
      ]),
      cells: inside.map((i) => [this.group.exact(this.frame.t[i]), ...shown.map((line) => this.frame.series[line.name][i])]),
    };
  }

  toggle(key: string): void {
    this.group.flip(`${this.plan.id}.${key}`);
    const line = this.plan.lines.find((other) => other.name === key);
    if (line) this.card.visible(key, this.shown(line));
    this.show();
  }

  step(by: number): void {
    const { t } = this.frame;
    if (t.length === 0) return;
    const now = (this.group.hovered === null ? null : this.nearest(this.group.hovered)) ?? t.length - 1;
    const next = Math.max(0, Math.min(t.length - 1, now + by));
    this.group.point(t[next]);
    const said = this.plan.lines
      .filter((line) => this.shown(line))
      .map((line) => `${line.label} ${figure(this.frame.series[line.name]?.[next], this.plan.unit)}`);
    this.group.announce(`${this.group.time(t[next])}: ${said.join(", ")}`);
  }

  // Drawing.

  private shown(line: Line): boolean {
    return Boolean(line.hidden) === this.group.flipped(`${this.plan.id}.${line.name}`);
  }

  private logarithmic(): boolean {
    return (this.plan.log === "first") !== (this.plan.log !== undefined && this.group.flipped(`${this.plan.id}.log`));
  }

  private flipLog(button: HTMLElement): void {
    this.group.flip(`${this.plan.id}.log`);
    mark(button, "aria-pressed", String(this.logarithmic()));
    this.show();
  }

  protected build(): string {
    return [this.plan.lines.map((line) => this.shown(line)).join(), this.logarithmic(), this.group.relative].join(";");
  }

  private nearest(t: number): number | null {
    const times = this.frame.t;
    if (times.length === 0) return null;
    let low = 0;
    let high = times.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (times[middle] < t) low = middle;
      else high = middle;
    }
    const best = t - times[low] <= times[high] - t ? low : high;
    return Math.abs(times[best] - t) <= 2.5 * this.frame.step_ms ? best : null;
  }

  /** Values as they are drawn: those that are off are empty, parts of a whole stand on each other. */
  protected data(): uPlot.AlignedData {
    const { lines, stacked } = this.plan;
    const size = this.frame.t.length;
    const nothing: Column = Array<null>(size).fill(null);
    const raw = lines.map((line) => (this.shown(line) ? (this.frame.series[line.name] ?? nothing) : nothing));
    if (this.logarithmic()) return [this.frame.t, ...raw.map((column) => column.map((value) => (value !== null && value > 0 ? value : null)))];
    if (!stacked) return [this.frame.t, ...raw];
    const sums = raw.map((column) => [...column]);
    for (let i = sums.length - 2; i >= 0; i -= 1) {
      sums[i] = sums[i].map((value, at) => (value === null && sums[i + 1][at] === null ? null : (value ?? 0) + (sums[i + 1][at] ?? 0)));
    }
    return [this.frame.t, ...sums];
  }

  private range(): [number, number] {
    const log = this.logarithmic();
    const columns = this.data();
    const { t } = this.frame;
    let [least, most, limit] = [Infinity, 0, 0];
    for (const [index, line] of this.plan.lines.entries()) {
      const column = columns[index + 1] as Column;
      for (let i = 0; i < t.length; i += 1) {
        const value = column[i];
        if (value == null || t[i] < this.group.from || t[i] > this.group.to) continue;
        if (line.limit) limit = Math.max(limit, value);
        else {
          least = Math.min(least, value);
          most = Math.max(most, value);
        }
      }
    }
    if (this.plan.difference) {
      if (!Number.isFinite(least)) least = 0;
      const [, reach] = linear(Math.max(most, -Math.min(least, 0)), this.plan.unit);
      return [Math.min(least * 1.08, -reach * 0.15), Math.max(most * 1.08, reach * 0.15)];
    }
    if (limit > 0 && limit < 2.5 * most) most = Math.max(most, limit);
    return log ? decades(Number.isFinite(least) ? least : 1, most) : linear(most, this.plan.unit);
  }

  protected traits(): Traits {
    const log = this.logarithmic();
    const { unit, lines, stacked, difference, height = 170 } = this.plan;
    return {
      height,
      marks: { show: !difference, size: 7, width: 1.5 },
      values: { distr: log ? 3 : 1, log: 10, range: () => this.range() },
      left: valueAxis(unit, log, difference ? 14 : height < 130 ? 18 : 30),
      series: lines.map((line) => this.series(line, Boolean(stacked), Boolean(difference))),
      above: (plot) => this.slo !== null && threshold(plot, this.slo),
    };
  }

  private series(line: Line, stacked: boolean, difference: boolean): uPlot.Series {
    const stroke = colour(line.colour);
    const own: uPlot.Series = {
      label: line.label,
      stroke,
      width: line.width ?? 1.5,
      dash: line.dash,
      points: { show: false },
      fill: line.fill || stacked ? faint(line.colour, line.fill ?? 0.75) : undefined,
    };
    if (stacked) own.width = 0.5;
    if (difference) {
      own.stroke = (plot) => shade(plot, "good", "bad", 1) ?? stroke;
      own.fill = (plot) => shade(plot, "good", "bad", 0.22) ?? stroke;
      own.fillTo = 0;
    }
    return own;
  }
}

/** One colour below zero and another above it. */
function shade(plot: uPlot, below: string, above: string, alpha: number): CanvasGradient | null {
  const { top, height } = plot.bbox;
  const zero = plot.valToPos(0, "y", true);
  if (!Number.isFinite(zero) || height <= 0) return null;
  const at = Math.max(0, Math.min(1, (zero - top) / height));
  const gradient = plot.ctx.createLinearGradient(0, top, 0, top + height);
  gradient.addColorStop(at, faint(above, alpha));
  gradient.addColorStop(at, faint(below, alpha));
  return gradient;
}
