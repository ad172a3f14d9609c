// Charts that share one window of time: hover, zoom and keys on one of them act on all.

import { moment, position } from "../format";
import type { View } from "../view";

export interface Linked {
  /** Shows the window of the group. */
  show(): void;
  /** Shows the values at a moment; the latest ones for `null`. */
  point(t: number | null): void;
  /** Draws everything anew, in new colours. */
  recolour(): void;
  destroy(): void;
}

export interface Actions {
  zoom(from: number, to: number): void;
  reset(): void;
}

export class Group {
  from: number;
  to: number;
  /** The moment under the pointer. */
  hovered: number | null = null;
  /** Told of every moment that is pointed at. */
  onHover: (t: number | null) => void = () => {};

  private charts = new Set<Linked>();
  private pointing = false;

  constructor(
    readonly view: View,
    readonly actions: Actions,
    readonly announce: (text: string) => void,
    /** Whether time counts from a start and not from 1970. */
    public relative = false,
  ) {
    this.to = Date.now();
    this.from = this.to - 60_000;
  }

  add(chart: Linked): void {
    this.charts.add(chart);
  }

  remove(chart: Linked): void {
    this.charts.delete(chart);
  }

  /** Moves the window; charts draw with their next data, or at once where they get none. */
  window(from: number, to: number): void {
    this.from = from;
    this.to = to;
  }

  show(): void {
    for (const chart of this.charts) chart.show();
  }

  /** A moment, for people. */
  time(t: number, fine = false): string {
    return this.relative ? position(t, fine) : moment(t, fine);
  }

  /** A moment, for programs. */
  exact(t: number): string {
    return this.relative ? position(t, true) : new Date(t).toISOString();
  }

  point(t: number | null): void {
    if (this.pointing) return;
    this.pointing = true;
    this.hovered = t;
    for (const chart of this.charts) chart.point(t);
    this.onHover(t);
    this.pointing = false;
  }

  recolour(): void {
    for (const chart of this.charts) chart.recolour();
  }

  destroy(): void {
    for (const chart of [...this.charts]) chart.destroy();
    this.charts.clear();
  }

  /** Whether something that can be switched was switched away from how it begins. */
  flipped(name: string): boolean {
    return this.view.list("flip").includes(name);
  }

  flip(name: string): void {
    const list = this.view.list("flip");
    const rest = list.filter((other) => other !== name);
    this.view.set({ flip: (rest.length < list.length ? rest : [...list, name]).join(",") });
  }
}
