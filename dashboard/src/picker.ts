// Choosing a process: a button that opens a list with a search field, grouped by service or command.

import { get } from "./api";
import { type Context, whole } from "./context";
import { h, mark, say, unique } from "./dom";
import { brief } from "./format";
import type { List, Process } from "./types";

/** Whether a process reports to this hub now, so that it can be asked for something. */
export function isHere(process: Process): boolean {
  return process.state === "live" && process.source !== "history";
}

export function title(process: Process): string {
  return `${brief(process.command)} · ${process.pid}`;
}

function label(process: Process): string {
  return `${title(process)} · ${process.policy_shown}${process.state === "live" ? "" : ` · ${process.state}`}`;
}

/** What processes are listed under. */
function family(process: Process): string {
  return process.service || brief(process.command);
}

/** The process that the address names; where it names none, the busiest live one. */
export function favourite(list: Process[]): Process | undefined {
  const busy = (process: Process) => (process.state === "live" ? (process.latest["requests.rps"] ?? 0) + 1 : -1);
  return [...list].sort((one, other) => busy(other) - busy(one))[0];
}

/** More than these are found by typing only. */
const MOST = 60;

export class Picker {
  readonly element: HTMLElement;
  private button: HTMLButtonElement;
  private panel: HTMLElement;
  private search: HTMLInputElement;
  private options: HTMLElement;
  private gone: Process[] = [];
  private marked = 0;
  private undo: (() => void)[];

  constructor(
    text: string,
    private context: Context,
    private chosen: string,
    private changed: (id: string) => void,
    private listed: () => void = () => {},
  ) {
    const [list, name] = [unique("processes"), unique("picker")];
    this.button = h("button", { type: "button", class: "picked", "aria-haspopup": "listbox", "aria-expanded": "false", "aria-labelledby": name, onclick: () => this.toggle(this.panel.hidden) });
    this.button.dataset.picker = text;
    this.search = h("input", {
      type: "search",
      role: "combobox",
      "aria-label": `Search: ${text}`,
      "aria-controls": list,
      "aria-expanded": "true",
      placeholder: "Service, command, pid, host, policy",
      autocomplete: "off",
      oninput: () => ((this.marked = 0), this.fill()),
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    this.options = h("div", { id: list, role: "listbox", "aria-label": text });
    this.panel = h("div", { class: "picker-panel", hidden: true }, this.search, this.options);
    this.element = h("div", { class: "field picker" }, h("span", { id: name }, text), this.button, this.panel);
    const outside = (event: Event) => this.element.contains(event.target as Node) || this.toggle(false);
    document.addEventListener("pointerdown", outside);
    this.undo = [context.processes.on(() => (this.refresh(), this.listed())), () => document.removeEventListener("pointerdown", outside)];
    this.refresh();
    get<List>("processes", { gone: "true" })
      .then(({ processes }) => {
        this.gone = processes.map(whole);
        this.refresh();
        this.listed();
      })
      .catch(() => {});
  }

  destroy(): void {
    for (const act of this.undo) act();
  }

  find(id: string): Process | undefined {
    return this.context.processes.find(id) ?? this.gone.find((process) => process.id === id);
  }

  private refresh(): void {
    const known = this.find(this.chosen);
    const name = known ? label(known) : this.chosen || "Choose a process";
    say(this.button, name);
    mark(this.button, "title", known?.command ?? null);
    mark(this.button, "aria-label", `${this.button.dataset.picker}: ${name}`);
    this.button.value = this.chosen;
    if (!this.panel.hidden) this.fill();
  }

  private toggle(open: boolean): void {
    if (this.panel.hidden === !open) return;
    this.panel.hidden = !open;
    mark(this.button, "aria-expanded", String(open));
    if (!open) return;
    this.search.value = "";
    this.marked = 0;
    this.fill();
    this.search.focus();
  }

  /** Those that match, live ones first, by group. */
  private found(): Process[] {
    const { list } = this.context.processes;
    const known = new Set(list.map((process) => process.id));
    const all = [...list, ...this.gone.filter((process) => !known.has(process.id))];
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (process: Process) => `${process.service} ${process.command} ${process.host} ${process.pid} ${process.policy_shown} ${process.state}`.toLowerCase();
    const rank = (process: Process) => `${process.state === "gone" ? 1 : 0}${family(process)}`;
    return all
      .filter((process) => words.every((word) => text(process).includes(word)))
      .sort((one, other) => (rank(one) < rank(other) ? -1 : rank(one) > rank(other) ? 1 : one.pid - other.pid));
  }

  private fill(): void {
    const found = this.found();
    const shown = found.slice(0, MOST);
    const parts: HTMLElement[] = [];
    let group = "";
    for (const [i, process] of shown.entries()) {
      const its = `${family(process)}${process.state === "gone" ? " (ended)" : ""}`;
      if (its !== group) parts.push(h("div", { class: "group", role: "presentation" }, its));
      group = its;
      parts.push(
        h(
          "div",
          { class: "option", role: "option", id: `${this.options.id}-${i}`, "data-id": process.id, "data-state": process.state, "aria-selected": String(i === this.marked), onclick: () => this.choose(process.id) },
          h("b", {}, `pid ${process.pid}`),
          h("span", {}, ` on ${process.host} · ${process.policy_shown}${process.state === "live" ? "" : ` · ${process.state}`}`),
        ),
      );
    }
    if (found.length === 0) parts.push(h("p", { class: "note" }, "No process matches."));
    if (found.length > shown.length) parts.push(h("p", { class: "note" }, `${found.length - shown.length} more: type to find them.`));
    this.options.replaceChildren(...parts);
    mark(this.search, "aria-activedescendant", shown.length ? `${this.options.id}-${this.marked}` : null);
    this.options.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  private key(event: KeyboardEvent): void {
    const shown = this.found().slice(0, MOST);
    const act: Record<string, () => void> = {
      ArrowDown: () => (this.marked = Math.min(shown.length - 1, this.marked + 1)),
      ArrowUp: () => (this.marked = Math.max(0, this.marked - 1)),
      Enter: () => shown[this.marked] && this.choose(shown[this.marked].id),
      Escape: () => (this.toggle(false), this.button.focus()),
    };
    if (!(event.key in act)) return;
    event.preventDefault();
    act[event.key]();
    if (!this.panel.hidden) this.fill();
  }

  private choose(id: string): void {
    this.toggle(false);
    if (id === this.chosen) return;
    this.chosen = id;
    this.refresh();
    this.changed(id);
  }
}
