// What every page is given.

import type { Live } from "./live";
import type { ProcessSummary, Values } from "./generated/hub";
import type { Process, Service } from "./types";
import type { View } from "./view";

export interface Context {
  view: View;
  live: Live;
  processes: Processes;
  /** Says something to those who listen to the page, and shows it for a moment. */
  announce(text: string, tone?: "good" | "bad" | "quiet"): void;
  /** Called when colours have changed. */
  onTheme(act: () => void): () => void;
}

export interface Page {
  name: string;
  title: string;
  /** Fills the page and returns what undoes it. */
  mount(root: HTMLElement, context: Context): () => void;
}

/** A process of which the hub has no sample yet has no values; it is not to be asked whether it has. */
export function whole<P extends ProcessSummary>(process: P): P & { latest: Values } {
  return { ...process, latest: process.latest ?? {} };
}

/** The processes that the hub knows, as it last listed them. */
export class Processes {
  list: Process[] = [];
  loaded = false;
  private services = new Map<string, Service>();
  private listeners = new Set<() => void>();

  constructor(live: Live) {
    live.on("processes", (message) => this.set(message.processes, message.services));
  }

  private set(list: ProcessSummary[], services: Service[]): void {
    this.list = list.map(whole);
    this.services = new Map(services.map((service) => [service.service, service]));
    this.loaded = true;
    for (const listener of this.listeners) listener();
  }

  find(id: string | null): Process | undefined {
    return this.list.find((process) => process.id === id);
  }

  /** The merged figures of a service; `null` where none of its processes reports. */
  service(name: string): Service | null {
    return this.services.get(name) ?? null;
  }

  /** Called as soon as the caller is done, if there is a list, and whenever one comes. */
  on(listener: () => void): () => void {
    this.listeners.add(listener);
    if (this.loaded) queueMicrotask(() => this.listeners.has(listener) && listener());
    return () => this.listeners.delete(listener);
  }
}
