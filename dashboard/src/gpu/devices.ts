// The table of devices, and what is the matter with their memory.

import { h, left, mark, say, table } from "../dom";
import { bytes, count } from "../format";
import type { Status } from "../types";

type Device = Status["gpu"]["devices"][number];

// How many other processes are on the card, and what they have there.
function others({ other_processes: many, other_processes_bytes: size }: Device): string {
  if (many == null) return "not known";
  return many ? `${count(many)}: ${bytes(size ?? 0)}` : "none";
}

export function deviceTable() {
  const note = h("p", { class: "note" });
  const shown = table("Devices", [left("GPU"), "In use", "Peak", "Active", "Reserved", "In pieces", "Blocks", "Retries", "Out of memory", "Card free", "Card", "Other processes"], "gpu-devices");
  return {
    element: h("div", { class: "table-frame" }, shown.element, note),
    set(status: Status | null): void {
      const { devices = [], pinned_bytes: pinned, ooms = 0, ooms_handled: handled = 0, oom_report: report = "" } = status?.gpu ?? {};
      shown.element.hidden = devices.length === 0;
      shown.set(
        devices.map((device) => {
          const cells = [bytes(device.allocated_bytes), bytes(device.peak_bytes), bytes(device.active_bytes), bytes(device.reserved_bytes), bytes(device.inactive_bytes), count(device.blocks), count(device.retries), count(device.ooms), bytes(device.card_free_bytes), bytes(device.card_bytes), others(device)];
          return h("tr", {}, h("th", { scope: "row", class: "text" }, `GPU ${device.device}`), ...cells.map((cell) => h("td", {}, cell)));
        }),
      );
      const errors = ooms ? ` Out of memory ${count(ooms)} times, of which the program handled ${count(handled)}. ${report && `Report: ${report}`}` : "";
      const none = status ? "This process uses no GPU by PyTorch." : "This process does not report now.";
      say(note, devices.length ? `Pinned memory of the host: ${pinned == null ? "not known" : bytes(pinned)}.${errors}` : none);
    },
  };
}

export function gpuVerdict() {
  const element = h("ul", { class: "leaks", role: "status" });
  return {
    element,
    set(status: Status | null): void {
      const found = status?.findings.filter((finding) => finding.kind.startsWith("gpu_")) ?? [];
      const one = (finding: (typeof found)[number]) => {
        const facts = [["holds", finding.holder], ["pattern", finding.pattern], ["what to do", finding.advice]].filter(([, value]) => value);
        const list = h("dl", {}, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
        const item = h("li", {}, h("strong", {}, finding.text), list);
        mark(item, "data-kind", finding.kind);
        return item;
      };
      element.replaceChildren(...(found.length ? found.map(one) : [h("li", { class: "none" }, "No leak is known.")]));
    },
  };
}
