// GPU: memory in use, reserved and in pieces over time, the latest steps, the verdict on growth, and snapshot files.

import { get, part } from "../api";
import { GPU, GPU_STEPS } from "../charts/catalogue";
import { Group } from "../charts/group";
import { LineChart } from "../charts/lines";
import { type Context, type Page, whole } from "../context";
import { h, mark, say, section } from "../dom";
import { Extent, range } from "../extent";
import { Follow } from "../follow";
import { brief } from "../format";
import { deviceTable, gpuVerdict } from "../gpu/devices";
import { stepTimeline } from "../gpu/steps";
import { Picker, favourite } from "../picker";
import { snapshotOpener } from "../snapshot/opener";
import { Toolbar } from "../toolbar";
import type { One } from "../types";
import { link } from "../view";

const EVERY_MS = 2000;

function mount(root: HTMLElement, context: Context): () => void {
  const { view, live, processes, announce, onTheme } = context;
  const given = view.get("id");
  if (!given) {
    root.append(h("div", { class: "title" }, h("h1", {}, "GPU")), h("p", { class: "nothing" }, "Waiting for a process…"), snapshotOpener());
    return processes.on(() => {
      const first = favourite(processes.list);
      if (first) location.replace(link("gpu", { id: first.id }));
    });
  }
  const id = given;
  const gone = new AbortController();
  const picker = new Picker("Process", context, id, (other) => (location.hash = link("gpu", { id: other })), name);
  const command = h("p", { class: "facts" });
  const [verdict, devices, steps] = [gpuVerdict(), deviceTable(), stepTimeline()];
  const extent = new Extent(view, announce, () => follow.show(extent.window));
  const group = new Group(view, extent, announce);
  const toolbar = new Toolbar(view, { range: extent.range, reset: extent.reset, zoom: extent.zoom, pause: (paused) => (follow.pause(paused), drawn()) }, announce);
  const charts = [new LineChart(GPU, group), new LineChart(GPU_STEPS, group)];
  root.append(
    h("div", { class: "title" }, h("h1", {}, "GPU"), h("span", { class: "spring" }), picker.element),
    command,
    section("Verdict", "Whether memory grows from step to step, and what holds it. neurogc gpu PID lists all holders.", verdict.element),
    section("Devices", "", devices.element),
    section("Latest steps", "At the end of each optimizer step.", steps.element),
    toolbar.element,
    ...charts.map((chart) => chart.element),
    snapshotOpener(),
  );

  function name(): void {
    const known = picker.find(id);
    if (!known) return;
    say(command, `${brief(known.command)} · pid ${known.pid} on ${known.host} · ${known.python}`);
    mark(command, "title", known.command);
  }

  function drawn(): void {
    toolbar.set({ range: range(view), zoomed: follow.window.kind === "fixed", paused: follow.paused, waiting: follow.waiting });
    if (follow.paused) return;
    group.window(follow.from, follow.to);
    for (const chart of charts) chart.set(follow.frame);
    if (group.hovered === null) toolbar.point(null, follow.from, follow.to);
  }

  async function load(): Promise<void> {
    const answer = await get<One>(`processes/${part(id)}`, {}, gone.signal).then(whole).catch(() => null);
    if (gone.signal.aborted) return;
    for (const shown of [verdict, devices, steps]) shown.set(answer?.status ?? null);
  }

  const ended = () => {
    const known = picker.find(id);
    return known?.state === "gone" ? known.seen_ms : null;
  };
  const follow = new Follow(id, live, extent.window, ended, drawn);
  live.watch([id]);
  group.onHover = (t) => toolbar.point(t, group.from, group.to);
  onTheme(() => (steps.draw(), group.recolour()));
  const timer = setInterval(() => !document.hidden && live.connection.kind === "live" && void load(), EVERY_MS);
  const off = live.onReturn(() => void load());
  void load();
  return () => {
    clearInterval(timer);
    gone.abort();
    off();
    follow.destroy();
    picker.destroy();
    group.destroy();
  };
}

export const gpu: Page = { name: "gpu", title: "GPU", mount };
