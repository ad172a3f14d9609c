// A chart of single events: when each began, how long it lasted, and of which kind it was.

import type uPlot from "uplot";
import { h } from "../dom";
import { ms } from "../format";
import { decades, valueAxis } from "./axes";
import { colour, faint, font } from "./colours";
import type { Group } from "./group";
import { Timeline, type Traits } from "./timeline";

export interface Mark {
  t: number;
  ms: number;
}

export interface Kind {
  key: string;
  label: string;
  colour: string;
  shape: "circle" | "square" | "triangle" | "diamond" | "cross";
}

export interface PausePlan<E extends Mark> {
  id: string;
  title: string;
  help: string;
  /** From the least to the most worrying: later ones are drawn above. */
  kinds: Kind[];
  kindOf(event: E): string;
  /** What the event is, in words. */
  describe(event: E): string;
  head: string[];
  row(event: E): (string | number)[];
  height?: number;
}

/** How near to an event the pointer has to be, in pixels. */
const REACH = 14;

export class PauseChart<E extends Mark> extends Timeline {
  private events: E[] = [];
  private ring = h("div", { class: "ring", hidden: true });
  private readout = h("p", { class: "readout" });
  /** The longest pause that the scale shows at least, for charts that are to have the same one. */
  reach = 0;
  /** What else happened, written at its moment. */
  notes: { t: number; text: string }[] = [];

  constructor(
    readonly plan: PausePlan<E>,
    group: Group,
  ) {
    super(group, plan, plan.kinds.toReversed());
    this.card.body.before(this.readout);
    this.element.classList.add("pauses");
    for (const kind of plan.kinds) this.card.visible(kind.key, this.shown(kind.key));
  }

  /** New events, sorted by time. */
  set(events: E[], left_out = 0): void {
    this.events = events;
    this.card.note.textContent = left_out ? `${left_out.toLocaleString("en-US")} shorter ones are left out. Zoom in to see them.` : "";
    this.show();
  }

  /** The longest one in the window. */
  longest(): number {
    return this.inside().reduce((most, event) => Math.max(most, event.ms), 0);
  }

  show(): void {
    super.show();
    this.sums();
  }

  point(t: number | null): void {
    const plot = this.plot;
    if (!plot) return;
    // Only in the chart under the pointer its height says which event is meant.
    const top = this.guided ? (plot.cursor.top ?? null) : null;
    this.guide(plot, t);
    const event = t === null ? null : this.near(plot, plot.valToPos(t, "x"), top);
    this.ring.hidden = event === null;
    if (event) {
      // A plot that was made anew has lost it.
      plot.over.append(this.ring);
      this.ring.style.transform = `translate(${plot.valToPos(event.t, "x")}px, ${plot.valToPos(event.ms, "y")}px)`;
    }
    this.readout.textContent = event ? this.words(event) : "";
  }

  protected tip(plot: uPlot): string[] {
    const event = this.near(plot, plot.cursor.left ?? -1, plot.cursor.top ?? null);
    return event ? [this.group.time(event.t, true), `${ms(event.ms)}  ${this.plan.describe(event)}`] : [];
  }

  // What the card asks for.

  rows() {
    const inside = this.inside().filter((event) => this.shown(this.plan.kindOf(event)));
    return {
      head: ["time", "ms", ...this.plan.head],
      rows: inside
        .toSorted((one, other) => other.ms - one.ms)
        .map((event) => [this.group.time(event.t, true), ms(event.ms), ...this.plan.row(event).map(String)]),
      cells: inside.map((event) => [this.group.exact(event.t), event.ms, ...this.plan.row(event)]),
    };
  }

  toggle(key: string): void {
    this.group.flip(`${this.plan.id}.${key}`);
    this.card.visible(key, this.shown(key));
    this.show();
  }

  step(by: number): void {
    const inside = this.inside().filter((event) => this.shown(this.plan.kindOf(event)));
    if (inside.length === 0) return;
    const hovered = this.group.hovered;
    let now = inside.length;
    if (hovered !== null) now = inside.findIndex((event) => event.t >= hovered - 1e-3);
    if (now < 0) now = inside.length;
    const next = inside[Math.max(0, Math.min(inside.length - 1, now + by))];
    this.group.point(next.t);
    this.readout.textContent = this.words(next);
    this.group.announce(this.words(next));
  }

  // Drawing.

  private words(event: E): string {
    return `${this.group.time(event.t, true)}  ${ms(event.ms)}  ${this.plan.describe(event)}`;
  }

  private shown(key: string): boolean {
    return !this.group.flipped(`${this.plan.id}.${key}`);
  }

  private inside(): E[] {
    const { from, to } = this.group;
    return this.events.filter((event) => event.t >= from && event.t <= to);
  }

  private sums(): void {
    const counts = new Map<string, { count: number; total: number }>();
    for (const event of this.inside()) {
      const key = this.plan.kindOf(event);
      const sum = counts.get(key) ?? { count: 0, total: 0 };
      counts.set(key, { count: sum.count + 1, total: sum.total + event.ms });
    }
    for (const kind of this.plan.kinds) {
      const sum = counts.get(kind.key);
      this.card.value(kind.key, sum ? `${sum.count.toLocaleString("en-US")} · ${ms(sum.total)}` : "0");
    }
  }

  /** The event under the pointer: the nearest one, or the longest where only the time is known. */
  private near(plot: uPlot, left: number, top: number | null): E | null {
    let best: E | null = null;
    let least = Infinity;
    const reach = (this.group.to - this.group.from) * (REACH / Math.max(1, plot.over.clientWidth));
    const t = plot.posToVal(left, "x");
    for (const event of this.events) {
      if (event.t < t - reach || event.t > t + reach || !this.shown(this.plan.kindOf(event))) continue;
      const across = plot.valToPos(event.t, "x") - left;
      const distance = top === null ? -event.ms : across ** 2 + (plot.valToPos(event.ms, "y") - top) ** 2;
      if (distance < least) [best, least] = [event, distance];
    }
    return best;
  }

  private range(): [number, number] {
    let [least, most] = [Infinity, this.reach];
    for (const event of this.inside()) {
      if (!this.shown(this.plan.kindOf(event))) continue;
      least = Math.min(least, event.ms);
      most = Math.max(most, event.ms);
    }
    return decades(Math.min(Math.max(least, 0.01), 1), Math.max(most, 10));
  }

  protected build(): string {
    return String(this.group.relative);
  }

  protected data(): uPlot.AlignedData {
    return [this.events.map((event) => event.t), this.events.map((event) => event.ms)];
  }

  protected traits(): Traits {
    return {
      height: this.plan.height ?? 190,
      marks: { show: false },
      values: { distr: 3, log: 10, range: () => this.range() },
      left: valueAxis("ms", true),
      series: [{ paths: () => null, points: { show: false } }],
      paint: (plot) => this.paint(plot),
    };
  }

  private paint(plot: uPlot): void {
    const { ctx: pen, bbox } = plot;
    const ratio = devicePixelRatio;
    const floor = bbox.top + bbox.height;
    const inside = this.inside();
    const size = (inside.length > 600 ? 2.4 : 3.4) * ratio;
    // Many stems side by side would be a wall.
    const weight = Math.min(0.45, Math.max(0.05, 300 / inside.length));
    pen.save();
    pen.beginPath();
    pen.rect(bbox.left, bbox.top - size, bbox.width, bbox.height + size);
    pen.clip();
    this.annotate(plot);
    for (const kind of this.plan.kinds) {
      if (!this.shown(kind.key)) continue;
      pen.fillStyle = colour(kind.colour);
      pen.strokeStyle = faint(kind.colour, weight);
      pen.lineWidth = ratio;
      for (const event of inside) {
        if (this.plan.kindOf(event) !== kind.key) continue;
        const x = plot.valToPos(event.t, "x", true);
        const y = plot.valToPos(Math.max(event.ms, 0.001), "y", true);
        // Where one can see how long it lasted, it is as wide as that.
        const wide = plot.valToPos(event.t + event.ms, "x", true) - x;
        if (wide > 2 * ratio) {
          pen.globalAlpha = 0.25;
          pen.fillRect(x, y, wide, floor - y);
          pen.globalAlpha = 1;
        } else {
          pen.beginPath();
          pen.moveTo(x, y);
          pen.lineTo(x, floor);
          pen.stroke();
        }
        sign(pen, kind.shape, x, y, size);
      }
    }
    pen.restore();
  }

  private annotate(plot: uPlot): void {
    const { ctx: pen, bbox } = plot;
    const ratio = devicePixelRatio;
    pen.font = font(11 * ratio);
    pen.fillStyle = colour("muted");
    pen.strokeStyle = colour("muted");
    pen.lineWidth = ratio;
    pen.setLineDash([3 * ratio, 3 * ratio]);
    for (const [index, note] of this.notes.entries()) {
      const x = plot.valToPos(note.t, "x", true);
      pen.beginPath();
      pen.moveTo(x, bbox.top);
      pen.lineTo(x, bbox.top + bbox.height);
      pen.stroke();
      pen.textAlign = x > bbox.left + bbox.width * 0.8 ? "right" : "left";
      pen.fillText(note.text, x + (pen.textAlign === "left" ? 5 : -5) * ratio, bbox.top + (11 + 13 * (index % 3)) * ratio);
    }
    pen.setLineDash([]);
  }
}

function sign(pen: CanvasRenderingContext2D, shape: Kind["shape"], x: number, y: number, size: number): void {
  pen.beginPath();
  switch (shape) {
    case "circle":
      pen.arc(x, y, size, 0, 2 * Math.PI);
      break;
    case "square":
      pen.rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8);
      break;
    case "triangle":
      pen.moveTo(x, y - size * 1.2);
      pen.lineTo(x + size * 1.15, y + size * 0.9);
      pen.lineTo(x - size * 1.15, y + size * 0.9);
      break;
    case "diamond":
      pen.moveTo(x, y - size * 1.35);
      pen.lineTo(x + size * 1.35, y);
      pen.lineTo(x, y + size * 1.35);
      pen.lineTo(x - size * 1.35, y);
      break;
    case "cross": {
      const arm = size * 0.45;
      pen.rect(x - size * 1.2, y - arm, size * 2.4, arm * 2);
      pen.rect(x - arm, y - size * 1.2, arm * 2, size * 2.4);
      break;
    }
  }
  pen.fill();
}
