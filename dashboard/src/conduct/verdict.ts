// What the conductor does at this moment, in words.

import { h, mark, say } from "../dom";
import { span } from "../format";
import type { Conduct, Process } from "../types";

export function verdict() {
  const chip = h("span", { class: "chip large" });
  const state = h("span", { class: "doing" });
  const what = h("p", { class: "due", role: "status" });
  const why = h("p", { class: "why" });
  const facts = h("dl", { class: "pairs" });
  const pairs = new Map(
    ["Overdue", "Missed gaps", "Deferred collections"].map((name) => {
      const value = h("dd", {}, "–");
      facts.append(h("div", {}, h("dt", {}, name), value));
      return [name, value];
    }),
  );
  const element = h("section", { class: "panel", "aria-label": "Now" }, h("header", {}, chip, state), what, why, facts);
  return {
    element,
    set(process: Process, conduct: Conduct | null): void {
      const acting = conduct?.acting ?? process.acting;
      const due = conduct?.due ?? process.due;
      const overdue = conduct?.overdue_s ?? process.overdue_s;
      say(chip, process.policy_shown || "–");
      mark(chip, "data-acting", String(acting));
      const [headline, reason] = words(process, acting, due, overdue, conduct?.guards?.postpone_s);
      say(state, process.state !== "live" ? process.state : !acting ? "measures only" : due ? "waits for a gap" : "idle");
      say(what, headline);
      say(why, reason);
      mark(element, "data-tone", overdue > 0 ? "warn" : null);
      say(pairs.get("Overdue") as Element, overdue > 0 ? span(overdue) : "no");
      say(pairs.get("Missed gaps") as Element, conduct ? conduct.missed.toLocaleString("en-US") : "–");
      say(pairs.get("Deferred collections") as Element, conduct ? conduct.deferred.toLocaleString("en-US") : "–");
    },
  };
}

function words(process: Process, acting: boolean, due: string, overdue: number, postpone: number | undefined): [string, string] {
  if (process.state === "gone") return ["The process has ended.", "What is shown below is its history."];
  if (process.state === "silent") return ["The process does not report.", "It may be stopped, starved of CPU time, or out of reach."];
  if (!acting) {
    const degraded = process.warnings[0];
    return ["The policy only measures.", degraded ? `The policy does not act: ${degraded}` : "This policy changes nothing: CPython collects by its own thresholds."];
  }
  if (!due) return ["Nothing is waiting.", "The policy acts when enough young objects have been made, when the heap has grown, or when the pacer orders it."];
  const [what, ...rest] = due.split(": ");
  const reason = rest.join(": ");
  const sentence = reason ? `${reason[0].toUpperCase()}${reason.slice(1)}.` : "";
  const patience = overdue > 0 ? ` It has waited for ${span(overdue)}; ${postpone === undefined ? "in the end" : `after ${span(postpone)}`} it runs without a gap.` : " It runs in the next gap.";
  return [`Due: ${what}`, `${sentence}${patience}`];
}
