// The table of routes: how long their requests took, how long they waited, and what held them up.

import { h, left, say, table } from "./dom";
import { count, ms } from "./format";
import type { Status } from "./types";

export function routes() {
  const note = h("p", { class: "note" });
  const shown = table("Routes", [left("Route"), "Requests", "p50", "p99", "Longest", "Wait p50", "Wait p99", "GC", "Met GC", "Stalls"], "routes");
  return {
    element: h("div", { class: "table-frame" }, shown.element, note),
    set(status: Status | null): void {
      const { routes = [], wait, service } = status?.requests ?? {};
      shown.element.hidden = routes.length === 0;
      shown.set(
        routes.map((route) => {
          const cells = [count(route.count), ms(route.p50_ms), ms(route.p99_ms), ms(route.max_ms), ms(route.wait_p50_ms), ms(route.wait_p99_ms), ms(route.gc_ms), count(route.gc_requests), ms(route.stall_ms)];
          return h("tr", {}, h("th", { scope: "row", class: "text route", title: route.route }, route.route), ...cells.map((cell) => h("td", {}, cell)));
        }),
      );
      const all = wait && service ? `All requests: wait p50 ${ms(wait.p50_ms)}, p99 ${ms(wait.p99_ms)}; service p50 ${ms(service.p50_ms)}, p99 ${ms(service.p99_ms)}.` : "";
      say(note, status === null ? "The process does not report." : routes.length ? all : "No requests yet.");
    },
  };
}
