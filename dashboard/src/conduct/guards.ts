// The guards: what each watches, how near it is, and how often it has acted.

import { h, left, mark, say, table } from "../dom";
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
    near: (process, conduct) => {
      const rss = process.latest["memory.rss"];
      if (rss == null) return ["–", null];
      const own = conduct?.guards?.memory_max_mb ? conduct.guards.memory_max_mb * 2 ** 20 : Infinity;
      const ceiling = Math.min(own, process.latest["memory.limit"] ?? Infinity);
      if (ceiling === Infinity) return [`${bytes(rss)}, and no limit`, null];
      const acts = (ceiling * (conduct?.guards?.memory_percent ?? 100)) / 100;
      return [`${bytes(rss)}; it acts at ${bytes(acts)}`, rss / acts];
    },
  },
  {
    title: "Growth",
    about: "Memory that has grown since the last full collection makes another one due, in the end without a gap.",
    mine: (order) => order.reason.includes("grown"),
    near: (_, conduct) => {
      const [overdue, set] = [conduct?.overdue_s ?? 0, conduct?.guards];
      if (overdue > 0) return [`overdue for ${span(overdue)}${set ? ` of ${span(set.postpone_s)}` : ""}`, set ? overdue / set.postpone_s : null];
      return [set ? `not overdue; it is from ${set.growth_percent} % growth on` : "not overdue", null];
    },
  },
  {
    title: "Garbage to be freed",
    about: "What a snapshot has found is freed in time, in a gap or not.",
    mine: (order) => order.reason.includes("garbage"),
    near: (_, conduct) => [conduct?.due.startsWith("reap") ? "some is waiting" : "none", null],
  },
  {
    title: "Time",
    about: "Full collections never take more than their share of the time.",
    mine: () => false,
    near: (process, conduct) => {
      const paused = process.latest["gc.paused_ms"];
      if (paused == null) return ["–", null];
      const share = conduct?.guards?.gc_percent;
      return [`${ms(paused)} of each second in collections${share ? `; full ones may take ${share} %` : ""}`, share ? paused / 10 / share : null];
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
  const shown = table("Guards", [left("Guard"), left("Now"), "Acted"], "guards");
  shown.set(rows.map((each) => each.row));
  return {
    element: h("div", { class: "table-frame" }, shown.element, others),
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
