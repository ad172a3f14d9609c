// Memory: what leaks, where the resident memory is, and where live memory was allocated.

import { aborted, file, get, message, part } from "../api";
import { BREAKDOWN } from "../charts/catalogue";
import { Group } from "../charts/group";
import { LineChart } from "../charts/lines";
import { type Context, type Page, whole } from "../context";
import { h, mark, say, section, segments, select } from "../dom";
import { Extent, range } from "../extent";
import type { Measure } from "../flame/data";
import { facts } from "../flame/facts";
import { FlameGraph } from "../flame/graph";
import { Follow } from "../follow";
import { brief } from "../format";
import { censusTables } from "../memory/census";
import { SITES, siteTable } from "../memory/table";
import { memoryVerdict } from "../memory/verdict";
import { Picker, favourite } from "../picker";
import { Toolbar } from "../toolbar";
import type { One, Sites } from "../types";
import { link } from "../view";

const EVERY_MS = 5000;
const CENSUS_EVERY_MS = 30_000;
const MEASURES = [
  { value: "live", label: "Live" },
  { value: "growth", label: "Growth" },
  { value: "rate", label: "Rate" },
];
const SINCE = ["30s", "1m", "5m", "10m", "30m", "1h"].map((value) => ({ value, label: `since ${value} ago` }));
const BY = [
  { value: "line", label: "line" },
  { value: "function", label: "function" },
  { value: "file", label: "file" },
  { value: "stack", label: "call stack" },
  { value: "domain", label: "allocator" },
];

const HELP: Record<Measure, string> = {
  live: "What is allocated and not freed, by the call stack that allocated it. Colours show how it has changed in the time chosen.",
  growth: "By how much live memory has grown in the time chosen. What has shrunk has no width here; the table has it.",
  rate: "What is allocated in a second, freed or not, in the time chosen: what makes the collector run.",
};

function mount(root: HTMLElement, context: Context): () => void {
  const { view, live, processes, announce, onTheme } = context;
  const given = view.get("id");
  if (!given) {
    root.append(h("div", { class: "title" }, h("h1", {}, "Memory")), h("p", { class: "nothing" }, "Waiting for a process…"));
    return processes.on(() => {
      const first = favourite(processes.list);
      if (first) location.replace(link("memory", { id: first.id }));
    });
  }
  const id = given;
  let stop = new AbortController();
  let shown: Sites | null = null;
  const one = <T extends { value: string }>(list: T[], name: string, usual: string) => list.find((choice) => choice.value === view.get(name))?.value ?? usual;
  let measure = one(MEASURES, "measure", "live") as Measure;
  let since = one(SINCE, "since", "5m");
  let by = one(BY, "by", "line");

  const picker = new Picker("Process", context, id, (other) => (location.hash = link("memory", { id: other, measure, since, by })), name);
  const command = h("p", { class: "facts" });
  const said = h("p", { class: "note", "data-facts": true });
  const why = h("p", { class: "nothing", role: "status", hidden: true });
  const help = h("p", { class: "note" }, HELP[measure]);
  const graph = new FlameGraph();
  const table = siteTable();
  const verdict = memoryVerdict();
  const extent = new Extent(view, announce, () => follow.show(extent.window));
  const group = new Group(view, extent, announce);
  const toolbar = new Toolbar(view, { range: extent.range, reset: extent.reset, zoom: extent.zoom, pause: (paused) => (follow.pause(paused), drawn()) }, announce);
  const parts = new LineChart(BREAKDOWN, group);
  const census = censusTables(id);
  const gone = new AbortController();
  const measures = segments("What is shown", MEASURES, measure, (value) => choose(() => (measure = value as Measure)));
  const sinces = select("Compared", SINCE, since, (value) => choose(() => (since = value)));
  const bys = select("Table by", BY, by, (value) => choose(() => (by = value)));
  const save = h("button", { type: "button", onclick: () => void saveFlame() }, "Save as HTML");
  const profile = h("button", { type: "button", onclick: () => void saveProfile() }, "Save for pprof");
  const flame = section("By call stack", "", help, graph.element);
  // The address of the page is its state, so that the flame graph on the same page has no address of its own.
  const toFlame = h("button", { type: "button", class: "linklike", onclick: () => (flame.scrollIntoView({ block: "start" }), flame.querySelector("h2")?.focus()) }, "Flame graph of live memory");
  mark(flame.querySelector("h2") as Element, "tabindex", "-1");
  toFlame.hidden = true;
  const further = [toFlame, h("a", { href: link("heap", { id }) }, "Heap dumps: take one, or open one"), h("a", { href: link("alerts") }, "Alerts")];
  const body = h(
    "div",
    { class: "memory", hidden: true },
    flame,
    section("Sites", "The lines that allocate, the largest first. The small lines show their live bytes since this page was opened.", table.element),
  );
  root.append(
    h("div", { class: "title" }, h("h1", {}, "Memory"), h("span", { class: "spring" }), picker.element),
    command,
    section("Verdict", "", verdict.element),
    h("p", { class: "further" }, ...further),
    toolbar.element,
    parts.element,
    h("div", { class: "toolbar memory-bar" }, measures.element, sinces.element, bys.element, save, profile),
    said,
    why,
    body,
    section("What is in the heap", "Counted by snapshots: the largest containers, by the name that they have in the program, and the types with the most bytes. Page Heap has everything, from a dump.", census.element),
  );

  function name(): void {
    const known = picker.find(id);
    if (!known) return;
    say(command, `${brief(known.command)} · pid ${known.pid} on ${known.host} · ${known.python}`);
    mark(command, "title", known.command);
  }

  function choose(act: () => void): void {
    act();
    view.set({ measure, since, by });
    measures.set(measure);
    say(help, HELP[measure]);
    table.forget();
    void load();
  }

  function drawn(): void {
    toolbar.set({ range: range(view), zoomed: follow.window.kind === "fixed", paused: follow.paused, waiting: follow.waiting });
    if (follow.paused) return;
    group.window(follow.from, follow.to);
    parts.set(follow.frame);
    if (group.hovered === null) toolbar.point(null, follow.from, follow.to);
  }

  async function judge(): Promise<void> {
    const answer = await get<One>(`processes/${part(id)}`, {}, gone.signal).then(whole).catch(() => null);
    if (!gone.signal.aborted) verdict.set(answer?.status ?? null);
  }

  async function load(): Promise<void> {
    stop.abort();
    stop = new AbortController();
    try {
      const sites = await get<Sites>(`processes/${part(id)}/sites`, { since, measure, by, top: SITES }, stop.signal);
      shown = sites;
      body.hidden = toFlame.hidden = false;
      why.hidden = true;
      save.disabled = profile.disabled = false;
      say(said, facts(sites.flame) + (sites.lost ? ` · ${sites.lost} samples lost` : ""));
      graph.set(sites.flame);
      table.set(sites);
    } catch (error) {
      if (aborted(error)) return;
      await explain(message(error));
    }
  }

  /** Why there is nothing to see. What was seen before stays. */
  async function explain(reason: string): Promise<void> {
    const detail = await get<One>(`processes/${part(id)}`).then(whole).catch(() => null);
    const ended = detail?.state === "gone";
    save.disabled = profile.disabled = !shown;
    why.hidden = false;
    say(why, ended ? "The process has ended. A trace (neurogc run --trace FILE) keeps its allocation sites." : shown ? `This is not current: ${reason}` : `There are no allocation sites of this process: ${reason}`);
  }

  async function saveFlame(): Promise<void> {
    if (!shown) return;
    const page = await (await fetch("flame.html")).text();
    // As in the command: nothing in a name can end the element that the data are in.
    const data = JSON.stringify(shown.flame).replaceAll("<", "\\u003c").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
    keep(new Blob([page.replace('"NEUROGC-FLAME-DATA"', () => data)], { type: "text/html" }), `neurogc-${shown.pid}.html`);
  }

  async function saveProfile(): Promise<void> {
    try {
      keep(await file(`processes/${part(id)}/pprof`), `neurogc-${shown?.pid ?? id}.pb.gz`);
    } catch (error) {
      announce(message(error), "bad");
    }
  }

  const ended = () => {
    const known = picker.find(id);
    return known?.state === "gone" ? known.seen_ms : null;
  };
  const follow = new Follow(id, live, extent.window, ended, drawn);
  live.watch([id]);
  group.onHover = (t) => toolbar.point(t, group.from, group.to);
  onTheme(() => (graph.draw(), group.recolour()));
  const look = () => void (load(), judge());
  const timer = setInterval(() => !document.hidden && live.connection.kind === "live" && look(), EVERY_MS);
  const counting = setInterval(() => !document.hidden && live.connection.kind === "live" && census.load(gone.signal), CENSUS_EVERY_MS);
  const off = live.onReturn(look);
  look();
  void census.load(gone.signal);
  return () => {
    clearInterval(timer);
    clearInterval(counting);
    gone.abort();
    stop.abort();
    off();
    follow.destroy();
    picker.destroy();
    group.destroy();
    graph.destroy();
  };
}

function keep(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const memory: Page = { name: "memory", title: "Memory", mount };
