// The latest optimizer steps: memory in use, reserved and in pieces at the end of each, every step a mark below.

import { colour, faint } from "../charts/colours";
import { h, say } from "../dom";
import { bytes, count } from "../format";
import type { Status } from "../types";

const WIDTH = 960;
const HEIGHT = 180;
const FOOT = 14;

type Moment = Status["gpu"]["recent"][number];

export function stepTimeline() {
  const canvas = h("canvas", { class: "gpu-steps", role: "img", "aria-label": "Memory at the ends of the latest steps" });
  const note = h("p", { class: "note", role: "status" });
  let shown: Moment[] = [];

  function draw(): void {
    const ratio = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [WIDTH * ratio, HEIGHT * ratio];
    const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, WIDTH, HEIGHT);
    if (shown.length < 2) return;
    const [from, to] = [shown[0].at_s, shown[shown.length - 1].at_s];
    const most = Math.max(1, ...shown.map((step) => step.reserved_bytes));
    const x = (step: Moment) => ((step.at_s - from) / Math.max(to - from, 1e-6)) * (WIDTH - 4) + 2;
    const y = (value: number) => HEIGHT - FOOT - (value / most) * (HEIGHT - FOOT - 6);
    const line = (name: string, of: (step: Moment) => number) => {
      pen.strokeStyle = colour(name);
      pen.lineWidth = 1.5;
      pen.beginPath();
      shown.forEach((step, i) => (i ? pen.lineTo(x(step), y(of(step))) : pen.moveTo(x(step), y(of(step)))));
      pen.stroke();
    };
    pen.fillStyle = faint("longest", 0.6);
    for (const step of shown) pen.fillRect(x(step) - 0.5, HEIGHT - FOOT + 3, 1, FOOT - 5);
    line("p50", (step) => step.reserved_bytes);
    line("forced", (step) => step.inactive_bytes);
    line("p99", (step) => step.allocated_bytes);
  }

  return {
    element: h("div", { class: "table-frame" }, canvas, note),
    draw,
    set(status: Status | null): void {
      shown = status?.gpu.recent ?? [];
      canvas.hidden = shown.length < 2;
      draw();
      const last = shown[shown.length - 1];
      const text = last
        ? `Steps ${count(shown[0].steps)} to ${count(last.steps)}, each a mark: ${bytes(last.allocated_bytes)} in use, ${bytes(last.reserved_bytes)} reserved, ${bytes(last.inactive_bytes)} in pieces after the last.`
        : "No optimizer step has ended on a GPU yet.";
      say(note, text);
    },
  };
}
