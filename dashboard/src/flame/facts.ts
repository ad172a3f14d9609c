// What a flame graph shows, in words.

import { figure, span } from "../format";
import { type FlameData, UNITS } from "./data";

const HEADLINES = { live: "Live memory", growth: "Growth of live memory", rate: "Allocation rate", stalls: "Time in stalls", retained: "Who holds the heap" };

export function headline(data: FlameData): string {
  return `${HEADLINES[data.measure]} of process ${data.pid}`;
}

export function facts(data: FlameData): string {
  const moment = new Date(data.taken_unix_ms).toISOString().replace("T", " ").slice(0, 19);
  const parts = [`${figure(data.nodes[0].value, UNITS[data.measure])} in all`, `taken at ${moment} UTC`];
  if (data.compared_unix_ms !== null) parts.push(`compared with ${span((data.taken_unix_ms - data.compared_unix_ms) / 1000)} before`);
  if (data.measure === "stalls") return [...parts, `observed for ${span((data.taken_unix_ms - data.since_unix_ms) / 1000)}`].join(" · ");
  if (data.measure === "retained") return [...parts, "a box is a place, as wide as what it retains"].join(" · ");
  parts.push(`sampled for ${span((data.taken_unix_ms - data.since_unix_ms) / 1000)}`, data.mode === "native" ? "Python and native memory" : "memory of CPython's allocators");
  return parts.join(" · ");
}
