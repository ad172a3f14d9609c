// Who holds what: the dominator tree, opened level by level.

import { aborted, get, message, part } from "../api";
import { h } from "../dom";
import { bytes, count } from "../format";
import type { HeapBranches, TreeLine } from "../generated/hub";
import { percent } from "./tables";

/** Objects of a level that are shown. */
const SHOWN = 20;

export function holderTree() {
  const element = h("div", { class: "panel heap-tree" });
  let stop = new AbortController();

  async function level(heap: string, holder: number | null, into: HTMLElement): Promise<void> {
    const { signal } = stop;
    into.replaceChildren(h("p", { class: "note" }, "Loading…"));
    try {
      const found = await get<HeapBranches>(`heaps/${part(heap)}/tree`, { object: holder, top: SHOWN }, signal);
      const left = found.all - found.rows.length;
      const more = left > 0 ? [h("p", { class: "note" }, `${count(left)} smaller ones are not shown.`)] : [];
      into.replaceChildren(h("ul", {}, ...found.rows.map((line) => h("li", {}, branch(heap, line)))), ...more);
    } catch (error) {
      if (!aborted(error)) into.replaceChildren(h("p", { class: "note" }, message(error)));
    }
  }

  function branch(heap: string, line: TreeLine): HTMLElement {
    const text = h("span", {}, h("b", {}, bytes(line.retained)), ` ${percent(line.share)} `, line.step ? h("code", {}, line.step) : null, ` ${line.what}`);
    if (line.children === 0) return text;
    const below = h("div", {});
    let asked = false;
    const item = h("details", {}, h("summary", {}, text), below);
    item.addEventListener("toggle", () => {
      if (!item.open || asked) return;
      asked = true;
      void level(heap, line.object, below);
    });
    return item;
  }

  return {
    element,
    /** Shows the top of another dump. */
    set(heap: string): void {
      stop.abort();
      stop = new AbortController();
      void level(heap, null, element);
    },
    destroy: () => stop.abort(),
  };
}
