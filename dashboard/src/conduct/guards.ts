// The guards: what each watches, how near it is, and how often it has acted.

import { h, mark, say } from "../dom";
import { ago, bytes, count, ms, span } from "../format";
import type { Conduct, Orders, Process, Status } from "../types";

interface Guard {
  title: string;
  about: string;
  /** Orders of this guard are told by their reason. */
  mine(order: Orders): boolean;
  near(process: Process, conduct: Conduct | null): [text: string, share: number | null];
}

const GUARDS: Guard[] = [
  {
    title: "Memory ceiling",
    about: "Near the limit everything is collected at once.",
    mine: (order) => order.reason.includes("ceiling"),
    near: (process) => {
      const [rss, limit] = [process.latest["memory.rss"], process.latest["memory.limit"]];
      if (rss == null) return ["–", null];
      return limit ? [`${bytes(rss)} of ${bytes(limit)}`, rss / limit] : [`${bytes(rss)}, no limit`, null];
    },
  },
  {
    title: "Growth",
    about: "Memory that has grown since the last full collection makes another one due, in the end without a gap.",
    mine: (order) => order.reason.includes("grown"),
    near: (_, conduct) => [conduct && conduct.overdue_s > 0 ? `overdue for ${span(conduct.overdue_s)}` : "not overdue", null],
  },
  {
    title: "Garbage that waits",
    about: "What a snapshot has found is freed in time, in a gap or not.",
    mine: (order) => order.reason.includes("garbage"),
    near: (_, conduct) => [conduct?.due.startsWith("reap") ? "some waits" : "none waits", null],
  },
  {
    title: "Time",
    about: "Full collections never take more than their share of the time.",
    mine: () => false,
    near: (process) => {
      const paused = process.latest["gc.paused_ms"];
      return paused == null ? ["–", null] : [`${ms(paused)} of each second in collections`, paused / 1000];
    },
  },
];

export function guards() {
  const rows = GUARDS.map((guard) => {
    const near = h("span");
    const fill = h("i");
    const bar = h("span", { class: "bar" }, fill);
    const acted = h("td");
    const row = h("tr", {}, h("th", { scope: "row", class: "text" }, guard.title, h("small", {}, guard.about)), h("td", { class: "text" }, near, bar), acted);
    return { guard, near, fill, bar, acted, row };
  });
  const others = h("p", { class: "note" });
  const head = h("thead", {}, h("tr", {}, ...["Guard", "Now", "Acted"].map((name, i) => h("th", { scope: "col", class: i < 2 ? "text" : null }, name))));
  return {
    element: h("div", { class: "table-frame" }, h("table", { class: "plain guards" }, h("caption", { class: "unseen" }, "Guards"), head, h("tbody", {}, ...rows.map((each) => each.row))), others),
    set(conduct: Conduct | null, process: Process, status: Status | null): void {
      const orders = (conduct?.orders ?? []).filter((order) => order.guard);
      for (const { guard, near, fill, bar, acted } of rows) {
        const [text, share] = guard.near(process, conduct);
        say(near, text);
        bar.hidden = share === null;
        if (share !== null) {
          fill.style.width = `${Math.min(100, 100 * share).toFixed(1)}%`;
          mark(bar, "data-tone", share > 0.9 ? "bad" : null);
        }
        const own = orders.filter((order) => guard.mine(order));
        const sum = own.reduce((total, order) => total + order.count, 0);
        const last = Math.max(0, ...own.map((order) => order.last_s));
        const up = status?.uptime_s ?? null;
        say(acted, sum ? `${count(sum)}×${up ? `, ${ago(1000 * last, 1000 * up)}` : ""}` : "never");
      }
      const rest = orders.filter((order) => !GUARDS.some((guard) => guard.mine(order)));
      say(others, rest.map((order) => `${order.what}: ${order.reason}, ${count(order.count)}×`).join(" · "));
    },
  };
}
