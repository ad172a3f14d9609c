// Choosing a process.

import { get } from "./api";
import { type Context, whole } from "./context";
import { select } from "./dom";
import { brief } from "./format";
import type { Process } from "./types";

export function title(process: Process): string {
  return `${brief(process.command)} · ${process.pid}`;
}

function label(process: Process): string {
  return `${title(process)} · ${process.policy_shown}${process.state === "live" ? "" : ` · ${process.state}`}`;
}

/** The process that the address names; where it names none, the busiest live one. */
export function favourite(list: Process[]): Process | undefined {
  const busy = (process: Process) => (process.state === "live" ? (process.latest["requests.rps"] ?? 0) + 1 : -1);
  return [...list].sort((one, other) => busy(other) - busy(one))[0];
}

/** A select of all processes that keeps itself up to date, with those from history once they have been asked for. */
export class Picker {
  readonly element: HTMLElement;
  private field: ReturnType<typeof select>;
  private gone: Process[] = [];
  private undo: () => void;

  constructor(
    text: string,
    private context: Context,
    private chosen: string,
    changed: (id: string) => void,
    private listed: () => void = () => {},
  ) {
    this.field = select(text, [], chosen, (id) => {
      this.chosen = id;
      changed(id);
    });
    this.field.box.dataset.picker = text;
    this.element = this.field.element;
    this.undo = context.processes.on(() => this.fill());
    get<{ processes: Process[] }>("processes", { gone: "true" })
      .then(({ processes }) => {
        this.gone = processes.map(whole);
        this.fill();
      })
      .catch(() => {});
  }

  destroy(): void {
    this.undo();
  }

  find(id: string): Process | undefined {
    return this.context.processes.find(id) ?? this.gone.find((process) => process.id === id);
  }

  private fill(): void {
    const known = new Set(this.context.processes.list.map((process) => process.id));
    const all = [...this.context.processes.list, ...this.gone.filter((process) => !known.has(process.id))];
    const choices = all.map((process) => ({ value: process.id, label: label(process) }));
    if (!all.some((process) => process.id === this.chosen)) {
      choices.unshift({ value: this.chosen, label: this.chosen || "Choose a process" });
    }
    this.field.fill(choices, this.chosen);
    this.listed();
  }
}
