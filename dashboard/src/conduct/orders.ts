// What was ordered and why: sums since the start, and single decisions in a window.

import { h, left, table } from "../dom";
import { ago, count, moment, span } from "../format";
import type { Conduct, Ordered, Switched } from "../types";

const MOST = 100;

function who(guard: boolean): HTMLElement {
  return h("span", { class: "who", "data-guard": String(guard) }, guard ? "guard" : "policy");
}

export function orders() {
  const shown = table("Orders by reason", [left("What"), left("Why"), left("By"), "Count", "Last"]);
  const none = h("p", { class: "note" }, "Nothing has been ordered.");
  return {
    element: h("div", { class: "table-frame" }, shown.element, none),
    set(conduct: Conduct, up: number | null): void {
      none.hidden = conduct.orders.length > 0;
      shown.element.hidden = !none.hidden;
      const sorted = [...conduct.orders].sort((one, other) => other.count - one.count);
      shown.set(
        sorted.map((order) =>
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
  const shown = table("Single decisions", [left("When"), left("What"), left("Why"), left("By")]);
  const none = h("p", { class: "note" }, "None in this window.");
  return {
    element: h("div", { class: "table-frame scroll", tabindex: 0, role: "region", "aria-label": "Single decisions" }, shown.element, none),
    set(events: (Ordered | Switched)[], now: number): void {
      none.hidden = events.length > 0;
      shown.element.hidden = !none.hidden;
      const newest = events.toSorted((one, other) => other.t - one.t).slice(0, MOST);
      shown.set(
        newest.map((event) =>
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
