// Charts and tables as files.

import { colour, font } from "./charts/colours";

export function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Comma-separated values. A text that a spreadsheet would take for a formula is made one that it does not. */
export function csv(head: string[], rows: (string | number | null)[][]): string {
  const cell = (value: string | number | null) => {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

/** A chart with its title and legend as a picture. */
export function picture(title: string, legend: { text: string; colour: string }[], canvas: HTMLCanvasElement): Promise<Blob> {
  const ratio = canvas.width / canvas.clientWidth || 1;
  const margin = 14 * ratio;
  const out = document.createElement("canvas");
  const pen = out.getContext("2d") as CanvasRenderingContext2D;
  pen.font = font(12 * ratio);
  const rows: { text: string; colour: string; x: number; y: number }[] = [];
  let x = margin;
  let y = 50 * ratio;
  for (const item of legend) {
    const width = pen.measureText(item.text).width + 32 * ratio;
    if (x > margin && x + width > canvas.width) {
      x = margin;
      y += 18 * ratio;
    }
    rows.push({ ...item, x, y });
    x += width;
  }
  const top = y + 12 * ratio;
  out.width = canvas.width + 2 * margin;
  out.height = canvas.height + top + margin;
  pen.fillStyle = colour("card");
  pen.fillRect(0, 0, out.width, out.height);
  pen.fillStyle = colour("ink");
  pen.font = font(15 * ratio, 600);
  pen.fillText(title, margin, 26 * ratio);
  pen.font = font(12 * ratio);
  for (const row of rows) {
    pen.fillStyle = row.colour;
    pen.fillRect(row.x, row.y - 8 * ratio, 10 * ratio, 8 * ratio);
    pen.fillStyle = colour("ink");
    pen.fillText(row.text, row.x + 15 * ratio, row.y);
  }
  pen.drawImage(canvas, margin, top);
  return new Promise((resolve, reject) => out.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"));
}
