// Overview: all processes with their state, latency, pauses, memory, policy and warnings.

import { aborted, get } from "../api";
import { type Context, type Page, whole } from "../context";
import { h, mark, say } from "../dom";
import { ago, brief, bytes, figure, ms, span } from "../format";
import { draw, spark } from "../spark";
import type { Process, Stretch } from "../types";
import { link } from "../view";

/** Seconds of the small lines. */
const ROOM = 60;
/** For so many processes the past minute is asked for; the others begin with an empty line. */
const ASKED = 24;

type Key = (process: Process) => number | string;

interface Column {
  key: string;
  title: string;
  help: string;
  text?: boolean;
  sort: Key;
}

const value = (process: Process, name: string) => process.latest[name] ?? null;
const by = (name: string): Key => (process) => value(process, name) ?? -1;

const COLUMNS: Column[] = [
  { key: "process", title: "Process", help: "Command, process id and host", text: true, sort: (process) => brief(process.command) },
  { key: "policy", title: "Policy", help: "The policy in force", text: true, sort: (process) => process.policy_shown },
  { key: "rps", title: "Req/s", help: "Requests ended in the last second", sort: by("requests.rps") },
  { key: "p50", title: "p50", help: "Half of the requests took less", sort: by("requests.p50_ms") },
  { key: "p99", title: "p99", help: "99 of 100 requests took less", sort: by("requests.p99_ms") },
  { key: "course", title: "Last minute", help: "The course of p99", text: true, sort: by("requests.p99_ms") },
  { key: "pause", title: "Pause", help: "The longest collection of the last second", sort: by("gc.max_ms") },
  { key: "waited", title: "GC in requests", help: "Milliseconds of each second in which a collection ran during a request", sort: by("gc.in_request_ms") },
  { key: "memory", title: "RSS", help: "Resident set, and its share of the limit", sort: by("memory.rss") },
  { key: "cpu", title: "CPU", help: "Processor use; 100 is one core", sort: by("cpu.percent") },
  { key: "gil", title: "GIL", help: "Share of time in which a thread held the GIL", sort: by("gil.busy_percent") },
];

interface Row {
  element: HTMLTableRowElement;
  note: HTMLTableRowElement;
  cells: Record<string, HTMLElement>;
  line: HTMLCanvasElement;
  course: (number | null)[];
}

function mount(root: HTMLElement, { view, processes, live, onTheme }: Context): () => void {
  const rows = new Map<string, Row>();
  let gone: Process[] = [];
  const stop = new AbortController();

  const tiles = ["live", "silent", "worst", "waited", "memory", "warnings"].map((key) => [key, tile(key)] as const);
  const filter = h("input", { type: "search", placeholder: "Command, host, pid, policy", value: view.get("find") ?? "" });
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
    h("table", { class: "processes cards" }, h("caption", { class: "unseen" }, "Processes"), h("thead", {}, h("tr", {}, ...heads)), body),
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
        const answer = await get<{ processes: Process[] }>("processes", { gone: "true" }, stop.signal);
        gone = answer.processes.filter((process) => process.state === "gone").map(whole);
      } catch (error) {
        if (!aborted(error)) throw error;
      }
    }
    show();
  }

  /** The minute before the page was opened. */
  async function past(process: Process, row: Row): Promise<void> {
    const stretch = await get<Stretch>(
      `processes/${encodeURIComponent(process.id)}/series`,
      { range: "1m", names: "requests.p99_ms", points: ROOM },
      stop.signal,
    ).catch(() => null);
    if (stretch) row.course = [...(stretch.series["requests.p99_ms"] ?? []), ...row.course].slice(-ROOM);
  }

  function make(process: Process): Row {
    const cells: Record<string, HTMLElement> = {};
    const line = spark();
    const element = h("tr", { "data-id": process.id });
    for (const column of COLUMNS) {
      const cell = h(column.key === "process" ? "th" : "td", { class: `${column.text ? "text " : ""}${column.key}` });
      if (column.key === "process") cell.setAttribute("scope", "row");
      else cell.dataset.label = column.title;
      cells[column.key] = cell;
      element.append(cell);
    }
    cells.dot = h("i", { class: "dot" });
    cells.name = h("a", { href: link("process", { id: process.id }) }, brief(process.command));
    cells.name.title = process.command;
    cells.where = h("small");
    cells.process.append(cells.dot, h("span", {}, cells.name, cells.where));
    cells.chip = h("a", { class: "chip", href: link("policy", { id: process.id }) });
    cells.due = h("small");
    cells.policy.append(cells.chip, cells.due);
    cells.course.append(line);
    cells.size = h("span");
    cells.fill = h("i");
    cells.bar = h("span", { class: "bar", hidden: true }, cells.fill);
    cells.memory.append(cells.size, cells.bar);
    cells.warnings = h("td", { colspan: COLUMNS.length });
    const row = { element, note: h("tr", { class: "warning", hidden: true }, cells.warnings), cells, line, course: [] };
    if (rows.size < ASKED && process.state !== "gone") void past(process, row);
    return row;
  }

  function update(row: Row, process: Process): void {
    const { cells } = row;
    const now = live.now_ms();
    mark(row.element, "data-state", process.state);
    mark(cells.dot, "title", process.state);
    say(cells.where, `${process.pid} on ${process.host} · ${process.python.replace("CPython ", "")} · ${
      process.state === "live" ? `up ${span((now - process.started_ms) / 1000)}` : `${process.state}, seen ${ago(process.seen_ms, now)}`
    }`);
    say(cells.chip, process.policy_shown || "–");
    mark(cells.chip, "data-acting", String(process.acting));
    say(cells.due, process.due ? `due: ${process.due.split(":")[0]}` : process.acting ? "nothing due" : "measures only");
    mark(cells.due, "title", process.due || null);
    const shown = process.state === "live";
    const figures: [string, string, string][] = [
      ["rps", "requests.rps", "1/s"],
      ["p50", "requests.p50_ms", "ms"],
      ["p99", "requests.p99_ms", "ms"],
      ["pause", "gc.max_ms", "ms"],
      ["waited", "gc.in_request_ms", "ms/s"],
      ["cpu", "cpu.percent", "percent"],
      ["gil", "gil.busy_percent", "percent"],
    ];
    for (const [cell, name, unit] of figures) {
      const text = figure(shown ? value(process, name) : null, unit);
      say(cells[cell], cell === "rps" ? text.replace("/s", "") : text);
    }
    mark(cells.waited, "data-tone", (value(process, "gc.in_request_ms") ?? 0) >= 10 && shown ? "bad" : null);
    const rss = value(process, "memory.rss");
    const limit = value(process, "memory.limit");
    say(cells.size, figure(rss, "bytes"));
    cells.bar.hidden = !limit || !rss;
    if (limit && rss) {
      cells.fill.style.width = `${Math.min(100, (100 * rss) / limit).toFixed(1)}%`;
      mark(cells.bar, "data-tone", rss > 0.9 * limit ? "bad" : null);
      mark(cells.bar, "title", `${((100 * rss) / limit).toFixed(0)} % of ${bytes(limit)}`);
    }
    row.note.hidden = process.warnings.length === 0;
    say(cells.warnings, process.warnings.join(" · "));
  }

  function show(): void {
    const listed = [...processes.list];
    const known = new Set(listed.map((process) => process.id));
    listed.push(...gone.filter((process) => !known.has(process.id)));
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (process: Process) => {
      const text = `${process.command} ${process.host} ${process.pid} ${process.policy_shown} ${process.python}`.toLowerCase();
      return words.every((word) => text.includes(word)) && (old.checked || process.state !== "gone");
    };
    const [key, order] = sorting();
    const column = COLUMNS.find((other) => other.key === key) ?? COLUMNS[0];
    const compare = (one: Process, other: Process) => {
      const [a, b] = [column.sort(one), column.sort(other)];
      return (a < b ? -1 : a > b ? 1 : one.id < other.id ? -1 : 1) * order;
    };
    for (const head of heads) mark(head, "aria-sort", head.dataset.key === key ? (order > 0 ? "ascending" : "descending") : null);
    const shown = listed.filter(matches).sort(compare);
    const wanted: Node[] = [];
    for (const process of shown) {
      const row = rows.get(process.id) ?? make(process);
      rows.set(process.id, row);
      update(row, process);
      wanted.push(row.element, row.note);
    }
    // Rows are moved only where their order has changed: focus and selection stay where they are.
    if (wanted.length !== body.childNodes.length || wanted.some((node, i) => body.childNodes[i] !== node)) {
      const held = document.activeElement;
      body.replaceChildren(...wanted);
      if (held instanceof HTMLElement && body.contains(held)) held.focus();
    }
    for (const id of rows.keys()) if (!listed.some((process) => process.id === id)) rows.delete(id);
    table.hidden = shown.length === 0;
    nothing.hidden = shown.length > 0;
    if (shown.length === 0) empty(nothing, processes.loaded, listed.length > 0);
    summary(listed.filter((process) => process.state !== "gone"));
  }

  function summary(list: Process[]): void {
    const lively = list.filter((process) => process.state === "live");
    const worst = lively.reduce<Process | null>((most, process) => ((value(process, "requests.p99_ms") ?? -1) > (most ? (value(most, "requests.p99_ms") ?? -1) : -1) ? process : most), null);
    const sum = (name: string) => lively.reduce((total, process) => total + (value(process, name) ?? 0), 0);
    const warned = list.filter((process) => process.warnings.length > 0).length;
    const silent = list.length - lively.length;
    const said: Record<string, [string, string]> = {
      live: [String(lively.length), `${figure(sum("requests.rps"), "1/s")} requests`],
      silent: [String(silent), silent ? "no report for 5 s" : "all report"],
      worst: [worst ? figure(value(worst, "requests.p99_ms"), "ms") : "–", worst ? brief(worst.command) : "no requests"],
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

  const off = [
    processes.on(() => {
      for (const process of processes.list) {
        const row = rows.get(process.id);
        if (!row) continue;
        row.course = [...row.course, value(process, "requests.p99_ms")].slice(-ROOM);
        draw(row.line, row.course, ROOM);
      }
      show();
    }),
  ];
  onTheme(() => {
    for (const row of rows.values()) draw(row.line, row.course, ROOM);
  });
  void history();

  return () => {
    stop.abort();
    for (const act of off) act();
  };
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
