// The row of large figures above the charts of a process.

import { h, mark, say } from "../dom";
import { figure, span } from "../format";

const FIGURES: [key: string, title: string, unit: string, note: string][] = [
  ["p50", "p50", "ms", ""],
  ["p95", "p95", "ms", ""],
  ["p99", "p99", "ms", ""],
  ["rps", "Requests", "1/s", ""],
  ["waited", "GC in requests", "ms/s", "requests waited"],
  ["pause", "Longest pause", "ms", ""],
  ["rss", "RSS", "bytes", ""],
  ["cpu", "CPU", "percent", ""],
  ["gil", "GIL busy", "percent", "the rest is gaps"],
];

export function tiles() {
  const made = new Map(
    FIGURES.map(([key, title, unit, note]) => {
      const value = h("dd", { class: "figure" }, "–");
      const small = h("dd", { class: "note" }, note);
      return [key, { element: h("div", { class: "tile", "data-tile": key }, h("dt", {}, title), value, small), value, small, unit }];
    }),
  );
  return {
    element: h("dl", { class: "tiles" }, ...[...made.values()].map((tile) => tile.element)),
    set(values: Record<string, number | null>): void {
      for (const [key, value] of Object.entries(values)) {
        const tile = made.get(key);
        if (tile) say(tile.value, figure(value, tile.unit));
      }
      const waited = made.get("waited");
      if (waited) mark(waited.element, "data-tone", (values.waited ?? 0) >= 10 ? "bad" : null);
    },
    /** How long a step of the series is, which the figures are of. */
    step(milliseconds: number): void {
      const text = milliseconds <= 1000 ? "last second" : `last ${span(milliseconds / 1000)}`;
      for (const key of ["p50", "p95", "p99", "rps"]) this.note(key, text);
    },
    note(key: string, text: string): void {
      const tile = made.get(key);
      if (tile) say(tile.small, text);
    },
  };
}
