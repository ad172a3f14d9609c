// Time lost: how long the program was ready to run and could not, by cause, in each step of a window.

import type { Frame } from "./charts/frame";
import type { Plan } from "./charts/lines";
import type { Cause, Stall } from "./types";

const CAUSES: [cause: Cause, label: string, colour: string][] = [
  ["gc", "garbage collection", "request"],
  ["gil_native", "native code with the GIL", "clone"],
  ["python", "long-running Python", "reap"],
  ["cpu_starved", "CPU starvation", "forced"],
  ["unknown", "unknown", "longest"],
];

/** What a cause is called. */
export function cause(name: string): string {
  return CAUSES.find(([key]) => key === name)?.[1] ?? name;
}

export const LOST: Plan = {
  id: "lost",
  title: "Time lost, by cause",
  unit: "ms/s",
  help: "Milliseconds of each second in which the program was ready to run and was held up.",
  stacked: true,
  height: 150,
  lines: CAUSES.map(([name, label, colour]) => ({ name, label, colour })),
};

const STEPS = 120;

/** Stalls as a course: the time of each falls into the step in which it began. */
export function lost(stalls: Stall[], from: number, to: number): Frame {
  const step_ms = Math.max(1000, Math.ceil((to - from) / STEPS / 1000) * 1000);
  const first = Math.ceil(from / step_ms) * step_ms;
  const t = Array.from({ length: Math.max(0, Math.floor((to - first) / step_ms) + 1) }, (_, i) => first + i * step_ms);
  const series = Object.fromEntries(CAUSES.map(([name]) => [name, t.map(() => 0)]));
  for (const stall of stalls) {
    const at = Math.ceil((stall.t - first) / step_ms);
    if (at >= 0 && at < t.length) series[stall.cause][at] += stall.ms / (step_ms / 1000);
  }
  return { step_ms, t, series };
}

/** The sum of each cause in a window, the largest first. */
export function sums(stalls: Stall[], from: number, to: number): [cause: string, ms: number][] {
  const sum = new Map<string, number>();
  for (const stall of stalls) if (stall.t >= from && stall.t <= to) sum.set(stall.cause, (sum.get(stall.cause) ?? 0) + stall.ms);
  return [...sum].sort((one, other) => other[1] - one[1]);
}
