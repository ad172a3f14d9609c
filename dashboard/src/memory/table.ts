// The table of allocation sites, with a small line of the live bytes of each.

import { h, left, table } from "../dom";
import { where } from "../flame/data";
import { bytes, count, figure, signed } from "../format";
import type { CodeLine, SiteRow } from "../generated/hub";
import { draw, spark } from "../spark";
import type { Sites } from "../types";

/** Rows that are asked for. */
export const SITES = 30;

/** Points of a small line. */
const POINTS = 60;

export function siteTable() {
  const note = h("p", { class: "note" });
  const shown = table("Allocation sites", [left("Site"), "Live", "Over time", "Blocks", "Growth", "Rate", "Share", left("Allocator")], "memory-sites");
  const past = new Map<string, number[]>();
  return {
    element: h("div", { class: "table-frame" }, shown.element, note),
    /** Begins the small lines anew: they are of other groups now. */
    forget(): void {
      past.clear();
    },
    set(sites: Sites): void {
      shown.element.hidden = sites.rows.length === 0;
      note.textContent = sites.rows.length === 0 ? "No block was met yet: sampling meets one in some thousands." : sites.groups > sites.rows.length ? `and ${count(sites.groups - sites.rows.length)} more` : "";
      const now = new Map<string, number[]>();
      shown.set(
        sites.rows.map((row) => {
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
            h("td", {}, bytes(row.live_bytes)),
            h("td", {}, line),
            h("td", {}, count(row.live_blocks)),
            h("td", { class: tone }, growth),
            h("td", {}, figure(row.rate_bytes_s, "bytes/s")),
            h("td", {}, `${(100 * row.share).toFixed(1)} %`),
            h("td", { class: "text" }, row.domains.join(", ")),
          );
        }),
      );
      // A site that is not shown this time begins anew when it comes back.
      past.clear();
      for (const [key, values] of now) past.set(key, values);
    },
  };
}

function title(place: CodeLine): string {
  return `${place.function} ${place.file}${place.line ? `:${place.line}` : ""}`.trim();
}

/** The innermost place, and its nearest callers where a group is a stack. */
function site(row: SiteRow): (Node | string)[] {
  const [inner, ...callers] = row.places;
  if (!inner) return [row.domains.join(", ")];
  const text = (place: CodeLine) => [where(place), place.function].filter(Boolean).join(" in ");
  return [text(inner), ...callers.slice(0, 4).map((caller) => h("small", { class: "caller" }, text(caller)))];
}
