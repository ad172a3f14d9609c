// Axes that all charts have in common: time below, values at the left, both with round numbers.

import uPlot from "uplot";
import { figure, position } from "../format";
import { colour, font } from "./colours";
import type { Group } from "./group";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const TIMES = [
  1, 2, 5, 10, 20, 50, 100, 200, 500,
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  DAY, 2 * DAY,
];

/** Powers of two and their halves, so that sizes are round in binary units. */
const SIZES = Array.from({ length: 50 }, (_, n) => 2 ** n);

/** The width of the left axis: the same everywhere, so that times stand under each other. */
export const LEFT = 66;

const clock = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat("en-GB", options);
const seconds = clock({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minutes = clock({ hour: "2-digit", minute: "2-digit" });
const days = clock({ weekday: "short", day: "numeric" });

function tick(t: number, step: number): string {
  const date = new Date(t);
  if (step < SECOND) return `${seconds.format(date)}.${String(Math.floor(t) % 1000).padStart(3, "0")}`;
  if (step < MINUTE) return seconds.format(date);
  const midnight = date.getHours() === 0 && date.getMinutes() === 0;
  return step >= DAY || (midnight && step >= HOUR) ? days.format(date) : minutes.format(date);
}

function plain(): Partial<uPlot.Axis> {
  const line = { stroke: colour("grid"), width: 1 };
  return { stroke: colour("muted"), font: font(11), grid: line, ticks: { ...line, size: 4 } };
}

export function timeAxis(group: Group): uPlot.Axis {
  return {
    ...plain(),
    grid: { show: false },
    size: 26,
    gap: 4,
    space: group.to - group.from < 5000 ? 96 : 66,
    incrs: TIMES,
    values: (_, splits, _axis, _space, step) =>
      splits.map((t) => (group.relative ? position(t, step < SECOND) : tick(t, step))),
  };
}

export function valueAxis(unit: string, log: boolean, space = 30): uPlot.Axis {
  return {
    ...plain(),
    size: LEFT,
    gap: 6,
    space,
    ...(unit.startsWith("bytes") && !log ? { incrs: SIZES } : {}),
    ...(log ? { grid: { stroke: colour("grid"), width: 1, filter: rounded }, ticks: { show: false } } : {}),
    values: (_, splits) => splits.map((value) => (value == null || (log && !decade(value)) ? "" : short(value, unit))),
  };
}

/** Of a logarithmic axis only the decades: the rest is noise. */
function rounded(_: uPlot, splits: number[]): (number | null)[] {
  return splits.map((value) => (decade(value) ? value : null));
}

function decade(value: number): boolean {
  return Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
}

/** The label of a round value: no decimals that are always zero. */
function short(value: number, unit: string): string {
  return figure(value, unit).replace(/\.0+(?= |$|\/)/, "").replace(/(\.\d*?)0+(?= |$|\/)/, "$1");
}

/** From zero to a little above the largest value. */
export function linear(most: number, unit: string): [number, number] {
  const least = { percent: 5, "1/s": 1, count: 4, bytes: 1 << 20, "bytes/s": 1 << 10, s: 1, ms: 1, "ms/s": 1 }[unit] ?? 1;
  return [0, Math.max(least, most * 1.08)];
}

/** Whole decades around the values. */
export function decades(least: number, most: number): [number, number] {
  const low = 10 ** Math.floor(Math.log10(Math.max(least, 1e-3)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(most, low * 10) * 1.0001));
  return [low, high];
}
