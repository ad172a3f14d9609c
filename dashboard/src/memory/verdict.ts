// The verdict on a process's memory: what leaks, what holds it, which line fills it, and what to do.

import { h, mark } from "../dom";
import { bytes } from "../format";
import type { Finding, Status } from "../generated/status";

const sure = (confidence: number) => (confidence >= 0.9 ? "certain" : confidence >= 0.6 ? "likely" : "possible");

/** Findings on memory are those that say how the program came to them. */
const ofMemory = (finding: Finding) => finding.pattern !== "";

export function memoryVerdict() {
  const element = h("ul", { class: "leaks", role: "status" });

  function one(finding: Finding): HTMLElement {
    const facts: [string, string][] = [
      ["holds", finding.holder && finding.bytes ? `${finding.holder}, ${bytes(finding.bytes)}` : finding.holder],
      ["filled at", finding.site + (finding.site && finding.share ? ` (${Math.round(100 * finding.share)} % of all growth)` : "")],
      ["pattern", finding.pattern],
      ["what to do", finding.advice],
    ];
    const list = h("dl", {}, ...facts.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
    const element = h("li", {}, h("strong", {}, finding.text), h("span", { class: "sure" }, sure(finding.confidence)), list);
    mark(element, "data-kind", finding.kind);
    return element;
  }

  return {
    element,
    set(status: Status | null): void {
      const found = status?.findings.filter(ofMemory) ?? [];
      const watched = status && status.uptime_s < 120 ? " The process has been watched for less than two minutes." : "";
      const none = status ? `No leak is known.${watched}` : "This process does not report now.";
      element.replaceChildren(...(found.length ? found.map(one) : [h("li", { class: "none" }, none)]));
    },
  };
}
