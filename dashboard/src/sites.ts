// The table of code sites at which a process stalls.

import type { siteSummary } from "./charts/catalogue";
import { h, left, table } from "./dom";
import { ago, count, ms, place } from "./format";
import { cause } from "./lost";

const MOST = 8;

export function sites() {
  const none = h("p", { class: "note" }, "No stalls in this window.");
  const shown = table("Stalls by code site", [left("Site"), left("Cause"), "Count", "Total", "Longest", "Last"]);
  shown.element.hidden = true;
  return {
    element: h("div", { class: "table-frame sites" }, shown.element, none),
    set(list: ReturnType<typeof siteSummary>, now: number | null): void {
      none.hidden = list.length > 0;
      shown.element.hidden = list.length === 0;
      shown.set(
        list.slice(0, MOST).map((sum) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", class: "text site", title: sum.site }, place(sum.site)),
            h("td", { class: "text" }, cause(sum.cause)),
            h("td", {}, count(sum.count)),
            h("td", {}, ms(sum.total)),
            h("td", {}, ms(sum.longest)),
            h("td", {}, now === null ? "" : ago(sum.last, now)),
          ),
        ),
      );
    },
  };
}
