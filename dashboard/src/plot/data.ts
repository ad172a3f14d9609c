// What `neurogc run --memory-plot` puts into its file. Times are seconds since the command began, sizes bytes.

export interface PlotProcess {
  pid: number;
  name: string;
  /** The resident set at each moment; 0 where the process was not there. */
  rss: number[];
}

export interface PlotSpan {
  name: string;
  pid: number;
  from: number;
  to: number;
}

export interface PlotCollection {
  at: number;
  ms: number;
  what: string;
  pid: number;
}

export interface PlotData {
  command: string;
  outcome: string;
  began: string;
  seconds: number;
  step_ms: number;
  at: number[];
  processes: PlotProcess[];
  /** Memory of all processes that no other process shares; null where it was not read. */
  uss: (number | null)[];
  collections: PlotCollection[];
  collections_in_all: number;
  spans: PlotSpan[];
  spans_in_all: number;
  remarks: string[];
}

/** A band of the picture: one process, or the smaller ones together. */
export interface Band {
  label: string;
  rss: number[];
}

const MOST_BANDS = 6;

export const largest = (values: number[]) => values.reduce((most, value) => Math.max(most, value), 0);

/** The process that was started first, then the others by their peaks; the smallest are put together. */
export function bands(data: PlotData): Band[] {
  const [first, ...rest] = data.processes;
  if (!first) return [];
  rest.sort((one, other) => largest(other.rss) - largest(one.rss));
  const band = (process: PlotProcess) => ({ label: `${process.name} (${process.pid})`, rss: process.rss });
  const shown = [first, ...rest.slice(0, rest.length > MOST_BANDS - 1 ? MOST_BANDS - 2 : MOST_BANDS - 1)].map(band);
  const small = rest.slice(shown.length - 1);
  if (small.length) shown.push({ label: `${small.length} smaller processes`, rss: sums(small.map((process) => process.rss), data.at.length) });
  return shown;
}

export function sums(all: number[][], length: number): number[] {
  const sum = new Array<number>(length).fill(0);
  for (const values of all) values.forEach((value, index) => (sum[index] += value));
  return sum;
}

/** The index of the moment nearest to a time. */
export function nearest(at: number[], time: number): number {
  let [low, high] = [0, at.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - at[low - 1] < at[low] - time ? low - 1 : low;
}

/** Spans in lanes: those that overlap are below each other. What has no lane is left out. */
export function lanes(spans: PlotSpan[], most: number): PlotSpan[][] {
  const rows: PlotSpan[][] = [];
  for (const span of [...spans].sort((one, other) => one.from - other.from || other.to - one.to)) {
    const row = rows.find((list) => list[list.length - 1].to <= span.from);
    if (row) row.push(span);
    else if (rows.length < most) rows.push([span]);
  }
  return rows;
}
