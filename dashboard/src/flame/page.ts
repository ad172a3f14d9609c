// A flame graph as a file of its own: `neurogc memory flame`, `neurogc stalls` and the dashboard put the data in.

import "../colours.css";
import "./flame.css";
import "./page.css";
import { h, say } from "../dom";
import { Theme } from "../theme";
import { type FlameData } from "./data";
import { facts, headline } from "./facts";
import { FlameGraph } from "./graph";

const theme = new Theme();
const data: FlameData = JSON.parse(document.getElementById("data")?.textContent ?? "null");
const graph = new FlameGraph();
const button = h("button", { type: "button", onclick: () => theme.next() });
document.title = headline(data);
document.body.append(
  h("div", { class: "head" }, h("h1", {}, headline(data)), button),
  h("p", { class: "facts" }, facts(data)),
  graph.element,
);
const recolour = () => {
  say(button, `Theme: ${theme.choice}`);
  graph.draw();
};
theme.on(recolour);
recolour();
graph.set(data);
