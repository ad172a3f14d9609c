// The census of a process: the types that take the most memory and the largest containers, with their course over time.

import { aborted, get, part } from "../api";
import { h, left, say, table } from "../dom";
import { bytes, count, signed } from "../format";
import type { CensusAnswer } from "../generated/hub";
import { draw, spark } from "../spark";
import type { One } from "../types";

/** How far back the small lines go, and their points at most. */
const RANGE = "24h";
const POINTS = 60;

export function censusTables(id: string) {
  const said = h("p", { class: "note", role: "status" });
  const containers = table("Largest containers", [left("Container"), left("Type"), "Length", "Over time", "Bytes", "Growth an hour"], "census-containers");
  const types = table("Types", [left("Type"), "Objects", "Bytes", "Over time", "Growth an hour"], "census-types");
  const frames = [containers, types].map((shown) => h("div", { class: "table-frame" }, shown.element));

  function line(values: (number | null)[] | undefined): HTMLElement {
    const canvas = spark();
    draw(canvas, (values ?? []).slice(-POINTS), POINTS);
    return h("td", {}, canvas);
  }

  function growth(value: number | null, unit: "" | "bytes"): HTMLElement {
    return h("td", { class: value ? (value > 0 ? "bad" : "good") : null }, value === null ? "–" : signed(value, unit));
  }

  return {
    element: h("div", {}, said, ...frames),
    async load(signal: AbortSignal): Promise<void> {
      try {
        const [{ status }, course] = await Promise.all([get<One>(`processes/${part(id)}`, {}, signal), get<CensusAnswer>(`processes/${part(id)}/census`, { range: RANGE }, signal)]);
        const census = status?.census;
        const known = census !== undefined && census.at_s > 0;
        for (const frame of frames) frame.hidden = !known;
        if (!known) {
          say(said, "There is no census yet. Snapshots that collect take one on their way; a process without snapshots is counted every ten minutes, if it has 50,000 objects or more.");
          return;
        }
        say(said, `${count(census.objects)} objects that the collector tracks, ${bytes(census.bytes)}.` + (census.compared_s ? "" : " Growth is known from the next census on.") + (course.not_kept ? ` ${course.not_kept}` : ""));
        containers.set(
          census.containers.map((row) => {
            const past = course.containers.find((other) => other.name === row.name && other.type === row.type);
            return h("tr", {}, h("th", { scope: "row", class: "text" }, row.name || "without a name"), h("td", { class: "text" }, row.type), h("td", {}, count(row.length)), line(row.name ? past?.length : []), h("td", {}, bytes(row.bytes)), growth(row.growth, ""));
          }),
        );
        types.set(
          census.types.map((row) => {
            const past = course.types.find((other) => other.type === row.type);
            return h("tr", {}, h("th", { scope: "row", class: "text" }, row.type), h("td", {}, count(row.count)), h("td", {}, bytes(row.bytes)), line(past?.bytes), growth(row.growth, "bytes"));
          }),
        );
      } catch (error) {
        if (!aborted(error)) say(said, "The census could not be read.");
      }
    },
  };
}
