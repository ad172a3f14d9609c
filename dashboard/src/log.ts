// Events of one process in a window of time: a bounded list that says what it left out.

import type { Happening, Happenings } from "./types";

/** More events than this are not kept: the shortest are left out, and it is said how many. */
export const MOST_EVENTS = 6000;

export class Log {
  events: Happening[] = [];
  left_out = 0;
  /** Why there are no events of the past, where the hub keeps none. */
  not_kept = "";

  replace(answer: Happenings): void {
    this.events = answer.events;
    this.not_kept = answer.not_kept ?? "";
    this.left_out = answer.left_out;
  }

  /** Adds what came live, and forgets what is before the window. */
  add(news: Happening[], from: number): void {
    if (news.length === 0) return;
    const last = this.events.at(-1)?.t ?? 0;
    this.events.push(...news);
    if (news.some((event) => event.t < last)) this.events.sort((one, other) => one.t - other.t);
    if (this.events[0].t < from) this.events = this.events.filter((event) => event.t >= from);
    if (this.events.length > MOST_EVENTS * 1.25) this.thin();
  }

  of<K extends Happening["kind"]>(kind: K): Extract<Happening, { kind: K }>[] {
    return this.events.filter((event): event is Extract<Happening, { kind: K }> => event.kind === kind);
  }

  private thin(): void {
    const lasting = (event: Happening) => ("ms" in event ? event.ms : Infinity);
    const lengths = this.events.map(lasting).sort((one, other) => other - one);
    const least = lengths[MOST_EVENTS];
    const kept = this.events.filter((event) => lasting(event) > least);
    this.left_out += this.events.length - kept.length;
    this.events = kept;
  }
}
