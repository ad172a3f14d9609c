// A flame graph on a canvas: zoom, search, keys, and what is under the pointer.

import { colour } from "../charts/colours";
import { h, say, unique } from "../dom";
import { bytes, count, figure, signed } from "../format";
import { type FlameData, Layout, UNITS, where } from "./data";

const ROW = 20;
const NARROWEST = 0.7;
const HUES = 6;
const HELP = "Arrow keys move between frames, Enter zooms in, Escape zooms out, / searches.";

interface Box {
  node: number;
  x: number;
  y: number;
  width: number;
}

export class FlameGraph {
  readonly element: HTMLElement;
  private layout: Layout | null = null;
  private zoomed = 0;
  private cursor = 0;
  private found = new Set<number>();
  private boxes: Box[] = [];
  private readonly canvas: HTMLCanvasElement;
  private readonly search: HTMLInputElement;
  private readonly reset: HTMLButtonElement;
  private readonly status = h("p", { class: "flame-status note", role: "status" });
  private readonly legend = h("p", { class: "flame-legend note", hidden: true });
  private readonly tip = h("div", { class: "flame-tip", hidden: true });
  private readonly stage: HTMLElement;
  private readonly resized: ResizeObserver;

  constructor() {
    const help = unique("flame");
    this.canvas = h("canvas", {
      tabindex: 0,
      role: "img",
      "aria-label": "Flame graph",
      "aria-describedby": help,
      onpointermove: (event: PointerEvent) => this.hover(event),
      onpointerleave: () => this.hide(),
      onclick: (event: PointerEvent) => this.click(event),
      onkeydown: (event: KeyboardEvent) => this.key(event),
      onfocus: () => this.paint(),
      onblur: () => (this.hide(), this.paint()),
    });
    this.search = h("input", { type: "search", placeholder: "function or file", oninput: () => this.look() });
    this.reset = h("button", { type: "button", hidden: true, onclick: () => this.zoom(0) }, "Reset zoom");
    this.legend.append(
      h("i", { class: "shrunk" }), " shrunk ", h("i", { class: "same" }), " unchanged ", h("i", { class: "grown" }), " grown",
    );
    this.stage = h("div", { class: "flame-stage" }, this.canvas, this.tip);
    this.element = h(
      "div",
      { class: "flame" },
      h("div", { class: "flame-bar" }, h("label", { class: "field" }, h("span", {}, "Search"), this.search), this.reset, this.legend),
      this.status,
      this.stage,
      h("p", { class: "note", id: help }, HELP),
    );
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.stage);
  }

  /** Shows another graph. What was zoomed into stays so where it is still there. */
  set(data: FlameData): void {
    const layout = new Layout(data);
    const earlier = this.layout;
    this.layout = layout;
    this.zoomed = earlier ? layout.find(earlier, this.zoomed) : 0;
    this.cursor = earlier ? layout.find(earlier, this.cursor) : 0;
    this.legend.hidden = data.compared_unix_ms === null || data.measure !== "live";
    this.hide();
    this.look();
  }

  /** Draws again, in the colours of now. */
  draw(): void {
    if (!this.layout) return;
    this.place();
    this.paint();
  }

  destroy(): void {
    this.resized.disconnect();
  }

  private get unit(): string {
    return UNITS[this.layout?.data.measure ?? "live"];
  }

  /** Finds the boxes that are wide enough to be seen. */
  private place(): void {
    const { layout, zoomed } = this;
    if (!layout) return;
    const { nodes } = layout.data;
    const room = Math.max(1, this.stage.clientWidth);
    const scale = nodes[zoomed].value > 0 ? room / nodes[zoomed].value : 0;
    this.boxes = [];
    for (const above of layout.path(zoomed).slice(0, -1)) this.boxes.push({ node: above, x: 0, y: layout.depth[above], width: room });
    const open = [zoomed];
    let deepest = layout.depth[zoomed];
    while (open.length) {
      const node = open.pop() as number;
      const width = nodes[node].value * scale;
      if (width < NARROWEST && node !== zoomed) continue;
      deepest = Math.max(deepest, layout.depth[node]);
      this.boxes.push({ node, x: (layout.left[node] - layout.left[zoomed]) * scale, y: layout.depth[node], width: node === zoomed ? room : width });
      open.push(...layout.children[node]);
    }
    const ratio = devicePixelRatio || 1;
    const height = (deepest + 1) * ROW;
    this.canvas.width = Math.round(room * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    this.reset.hidden = zoomed === 0;
  }

  private paint(): void {
    const { layout } = this;
    const pen = this.canvas.getContext("2d");
    if (!layout || !pen) return;
    const ratio = devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.font = '11px ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", monospace';
    pen.textBaseline = "middle";
    const letter = pen.measureText("m").width;
    for (const { node, x, y, width } of this.boxes) {
      const above = layout.depth[node] < layout.depth[this.zoomed];
      pen.globalAlpha = above ? 0.55 : this.found.size && !this.found.has(node) ? 0.4 : 1;
      pen.fillStyle = this.found.has(node) ? colour("flame-found") : this.fill(node);
      pen.fillRect(x, y * ROW, Math.max(width - 1, NARROWEST), ROW - 1);
      const letters = Math.floor((width - 8) / letter);
      if (letters >= 3) {
        const frame = layout.frame(node);
        const text = [frame.function, where(frame)].filter(Boolean).join("  ");
        pen.globalAlpha = 1;
        pen.fillStyle = colour("flame-ink");
        pen.fillText(text.length > letters ? `${text.slice(0, letters - 1)}…` : text, x + 4, y * ROW + ROW / 2);
      }
      if (node === this.cursor && document.activeElement === this.canvas) {
        pen.globalAlpha = 1;
        pen.strokeStyle = colour("ink");
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, y * ROW + 1, Math.max(width - 3, 1), ROW - 3);
      }
    }
    pen.globalAlpha = 1;
  }

  private fill(node: number): string {
    const { data } = this.layout as Layout;
    const { value, change } = data.nodes[node];
    if (data.measure === "growth") return blend("flame-same", "flame-grown", 0.25 + 0.75 * Math.sqrt(value / Math.max(1, data.nodes[0].value)));
    if (data.compared_unix_ms !== null && data.measure === "live") {
      const share = change / Math.max(1, value, value - change);
      return blend("flame-same", share < 0 ? "flame-shrunk" : "flame-grown", Math.min(1, Math.sqrt(Math.abs(share))));
    }
    return colour(node === 0 ? "flame-same" : `flame-${1 + (hash((this.layout as Layout).frame(node).file) % HUES)}`);
  }

  private at(event: PointerEvent): Box | undefined {
    const place = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - place.left, Math.floor((event.clientY - place.top) / ROW)];
    return this.boxes.find((box) => box.y === y && x >= box.x && x < box.x + box.width);
  }

  private hover(event: PointerEvent): void {
    const box = this.at(event);
    if (!box) {
      this.hide();
      return;
    }
    this.canvas.style.cursor = "pointer";
    this.tip.replaceChildren(...this.lines(box.node).map((line, i) => h(i ? "div" : "strong", {}, line)));
    this.tip.hidden = false;
    const place = this.stage.getBoundingClientRect();
    const x = Math.min(event.clientX - place.left + 12, place.width - this.tip.offsetWidth - 2);
    this.tip.style.left = `${Math.max(0, x)}px`;
    this.tip.style.top = `${event.clientY - place.top + 16}px`;
  }

  private hide(): void {
    this.tip.hidden = true;
    this.canvas.style.cursor = "";
  }

  private click(event: PointerEvent): void {
    const box = this.at(event);
    if (!box) return;
    this.cursor = box.node;
    this.hide();
    this.zoom(box.node);
  }

  private zoom(node: number): void {
    this.zoomed = node;
    this.draw();
    this.tell();
  }

  private key(event: KeyboardEvent): void {
    const { layout } = this;
    if (!layout) return;
    const { nodes } = layout.data;
    const row = this.boxes.filter((box) => box.y === layout.depth[this.cursor]).sort((one, other) => one.x - other.x);
    const at = row.findIndex((box) => box.node === this.cursor);
    const steps: Record<string, () => void> = {
      ArrowLeft: () => (this.cursor = row[at - 1]?.node ?? this.cursor),
      ArrowRight: () => (this.cursor = row[at + 1]?.node ?? this.cursor),
      ArrowUp: () => (this.cursor = nodes[this.cursor].parent),
      ArrowDown: () => {
        const child = layout.children[this.cursor].find((one) => this.boxes.some((box) => box.node === one));
        this.cursor = child ?? this.cursor;
      },
      Home: () => (this.cursor = 0),
      Enter: () => this.zoom(this.cursor),
      " ": () => this.zoom(this.cursor),
      Escape: () => this.zoom(nodes[this.zoomed].parent),
      "/": () => this.search.focus(),
    };
    const step = steps[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    step();
    this.paint();
    this.tell();
  }

  private look(): void {
    const { layout } = this;
    if (!layout) return;
    this.found = layout.search(this.search.value).found;
    this.draw();
    this.tell();
  }

  /** Says what is searched for, or which frame is chosen. */
  private tell(): void {
    const { layout } = this;
    if (!layout) return;
    const all = layout.data.nodes[0].value;
    if (this.search.value.trim()) {
      const { found, value } = layout.search(this.search.value);
      say(this.status, `${count(found.size)} ${found.size === 1 ? "frame matches" : "frames match"}: ${figure(value, this.unit)}, ${percent(value, all)} of all`);
    } else {
      say(this.status, this.lines(this.cursor || this.zoomed).join(" · "));
    }
  }

  /** What there is to say about a node. */
  private lines(node: number): string[] {
    const layout = this.layout as Layout;
    const { data } = layout;
    const { value, blocks, change } = data.nodes[node];
    const frame = layout.frame(node);
    const lines = [frame.function];
    if (frame.file) lines.push(frame.line ? `${frame.file}:${frame.line}` : frame.file);
    const grown = data.measure === "growth" ? "grown by " : "";
    lines.push(`${grown}${figure(value, this.unit)}, ${percent(value, data.nodes[0].value)} of all`);
    if (data.measure === "stalls") lines.push(`${count(blocks)} ${blocks === 1 ? "stall" : "stalls"}`);
    else if (data.measure === "rate") lines.push(`${figure(blocks, "1/s").replace("/s", "")} blocks a second`);
    else lines.push(`${count(blocks)} ${data.measure === "retained" ? "objects" : "blocks"}`);
    if (data.compared_unix_ms !== null && data.measure === "live") lines.push(change === 0 ? `unchanged` : `${signed(change, "bytes")} since the comparison (${bytes(Math.max(0, value - change))} then)`);
    return lines;
  }
}

function percent(part: number, all: number): string {
  return `${all > 0 ? ((100 * part) / all).toFixed(1) : "0.0"} %`;
}

function hash(text: string): number {
  let value = 7;
  for (let i = 0; i < text.length; i += 1) value = (value * 31 + text.charCodeAt(i)) >>> 0;
  return value;
}

/** A colour between two of the style sheet. */
function blend(from: string, to: string, share: number): string {
  const parts = (name: string) => [1, 3, 5].map((at) => Number.parseInt(colour(name).slice(at, at + 2), 16));
  const end = parts(to);
  return `rgb(${parts(from).map((start, i) => Math.round(start + (end[i] - start) * share)).join(",")})`;
}
