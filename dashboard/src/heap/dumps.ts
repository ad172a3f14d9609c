// The dumps that the hub keeps: which there are, opening one, and removing one.

import { get, message, part, remove } from "../api";
import { confirmed, h, left, mark, say, table } from "../dom";
import { bytes, count, moment } from "../format";
import type { HeapEntry, HeapList } from "../generated/hub";
import { link } from "../view";

/** What a dump is called. */
export function title(entry: HeapEntry): string {
  return `${moment(entry.taken_ms)} · ${bytes(entry.bytes)}`;
}

export function dumpTable(process: string, changed: () => void) {
  const note = h("p", { class: "note", role: "status" });
  const shown = table("Heap dumps", [left("Taken"), left("Process"), "Size", ""], "heap-dumps");
  shown.element.hidden = true;
  let open: string | null = null;

  async function drop(entry: HeapEntry): Promise<void> {
    const sure = await confirmed(`Remove the heap dump of ${moment(entry.taken_ms)}?`, [`It is of ${entry.process} and takes ${bytes(entry.bytes)}. It cannot be restored.`], "Remove");
    if (!sure) return;
    try {
      await remove(`heaps/${part(entry.id)}`);
    } catch (error) {
      say(note, message(error));
      return;
    }
    changed();
  }

  function row(entry: HeapEntry): HTMLTableRowElement {
    const when = h("a", { href: link("heap", { id: entry.process, heap: entry.id }) }, moment(entry.taken_ms));
    return h(
      "tr",
      { "data-heap": entry.id },
      h("th", { scope: "row", class: "text" }, when),
      h("td", { class: "text" }, entry.process === process ? "this process" : entry.process),
      h("td", {}, bytes(entry.bytes)),
      h("td", {}, h("button", { type: "button", "aria-label": `Remove the heap dump of ${moment(entry.taken_ms)}`, onclick: () => void drop(entry) }, "Remove")),
    );
  }

  function point(): void {
    for (const each of shown.element.querySelectorAll<HTMLElement>("tr[data-heap]")) mark(each, "aria-current", each.dataset.heap === open ? "true" : null);
  }

  return {
    element: h("div", { class: "table-frame" }, shown.element, note),
    /** Lists them, and gives those of this process. */
    async load(signal: AbortSignal): Promise<HeapEntry[]> {
      const list = await get<HeapList>("heaps", {}, signal);
      const own = list.heaps.filter((entry) => entry.process === process);
      const others = list.heaps.filter((entry) => entry.process !== process);
      shown.element.hidden = list.heaps.length === 0;
      shown.set([...own, ...others].map(row));
      say(note, list.heaps.length === 0 ? "No heap dumps yet." : `${count(list.heaps.length)} of at most ${count(list.most_heaps)} heap dumps, ${bytes(list.bytes)} of ${bytes(list.most_bytes)}.`);
      point();
      return own;
    },
    /** Marks the one that is shown. */
    mark(id: string | null): void {
      open = id;
      point();
    },
  };
}
