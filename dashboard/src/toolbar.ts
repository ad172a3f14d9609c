// The row above charts: range, pause, zoom, the moment under the pointer, and a link to all of it.

import { h, mark, say, segments } from "./dom";
import { RANGES, range } from "./extent";
import { moment, position, span } from "./format";
import type { View } from "./view";

export interface Wanted {
  range(name: string): void;
  reset(): void;
  pause?(paused: boolean): void;
}

export class Toolbar {
  readonly element: HTMLElement;
  private ranges: ReturnType<typeof segments>;
  private pauseButton: HTMLButtonElement;
  private back: HTMLButtonElement;
  private when = h("output", { class: "when", "aria-hidden": "true" });
  private paused = false;

  constructor(view: View, wanted: Wanted, announce: (text: string) => void, otherwise = "5m") {
    const choices = Object.keys(RANGES).map((value) => ({ value, label: value }));
    this.ranges = segments("Range", choices, range(view, otherwise), (value) => {
      this.ranges.set(value);
      wanted.range(value);
    });
    this.pauseButton = h("button", { type: "button", class: "pause", "aria-pressed": "false", onclick: () => wanted.pause?.(!this.paused) }, "Pause");
    this.pauseButton.hidden = !wanted.pause;
    this.back = h("button", { type: "button", class: "primary", hidden: true, onclick: () => wanted.reset() }, "Reset zoom");
    const copy = h(
      "button",
      {
        type: "button",
        title: "Copy a link that restores this view",
        onclick: async () => {
          const copied = await navigator.clipboard?.writeText(location.href).then(
            () => true,
            () => false,
          );
          announce(copied ? "The address of this view is in the clipboard" : "The address bar has the link to this view");
        },
      },
      "Copy link",
    );
    this.element = h("div", { class: "toolbar", role: "group", "aria-label": "Time" }, this.ranges.element, this.pauseButton, this.back, h("span", { class: "spring" }), this.when, copy);
  }

  set(state: { range: string; zoomed: boolean; paused: boolean; waiting: number }): void {
    this.paused = state.paused;
    this.ranges.set(state.zoomed ? "" : state.range);
    this.back.hidden = !state.zoomed;
    mark(this.pauseButton, "aria-pressed", String(state.paused));
    say(this.pauseButton, state.paused ? `Resume${state.waiting ? ` (${state.waiting} s behind)` : ""}` : "Pause");
  }

  /** The moment under the pointer, or the window. */
  point(t: number | null, from: number, to: number, relative = false): void {
    const show = (at: number) => (relative ? position(at) : moment(at, to - from < 5000));
    say(this.when, t === null ? `${show(from)} – ${show(to)} (${span((to - from) / 1000)})` : show(t));
  }
}
