// The latencies of one process in a window of time, loaded again as the window moves.

import { aborted, get, part } from "./api";
import type { Heat } from "./types";

/** A window that moves is loaded again after so long. */
const AGAIN_MS = 2000;
/** A window that is further off than this has not moved there by itself. */
const JUMP_MS = 5000;
const POINTS = 240;

export class Latencies {
  heat: Heat | null = null;
  private loading: AbortController | null = null;
  private loaded_at = 0;
  private shown = [0, 0];

  constructor(
    private id: string,
    private changed: () => void,
  ) {}

  /** Makes sure that the latencies of this window are there, or on their way. */
  want(from: number, to: number): void {
    if (to <= from || (this.shown[0] === from && this.shown[1] === to)) return;
    const moved = Math.abs(to - this.shown[1]) < JUMP_MS && Math.abs(from - this.shown[0]) < JUMP_MS;
    if (moved && (this.loading || Date.now() - this.loaded_at < AGAIN_MS)) return;
    void this.load(from, to);
  }

  destroy(): void {
    this.loading?.abort();
  }

  private async load(from: number, to: number): Promise<void> {
    this.loading?.abort();
    const mine = new AbortController();
    this.loading = mine;
    this.shown = [from, to];
    this.loaded_at = Date.now();
    try {
      this.heat = await get<Heat>(`processes/${part(this.id)}/latency`, { from: Math.floor(from), to: Math.ceil(to), points: POINTS }, mine.signal);
    } catch (error) {
      if (aborted(error)) return;
      // The series of the same window say what the trouble is.
      this.heat = null;
    }
    this.loading = null;
    this.changed();
  }
}
