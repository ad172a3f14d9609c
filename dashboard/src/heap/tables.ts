// The tables of a heap dump: types, suspects, the largest objects, what grew.

import { h, left, say, table } from "../dom";
import { bytes, count, signed } from "../format";
import type { GrowthReport, ObjectLine, Suspect, TypeLine } from "../generated/hub";

/** Asks for the paths to a type, an address or an expression. */
export type AskPaths = (what: string) => void;

export const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

/** A button that looks like a link. */
function asking(text: string, what: string, ask: AskPaths): HTMLElement {
  return h("button", { type: "button", class: "as-link", title: `Paths to ${what}`, onclick: () => ask(what) }, text);
}

export function typeTable(ask: AskPaths) {
  const note = h("p", { class: "note" });
  const shown = table("Types", [left("Type"), "Objects", "Bytes", "Retained"], "heap-types");
  return {
    element: h("div", { class: "table-frame" }, shown.element, note),
    set(types: TypeLine[], all: number): void {
      shown.set(
        types.map((line) =>
          h("tr", {}, h("th", { scope: "row", class: "text" }, asking(line.type, line.type, ask)), h("td", {}, count(line.objects)), h("td", {}, bytes(line.bytes)), h("td", {}, bytes(line.retained))),
        ),
      );
      say(note, all > types.length ? `and ${count(all - types.length)} more` : "");
    },
  };
}

export function suspectList() {
  const element = h("ul", { class: "heap-suspects" });
  return {
    element,
    set(suspects: Suspect[]): void {
      const none = h("li", {}, "None: nothing below a module, a frame or a library holds a tenth of the heap.");
      element.replaceChildren(...(suspects.length ? suspects.map(sentence) : [none]));
    },
  };
}

function sentence(suspect: Suspect): HTMLElement {
  const parts = suspect.holder ? suspect.parts.map((part) => `${count(part.objects)} ${part.type} (${bytes(part.retained)})`).join(", ") : "";
  return h("li", {}, h("b", {}, `${bytes(suspect.retained)} (${percent(suspect.share)})`), ": ", ...coded(suspect.text), parts ? h("small", {}, `It holds ${parts}.`) : null);
}

/** A sentence with what is between backquotes as code. */
function coded(text: string): (Node | string)[] {
  return text.split("`").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece));
}

export function objectTable(ask: AskPaths) {
  const shown = table("Largest objects", [left("Path"), left("Type"), "Retained", "Share"], "heap-largest");
  return {
    element: h("div", { class: "table-frame" }, shown.element),
    set(objects: ObjectLine[]): void {
      shown.set(
        objects.map((line) =>
          h("tr", {}, h("th", { scope: "row", class: "text" }, asking(line.path ?? line.what, line.address, ask)), h("td", { class: "text" }, line.type), h("td", {}, bytes(line.retained)), h("td", {}, percent(line.share))),
        ),
      );
    },
  };
}

export function growthTable() {
  const note = h("p", { class: "note" });
  const shown = table("What grew", [left("Place"), left("Type"), "Objects", "Growth"], "heap-growth");
  const row = (place: string, type: string, objects: number, size: number, part: boolean) =>
    h("tr", { class: part ? "part" : null }, h("th", { scope: "row", class: "text" }, place), h("td", { class: "text" }, type), h("td", {}, signed(objects, "")), h("td", {}, signed(size, "bytes")));
  return {
    element: h("div", { class: "table-frame" }, shown.element, note),
    set(report: GrowthReport): void {
      const { rows, grown } = report;
      shown.element.hidden = rows.length === 0;
      shown.set(rows.flatMap((line) => [row(line.place, line.type, line.objects, line.retained, false), ...line.parts.map((part) => row(part.place, part.type, part.objects, part.bytes, true))]));
      const all = `In all ${signed(report.bytes, "bytes")} and ${signed(report.objects, "")} objects.`;
      say(note, rows.length === 0 ? `No place grew. ${all}` : grown > rows.length ? `${all} ${count(grown - rows.length)} more places grew.` : all);
    },
  };
}
