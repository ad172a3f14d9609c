// The row above charts: range, pause, zoom, the moment under the pointer, and a link to all of it.

import { h, mark, say, segments } from "./dom";
import { RANGES, range } from "./extent";
import { moment, position, span } from "./format";
import type { View } from "./view";

/** A moment as a field for date and time has it, which is in the time zone of the browser. */
function local(t: number): string {
  const date = new Date(t);
  return new Date(t - 60_000 * date.getTimezoneOffset()).toISOString().slice(0, 19);
}

export interface Wanted {
  range(name: string): void;
  reset(): void;
  /** Shows what lies between two moments. */
  zoom?(from: number, to: number): void;
  /** A latency that requests should keep below was typed, or taken away. */
  slo?(ms: number | null): void;
  pause?(paused: boolean): void;
}

export class Toolbar {
  readonly element: HTMLElement;
  private ranges: ReturnType<typeof segments>;
  private pauseButton: HTMLButtonElement;
  private back: HTMLButtonElement;
  private when = h("output", { class: "when", "aria-hidden": "true" });
  private paused = false;
  private bounds: [from: number, to: number] = [Date.now() - 300_000, Date.now()];

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
    const between = wanted.zoom ? this.between(wanted.zoom) : null;
    const slo = wanted.slo ? this.slo(view, wanted.slo) : null;
    this.element = h("div", { class: "toolbar", role: "group", "aria-label": "Time" }, this.ranges.element, between, this.pauseButton, this.back, slo, h("span", { class: "spring" }), this.when, copy);
  }

  /** Two moments to choose. */
  private between(zoom: (from: number, to: number) => void): HTMLElement {
    const field = () => h("input", { type: "datetime-local", step: 1, required: true });
    const [from, to] = [field(), field()];
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const wrong = h("p", { class: "trouble", role: "alert", hidden: true });
    const apply = (event: Event) => {
      event.preventDefault();
      const [first, last] = [new Date(from.value).getTime(), new Date(to.value).getTime()];
      wrong.hidden = first < last;
      say(wrong, wrong.hidden ? "" : "The first moment must be before the second one.");
      if (!wrong.hidden) return;
      panel.open = false;
      zoom(first, last);
    };
    const opened = () => {
      if (panel.open) [from.value, to.value] = this.bounds.map(local);
    };
    const panel = h(
      "details",
      { class: "between", ontoggle: opened },
      h("summary", {}, "From – to"),
      h("form", { onsubmit: apply }, h("label", { class: "field" }, h("span", {}, "From"), from), h("label", { class: "field" }, h("span", {}, "To"), to), h("p", { class: "note" }, `Times of ${zone}`), wrong, h("button", { type: "submit", class: "primary" }, "Show")),
    );
    return panel;
  }

  private slo(view: View, changed: (ms: number | null) => void): HTMLElement {
    const field = h("input", { type: "number", min: 0, step: "any", placeholder: "none", class: "slo" });
    field.value = view.get("slo") ?? "";
    field.addEventListener("input", () => {
      const value = field.valueAsNumber > 0 ? field.valueAsNumber : null;
      view.set({ slo: value });
      changed(value);
    });
    return h("label", { class: "field", title: "A latency that requests should keep below, drawn as a line" }, h("span", {}, "SLO"), field, h("span", {}, "ms"));
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
    if (!relative) this.bounds = [from, to];
    const show = (at: number) => (relative ? position(at) : moment(at, to - from < 5000));
    say(this.when, t === null ? `${show(from)} – ${show(to)} (${span((to - from) / 1000)})` : show(t));
  }
}
