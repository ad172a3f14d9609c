// Asking the process: another policy, or a collection now.

import { get, message, part, post } from "../api";
import { confirmed, h, mark, say, unique } from "../dom";
import { count, ms } from "../format";
import { isHere } from "../picker";
import type { One, Offered, Process } from "../types";

const WAYS: [how: string, label: string, help: string][] = [
  ["auto", "Collect", "As the policy would: a large heap from a snapshot, a small one at once"],
  ["young", "Young", "The young generation, at once"],
  ["full", "Full", "Everything, at once: this stops the program"],
  ["snapshot", "Snapshot", "Everything, from a copy-on-write snapshot"],
];

export function commands(id: string, announce: (text: string, tone?: "good" | "bad") => void, switched: (policy: string) => void) {
  const group = unique("policy");
  const choices = h("fieldset", { class: "choices" }, h("legend", {}, "Switch the policy"));
  const apply = h("button", { type: "submit", class: "primary", disabled: true }, "Switch");
  const answer = h("p", { class: "note answer", role: "status" });
  const parameter = h("input", { type: "text", "aria-label": "Policy with its numbers", spellcheck: "false", autocomplete: "off" });
  const form = h("form", { class: "panel commands", "aria-label": "Ask the process", onsubmit: (event: Event) => (event.preventDefault(), void change()) });
  const buttons = WAYS.map(([how, label, help]) => h("button", { type: "button", title: help, "data-how": how, onclick: () => void collect(how) }, label));
  form.append(choices, h("div", { class: "row" }, parameter, apply), h("div", { class: "row", role: "group", "aria-label": "Collect now" }, h("span", { class: "label" }, "Collect now"), ...buttons), answer);

  let current = "";
  let shown = "the process";
  let there = false;
  let busy = false;
  /** The hub hears of a switch with the next sample: until then what it says is old. */
  let old_until = 0;

  get<{ policies: Offered[] }>("policies")
    .then(({ policies }) => {
      for (const offered of policies) {
        const { help } = offered;
        const radio = h("input", { type: "radio", name: group, value: offered.name, "data-example": offered.example, onchange: () => chosen(offered) });
        choices.append(h("label", { title: help }, radio, h("b", {}, offered.name), h("span", {}, help)));
      }
      follow();
    })
    .catch((error) => say(answer, `The policies could not be loaded: ${message(error)}`));

  function chosen(offered: Offered): void {
    parameter.value = offered.name === name(current) ? current : offered.example;
    enable();
  }

  function name(policy: string): string {
    return policy.split(":")[0];
  }

  /** Shows the policy in force, unless the user is about to choose another one. */
  function follow(): void {
    if (form.contains(document.activeElement) && parameter.value !== current) return;
    for (const radio of choices.querySelectorAll("input")) radio.checked = radio.value === name(current);
    parameter.value = current;
    enable();
  }

  function enable(): void {
    apply.disabled = !there || busy || parameter.value.trim() === "" || parameter.value.trim() === current;
    for (const button of buttons) button.disabled = !there || busy;
    mark(form, "aria-busy", String(busy));
  }
  parameter.addEventListener("input", enable);

  async function change(): Promise<void> {
    const wanted = parameter.value.trim();
    await during(`Switching to ${wanted}…`, async () => {
      const done = await post<{ before: string; after: string }>(`processes/${part(id)}/policy`, { policy: wanted });
      current = done.after;
      old_until = Date.now() + 3000;
      parameter.value = done.after;
      switched(done.after);
      return `Switched from ${done.before} to ${done.after}`;
    });
    follow();
  }

  /** What a full collection would do to this process, by what the last ones did. */
  async function warning(): Promise<string[]> {
    const status = (await get<One>(`processes/${part(id)}`).catch(() => null))?.status;
    const said = ["A full collection stops every thread of the program until it is over. Requests wait meanwhile."];
    if (status) {
      const { tracked, full } = status.gc;
      said.push(`The collector tracks ${count(tracked)} objects. ${full.count ? `The longest full collection so far took ${ms(full.max_ms)}.` : "There was no full collection so far, so how long it takes is not known."}`);
    }
    said.push("A snapshot finds the same garbage with a much shorter stop.");
    return said;
  }

  async function collect(how: string): Promise<void> {
    if (how === "full" && !(await confirmed(`Stop ${shown} for a full collection?`, await warning(), "Stop and collect"))) return;
    await during("Collecting…", async () => {
      const done = await post<{ how: string; found: number; pause_ms: number }>(`processes/${part(id)}/collect`, { how });
      return `${done.how}: ${count(done.found)} objects found, the program was stopped for ${ms(done.pause_ms)}`;
    });
  }

  async function during(text: string, act: () => Promise<string>): Promise<void> {
    busy = true;
    enable();
    say(answer, text);
    mark(answer, "data-tone", null);
    try {
      const said = await act();
      say(answer, said);
      mark(answer, "data-tone", "good");
      announce(said, "good");
    } catch (error) {
      say(answer, `Refused: ${message(error)}`);
      mark(answer, "data-tone", "bad");
    }
    busy = false;
    enable();
  }

  return {
    element: form,
    set(process: Process): void {
      there = isHere(process);
      shown = `process ${process.pid}`;
      if (process.policy === current) old_until = 0;
      if (process.policy === current || Date.now() < old_until) return enable();
      current = process.policy;
      follow();
    },
  };
}
