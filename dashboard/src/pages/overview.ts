// Overview: all processes with their state, latency, pauses, memory, policy and warnings. Those of one service stand together.

import { aborted, get, part } from "../api";
import { type Context, type Page, whole } from "../context";
import { h, mark, say } from "../dom";
import { brief, bytes, figure, ms } from "../format";
import { COLUMNS, ProcessRow, ROOM, ServiceRow, policies, value } from "../overview/rows";
import type { Heat, List, Process, Stretch } from "../types";

/** For so many processes the past minute is asked for; the others begin with an empty line. */
const ASKED = 24;

/** What stands in the list: a process, or a service with several of them. */
interface Entry {
  service: string | null;
  members: Process[];
}

function mount(root: HTMLElement, { view, processes, live, onTheme }: Context): () => void {
  const rows = new Map<string, ProcessRow>();
  const services = new Map<string, ServiceRow>();
  let gone: Process[] = [];
  const stop = new AbortController();

  const tiles = ["live", "silent", "worst", "waited", "memory", "warnings"].map((key) => [key, tile(key)] as const);
  const filter = h("input", { type: "search", placeholder: "Service, command, host, pid, policy", value: view.get("find") ?? "" });
  filter.addEventListener("input", () => {
    view.set({ find: filter.value });
    show();
  });
  const old = h("input", { type: "checkbox" });
  old.checked = view.get("gone") === "1";
  old.addEventListener("change", () => {
    view.set({ gone: old.checked ? 1 : null });
    void history();
  });
  const heads = COLUMNS.map((column) => {
    const button = h("button", { type: "button", title: column.help, onclick: () => sortBy(column.key) }, column.title);
    return h("th", { scope: "col", class: column.text ? "text" : null, "data-key": column.key }, button);
  });
  const body = h("tbody");
  const nothing = h("div", { class: "nothing" });
  const table = h(
    "div",
    { class: "table-frame" },
    h("table", { class: "processes" }, h("caption", { class: "unseen" }, "Processes"), h("thead", {}, h("tr", {}, ...heads)), body),
  );

  root.append(
    h("div", { class: "title" }, h("h1", {}, "Overview")),
    h("dl", { class: "tiles" }, ...tiles.map(([, made]) => made.element)),
    h(
      "div",
      { class: "toolbar" },
      h("label", { class: "field" }, h("span", {}, "Find"), filter),
      h("label", { class: "check" }, old, "Show those that have ended"),
    ),
    table,
    nothing,
  );

  function sortBy(key: string): void {
    const [now, order] = sorting();
    view.set({ sort: now === key && order < 0 ? key : now === key ? `-${key}` : `${["process", "policy"].includes(key) ? "" : "-"}${key}` });
    show();
  }

  function sorting(): [string, number] {
    const named = view.get("sort") ?? "process";
    return named.startsWith("-") ? [named.slice(1), -1] : [named, 1];
  }

  async function history(): Promise<void> {
    gone = [];
    if (old.checked) {
      try {
        const answer = await get<List>("processes", { gone: "true" }, stop.signal);
        gone = answer.processes.filter((process) => process.state === "gone").map(whole);
      } catch (error) {
        if (!aborted(error)) throw error;
      }
    }
    show();
  }

  /** The minute before the page was opened. */
  async function past(process: Process, row: ProcessRow): Promise<void> {
    const stretch = await get<Stretch>(
      `processes/${part(process.id)}/series`,
      { range: "1m", names: "requests.p99_ms", points: ROOM },
      stop.signal,
    ).catch(() => null);
    if (stretch) row.course = [...(stretch.series["requests.p99_ms"] ?? []), ...row.course].slice(-ROOM);
  }

  /** The same for a service: its percentiles are those of all requests, so they come from the counts. */
  async function pastOfService(service: string, row: ServiceRow): Promise<void> {
    const heat = await get<Heat>(`services/${part(service)}/latency`, { range: "1m", points: ROOM }, stop.signal).catch(() => null);
    if (heat) row.course = [...heat.counts.map((step) => p99(heat, step)), ...row.course].slice(-ROOM);
  }

  function rowOf(process: Process): ProcessRow {
    let row = rows.get(process.id);
    if (!row) {
      row = new ProcessRow(process);
      if (rows.size < ASKED && process.state !== "gone") void past(process, row);
      rows.set(process.id, row);
    }
    return row;
  }

  // Services are closed at first, and open while something is looked for. What was opened or closed by hand stays so.

  function isOpen(service: string): boolean {
    const name = encodeURIComponent(service);
    if (view.list("open").includes(name)) return true;
    return filter.value.trim() !== "" && !view.list("shut").includes(name);
  }

  function toggle(service: string): void {
    const name = encodeURIComponent(service);
    const [to, from] = isOpen(service) ? ["shut", "open"] : ["open", "shut"];
    view.set({ [to]: [...new Set([...view.list(to), name])].join(","), [from]: view.list(from).filter((other) => other !== name).join(",") });
    show();
  }

  function rowOfService(service: string): ServiceRow {
    let row = services.get(service);
    if (!row) {
      row = new ServiceRow(service, () => toggle(service));
      if (services.size < ASKED) void pastOfService(service, row);
      services.set(service, row);
    }
    return row;
  }

  function show(): void {
    const listed = [...processes.list];
    const known = new Set(listed.map((process) => process.id));
    listed.push(...gone.filter((process) => !known.has(process.id)));
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (process: Process) => {
      const text = `${process.service} ${process.role} ${process.command} ${process.host} ${process.pid} ${process.policy_shown} ${process.python}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const [key, order] = sorting();
    const column = COLUMNS.find((other) => other.key === key) ?? COLUMNS[0];
    const sorted = (one: Entry, other: Entry) => {
      const [a, b] = [rank(one), rank(other)];
      return (a < b ? -1 : a > b ? 1 : one.members[0].id < other.members[0].id ? -1 : 1) * order;
    };
    const rank = ({ service, members }: Entry): number | string => {
      if (column.key === "process") return service ?? brief(members[0].command);
      if (column.key === "policy") return policies(members);
      const latest = service === null ? members[0].latest : (processes.service(service)?.latest ?? {});
      return value(latest, column.series ?? "") ?? -1;
    };
    for (const head of heads) mark(head, "aria-sort", head.dataset.key === key ? (order > 0 ? "ascending" : "descending") : null);
    const present = listed.filter((process) => old.checked || process.state !== "gone");
    const shown = present.filter(matches);
    const alone = (process: Process): Entry => ({ service: null, members: [process] });
    const families = byService(shown);
    const sizes = byService(present);
    const entries = [...families].flatMap(([service, members]): Entry[] => {
      const several = service !== "" && (sizes.get(service)?.length ?? 0) > 1;
      return several ? [{ service, members: members.map(alone).sort(sorted).flatMap((entry) => entry.members) }] : members.map(alone);
    });
    const wanted: Node[] = [];
    const now = live.now_ms();
    for (const { service, members } of entries.sort(sorted)) {
      const open = service === null || isOpen(service);
      if (service !== null) {
        const row = rowOfService(service);
        row.update(members, sizes.get(service)?.length ?? 0, processes.service(service), open);
        wanted.push(row.element, row.note);
      }
      for (const process of open ? members : []) {
        const row = rowOf(process);
        row.update(process, service !== null, now);
        wanted.push(row.element, row.note);
      }
    }
    // Rows are moved only where their order has changed: focus and selection stay where they are.
    if (wanted.length !== body.childNodes.length || wanted.some((node, i) => body.childNodes[i] !== node)) {
      const held = document.activeElement;
      body.replaceChildren(...wanted);
      if (held instanceof HTMLElement && body.contains(held)) held.focus();
    }
    for (const id of rows.keys()) if (!listed.some((process) => process.id === id)) rows.delete(id);
    for (const service of services.keys()) if (!families.has(service)) services.delete(service);
    table.hidden = shown.length === 0;
    nothing.hidden = shown.length > 0;
    if (shown.length === 0) empty(nothing, processes.loaded, listed.length > 0);
    summary(listed.filter((process) => process.state !== "gone"));
  }

  function summary(list: Process[]): void {
    const lively = list.filter((process) => process.state === "live");
    const worst = lively.reduce<Process | null>((most, process) => ((value(process.latest, "requests.p99_ms") ?? -1) > (most ? (value(most.latest, "requests.p99_ms") ?? -1) : -1) ? process : most), null);
    const sum = (name: string) => lively.reduce((total, process) => total + (value(process.latest, name) ?? 0), 0);
    const warned = list.filter((process) => process.warnings.length > 0).length;
    const silent = list.length - lively.length;
    const said: Record<string, [string, string]> = {
      live: [String(lively.length), `${figure(sum("requests.rps"), "1/s")} requests`],
      silent: [String(silent), silent ? "no report for 5 s" : "all report"],
      worst: [worst ? figure(value(worst.latest, "requests.p99_ms"), "ms") : "–", worst ? brief(worst.command) : "no requests"],
      waited: [`${ms(sum("gc.in_request_ms"))}/s`, "collections during requests"],
      memory: [bytes(sum("memory.rss")), "RSS of all processes"],
      warnings: [String(warned), warned === 1 ? "process is degraded" : "processes are degraded"],
    };
    for (const [key, made] of tiles) {
      say(made.value, said[key][0]);
      say(made.note, said[key][1]);
      mark(made.element, "data-tone", ["silent", "warnings"].includes(key) && said[key][0] !== "0" ? "warn" : null);
    }
  }

  const off = processes.on(() => {
    for (const process of processes.list) rows.get(process.id)?.advance(process.latest);
    for (const [service, row] of services) row.advance(processes.service(service)?.latest ?? {});
    show();
  });
  onTheme(() => {
    for (const row of [...rows.values(), ...services.values()]) row.draw();
  });
  void history();

  return () => {
    stop.abort();
    off();
  };
}

/** The 99th percentile of one step, as the middle of its level. */
function p99({ levels_ms }: Heat, step: [number, number][]): number | null {
  const all = step.reduce((sum, [, many]) => sum + many, 0);
  let rest = 0.01 * all;
  for (const [level, many] of step.toReversed()) {
    rest -= many;
    if (rest < 0) return (levels_ms[level] + levels_ms[level + 1]) / 2;
  }
  return null;
}

function byService(list: Process[]): Map<string, Process[]> {
  const found = new Map<string, Process[]>();
  for (const process of list) found.set(process.service, [...(found.get(process.service) ?? []), process]);
  return found;
}

const TITLES: Record<string, string> = {
  live: "Live",
  silent: "Silent",
  worst: "Worst p99",
  waited: "GC in requests",
  memory: "Memory",
  warnings: "Warnings",
};

function tile(key: string) {
  const shown = h("dd", { class: "figure" }, "–");
  const note = h("dd", { class: "note" });
  return { element: h("div", { class: "tile", "data-tile": key }, h("dt", {}, TITLES[key]), shown, note), value: shown, note };
}

function empty(nothing: HTMLElement, loaded: boolean, filtered: boolean): void {
  if (!loaded) nothing.replaceChildren(h("p", {}, "Waiting for the hub…"));
  else if (filtered) nothing.replaceChildren(h("p", {}, "No process matches."));
  else {
    nothing.replaceChildren(
      h("p", {}, "There is no process with an agent yet. Start one, and it appears here:"),
      h("pre", {}, "neurogc run -- uvicorn app:app"),
    );
  }
}

export const overview: Page = { name: "overview", title: "Overview", mount };
