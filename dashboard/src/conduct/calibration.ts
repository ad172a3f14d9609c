// How well gaps were foreseen: by a model where the policy has one, by how the orders went where it has rules.

import { h, say, table } from "../dom";
import { count, ms } from "../format";
import { type Conduct, type Forecasts, LEVELS, type Status } from "../types";

const MODEL = "Model";
const LATEST = "Latest gap";
const ASTRAY = "Gaps outside the predicted range";

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
  const shown = (name: string, wanted: boolean) => {
    const row = pairs.get(name)?.parentElement;
    if (row) row.hidden = !wanted;
  };
  const rules = h("p", { class: "model" }, "This policy goes by rules and predicts no lengths: a gap counts once it has lasted.");
  const title = h("caption");
  const levels = table(title, ["Share of gaps", "Predicted to end within", "Really ended by then"], "calibration");
  levels.element.hidden = true;
  return {
    element: h("div", { class: "panel" }, list, rules, levels.element),
    set(conduct: Conduct | null, status: Status | null): void {
      if (status) {
        const { idle } = status.gil;
        put("Real gaps", idle.count ? `p50 ${ms(idle.p50_ms)}, p99 ${ms(idle.p99_ms)}, longest ${ms(idle.max_ms)}` : "none seen");
        const { in_gap, in_request, forced } = status.gc;
        const all = in_gap.total_ms + in_request.total_ms;
        put("Pause time in gaps", all ? `${((100 * in_gap.total_ms) / all).toFixed(1)} % of ${ms(all)}` : "no pauses");
        put("Longest in a gap, in a request", `${ms(in_gap.max_ms)}, ${ms(in_request.max_ms)}`);
        put("Forced", forced.count ? `${count(forced.count)}, ${ms(forced.total_ms)} in all, longest ${ms(forced.max_ms)}` : "never");
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
        put("Orders carried out in their gap", tried ? `${((100 * given) / tried).toFixed(1)} % of ${count(tried)}` : "none given");
      }
      const model = conduct?.model ?? null;
      rules.hidden = model !== null;
      levels.element.hidden = model === null;
      for (const name of [MODEL, LATEST, ASTRAY]) shown(name, model !== null);
      if (!model) return;
      put(MODEL, `${model.family}${standing(model)}`);
      put(LATEST, model.latest ? `${ms(model.latest.lasted_ms)}; expected ${among(model.latest.expected_ms)}` : "none has ended yet");
      put(ASTRAY, `${percent(model.astray)} of the latest; 20 % is normal`);
      say(title, `Calibration, by ${count(model.gaps)} gaps`);
      levels.set(
        LEVELS.map((level, i) => h("tr", {}, h("th", { scope: "row" }, `${level} %`), h("td", {}, ms(model.gap_ms[i])), h("td", {}, percent(model.covered[i])))),
      );
    },
  };
}

/** Whether it decides, and how often it could not. */
function standing({ drifted, drifts }: Forecasts): string {
  if (drifted) return "; the program differs from its training data, so gap decides at present";
  return drifts ? `; its predictions were poor ${drifts === 1 ? "once" : `${count(drifts)} times`}` : "";
}

function among(expected_ms: number[]): string {
  const [least, , half, , most] = expected_ms;
  return `${ms(least)} to ${ms(most)}, half by ${ms(half)}`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}
