// Paths to an object or to all objects of a type.

import { aborted, get, message, part } from "../api";
import { h, left, say, table } from "../dom";
import { bytes, count } from "../format";
import type { HeapPaths } from "../generated/hub";

export function pathFinder(heap: () => string | null) {
  const input = h("input", { type: "search", placeholder: 'app.Session, app.cache["user:42"] or 0x7f…', "aria-label": "Type, expression or address", spellcheck: "false", autocomplete: "off" });
  const said = h("p", { class: "note", role: "status" });
  const shown = table("Paths", [left("Path"), left("What is there"), "Objects", "Retained"], "heap-paths");
  shown.element.hidden = true;
  const form = h("form", { class: "row", onsubmit: (event: Event) => (event.preventDefault(), void look()) }, input, h("button", { type: "submit" }, "Find paths"));
  let stop = new AbortController();

  async function look(): Promise<void> {
    const [id, what] = [heap(), input.value.trim()];
    if (!id || !what) return;
    stop.abort();
    stop = new AbortController();
    say(said, "Looking for paths…");
    try {
      show(await get<HeapPaths>(`heaps/${part(id)}/path`, { what }, stop.signal));
    } catch (error) {
      if (aborted(error)) return;
      shown.element.hidden = true;
      say(said, message(error));
    }
  }

  function show({ what, object, merged }: HeapPaths): void {
    const row = (path: string, is: string, objects: number, retained: number) => h("tr", {}, h("th", { scope: "row", class: "text" }, path), h("td", { class: "text" }, is), h("td", {}, count(objects)), h("td", {}, bytes(retained)));
    if (object) {
      const { address, what: is, retained } = object.object;
      const reached = object.steps.length ? "" : " Nothing reaches it: it is garbage.";
      say(said, `${is} at ${address} retains ${bytes(retained)}; ${count(object.referred)} ${object.referred === 1 ? "object refers" : "objects refer"} to it.${reached}`);
      const holders = object.holders.map((holder) => row(holder.path, `referred to by ${holder.what}`, 1, holder.retained));
      shown.set([...object.steps.map((step) => row(step.path, step.what, 1, step.retained)), ...holders]);
    } else if (merged) {
      const garbage = merged.garbage ? `, ${count(merged.garbage)} of them garbage` : "";
      const more = merged.paths > merged.rows.length ? ` ${count(merged.paths - merged.rows.length)} more paths are not shown.` : "";
      say(said, `${count(merged.objects)} objects of ${what}${garbage}.${more}`);
      shown.set(merged.rows.map((line) => row(line.path, `for instance ${line.example}`, line.objects, line.retained)));
    }
    shown.element.hidden = false;
  }

  return {
    element: h("div", { class: "heap-finder" }, form, said, h("div", { class: "table-frame" }, shown.element)),
    ask(what: string): void {
      input.value = what;
      input.scrollIntoView({ block: "center" });
      input.focus({ preventScroll: true });
      void look();
    },
    clear(): void {
      stop.abort();
      shown.element.hidden = true;
      say(said, "");
    },
    destroy: () => stop.abort(),
  };
}
