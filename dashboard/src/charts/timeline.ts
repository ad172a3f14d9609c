// What all charts over time have in common: a card, a canvas as wide as there is room, hover and zoom.

import uPlot from "uplot";
import { h, say } from "../dom";
import { timeAxis } from "./axes";
import { Card, type Inside, type Item } from "./card";
import type { Group, Linked } from "./group";

/** Narrower than this there is nothing to see. */
const NARROWEST = 50;

/** What charts differ in. */
export interface Traits {
  height: number;
  /** Marks on the lines under the pointer. */
  marks: uPlot.Cursor.Points;
  values: uPlot.Scale;
  left: uPlot.Axis;
  series: uPlot.Series[];
  /** Instead of lines, or below them. */
  paint?(plot: uPlot): void;
  /** Above everything else. */
  above?(plot: uPlot): unknown;
}

export abstract class Timeline implements Linked, Inside {
  readonly element: HTMLElement;
  protected card: Card;
  protected plot: uPlot | null = null;
  /** Whether the pointer is over this chart, or is just being put where it is in another one. */
  protected guided = false;
  private observer: ResizeObserver;
  private bubble = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  private built = "";

  constructor(
    protected group: Group,
    plan: { id: string; title: string; help?: string },
    items: Item[],
  ) {
    this.card = new Card(plan.id, plan.title, items, group, this, plan.help);
    this.element = this.card.element;
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.card.body);
    group.add(this);
  }

  /** How the chart is to look. */
  protected abstract traits(): Traits;
  /** What that depends on: the plot is made anew when this changes. */
  protected abstract build(): string;
  protected abstract data(): uPlot.AlignedData;
  /** What is said beside the pointer, line by line: the moment first. */
  protected abstract tip(plot: uPlot, t: number, value: number): string[];
  abstract point(t: number | null): void;
  abstract rows(): ReturnType<Inside["rows"]>;
  abstract toggle(key: string): void;
  abstract step(by: number): void;

  show(): void {
    if (!this.plot || this.built !== this.build()) this.draw();
    const plot = this.plot;
    if (!plot) return;
    plot.batch(() => {
      plot.setData(this.data(), false);
      plot.setScale("x", { min: this.group.from, max: this.group.to });
    });
    this.point(this.group.hovered);
    this.card.refresh();
  }

  recolour(): void {
    this.built = "";
    this.show();
  }

  destroy(): void {
    this.observer.disconnect();
    this.plot?.destroy();
    this.group.remove(this);
  }

  canvas(): HTMLCanvasElement | null {
    return this.plot?.ctx.canvas ?? null;
  }

  /** Puts the pointer where it is in the chart under the mouse. */
  protected guide(plot: uPlot, t: number | null): void {
    if (this.guided) return;
    this.guided = true;
    plot.setCursor({ left: t === null ? -10 : plot.valToPos(t, "x"), top: 0 });
    this.guided = false;
  }

  private fit(): void {
    const width = this.card.body.clientWidth;
    if (width < NARROWEST) return;
    if (!this.plot) this.show();
    else if (this.plot.width !== width) this.plot.setSize({ width, height: this.plot.height });
  }

  private draw(): void {
    const width = this.card.body.clientWidth;
    if (width < NARROWEST) return;
    this.plot?.destroy();
    this.built = this.build();
    const { height, marks, values, left, series, paint, above } = this.traits();
    const options: uPlot.Options = {
      width,
      height,
      ms: 1,
      legend: { show: false },
      padding: [8, 24, 0, 0],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: marks,
        bind: { dblclick: () => () => (this.group.actions.reset(), null) },
      },
      scales: {
        x: { time: !this.group.relative, auto: false, min: this.group.from, max: this.group.to },
        y: values,
      },
      axes: [timeAxis(this.group), left],
      series: [{}, ...series],
      hooks: {
        ...(paint ? { drawSeries: [paint] } : {}),
        ...(above ? { draw: [above] } : {}),
        setCursor: [(plot) => this.hover(plot)],
        setSelect: [(plot) => this.selected(plot)],
      },
    };
    this.plot = new uPlot(options, this.data(), this.card.body);
    this.plot.over.append(this.bubble);
    this.bubble.hidden = true;
    this.plot.over.addEventListener("mouseleave", () => {
      this.bubble.hidden = true;
      this.group.point(null);
    });
  }

  private hover(plot: uPlot): void {
    if (this.guided) return;
    const left = plot.cursor.left ?? -1;
    this.guided = true;
    this.group.point(left < 0 ? null : plot.posToVal(left, "x"));
    this.guided = false;
    this.beside(plot, left, plot.cursor.top ?? -1);
  }

  /** Puts what is under the pointer beside it, at the side with more room. */
  private beside(plot: uPlot, left: number, top: number): void {
    const said = left < 0 || top < 0 ? [] : this.tip(plot, plot.posToVal(left, "x"), plot.posToVal(top, "y")).filter(Boolean);
    this.bubble.hidden = said.length === 0;
    if (said.length === 0) return;
    say(this.bubble, said.join("\n"));
    const { clientWidth: width, clientHeight: height } = plot.over;
    const { offsetWidth: wide, offsetHeight: high } = this.bubble;
    const x = left < width / 2 ? left + 14 : left - wide - 14;
    this.bubble.style.transform = `translate(${Math.max(-40, Math.min(x, width - wide))}px, ${Math.max(0, Math.min(top - high / 2, height - high))}px)`;
  }

  private selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.group.actions.zoom(from, to);
  }
}
