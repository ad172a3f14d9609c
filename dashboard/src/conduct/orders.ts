// What was ordered and why: sums since the start, and single decisions in a window.

import { h } from "../dom";
import { ago, count, moment, span } from "../format";
import type { Conduct, Ordered, Switched } from "../types";

const MOST = 100;

function head(...names: string[]): HTMLElement {
  return h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col", class: ["Count", "Last"].includes(name) ? null : "text" }, name))));
}

function who(guard: boolean): HTMLElement {
  return h("span", { class: "who", "data-guard": String(guard) }, guard ? "guard" : "policy");
}

export function orders() {
  const body = h("tbody");
  const table = h("table", { class: "plain" }, h("caption", { class: "unseen" }, "Orders by reason"), head("What", "Why", "By", "Count", "Last"), body);
  const none = h("p", { class: "note" }, "Nothing has been ordered.");
  return {
    element: h("div", { class: "table-frame" }, table, none),
    set(conduct: Conduct, up: number | null): void {
      none.hidden = conduct.orders.length > 0;
      table.hidden = !none.hidden;
      const sorted = [...conduct.orders].sort((one, other) => other.count - one.count);
      body.replaceChildren(
        ...sorted.map((order) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", class: "text" }, order.what),
            h("td", { class: "text wide" }, order.reason),
            h("td", { class: "text" }, who(order.guard)),
            h("td", {}, count(order.count)),
            h("td", {}, up === null ? "" : up - order.last_s < 1.5 ? "now" : `${span(up - order.last_s)} ago`),
          ),
        ),
      );
    },
  };
}

export function history() {
  const body = h("tbody");
  const table = h("table", { class: "plain" }, h("caption", { class: "unseen" }, "Single decisions"), head("When", "What", "Why", "By"), body);
  const none = h("p", { class: "note" }, "None in this window.");
  return {
    element: h("div", { class: "table-frame scroll", tabindex: 0, role: "region", "aria-label": "Single decisions" }, table, none),
    set(events: (Ordered | Switched)[], now: number): void {
      none.hidden = events.length > 0;
      table.hidden = !none.hidden;
      const newest = events.toSorted((one, other) => other.t - one.t).slice(0, MOST);
      body.replaceChildren(
        ...newest.map((event) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", class: "text", title: ago(event.t, now) }, moment(event.t)),
            h("td", { class: "text" }, event.kind === "order" ? event.what : "policy"),
            h("td", { class: "text wide" }, event.kind === "order" ? event.reason : `${event.before} → ${event.after}`),
            h("td", { class: "text" }, event.kind === "order" ? who(event.guard) : h("span", { class: "who" }, "person")),
          ),
        ),
      );
    },
  };
}
