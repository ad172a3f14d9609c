// Process: everything about one of them on one window of time.

import { LATENCY, PAUSES, SMALL, STALLS, siteSummary } from "../charts/catalogue";
import { latest } from "../charts/frame";
import { Group } from "../charts/group";
import { LineChart } from "../charts/lines";
import { PauseChart } from "../charts/pauses";
import { tiles } from "../charts/tiles";
import type { Context, Page } from "../context";
import { h, mark, say, section } from "../dom";
import { Extent, range } from "../extent";
import { Follow } from "../follow";
import { brief, figure, moment, span } from "../format";
import { Picker, favourite } from "../picker";
import { sites } from "../sites";
import { Toolbar } from "../toolbar";
import type { Collection, Stall } from "../types";
import { link } from "../view";

function mount(root: HTMLElement, context: Context): () => void {
  const { view, live, processes, announce, onTheme } = context;
  const given = view.get("id");
  if (!given) {
    // The page was opened without a process: take one as soon as there is one.
    root.append(h("div", { class: "title" }, h("h1", {}, "Process")), h("p", { class: "nothing" }, "Waiting for a process…"));
    const off = processes.on(() => {
      const first = favourite(processes.list);
      if (first) location.replace(link("process", { id: first.id }));
    });
    return off;
  }
  const id = given;

  const heading = h("h1", {}, id);
  const facts = h("p", { class: "facts" });
  const warnings = h("ul", { class: "warnings", hidden: true });
  const trouble = h("p", { class: "trouble", role: "status", hidden: true });
  const lost = h("p", { class: "trouble", role: "status", hidden: true });
  const picker = new Picker("Process", context, id, (other) => (location.hash = link("process", { id: other, range: view.get("range") })), about);

  const extent = new Extent(view, announce, () => follow.show(extent.window));
  const group = new Group(view, extent, announce);
  const toolbar = new Toolbar(view, { range: extent.range, reset: extent.reset, pause: (paused) => (follow.pause(paused), show()) }, announce);
  const strip = tiles();
  const latency = new LineChart(LATENCY, group);
  const pauses = new PauseChart<Collection>(PAUSES, group);
  const stalls = new PauseChart<Stall>(STALLS, group);
  const stalled = sites();
  const small = SMALL.map((plan) => new LineChart(plan, group));

  root.append(
    h("div", { class: "title" }, heading, h("span", { class: "spring" }), picker.element),
    facts,
    warnings,
    toolbar.element,
    trouble,
    lost,
    strip.element,
    latency.element,
    pauses.element,
    h("div", { class: "beside" }, stalls.element, section("Where it stalls", "", stalled.element)),
    h("div", { class: "charts" }, ...small.map((chart) => chart.element)),
  );

  function ended(): number | null {
    const known = picker.find(id);
    return known?.state === "gone" ? known.seen_ms : null;
  }

  function about(): void {
    const known = picker.find(id);
    if (!known) return;
    // Its window ends with it, which is known only now.
    if (known.state === "gone" && !over) {
      over = true;
      void follow.load();
    }
    say(heading, brief(known.command));
    heading.title = known.command;
    document.title = `${brief(known.command)} – NeuroGC`;
    const now = live.now_ms();
    const other = processes.list.find((process) => process.id !== id && process.state === "live");
    const parts: (Node | string)[] = [
      h("span", { class: "state", "data-state": known.state }, known.state),
      h("span", {}, `pid ${known.pid} on ${known.host}`),
      h("span", {}, known.python),
      h("span", {}, known.state === "gone" ? `ended ${moment(known.seen_ms)}` : `up ${span((now - known.started_ms) / 1000)}`),
      h("a", { class: "chip", href: link("policy", { id }), "data-acting": String(known.acting), title: "Policy" }, known.policy_shown),
    ];
    if (other) parts.push(h("a", { href: link("compare", { a: other.id, b: id }) }, "Compare"));
    const text = JSON.stringify(parts.map((part) => (part as Element).outerHTML));
    if (facts.dataset.now !== text) {
      facts.dataset.now = text;
      facts.replaceChildren(...parts);
    }
    warnings.hidden = known.warnings.length === 0;
    if (warnings.dataset.now !== known.warnings.join("\n")) {
      warnings.dataset.now = known.warnings.join("\n");
      warnings.replaceChildren(...known.warnings.map((warning) => h("li", {}, warning)));
    }
  }

  function show(): void {
    const { frame, log } = follow;
    group.window(follow.from, follow.to);
    const zoomed = follow.window.kind === "fixed";
    toolbar.set({ range: range(view), zoomed, paused: follow.paused, waiting: follow.waiting });
    trouble.hidden = follow.trouble === "";
    say(trouble, follow.trouble ? `This could not be loaded: ${follow.trouble}` : "");
    if (follow.paused) return;
    const stops = log.of("stall");
    pauses.notes = log.of("policy").map((event) => ({ t: event.t, text: `${event.before} → ${event.after}` }));
    latency.set(frame);
    pauses.set(log.of("collection"), log.left_out);
    stalls.set(stops);
    for (const chart of small) chart.set(frame);
    stalled.set(siteSummary(stops.filter((stall) => stall.t >= follow.from)), live.now_ms());
    const dropped = log.of("dropped").reduce((sum, event) => sum + event.count, 0);
    lost.hidden = dropped === 0;
    say(lost, dropped ? `${dropped.toLocaleString("en-US")} events in this window were dropped by the agent because its buffer was full; the charts are incomplete.` : "");
    summary();
    if (group.hovered === null) toolbar.point(null, follow.from, follow.to);
  }

  function summary(): void {
    const { frame } = follow;
    const at = (name: string) => latest(frame, name, follow.to);
    const limit = at("memory.limit");
    const longest = (frame.series["gc.max_ms"] ?? []).reduce<number>((most, value, i) => (frame.t[i] >= follow.from && frame.t[i] <= follow.to ? Math.max(most, value ?? 0) : most), 0);
    strip.set({
      p50: at("requests.p50_ms"),
      p95: at("requests.p95_ms"),
      p99: at("requests.p99_ms"),
      rps: at("requests.rps"),
      waited: at("gc.in_request_ms"),
      pause: longest,
      rss: at("memory.rss"),
      cpu: at("cpu.percent"),
      gil: at("gil.busy_percent"),
    });
    strip.note("rss", limit ? `${((100 * (at("memory.rss") ?? 0)) / limit).toFixed(0)} % of the limit` : "no limit");
    strip.step(frame.step_ms);
    strip.note("pause", "in this window");
    strip.note("cpu", `agent ${figure(at("agent.cpu_percent"), "percent")}`);
    mark(strip.element, "data-state", picker.find(id)?.state ?? null);
  }

  const follow = new Follow(id, live, extent.window, ended, show);
  let over = false;
  live.watch([id]);
  group.onHover = (t) => toolbar.point(t, group.from, group.to);
  const off = [
    processes.on(about),
    live.on("gone", (message) => message.id === id && announce("The process has ended")),
  ];
  onTheme(() => group.recolour());

  return () => {
    for (const act of off) act();
    follow.destroy();
    picker.destroy();
    group.destroy();
  };
}

export const process: Page = { name: "process", title: "Process", mount };
