// A chart of single events: when each began, how long it lasted, and of which kind it was.

import uPlot from "uplot";
import { h } from "../dom";
import { ms, moment, position } from "../format";
import { decades, timeAxis, valueAxis } from "./axes";
import { Card } from "./card";
import { colour, faint, font } from "./colours";
import type { Group, Linked } from "./group";

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

export class PauseChart<E extends Mark> implements Linked {
  readonly element: HTMLElement;
  private card: Card;
  private plot: uPlot | null = null;
  private events: E[] = [];
  private observer: ResizeObserver;
  private guided = false;
  private own = false;
  private ring = h("div", { class: "ring", hidden: true });
  private readout = h("p", { class: "readout" });
  private built = false;
  /** The longest pause that the scale shows at least, for charts that are to have the same one. */
  reach = 0;
  /** What else happened, written at its moment. */
  notes: { t: number; text: string }[] = [];

  constructor(
    readonly plan: PausePlan<E>,
    private group: Group,
  ) {
    this.card = new Card(plan.id, plan.title, plan.kinds.toReversed(), group, this, plan.help);
    this.card.body.before(this.readout);
    this.element = this.card.element;
    this.element.classList.add("pauses");
    for (const kind of plan.kinds) this.card.visible(kind.key, this.shown(kind.key));
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.card.body);
    group.add(this);
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
    if (!this.plot || !this.built) this.draw();
    const plot = this.plot;
    if (!plot) return;
    plot.batch(() => {
      plot.setData([this.events.map((event) => event.t), this.events.map((event) => event.ms)], false);
      plot.setScale("x", { min: this.group.from, max: this.group.to });
    });
    this.sums();
    this.point(this.group.hovered);
    this.card.refresh();
  }

  point(t: number | null): void {
    const plot = this.plot;
    if (!plot) return;
    const left = t === null ? -10 : plot.valToPos(t, "x");
    if (!this.guided) {
      this.guided = true;
      plot.setCursor({ left, top: 0 });
      this.guided = false;
    }
    const event = t === null ? null : this.near(left, this.own ? (plot.cursor.top ?? null) : null);
    this.ring.hidden = event === null;
    if (event) {
      this.ring.style.transform = `translate(${plot.valToPos(event.t, "x")}px, ${plot.valToPos(event.ms, "y")}px)`;
      this.readout.textContent = this.words(event);
    } else {
      this.readout.textContent = "";
    }
  }

  recolour(): void {
    this.built = false;
    this.show();
  }

  destroy(): void {
    this.observer.disconnect();
    this.plot?.destroy();
    this.group.remove(this);
  }

  // What the card asks for.

  canvas(): HTMLCanvasElement | null {
    return this.plot?.ctx.canvas ?? null;
  }

  rows() {
    const inside = this.inside().filter((event) => this.shown(this.plan.kindOf(event)));
    const time = (t: number) => (this.group.relative ? position(t, true) : moment(t, true));
    return {
      head: ["time", "ms", ...this.plan.head],
      rows: inside
        .toSorted((one, other) => other.ms - one.ms)
        .map((event) => [time(event.t), ms(event.ms), ...this.plan.row(event).map(String)]),
      cells: inside.map((event) => [
        this.group.relative ? position(event.t, true) : new Date(event.t).toISOString(),
        event.ms,
        ...this.plan.row(event),
      ]),
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
    return `${this.group.relative ? position(event.t, true) : moment(event.t, true)}  ${ms(event.ms)}  ${this.plan.describe(event)}`;
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
  private near(left: number, top: number | null): E | null {
    const plot = this.plot as uPlot;
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

  private fit(): void {
    const width = this.card.body.clientWidth;
    if (width < 50) return;
    if (!this.plot) this.show();
    else if (this.plot.width !== width) this.plot.setSize({ width, height: this.plot.height });
  }

  private draw(): void {
    const width = this.card.body.clientWidth;
    if (width < 50) return;
    this.plot?.destroy();
    this.built = true;
    const options: uPlot.Options = {
      width,
      height: this.plan.height ?? 190,
      ms: 1,
      legend: { show: false },
      padding: [8, 24, 0, 0],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { show: false },
        bind: { dblclick: () => () => (this.group.actions.reset(), null) },
      },
      scales: {
        x: { time: !this.group.relative, auto: false, min: this.group.from, max: this.group.to },
        y: { distr: 3, log: 10, range: () => this.range() },
      },
      axes: [timeAxis(this.group), valueAxis("ms", true)],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: {
        drawSeries: [(plot) => this.paint(plot)],
        setCursor: [(plot) => this.hover(plot)],
        setSelect: [(plot) => this.selected(plot)],
      },
    };
    this.plot = new uPlot(options, [[], []], this.card.body);
    this.plot.over.append(this.ring);
    this.plot.over.addEventListener("mouseleave", () => this.group.point(null));
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

  private hover(plot: uPlot): void {
    if (this.guided) return;
    const left = plot.cursor.left ?? -1;
    this.guided = true;
    this.own = true;
    this.group.point(left < 0 ? null : plot.posToVal(left, "x"));
    this.own = false;
    this.guided = false;
  }

  private selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.group.actions.zoom(from, to);
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
