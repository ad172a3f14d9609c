// The rows of the overview: one for a process, one for a service of several processes.

import { h, mark, say } from "../dom";
import { ago, brief, bytes, figure, span } from "../format";
import { draw, spark } from "../spark";
import type { Process, Service, Values } from "../types";
import { link } from "../view";

/** Seconds of the small lines. */
export const ROOM = 60;

export interface Column {
  key: string;
  title: string;
  help: string;
  text?: boolean;
  /** The series that it shows, and by which it is sorted. */
  series?: string;
  unit?: string;
}

export const COLUMNS: Column[] = [
  { key: "process", title: "Process", help: "Service or command, process id and host", text: true },
  { key: "policy", title: "Policy", help: "The policy in force", text: true },
  { key: "rps", title: "Req/s", help: "Requests ended in the last second", series: "requests.rps", unit: "1/s" },
  { key: "p50", title: "p50", help: "Half of the requests took less", series: "requests.p50_ms", unit: "ms" },
  { key: "p99", title: "p99", help: "99 of 100 requests took less", series: "requests.p99_ms", unit: "ms" },
  { key: "course", title: "Last minute", help: "The course of p99", text: true, series: "requests.p99_ms" },
  { key: "pause", title: "Pause", help: "The longest collection of the last second", series: "gc.max_ms", unit: "ms" },
  { key: "waited", title: "GC in requests", help: "Milliseconds of each second in which a collection ran during a request", series: "gc.in_request_ms", unit: "ms/s" },
  { key: "memory", title: "RSS", help: "Resident set, and its share of the limit", series: "memory.rss" },
  { key: "cpu", title: "CPU", help: "Processor use; 100 is one core", series: "cpu.percent", unit: "percent" },
  { key: "gil", title: "GIL", help: "Share of time in which a thread held the GIL", series: "gil.busy_percent", unit: "percent" },
];

export const value = (latest: Values, name: string) => latest[name] ?? null;

/** What processes and services have in common: cells with figures, a small line, and a note below. */
class Row {
  readonly element: HTMLTableRowElement;
  readonly note: HTMLTableRowElement;
  course: (number | null)[] = [];
  protected cells: Record<string, HTMLElement> = {};
  protected dot = h("i", { class: "dot" });
  protected where = h("small");
  protected chip: HTMLElement;
  protected due = h("small");
  private line = spark();
  private size = h("span");
  private fill = h("i");
  private bar = h("span", { class: "bar", hidden: true }, this.fill);
  private warnings = h("td", { colspan: COLUMNS.length });

  constructor(name: HTMLElement, chip: HTMLElement) {
    this.element = h("tr");
    for (const { key, title, text } of COLUMNS) {
      const cell = h(key === "process" ? "th" : "td", { class: `${text ? "text " : ""}${key}`, ...(key === "process" ? { scope: "row" } : { "data-label": title }) });
      this.cells[key] = cell;
      this.element.append(cell);
    }
    this.chip = chip;
    this.cells.process.append(this.dot, h("span", {}, name, this.where));
    this.cells.policy.append(chip, this.due);
    this.cells.course.append(this.line);
    this.cells.memory.append(this.size, this.bar);
    this.note = h("tr", { class: "warning", hidden: true }, this.warnings);
  }

  /** Adds the latest second to the small line. */
  advance(latest: Values): void {
    this.course = [...this.course, value(latest, "requests.p99_ms")].slice(-ROOM);
    this.draw();
  }

  draw(): void {
    draw(this.line, this.course, ROOM);
  }

  protected figures(latest: Values, shown: boolean): void {
    for (const { key, series, unit } of COLUMNS) {
      if (!series || !unit) continue;
      const text = figure(shown ? value(latest, series) : null, unit);
      say(this.cells[key], key === "rps" ? text.replace("/s", "") : text);
    }
    mark(this.cells.waited, "data-tone", (value(latest, "gc.in_request_ms") ?? 0) >= 10 && shown ? "bad" : null);
    const [rss, limit] = [value(latest, "memory.rss"), value(latest, "memory.limit")];
    say(this.size, figure(rss, "bytes"));
    this.bar.hidden = !limit || !rss;
    if (!limit || !rss) return;
    this.fill.style.width = `${Math.min(100, (100 * rss) / limit).toFixed(1)}%`;
    mark(this.bar, "data-tone", rss > 0.9 * limit ? "bad" : null);
    mark(this.bar, "title", `${((100 * rss) / limit).toFixed(0)} % of ${bytes(limit)}`);
  }

  protected warn(warnings: string[]): void {
    this.note.hidden = warnings.length === 0;
    say(this.warnings, warnings.join(" · "));
  }
}

export class ProcessRow extends Row {
  private name: HTMLElement;

  constructor(process: Process) {
    const name = h("a", { href: link("process", { id: process.id }), title: process.command });
    super(name, h("a", { class: "chip", href: link("policy", { id: process.id }) }));
    this.name = name;
    this.element.dataset.id = process.id;
  }

  /** `member` says whether it stands below the row of its service, which names what all of them run. */
  update(process: Process, member: boolean, now: number): void {
    const alive = process.state === "live";
    for (const row of [this.element, this.note]) row.classList.toggle("member", member);
    mark(this.element, "data-state", process.state);
    mark(this.dot, "title", process.state);
    say(this.name, (member && process.role) || brief(process.command));
    say(this.where, `${process.pid} on ${process.host} · ${process.python.replace("CPython ", "")} · ${
      alive ? `up ${span((now - process.started_ms) / 1000)}` : `${process.state}, seen ${ago(process.seen_ms, now)}`
    }`);
    say(this.chip, process.policy_shown || "–");
    mark(this.chip, "data-acting", String(process.acting));
    say(this.due, process.due ? `due: ${process.due.split(":")[0]}` : process.acting ? "nothing due" : "measures only");
    mark(this.due, "title", process.due || null);
    this.figures(process.latest, alive);
    this.warn(process.warnings);
  }
}

export class ServiceRow extends Row {
  private button: HTMLButtonElement;

  constructor(name: string, toggle: () => void) {
    const button = h("button", { type: "button", class: "opener", onclick: toggle }, name);
    super(button, h("span", { class: "chip" }));
    this.button = button;
    this.element.classList.add("service");
    this.element.dataset.service = name;
  }

  /** `members` are those that are listed, `all` those that there are; `merged` is `null` where none of them reports. */
  update(members: Process[], all: number, merged: Service | null, open: boolean): void {
    const alive = members.filter((process) => process.state === "live").length;
    const acting = members.filter((process) => process.acting).length;
    const state = alive > 0 ? "live" : members.some((process) => process.state === "silent") ? "silent" : "gone";
    mark(this.element, "data-state", state);
    mark(this.dot, "title", state);
    mark(this.button, "aria-expanded", String(open));
    const others = members.length - alive;
    say(this.where, `${members.length < all ? `${members.length} of ${all}` : all} processes${others ? ` · ${others} not live` : ""}`);
    say(this.chip, policies(members));
    mark(this.chip, "data-acting", String(acting > 0));
    say(this.due, acting === 0 ? "measures only" : acting < members.length ? `${acting} of ${members.length} act` : "");
    this.figures(merged?.latest ?? {}, merged !== null);
    const warned = members.filter((process) => process.warnings.length > 0).length;
    this.warn(warned && !open ? [`${warned} of its processes ${warned === 1 ? "is" : "are"} degraded: open it to see why`] : []);
  }
}

/** The policies of several processes, each once. */
export function policies(members: Process[]): string {
  return [...new Set(members.map((process) => process.policy_shown || "–"))].sort().join(", ");
}
