// Which part of time is shown, as the address says it: a range that ends now, or a zoomed range.

import type { Actions } from "./charts/group";
import type { Window } from "./follow";
import { span } from "./format";
import type { View } from "./view";

export const RANGES: Record<string, number> = {
  "1m": 60_000,
  "5m": 300_000,
  "15m": 900_000,
  "1h": 3_600_000,
  "6h": 21_600_000,
  "1d": 86_400_000,
  "7d": 604_800_000,
};

export interface Bounds {
  least_ms: number;
  most_ms: number;
  /** Time ends here; otherwise it goes on. */
  end?: number;
}

export const BOUNDS: Bounds = { least_ms: 1000, most_ms: RANGES["7d"] };

/** The range that the address asks for. */
export function range(view: View, otherwise = "5m"): string {
  const named = view.get("range") ?? otherwise;
  return named in RANGES ? named : otherwise;
}

export class Extent implements Actions {
  constructor(
    private view: View,
    private announce: (text: string) => void,
    private changed: () => void,
    private bounds: Bounds = BOUNDS,
  ) {}

  /** What was zoomed into. */
  get zoomed(): [from: number, to: number] | null {
    const [from, to] = [this.view.number("from"), this.view.number("to")];
    return from !== null && to !== null && to > from ? [from, to] : null;
  }

  get window(): Window {
    const { zoomed } = this;
    return zoomed ? { kind: "fixed", from: zoomed[0], to: zoomed[1] } : { kind: "live", span_ms: RANGES[range(this.view)] };
  }

  range = (name: string): void => {
    this.view.set({ range: name, from: null, to: null });
    this.changed();
  };

  zoom = (from: number, to: number): void => {
    const { least_ms, most_ms, end = Infinity } = this.bounds;
    const width = Math.min(most_ms, Math.max(least_ms, to - from));
    const first = Math.max(0, Math.min(from, end - width));
    this.view.set({ from: Math.floor(first), to: Math.ceil(first + width) });
    this.changed();
    this.announce(`Zoomed to ${span(width / 1000)}`);
  };

  reset = (): void => {
    if (!this.zoomed) return;
    this.view.set({ from: null, to: null });
    this.changed();
  };
}
