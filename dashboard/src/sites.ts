// The table of code sites at which a process stalls.

import type { siteSummary } from "./charts/catalogue";
import { h } from "./dom";
import { ago, count, ms, place } from "./format";
import { cause } from "./lost";

const MOST = 8;

export function sites() {
  const body = h("tbody");
  const none = h("p", { class: "note" }, "No stalls in this window.");
  const heads = ["Site", "Cause", "Count", "Total", "Longest", "Last"];
  const table = h(
    "table",
    { class: "plain", hidden: true },
    h("caption", { class: "unseen" }, "Stalls by code site"),
    h("thead", {}, h("tr", {}, ...heads.map((head, i) => h("th", { scope: "col", class: i < 2 ? "text" : null }, head)))),
    body,
  );
  return {
    element: h("div", { class: "table-frame sites" }, table, none),
    set(list: ReturnType<typeof siteSummary>, now: number | null): void {
      none.hidden = list.length > 0;
      table.hidden = list.length === 0;
      body.replaceChildren(
        ...list.slice(0, MOST).map((sum) =>
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
