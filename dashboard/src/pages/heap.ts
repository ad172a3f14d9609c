// Heap: dumps of a process, what is in them, who holds it, and what grew from one to the next.

import { aborted, get, message, part, post } from "../api";
import type { Context, Page } from "../context";
import { confirmed, h, mark, say, section, select } from "../dom";
import { brief, bytes, count, moment, ms } from "../format";
import type { HeapAnswer, HeapEntry, HeapGrowth } from "../generated/hub";
import { dumpTable, title } from "../heap/dumps";
import { pathFinder } from "../heap/paths";
import { growthTable, objectTable, suspectList, typeTable } from "../heap/tables";
import { holderTree } from "../heap/tree";
import { localFiles } from "../history";
import { Picker, favourite, isHere } from "../picker";
import type { One } from "../types";
import { link } from "../view";

const ORDERS = [
  { value: "retained", label: "retained" },
  { value: "bytes", label: "bytes" },
  { value: "objects", label: "objects" },
];

function mount(root: HTMLElement, context: Context): () => void {
  const { view, live, processes, announce } = context;
  const given = view.get("id");
  if (!given) {
    root.append(h("div", { class: "title" }, h("h1", {}, "Heap")), h("p", { class: "nothing" }, "Waiting for a process…"));
    return processes.on(() => {
      const first = favourite(processes.list);
      if (first) location.replace(link("heap", { id: first.id }));
    });
  }
  const id = given;
  const gone = new AbortController();
  let stop = new AbortController();
  let own: HeapEntry[] = [];
  let shown: string | null = null;
  let compared = "";
  let by = ORDERS.find((order) => order.value === view.get("by"))?.value ?? "retained";

  const picker = new Picker("Process", context, id, (other) => (location.hash = link("heap", { id: other })), name);
  const command = h("p", { class: "facts" });
  const take = h("button", { type: "button", class: "primary", onclick: () => void dump() }, "Take a heap dump");
  const plain = h("input", { type: "checkbox" });
  const state = h("p", { class: "note", role: "status" });
  const dumps = dumpTable(id, () => void removed());
  const said = h("p", { class: "note", "data-facts": true });
  const missing = h("p", { class: "trouble", role: "status", hidden: true });
  const since = select("Grown since", [], "", (value) => void compare(value));
  const orders = select("Order of types", ORDERS, by, (value) => void order(value));
  const paths = pathFinder(() => shown);
  const [suspects, types, largest] = [suspectList(), typeTable(paths.ask), objectTable(paths.ask)];
  const [tree, grown] = [holderTree(), growthTable()];
  const growth = section("What grew", "By place, not by address: objects may have moved or been replaced by others.", grown.element);
  const body = h(
    "div",
    { class: "heap", hidden: true },
    said,
    missing,
    h("div", { class: "toolbar heap-bar" }, since.element, orders.element),
    growth,
    section("Suspects", "What holds a tenth of the heap or more, and where it gathers.", suspects.element),
    section("Types", "Retained is what would be freed with all objects of a type. Choose one to see the paths to its objects.", types.element),
    section("Largest objects", "By what they retain: what would be freed with each of them.", largest.element),
    section("Who holds what", "What is below an object would be freed with it.", tree.element),
    section("Paths", "The shortest paths from modules, frames and tasks to an object, or to all objects of a type.", paths.element),
  );
  root.append(
    h("div", { class: "title" }, h("h1", {}, "Heap"), h("span", { class: "spring" }), picker.element),
    command,
    h("div", { class: "toolbar heap-bar" }, take, h("label", { class: "check" }, plain, "Leave out texts"), state),
    section("Heap dumps", "Files that the hub keeps until you remove them.", localFiles(gone.signal), dumps.element),
    body,
  );

  function name(): void {
    const known = picker.find(id);
    if (!known) return;
    say(command, `${brief(known.command)} · pid ${known.pid} on ${known.host} · ${known.python}`);
    mark(command, "title", known.command);
    take.disabled = !isHere(known) || take.dataset.busy === "true";
  }

  /** Lists the dumps and opens the one that the address names, or the newest. */
  async function list(): Promise<void> {
    try {
      own = await dumps.load(gone.signal);
    } catch (error) {
      if (!aborted(error)) say(state, `The heap dumps could not be listed: ${message(error)}`);
      return;
    }
    const wanted = own.find((entry) => entry.id === view.get("heap")) ?? own[0];
    if (wanted && wanted.id !== shown) await open(wanted.id);
    else if (wanted) offer();
    else close();
  }

  /** What a dump costs this process, by what is known of it. */
  async function costs(): Promise<string[]> {
    const status = (await get<One>(`processes/${part(id)}`).catch(() => null))?.status;
    const sentences = ["The program stands still while its process is cloned, which takes milliseconds. The clone then writes every object to a file of the hub, while the program runs on."];
    if (status) {
      const { tracked, snapshot } = status.gc;
      const before = snapshot.count ? ` The longest clone so far took ${ms(snapshot.clone_max_ms)}.` : "";
      sentences.push(`The collector tracks ${count(tracked)} objects.${before} Until the clone has ended, each page of memory that the program changes is there twice.`);
    }
    sentences.push(plain.checked ? "Texts are left out. Names of attributes, modules and functions are in the file." : "The file has the first 64 characters of every string in it: personal data and passwords, too. Only the user of the hub can read it.");
    return sentences;
  }

  async function dump(): Promise<void> {
    const known = picker.find(id);
    const whose = known ? `${brief(known.command)}, pid ${known.pid}` : "this process";
    if (!(await confirmed(`Take a heap dump of ${whose}?`, await costs(), "Take the dump"))) return;
    take.dataset.busy = "true";
    take.disabled = true;
    say(state, "Taking a heap dump…");
    try {
      const entry = await post<HeapEntry>(`processes/${part(id)}/heap`, { text: !plain.checked });
      if (gone.signal.aborted) return;
      say(state, "");
      announce("The heap dump is taken", "good");
      view.set({ heap: entry.id });
      await list();
    } catch (error) {
      if (gone.signal.aborted) return;
      say(state, `No heap dump was taken: ${message(error)}`);
      announce(message(error), "bad");
    } finally {
      take.dataset.busy = "false";
      take.disabled = false;
      name();
    }
  }

  async function removed(): Promise<void> {
    announce("The heap dump is removed");
    await list();
  }

  function close(): void {
    stop.abort();
    shown = null;
    dumps.mark(null);
    body.hidden = true;
    view.set({ heap: null });
  }

  /** The earlier dumps that the shown one can be compared with. */
  function offer(): void {
    const taken = own.find((entry) => entry.id === shown)?.taken_ms ?? 0;
    const earlier = own.filter((entry) => entry.taken_ms < taken);
    // One that was removed is no longer compared with.
    if (!earlier.some((entry) => entry.id === compared)) {
      compared = "";
      growth.hidden = true;
    }
    since.element.hidden = earlier.length === 0;
    since.fill([{ value: "", label: "not compared" }, ...earlier.map((entry) => ({ value: entry.id, label: title(entry) }))], compared);
  }

  async function open(heap: string): Promise<void> {
    stop.abort();
    stop = new AbortController();
    view.set({ heap });
    say(state, "Analysing the heap dump…");
    growth.hidden = true;
    compared = "";
    paths.clear();
    try {
      const answer = await get<HeapAnswer>(`heaps/${part(heap)}`, { by }, stop.signal);
      shown = heap;
      dumps.mark(heap);
      show(answer);
      tree.set(heap);
      offer();
      body.hidden = false;
      say(state, "");
    } catch (error) {
      if (aborted(error)) return;
      shown = null;
      dumps.mark(null);
      body.hidden = true;
      say(state, message(error));
    }
  }

  function show({ summary, suspects: held, types: lines, all_types, largest: objects }: HeapAnswer): void {
    const parts = [`Taken ${moment(summary.taken_unix_ms)}`, `${bytes(summary.bytes)} in ${count(summary.objects)} objects`, `Python ${summary.python}`];
    if (summary.pause_ms > 0) parts.push(`the program stood still for ${ms(summary.pause_ms)}`);
    if (summary.garbage_objects > 0) parts.push(`${count(summary.garbage_objects)} objects (${bytes(summary.garbage_bytes)}) are garbage`);
    if (summary.from_c_bytes > 0) parts.push(`${bytes(summary.from_c_bytes)} held from C without a name`);
    if (summary.resident_bytes > summary.bytes) parts.push(`${bytes(summary.resident_bytes - summary.bytes)} of the ${bytes(summary.resident_bytes)} resident are not in these sizes`);
    if (!summary.texts) parts.push("without texts");
    say(said, parts.join(" · "));
    missing.hidden = summary.missing === null;
    say(missing, summary.missing ?? "");
    suspects.set(held);
    types.set(lines, all_types);
    largest.set(objects);
  }

  async function order(value: string): Promise<void> {
    by = value;
    view.set({ by });
    if (!shown) return;
    try {
      const { types: lines, all_types } = await get<HeapAnswer>(`heaps/${part(shown)}`, { by }, stop.signal);
      types.set(lines, all_types);
    } catch (error) {
      if (!aborted(error)) say(state, message(error));
    }
  }

  async function compare(before: string): Promise<void> {
    growth.hidden = true;
    compared = before;
    if (!before || !shown) return;
    say(state, "Comparing the heap dumps…");
    try {
      const { growth: report } = await get<HeapGrowth>(`heaps/${part(shown)}/growth`, { since: before }, stop.signal);
      grown.set(report);
      growth.hidden = false;
      say(state, "");
    } catch (error) {
      if (!aborted(error)) say(state, message(error));
    }
  }

  growth.hidden = true;
  since.element.hidden = true;
  const off = live.onReturn(() => void list());
  void list();
  return () => {
    gone.abort();
    stop.abort();
    off();
    paths.destroy();
    tree.destroy();
    picker.destroy();
  };
}

export const heap: Page = { name: "heap", title: "Heap", mount };
