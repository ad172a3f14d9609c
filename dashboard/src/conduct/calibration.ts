// How well gaps were foreseen: by a model where the policy has one, by how the orders went where it has rules.

import { h, say } from "../dom";
import { count, ms } from "../format";
import type { Conduct, Status } from "../types";

export function calibration() {
  const list = h("dl", { class: "pairs stacked" });
  const pairs = new Map<string, HTMLElement>();
  const put = (name: string, text: string) => {
    let value = pairs.get(name);
    if (!value) {
      value = h("dd");
      pairs.set(name, value);
      list.append(h("div", {}, h("dt", {}, name), value));
    }
    say(value, text);
  };
  const model = h("div", { class: "model" });
  return {
    element: h("div", { class: "panel" }, list, model),
    set(conduct: Conduct | null, status: Status | null): void {
      if (status) {
        const { idle } = status.gil;
        put("Real gaps", idle.count ? `p50 ${ms(idle.p50_ms)}, p99 ${ms(idle.p99_ms)}, longest ${ms(idle.max_ms)}` : "none seen");
        const { in_gap, in_request, forced } = status.gc;
        const all = in_gap.total_ms + in_request.total_ms;
        put("Pause time that fell into gaps", all ? `${((100 * in_gap.total_ms) / all).toFixed(1)} % of ${ms(all)}` : "no pauses");
        put("Longest in a gap, in a request", `${ms(in_gap.max_ms)}, ${ms(in_request.max_ms)}`);
        put("Forced by guards", forced.count ? `${count(forced.count)}, ${ms(forced.total_ms)} in all, longest ${ms(forced.max_ms)}` : "never");
        const { snapshot } = status.gc;
        put(
          "Snapshots",
          snapshot.count
            ? `${count(snapshot.count)} (${count(snapshot.failed)} failed), clone p50 ${ms(snapshot.clone_p50_ms)}, longest ${ms(snapshot.clone_max_ms)}, freed ${count(snapshot.freed)} of ${count(snapshot.candidates)}`
            : "none",
        );
      }
      if (conduct) {
        const given = conduct.orders.filter((order) => !order.guard).reduce((sum, order) => sum + order.count, 0);
        const tried = given + conduct.missed;
        put("Orders that found their gap open", tried ? `${((100 * given) / tried).toFixed(1)} % of ${count(tried)}` : "none given");
      }
      const forecast = conduct?.forecast;
      if (!forecast) {
        say(model, "This policy goes by rules and predicts no lengths: a gap counts once it has lasted.");
        return;
      }
      put("Model", `${forecast.model ?? "?"}${forecast.falling_back ? ", standing back for the rules: what it sees has drifted" : ""}`);
      if (forecast.gap_predicted_ms != null) put("Gap predicted", ms(forecast.gap_predicted_ms));
      if (forecast.gap_real_ms != null) put("The same gap, really", ms(forecast.gap_real_ms));
      model.replaceChildren(
        h(
          "table",
          { class: "plain" },
          h("caption", {}, "Calibration: share of gaps that were shorter than predicted"),
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Predicted"), h("th", { scope: "col" }, "Real"))),
          h("tbody", {}, ...(forecast.calibration ?? []).map((point) => h("tr", {}, h("td", {}, `${(100 * point.quantile).toFixed(0)} %`), h("td", {}, `${(100 * point.share).toFixed(1)} %`)))),
        ),
      );
    },
  };
}
