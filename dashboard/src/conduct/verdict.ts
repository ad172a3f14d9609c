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
    ["Overdue", "Gaps that were over too soon", "Put off for the program"].map((name) => {
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
      say(state, process.state !== "live" ? process.state : !acting ? "watches" : due ? "waits for a gap" : "rests");
      say(what, headline);
      say(why, reason);
      mark(element, "data-tone", overdue > 0 ? "warn" : null);
      say(pairs.get("Overdue") as Element, overdue > 0 ? span(overdue) : "no");
      say(pairs.get("Gaps that were over too soon") as Element, conduct ? conduct.missed.toLocaleString("en-US") : "–");
      say(pairs.get("Put off for the program") as Element, conduct ? conduct.deferred.toLocaleString("en-US") : "–");
    },
  };
}

function words(process: Process, acting: boolean, due: string, overdue: number, postpone: number | undefined): [string, string] {
  if (process.state === "gone") return ["The process has ended.", "What is shown below is its history."];
  if (process.state === "silent") return ["The process says nothing.", "It may be stopped, starved of processor time, or out of reach."];
  if (!acting) {
    const degraded = process.warnings[0];
    return ["It only watches.", degraded ? `It stands down: ${degraded}` : "This policy changes nothing: CPython collects by itself, where its thresholds say so."];
  }
  if (!due) return ["Nothing is due.", "The conductor sleeps until enough young objects have gathered, the heap has grown, or a guard speaks up."];
  const [what, ...rest] = due.split(": ");
  const reason = rest.join(": ");
  const sentence = reason ? `${reason[0].toUpperCase()}${reason.slice(1)}.` : "";
  const patience = overdue > 0 ? ` It has waited for ${span(overdue)}; the longer it waits, the shorter a gap it takes, and ${postpone === undefined ? "in the end" : `after ${span(postpone)}`} a guard acts without one.` : " It acts as soon as nobody wants the GIL for long enough.";
  return [`Due: ${what}`, `${sentence}${patience}`];
}
