// A snapshot of PyTorch's allocator: devices, a map of segments and blocks, memory over the events, and where it was allocated.

import "./snapshot.css";
import { h, left, say, section, table } from "../dom";
import { bytes, count, ms } from "../format";
import type { DeviceHistory, GpuSnapshot, MapBlock, MapSegment, SegmentMap } from "../generated/hub";
import { draw } from "../svg";

const WIDTH = 1000;
const ROW = 14;
const HEIGHT = 180;

const cells = (...texts: string[]) => texts.map((text) => h("td", {}, text));
const frame = (...inside: (HTMLElement | SVGElement)[]) => h("div", { class: "table-frame" }, ...inside);
const stream = (number: number) => (number ? `stream 0x${number.toString(16)}` : "default stream");

export function snapshotView(report: GpuSnapshot): HTMLElement {
  return h(
    "div",
    { class: "snapshot" },
    ...report.remarks.map((remark) => h("p", { class: "trouble" }, remark)),
    deviceTable(report),
    ...report.history.map(course),
    section("Segments and blocks", "Each row is a segment, as long as it is large. Point at a block, or click it for its call stack.", map(report.map)),
    siteTable(report),
  );
}

function deviceTable(report: GpuSnapshot): HTMLElement {
  const shown = table("Devices in the snapshot", [left("GPU"), "In use", "Blocks", "Freed, still used", "In pieces", "Cached", "Reserved", "Segments", "Largest free", "Fragmentation"], "snapshot-devices");
  const row = (name: string, ...texts: string[]) => h("tr", {}, h("th", { scope: "row", class: "text" }, name), ...cells(...texts));
  shown.set(
    report.devices.flatMap((it) => [
      row(`GPU ${it.device}`, bytes(it.allocated_bytes), count(it.blocks), bytes(it.pending_bytes), bytes(it.inactive_bytes), bytes(it.cached_bytes), bytes(it.reserved_bytes), count(it.segments), bytes(it.largest_free_bytes), `${(100 * it.fragmentation).toFixed(1)} %`),
      ...(it.streams.length > 1 ? it.streams.map((one) => row(`· ${stream(one.stream)}`, bytes(one.allocated_bytes), "", bytes(one.active_bytes - one.allocated_bytes), bytes(one.inactive_bytes), bytes(one.cached_bytes), bytes(one.reserved_bytes), count(one.segments), "", "")) : []),
    ]),
  );
  return frame(shown.element);
}

/** Memory in use and reserved over the events. */
function course(history: DeviceHistory): HTMLElement {
  const { course: points, errors } = history;
  const most = points.reduce((top, point) => Math.max(top, point.reserved_bytes, point.allocated_bytes), 1);
  const x = (event: number) => (event / Math.max(history.events, 1)) * WIDTH;
  const y = (size: number) => HEIGHT - (size / most) * (HEIGHT - 8);
  const line = (name: string, of: (point: (typeof points)[number]) => number) => draw("polyline", { class: name, points: points.map((point) => `${x(point.event).toFixed(1)},${y(of(point)).toFixed(1)}`).join(" ") });
  const cursor = draw("line", { class: "cursor", y1: 0, y2: HEIGHT });
  const told = h("p", { class: "note", role: "status" });
  const svg = draw("svg", { class: "course", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", height: HEIGHT, tabindex: 0, role: "img", "aria-label": `Memory of GPU ${history.device} over ${count(history.events)} events, at most ${bytes(history.peak_bytes)} in use. Arrow keys move through it.` });
  svg.append(line("reserved", (point) => point.reserved_bytes), line("allocated", (point) => point.allocated_bytes));
  for (const error of errors) svg.append(draw("line", { class: "oom", x1: x(error.event), x2: x(error.event), y1: 0, y2: HEIGHT }));
  svg.append(cursor);
  let at = Math.max(0, points.findIndex((point) => point.event === history.peak_event));
  const show = (index: number) => {
    at = Math.min(Math.max(index, 0), points.length - 1);
    const point = points[at];
    if (!point) return;
    for (const side of ["x1", "x2"]) cursor.setAttribute(side, String(x(point.event)));
    const when = history.seconds ? ` (${ms(1e3 * point.at_s)})` : "";
    say(told, `Event ${count(point.event)} of ${count(history.events)}${when}: ${bytes(point.allocated_bytes)} in use, ${bytes(point.reserved_bytes)} reserved.`);
  };
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * history.events;
    const found = points.findIndex((point) => point.event >= wanted);
    show(found < 0 ? points.length - 1 : found);
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -points.length, End: points.length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(at + step);
  });
  show(at);
  const lost = errors.map((error) => h("p", { class: "note" }, `Out of memory at event ${count(error.event)}: ${bytes(error.asked_bytes)} asked for, ${bytes(error.device_free_bytes)} free on the card. ${error.frames.slice(0, 3).join(" < ")}`));
  const facts = `${count(history.allocs)} allocations and ${count(history.frees)} frees. In use: ${bytes(history.start_bytes)} before, at most ${bytes(history.peak_bytes)}, ${bytes(history.end_bytes)} at the end.${history.anchored ? "" : " What was in use before is not known: these sizes are above it."}`;
  const key = (name: string, label: string) => h("span", { class: "key" }, h("i", { class: name }), label);
  const keys = h("p", { class: "note keys" }, key("allocated", "in use"), key("reserved", "reserved"), key("oom", "out of memory"));
  return section(`Memory of GPU ${history.device} over the recorded events`, facts, frame(svg, keys, told, ...lost));
}

const kind = ({ bytes: size, used_bytes: used, pending_bytes: pending }: MapBlock) => (used === size ? "used" : pending === size ? "pending" : used + pending ? "mixed" : "free");

function describe(segment: MapSegment, block: MapBlock): string {
  const what = { used: "in use", pending: "freed, another stream may still use it", free: "free", mixed: `${bytes(block.used_bytes)} in use in ${count(block.blocks)} blocks` }[kind(block)];
  return `${bytes(block.bytes)}, ${what}; GPU ${segment.device}, ${stream(segment.stream)}, segment ${segment.address} of ${bytes(segment.bytes)}`;
}

/** Segments as rows of blocks. */
function map({ segments, stacks, left_out, left_out_bytes }: SegmentMap): HTMLElement {
  const widest = segments.reduce((most, segment) => Math.max(most, segment.bytes), 1);
  const told = h("p", { class: "note", role: "status" }, left_out ? `${count(left_out)} smaller segments (${bytes(left_out_bytes)}) are not drawn.` : "");
  const frames = h("pre", { class: "stack", hidden: true });
  const height = segments.length * ROW + 2;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", height, role: "img", "aria-label": `${count(segments.length)} segments with their blocks. The tables below have the largest.` });
  segments.forEach((segment, row) => {
    const y = row * ROW + 1;
    svg.append(draw("rect", { class: "segment", x: 0, y, width: (segment.bytes / widest) * WIDTH, height: ROW - 3 }));
    for (const block of segment.blocks) {
      const rect = draw("rect", { class: kind(block), x: (block.offset / widest) * WIDTH, y, width: Math.max((block.bytes / widest) * WIDTH - 0.3, 0.3), height: ROW - 3 });
      if (rect.classList.contains("mixed")) rect.style.fillOpacity = String(0.25 + (0.75 * block.used_bytes) / Math.max(block.bytes, 1));
      rect.addEventListener("mouseenter", () => say(told, describe(segment, block)));
      rect.addEventListener("click", () => {
        say(told, describe(segment, block));
        say(frames, block.stack === null ? "Its call stack is not recorded." : stacks[block.stack].join("\n"));
        frames.hidden = false;
      });
      svg.append(rect);
    }
  });
  return h("div", {}, h("div", { class: "table-frame scroll map" }, svg), told, frames);
}

function siteTable(report: GpuSnapshot): HTMLElement {
  const where = (site: string, frames: string[]) => h("td", { class: "text", title: frames.join("\n") }, site || "(not recorded)");
  const sites = table("Lines", ["In use", "Blocks", left("Allocated at")], "snapshot-sites");
  sites.set(report.sites.map((line) => h("tr", {}, ...cells(bytes(line.bytes), count(line.blocks)), where(line.site, line.frames))));
  const largest = table("Largest blocks", ["GPU", "Size", "Asked for", left("Address"), left("Allocated at")], "snapshot-largest");
  largest.set(report.largest.map((line) => h("tr", {}, ...cells(String(line.device), bytes(line.bytes), bytes(line.requested_bytes)), h("td", { class: "text" }, line.address), where(line.site, line.frames))));
  const none = "No call stacks are recorded: call torch.cuda.memory._record_memory_history() before the snapshot to have them.";
  return h("div", {}, section("Where it was allocated", report.sites.length ? "Blocks in use, by the line of the program." : none, report.sites.length ? frame(sites.element) : null), section("Largest blocks", "", frame(largest.element)));
}
