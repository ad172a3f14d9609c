// Process: everything about one of them on one window of time.

import { aborted, get, part } from "../api";
import { LATENCY, MORE, PAUSES, SMALL, STALLS, siteSummary } from "../charts/catalogue";
import { latest } from "../charts/frame";
import { HeatMap } from "../charts/heat";
import { Group } from "../charts/group";
import { LineChart } from "../charts/lines";
import { PauseChart } from "../charts/pauses";
import { tiles } from "../charts/tiles";
import { type Context, type Page, whole } from "../context";
import { h, mark, say, section } from "../dom";
import { Extent, range } from "../extent";
import { Follow } from "../follow";
import { brief, figure, moment, ms, span } from "../format";
import { Latencies } from "../latencies";
import { LOST, cause, lost as timeLost, sums } from "../lost";
import { moments } from "../moments";
import { Picker, favourite } from "../picker";
import { routes } from "../routes";
import { sites } from "../sites";
import { Toolbar } from "../toolbar";
import type { Collection, Detail, One, Stall } from "../types";
import { link } from "../view";

function mount(root: HTMLElement, context: Context): () => void {
  const { view, live, processes, announce, onTheme } = context;
  const given = view.get("id");
  if (!given) {
    // The page was opened without a process: take one as soon as there is one.
    root.append(h("div", { class: "title" }, h("h1", {}, "Process")), h("p", { class: "nothing" }, "Waiting for a process…"));
    const off = processes.on(() => {
      const first = favourite(processes.list);
      if (first) location.replace(link("process", { id: first.id, range: view.get("range") }));
    });
    return off;
  }
  const id = given;

  const heading = h("h1", {}, id);
  const facts = h("p", { class: "facts" });
  const warnings = h("ul", { class: "warnings", hidden: true });
  const trouble = h("p", { class: "trouble", role: "status", hidden: true });
  const lost = h("p", { class: "trouble", role: "status", hidden: true });
  const picker = new Picker("Process", context, id, (other) => (location.hash = link("process", { id: other, range: view.get("range"), slo: view.get("slo") })), about);
  const verdict = h("p", { class: "verdict finding", role: "status" });
  const stop = new AbortController();
  let detail: Detail | null = null;

  const extent = new Extent(view, announce, () => follow.show(extent.window));
  const group = new Group(view, extent, announce);
  const toolbar = new Toolbar(view, { range: extent.range, reset: extent.reset, zoom: extent.zoom, slo: threshold, pause: (paused) => (follow.pause(paused), show()) }, announce);
  const strip = tiles();
  const heat = new HeatMap(group);
  const lostTime = new LineChart(LOST, group);
  const worst = moments(extent.zoom);
  const table = routes();
  const latency = new LineChart(LATENCY, group);
  const pauses = new PauseChart<Collection>(PAUSES, group);
  const stalls = new PauseChart<Stall>(STALLS, group);
  const stalled = sites();
  const small = SMALL.map((plan) => new LineChart(plan, group));
  const more = MORE.map((plan) => new LineChart(plan, group));
  heat.slo = latency.slo = view.number("slo");

  const known = h(
    "div",
    { class: "known" },
    verdict,
    toolbar.element,
    trouble,
    lost,
    strip.element,
    h("div", { class: "one-screen" }, h("div", { class: "stack" }, heat.element, lostTime.element), section("Worst moments", "Slowest requests of the last minutes and longest stalls.", worst.element)),
    section("Routes", "Since the process started. Times count from the arrival of a request, its wait included.", table.element),
    latency.element,
    pauses.element,
    h("div", { class: "beside" }, stalls.element, section("Where it stalls", "", stalled.element)),
    h("div", { class: "charts" }, ...small.map((chart) => chart.element)),
    h("details", { class: "more" }, h("summary", {}, "Storage, network, descriptors"), h("div", { class: "charts" }, ...more.map((chart) => chart.element))),
  );
  const unknown = h("div", { class: "nothing", hidden: true }, h("p", {}, `The hub knows no process ${id}. It never reported to this hub, or its history has been deleted.`), h("a", { href: link("overview") }, "Go to the overview"));
  root.append(h("div", { class: "title" }, heading, h("span", { class: "spring" }), picker.element), facts, warnings, known, unknown);

  function threshold(value: number | null): void {
    heat.slo = latency.slo = value;
    heat.show();
    latency.show();
  }

  /** The whole report: what is found, routes and slow requests are only there. */
  async function look(): Promise<void> {
    try {
      detail = whole(await get<One>(`processes/${part(id)}`, {}, stop.signal));
    } catch (error) {
      if (aborted(error)) return;
    }
    const [found] = detail?.status?.findings ?? [];
    say(verdict, found ? [found.text, found.text.includes(found.advice) ? "" : found.advice].filter(Boolean).join(" ") : detail?.status ? "No finding for this process." : "This process does not report now; its history is below.");
    mark(verdict, "data-kind", found?.kind ?? null);
    table.set(detail?.status ?? null);
    moment_list();
  }

  function moment_list(): void {
    if (!follow.paused) worst.set(detail, follow.log.of("stall"), follow.log.of("collection"), follow.from, follow.to);
  }

  function ended(): number | null {
    const process = picker.find(id);
    return process?.state === "gone" ? process.seen_ms : null;
  }

  function about(): void {
    const mine = picker.find(id);
    if (!mine) return;
    // Its window ends with it, which is mine only now.
    if (mine.state === "gone" && !over) {
      over = true;
      void follow.load();
    }
    say(heading, brief(mine.command));
    heading.title = mine.command;
    document.title = `${brief(mine.command)} – NeuroGC`;
    const now = live.now_ms();
    const other = processes.list.find((process) => process.id !== id && process.state === "live");
    const parts: (Node | string)[] = [
      h("span", { class: "state", "data-state": mine.state }, mine.state),
      h("span", {}, `pid ${mine.pid} on ${mine.host}`),
      h("span", {}, mine.python),
      h("span", {}, mine.state === "gone" ? `ended ${moment(mine.seen_ms)}` : `up ${span((now - mine.started_ms) / 1000)}`),
      h("a", { class: "chip", href: link("policy", { id, range: view.get("range") }), "data-acting": String(mine.acting), title: "Policy" }, mine.policy_shown),
    ];
    if (other) parts.push(h("a", { href: link("compare", { a: other.id, b: id, range: view.get("range") }) }, "Compare"));
    const text = JSON.stringify(parts.map((part) => (part as Element).outerHTML));
    if (facts.dataset.now !== text) {
      facts.dataset.now = text;
      facts.replaceChildren(...parts);
    }
    warnings.hidden = mine.warnings.length === 0;
    if (warnings.dataset.now !== mine.warnings.join("\n")) {
      warnings.dataset.now = mine.warnings.join("\n");
      warnings.replaceChildren(...mine.warnings.map((warning) => h("li", {}, warning)));
    }
  }

  function show(): void {
    const { frame, log } = follow;
    group.window(follow.from, follow.to);
    const zoomed = follow.window.kind === "fixed";
    toolbar.set({ range: range(view), zoomed, paused: follow.paused, waiting: follow.waiting });
    known.hidden = follow.unknown;
    unknown.hidden = !follow.unknown;
    trouble.hidden = follow.trouble === "";
    say(trouble, follow.trouble ? `This could not be loaded: ${follow.trouble}` : "");
    if (follow.paused) return;
    const stops = log.of("stall");
    pauses.notes = log.of("policy").map((event) => ({ t: event.t, text: `${event.before} → ${event.after}` }));
    latencies.want(follow.from, follow.to);
    heat.set(latencies.heat, log.of("collection"));
    lostTime.set(timeLost(stops, follow.from, follow.to));
    const shares = sums(stops, follow.from, follow.to);
    lostTime.note(shares.length ? `In this window: ${shares.map(([name, total]) => `${cause(name)} ${ms(total)}`).join(", ")}.` : log.not_kept || "Nothing held the program up in this window.");
    moment_list();
    latency.set(frame);
    pauses.set(log.of("collection"), log.left_out);
    stalls.set(stops);
    for (const chart of [...small, ...more]) chart.set(frame);
    stalled.set(siteSummary(stops.filter((stall) => stall.t >= follow.from)), live.now_ms());
    const dropped = log.of("dropped").reduce((sum, event) => sum + event.count, 0);
    lost.hidden = dropped === 0 && log.not_kept === "";
    say(lost, log.not_kept + (dropped ? `${dropped.toLocaleString("en-US")} events in this window were dropped by the agent because its buffer was full; the charts are incomplete.` : ""));
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

  const latencies = new Latencies(id, () => follow.paused || heat.set(latencies.heat, follow.log.of("collection")));
  const follow = new Follow(id, live, extent.window, ended, show);
  const timer = setInterval(() => !document.hidden && live.connection.kind === "live" && look(), 2000);
  void look();
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
    clearInterval(timer);
    stop.abort();
    latencies.destroy();
    follow.destroy();
    picker.destroy();
    group.destroy();
  };
}

export const process: Page = { name: "process", title: "Process", mount };
