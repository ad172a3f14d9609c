// Small lines without axes, for tables.

import { colour } from "./charts/colours";
import { h } from "./dom";

const WIDTH = 84;
const HEIGHT = 22;

export function spark(): HTMLCanvasElement {
  const ratio = devicePixelRatio || 1;
  return h("canvas", { class: "spark", width: WIDTH * ratio, height: HEIGHT * ratio, "aria-hidden": "true" });
}

/** Draws values from left to right, the newest at the right end of `room` places. */
export function draw(canvas: HTMLCanvasElement, values: (number | null)[], room: number): void {
  const ratio = devicePixelRatio || 1;
  const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const most = Math.max(1e-9, ...values.map((value) => value ?? 0));
  pen.strokeStyle = colour("p99");
  pen.lineWidth = 1.2 * ratio;
  pen.lineJoin = "round";
  pen.beginPath();
  let down = false;
  values.forEach((value, i) => {
    const x = ((room - values.length + i) / (room - 1)) * (canvas.width - 2 * ratio) + ratio;
    if (value === null) {
      down = false;
      return;
    }
    const y = canvas.height - ratio - (value / most) * (canvas.height - 3 * ratio);
    if (down) pen.lineTo(x, y);
    else pen.moveTo(x, y);
    down = true;
  });
  pen.stroke();
}
