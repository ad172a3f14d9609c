// The table of allocation sites, with a small line of the live bytes of each.

import { h } from "../dom";
import type { FlameData, Measure } from "../flame/data";
import { where } from "../flame/data";
import { bytes, count, figure, signed } from "../format";
import { draw, spark } from "../spark";

/** Rows that are asked for. */
export const SITES = 30;

/** Points of a small line. */
const POINTS = 60;

export interface Place {
  file: string;
  function: string;
  line: number;
}

export interface Site {
  places: Place[];
  domains: string[];
  value: number;
  share: number;
  live_bytes: number;
  live_blocks: number;
  growth_bytes: number | null;
  rate_bytes_s: number;
}

export interface Sites {
  id: string;
  pid: number;
  measure: Measure;
  lost: number;
  groups: number;
  compared_unix_ms: number | null;
  rows: Site[];
  flame: FlameData;
}

const HEADS = ["Site", "Live", "Over time", "Blocks", "Growth", "Rate", "Share", "Allocator"];

export function siteTable() {
  const body = h("tbody");
  const note = h("p", { class: "note" });
  const table = h(
    "table",
    { class: "plain memory-sites cards" },
    h("caption", { class: "unseen" }, "Allocation sites"),
    h("thead", {}, h("tr", {}, ...HEADS.map((head, i) => h("th", { scope: "col", class: i === 0 || i === 7 ? "text" : null }, head)))),
    body,
  );
  const past = new Map<string, number[]>();
  return {
    element: h("div", { class: "table-frame" }, table, note),
    /** Begins the small lines anew: they are of other groups now. */
    forget(): void {
      past.clear();
    },
    set(sites: Sites): void {
      table.hidden = sites.rows.length === 0;
      note.textContent = sites.rows.length === 0 ? "No block was met yet: sampling meets one in some thousands." : sites.groups > sites.rows.length ? `and ${count(sites.groups - sites.rows.length)} more` : "";
      const now = new Map<string, number[]>();
      body.replaceChildren(
        ...sites.rows.map((row) => {
          const key = JSON.stringify([row.places, row.places.length ? "" : row.domains]);
          const values = [...(past.get(key) ?? []), row.live_bytes].slice(-POINTS);
          now.set(key, values);
          const line = spark();
          draw(line, values, POINTS);
          const growth = row.growth_bytes === null ? "–" : signed(row.growth_bytes, "bytes");
          const tone = row.growth_bytes ? (row.growth_bytes > 0 ? "bad" : "good") : null;
          return h(
            "tr",
            {},
            h("th", { scope: "row", class: "text site", title: row.places.map(title).join("\n") }, ...site(row)),
            h("td", { "data-label": HEADS[1] }, bytes(row.live_bytes)),
            h("td", { "data-label": HEADS[2] }, line),
            h("td", { "data-label": HEADS[3] }, count(row.live_blocks)),
            h("td", { "data-label": HEADS[4], class: tone }, growth),
            h("td", { "data-label": HEADS[5] }, figure(row.rate_bytes_s, "bytes/s")),
            h("td", { "data-label": HEADS[6] }, `${(100 * row.share).toFixed(1)} %`),
            h("td", { class: "text", "data-label": HEADS[7] }, row.domains.join(", ")),
          );
        }),
      );
      // A site that is not shown this time begins anew when it comes back.
      past.clear();
      for (const [key, values] of now) past.set(key, values);
    },
  };
}

function title(place: Place): string {
  return `${place.function} ${place.file}${place.line ? `:${place.line}` : ""}`.trim();
}

/** The innermost place, and its nearest callers where a group is a stack. */
function site(row: Site): (Node | string)[] {
  const [inner, ...callers] = row.places;
  if (!inner) return [row.domains.join(", ")];
  const text = (place: Place) => [where(place), place.function].filter(Boolean).join(" in ");
  return [text(inner), ...callers.slice(0, 4).map((caller) => h("small", { class: "caller" }, text(caller)))];
}
