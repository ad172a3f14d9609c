// Columns of values over time, as charts want them: holes are there as rows without values.

import type { Column, Stretch, Values } from "../types";

export interface Frame {
  step_ms: number;
  t: number[];
  series: Record<string, Column>;
}

/** So many steps without a sample are a hole; less is jitter. */
const PATIENCE = 2.5;

export function empty(step_ms = 1000): Frame {
  return { step_ms, t: [], series: {} };
}

/** A stretch with a row of nothing in each hole. */
export function framed(stretch: Pick<Stretch, "step_ms" | "t" | "series">): Frame {
  const { step_ms, t } = stretch;
  const holes = new Set<number>();
  for (let i = 1; i < t.length; i += 1) if (t[i] - t[i - 1] > PATIENCE * step_ms) holes.add(i);
  if (holes.size === 0) return { step_ms, t: [...t], series: copy(stretch.series) };
  const widen = <T>(column: T[], fill: (i: number) => T) => column.flatMap((value, i) => (holes.has(i) ? [fill(i), value] : [value]));
  const series: Record<string, Column> = {};
  for (const [name, column] of Object.entries(stretch.series)) series[name] = widen<number | null>(column, () => null);
  return { step_ms, t: widen(t, (i) => t[i - 1] + step_ms), series };
}

function copy(series: Record<string, Column>): Record<string, Column> {
  return Object.fromEntries(Object.entries(series).map(([name, column]) => [name, [...column]]));
}

/** Adds a sample at the end; says whether it was new. */
export function append(frame: Frame, t: number, values: Values): boolean {
  const last = frame.t.at(-1);
  if (last !== undefined && t <= last) return false;
  if (last !== undefined && t - last > PATIENCE * frame.step_ms) push(frame, last + frame.step_ms, {});
  push(frame, t, values);
  return true;
}

function push(frame: Frame, t: number, values: Values): void {
  const before = frame.t.length;
  frame.t.push(t);
  for (const [name, column] of Object.entries(frame.series)) column.push(values[name] ?? null);
  for (const name of Object.keys(values)) {
    if (!(name in frame.series)) frame.series[name] = [...Array<null>(before).fill(null), values[name]];
  }
}

/** Forgets what is before a moment, but for one row that leads in from the left. */
export function trim(frame: Frame, from: number): void {
  let first = 0;
  while (first + 1 < frame.t.length && frame.t[first + 1] < from) first += 1;
  if (first === 0) return;
  frame.t.splice(0, first);
  for (const column of Object.values(frame.series)) column.splice(0, first);
}

/** The rows up to a moment. */
export function until(frame: Frame, t: number): Frame {
  let end = frame.t.length;
  while (end > 0 && frame.t[end - 1] > t) end -= 1;
  const series: Record<string, Column> = {};
  for (const [name, column] of Object.entries(frame.series)) series[name] = column.slice(0, end);
  return { step_ms: frame.step_ms, t: frame.t.slice(0, end), series };
}

/** The latest value of a series that is one, up to a moment. */
export function latest(frame: Frame, name: string, until = Infinity): number | null {
  const column = frame.series[name] ?? [];
  for (let i = column.length - 1; i >= 0; i -= 1) if (column[i] != null && frame.t[i] <= until) return column[i];
  return null;
}
