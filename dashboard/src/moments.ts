// The worst moments of a window: its slowest requests and longest stalls, which open to show what was waited for.

import { h } from "./dom";
import { count, moment, ms, place } from "./format";
import { cause } from "./lost";
import type { Collection, Detail, Stall } from "./types";

const MOST = 10;

type Slow = NonNullable<Detail["status"]>["requests"]["slowest"][number] & { t: number };

interface Moment {
  key: string;
  t: number;
  ms: number;
  title: string;
  kind: "request" | "stall";
  what: () => (Node | string)[];
}

interface Row {
  element: HTMLElement;
  body: HTMLElement;
  details: HTMLDetailsElement;
  now: string;
}

/** The slowest requests of a report, at their moments by the clock. */
function slowest(detail: Detail | null): Slow[] {
  const { status, status_ms } = detail ?? {};
  if (!status || !status_ms) return [];
  return status.requests.slowest.map((request) => ({ ...request, t: status_ms - 1000 * (status.uptime_s - request.at_s) }));
}

function overlap(one: { t: number }, length: number, other: { t: number }, lasted: number): boolean {
  return one.t <= other.t + lasted && other.t <= one.t + length;
}

function pairs(list: [string, string][]): HTMLElement {
  return h("dl", {}, ...list.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function trace(id: string): (Node | string)[] {
  return id ? [h("p", {}, "Trace id ", h("code", {}, id))] : [];
}

function stalled(stall: Stall): string {
  return `${ms(stall.ms)} ${cause(stall.cause)}, ${place(stall.site)}`;
}

function collected(stop: Collection): string {
  return `${ms(stop.ms)} ${stop.what} collection, ${stop.place.replaceAll("_", " ")}, freed ${count(stop.collected)} objects`;
}

function list(title: string, items: string[]): (Node | string)[] {
  if (items.length === 0) return [];
  return [h("p", {}, title), h("ul", {}, ...items.slice(0, 5).map((item) => h("li", {}, item)), items.length > 5 ? h("li", {}, `and ${items.length - 5} more`) : null)];
}

export function moments(zoom: (from: number, to: number) => void) {
  const rows = new Map<string, Row>();
  const body = h("ol", { class: "moments", "aria-label": "The ten worst moments" });
  const none = h("p", { class: "note" }, "No slow requests and no stalls in this window.");

  function make(found: Moment): Row {
    const inside = h("div", { class: "what" });
    const details = h(
      "details",
      { ontoggle: () => show(row, found) },
      h("summary", { "data-kind": found.kind }, h("b", {}, ms(found.ms)), h("span", { class: "name", title: found.title }, found.title), h("time", {}, moment(found.t))),
      inside,
    );
    const row = { element: h("li", { "data-moment": found.kind }, details), body: inside, details, now: "" };
    return row;
  }

  function show(row: Row, found: Moment): void {
    if (!row.details.open) return;
    const margin = Math.max(1000, found.ms);
    const button = h("button", { type: "button", onclick: () => zoom(found.t - margin, found.t + found.ms + margin) }, "Zoom to it");
    const parts = [...found.what(), button];
    // Written again only where it says something else, so that a selection stays.
    const now = parts.map((part) => (part instanceof Element ? part.outerHTML : part)).join();
    if (now === row.now) return;
    row.now = now;
    row.body.replaceChildren(...parts);
  }

  return {
    element: h("div", {}, body, none),
    set(detail: Detail | null, stalls: Stall[], stops: Collection[], from: number, to: number): void {
      const within = (t: number) => t >= from && t <= to;
      const slow = slowest(detail);
      const found: Moment[] = [];
      for (const request of slow) {
        if (!within(request.t)) continue;
        found.push({
          key: `request ${request.at_s} ${request.total_ms}`,
          t: request.t,
          ms: request.total_ms,
          title: request.route || "a request",
          kind: "request",
          what: () => [
            pairs([
              ["Waited for the application", ms(request.wait_ms)],
              ["In the application", ms(Math.max(0, request.total_ms - request.wait_ms))],
              ["Garbage collection meanwhile", ms(request.gc_ms)],
              ["Native code with the GIL", ms(request.gil_native_ms)],
              ["Long-running Python", ms(request.python_ms)],
              ["CPU starvation", ms(request.cpu_starved_ms)],
            ]),
            ...trace(request.trace_id),
            ...list("Stalls meanwhile:", stalls.filter((stall) => overlap(request, request.total_ms, stall, stall.ms)).map(stalled)),
          ],
        });
      }
      for (const stall of stalls) {
        if (!within(stall.t)) continue;
        found.push({
          key: `stall ${stall.t} ${stall.ms}`,
          t: stall.t,
          ms: stall.ms,
          title: `${cause(stall.cause)}, ${place(stall.site)}`,
          kind: "stall",
          what: () => {
            const waited = slow.filter((request) => overlap(request, request.total_ms, stall, stall.ms));
            return [
              pairs([["Cause", cause(stall.cause)], ["Where", stall.site || "not known"]]),
              ...list("Collections meanwhile:", stops.filter((stop) => stop.ms >= 0.5 && overlap(stop, stop.ms, stall, stall.ms)).map(collected)),
              ...list("Of the slowest requests these were under way:", waited.map((request) => `${request.route || "a request"}, ${ms(request.total_ms)}${request.trace_id ? `, trace ${request.trace_id}` : ""}`)),
            ];
          },
        });
      }
      found.sort((one, other) => other.ms - one.ms);
      found.length = Math.min(MOST, found.length);
      const wanted = found.map((each) => {
        const row = rows.get(each.key) ?? make(each);
        rows.set(each.key, row);
        show(row, each);
        return row.element;
      });
      for (const key of rows.keys()) if (!found.some((each) => each.key === key)) rows.delete(key);
      // Moved only where the order has changed: focus stays where it is.
      if (wanted.length !== body.children.length || wanted.some((element, i) => body.children[i] !== element)) {
        const held = document.activeElement;
        body.replaceChildren(...wanted);
        if (held instanceof HTMLElement && body.contains(held)) held.focus();
      }
      none.hidden = found.length > 0;
    },
  };
}
