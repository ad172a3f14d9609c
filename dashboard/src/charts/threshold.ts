// A line across a chart that values should keep below.

import type uPlot from "uplot";
import { colour } from "./colours";

export function threshold(plot: uPlot, value: number): void {
  const { ctx: pen, bbox } = plot;
  const y = Math.round(plot.valToPos(value, "y", true));
  if (!(y >= bbox.top && y <= bbox.top + bbox.height)) return;
  pen.save();
  pen.strokeStyle = colour("bad");
  pen.lineWidth = 1.5 * devicePixelRatio;
  pen.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  pen.beginPath();
  pen.moveTo(bbox.left, y);
  pen.lineTo(bbox.left + bbox.width, y);
  pen.stroke();
  pen.restore();
}
