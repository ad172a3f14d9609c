// A snapshot of PyTorch's allocator as a file of its own: `neurogc gpu show FILE -o OUT` puts the data in.

import "../colours.css";
import "../flame/page.css";
import "./page.css";
import { h, say } from "../dom";
import { bytes } from "../format";
import type { GpuSnapshot } from "../generated/hub";
import { Theme } from "../theme";
import { snapshotView } from "./view";

const theme = new Theme();
const { name, snapshot }: { name: string; snapshot: GpuSnapshot } = JSON.parse(document.getElementById("data")?.textContent ?? "null");
const button = h("button", { type: "button", onclick: () => theme.next() });
const told = () => say(button, `Theme: ${theme.choice}`);
document.title = name;
document.body.append(h("div", { class: "head" }, h("h1", {}, name), button), h("p", { class: "facts" }, `Snapshot of PyTorch's allocator, ${bytes(snapshot.file_bytes)}`), snapshotView(snapshot));
theme.on(told);
told();
