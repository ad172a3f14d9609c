// The memory of a command over time as a file of its own: `neurogc run --memory-plot` puts the data in.

import "../colours.css";
import "../flame/page.css";
import "./plot.css";
import { h, say } from "../dom";
import { bytes, count, ms, span } from "../format";
import { draw } from "../svg";
import { Theme } from "../theme";
import { type PlotData, bands, lanes, largest, nearest, sums } from "./data";

const LANES = 6;
const LANE = 18;
const HEIGHT = 340;
const LEFT = 76;
const RIGHT = 14;
const TOP = 22;
const TICKS = 22;
const NEAR_PX = 4;

const theme = new Theme();
const data: PlotData = JSON.parse(document.getElementById("data")?.textContent ?? "null");
const shown = bands(data);
const total = sums(data.processes.map((process) => process.rss), data.at.length);
const most = largest(total);
const peak = total.indexOf(most);
const rows = lanes(data.spans, LANES);
const floor = TOP + HEIGHT;
const foot = floor + TICKS + 16;
const whole = Math.max(data.seconds, 0.001);
let width = 900;

const seconds = (value: number) => (value < 60 ? `${value.toFixed(value < 10 ? 2 : 1)} s` : span(value));
const top = () => niceTop(Math.max(most, largest(data.uss.map((value) => value ?? 0)), 1));
const x = (time: number) => LEFT + (time / whole) * (width - LEFT - RIGHT);
const y = (size: number) => floor - (size / top()) * HEIGHT;

function niceTop(value: number): number {
  const unit = 2 ** Math.floor(Math.log2(value));
  return [1, 1.25, 1.5, 1.75, 2].map((times) => times * unit).find((limit) => limit >= value * 1.04) ?? 2.5 * unit;
}

const svg = draw("svg", { tabindex: 0, role: "img", "aria-label": `Memory over ${seconds(whole)}, peak ${bytes(most)}. Arrow keys move through it.` });
const cursor = draw("line", { class: "cursor", y1: TOP, y2: foot });
const tip = h("div", { class: "tip", role: "status", hidden: true });

function picture(): void {
  width = Math.max(320, svg.parentElement?.clientWidth ?? 900);
  const height = foot + 20 + rows.length * LANE;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", String(height));
  for (let line = 0; line <= 4; line++) {
    const size = (top() * line) / 4;
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(size), y2: y(size) }));
    svg.append(draw("text", { class: "axis", x: LEFT - 6, y: y(size) + 4, "text-anchor": "end" }, bytes(size)));
  }
  for (let line = 0; line <= 5; line++) {
    const time = (whole * line) / 5;
    svg.append(draw("text", { class: "axis", x: x(time), y: foot + 4, "text-anchor": line ? (line < 5 ? "middle" : "end") : "start" }, seconds(time)));
  }
  let below = new Array<number>(data.at.length).fill(0);
  shown.forEach((band, index) => {
    const above = sums([below, band.rss], data.at.length);
    const points = data.at.map((time, at) => `${x(time).toFixed(1)},${y(above[at]).toFixed(1)}`);
    const back = data.at.map((time, at) => `${x(time).toFixed(1)},${y(below[at]).toFixed(1)}`).reverse();
    svg.append(draw("polygon", { class: `band band-${index}`, points: [...points, ...back].join(" ") }));
    below = above;
  });
  const private_ = data.at.flatMap((time, at) => (data.uss[at] == null ? [] : [`${x(time).toFixed(1)},${y(data.uss[at] ?? 0).toFixed(1)}`]));
  if (private_.length > 1) svg.append(draw("polyline", { class: "uss", points: private_.join(" ") }));
  for (const collection of data.collections) {
    svg.append(draw("line", { class: `gc ${collection.what}`, x1: x(collection.at), x2: x(collection.at), y1: floor + 3, y2: floor + TICKS - 4 }));
  }
  rows.forEach((row, lane) =>
    row.forEach((one) => {
      const [from, to, at] = [x(one.from), x(one.to), foot + 14 + lane * LANE];
      const wide = Math.max(2, to - from);
      svg.append(draw("rect", { class: "span", x: from, y: at, width: wide, height: LANE - 3, rx: 2 }));
      const letters = Math.floor((wide - 6) / 6.6);
      if (letters > 3) svg.append(draw("text", { class: "name", x: from + 4, y: at + 11 }, one.name.slice(0, letters)));
    }),
  );
  if (most > 0) {
    const right = data.at[peak] > whole * 0.7;
    svg.append(draw("circle", { class: "peak", cx: x(data.at[peak]), cy: y(most), r: 4 }));
    svg.append(draw("text", { class: "peak", x: x(data.at[peak]) + (right ? -8 : 8), y: y(most) - 7, "text-anchor": right ? "end" : "start" }, `peak ${bytes(most)} at ${seconds(data.at[peak])}`));
  }
  svg.append(cursor);
}

let at = -1;

function point(index: number): void {
  at = Math.min(Math.max(index, 0), data.at.length - 1);
  const time = data.at[at];
  if (time === undefined) return;
  cursor.setAttribute("x1", String(x(time)));
  cursor.setAttribute("x2", String(x(time)));
  cursor.classList.add("on");
  const near = (NEAR_PX / (width - LEFT - RIGHT)) * whole;
  const here = data.collections.filter((collection) => Math.abs(collection.at - time) <= near);
  const lines = [
    `${seconds(time)}: ${bytes(total[at])} resident`,
    ...(shown.length > 1 ? shown.filter((band) => band.rss[at]).map((band) => `${band.label}: ${bytes(band.rss[at])}`) : []),
    ...(data.uss[at] == null ? [] : [`not shared (USS): ${bytes(data.uss[at] ?? 0)}`]),
    ...data.spans.filter((one) => one.from <= time && time <= one.to).slice(0, 4).map((one) => `in ${one.name} (${one.pid}), ${seconds(one.to - one.from)}`),
    ...here.slice(0, 4).map((one) => `${one.what} collection, ${ms(one.ms)} (${one.pid})`),
    ...(here.length > 4 ? [`and ${count(here.length - 4)} collections more`] : []),
  ];
  tip.hidden = false;
  tip.replaceChildren(...lines.map((line) => h("div", {}, line)));
  const right = x(time) > width * 0.6;
  tip.style.left = right ? "" : `${x(time) + 14}px`;
  tip.style.right = right ? `${width - x(time) + 14}px` : "";
}

function leave(): void {
  tip.hidden = true;
  cursor.classList.remove("on");
}

svg.addEventListener("mousemove", (event) => {
  const box = svg.getBoundingClientRect();
  point(nearest(data.at, (((event.clientX - box.left) / box.width) * width - LEFT) / (width - LEFT - RIGHT) * whole));
});
svg.addEventListener("mouseleave", leave);
svg.addEventListener("blur", leave);
svg.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -data.at.length, End: data.at.length }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  point((at < 0 ? peak : at) + step * (event.shiftKey ? 10 : 1));
});

const key = (name: string, label: string) => h("span", { class: "key" }, h("i", { class: name }), label);
const cell = (text: string, number = true) => h("td", number ? { class: "number" } : {}, text);
const button = h("button", { type: "button", onclick: () => theme.next() });
const told = () => say(button, `Theme: ${theme.choice}`);
const left = (all: number, list: unknown[], what: string) => (all > list.length ? `${count(list.length)} of ${count(all)} ${what} are marked, the longest` : `${count(all)} ${what}`);
const title = `Memory of ${data.command}`;
document.title = title;
document.body.append(
  h("div", { class: "head" }, h("h1", {}, title), button),
  h("p", { class: "facts" }, `${data.outcome} after ${seconds(whole)} · began ${data.began} · a look every ${ms(data.step_ms)} · ${left(data.collections_in_all, data.collections, "collections")}${data.spans_in_all ? ` · ${left(data.spans_in_all, data.spans, "marked calls and requests")}` : ""}`),
  h("div", { class: "keys" }, ...shown.map((band, index) => key(`band-${index}`, band.label)), key("uss", "not shared (USS)"), ...["young", "middle", "full", "other"].map((what) => key(`gc ${what}`, `${what} collection`))),
  h("div", { class: "plot" }, svg, tip),
  h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...["PID", "Process", "Peak", "From", "To"].map((name) => h("th", { scope: "col" }, name)))),
    h(
      "tbody",
      {},
      ...data.processes.map((process) => {
        const there = process.rss.flatMap((size, index) => (size ? [data.at[index]] : []));
        return h("tr", {}, cell(String(process.pid)), cell(process.name, false), cell(bytes(largest(process.rss))), cell(seconds(there[0] ?? 0)), cell(seconds(there[there.length - 1] ?? 0)));
      }),
    ),
  ),
  ...data.remarks.map((remark) => h("p", { class: "note" }, remark)),
);
theme.on(told);
told();
picture();
addEventListener("resize", () => (leave(), picture()));
