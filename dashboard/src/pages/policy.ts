// Policy: what is due, why the conductor waits or acts, how well its gaps hold, its guards, and another policy.

import { aborted, get, part } from "../api";
import { FORECASTS, PAUSES } from "../charts/catalogue";
import { latest } from "../charts/frame";
import { Group } from "../charts/group";
import { LineChart, type Plan } from "../charts/lines";
import { PauseChart } from "../charts/pauses";
import { calibration } from "../conduct/calibration";
import { commands } from "../conduct/commands";
import { guards } from "../conduct/guards";
import { history, orders } from "../conduct/orders";
import { verdict } from "../conduct/verdict";
import { type Context, type Page, whole } from "../context";
import { h, mark, say, section } from "../dom";
import { Extent, range } from "../extent";
import { Follow } from "../follow";
import { brief, span } from "../format";
import { Picker, favourite } from "../picker";
import { Toolbar } from "../toolbar";
import type { Collection, Detail, One } from "../types";
import { link } from "../view";

const OVERDUE: Plan = {
  id: "overdue",
  title: "Full collection overdue",
  unit: "s",
  help: "For how long a full collection has been overdue and waiting for a gap.",
  height: 120,
  lines: [{ name: "conduct.overdue_s", label: "overdue", colour: "forced", fill: 0.12 }],
};

const BUSY: Plan = {
  id: "busy",
  title: "GIL busy",
  unit: "percent",
  help: "The rest, up to 100 percent, is gaps.",
  height: 120,
  lines: [{ name: "gil.busy_percent", label: "busy", colour: "clone", fill: 0.1 }],
};

function mount(root: HTMLElement, context: Context): () => void {
  const { view, live, processes, announce, onTheme } = context;
  const given = view.get("id");
  if (!given) {
    root.append(h("div", { class: "title" }, h("h1", {}, "Policy")), h("p", { class: "nothing" }, "Waiting for a process…"));
    return processes.on(() => {
      const first = favourite(processes.list.filter((process) => process.acting)) ?? favourite(processes.list);
      if (first) location.replace(link("policy", { id: first.id, range: view.get("range") }));
    });
  }
  const id = given;
  const stop = new AbortController();
  let detail: Detail | null = null;

  const picker = new Picker("Process", context, id, (other) => (location.hash = link("policy", { id: other, range: view.get("range") })), refresh);
  const facts = h("p", { class: "facts" });
  const trouble = h("p", { class: "trouble", role: "status", hidden: true });
  const now = verdict();
  const given_orders = orders();
  const past = history();
  const held = calibration();
  const above = guards();
  const ask = commands(id, announce, (policy) => {
    if (detail) detail.policy = detail.policy_shown = policy;
    void look();
  });
  const extent = new Extent(view, announce, () => follow.show(extent.window));
  const group = new Group(view, extent, announce);
  const toolbar = new Toolbar(view, { range: extent.range, reset: extent.reset, zoom: extent.zoom, pause: (paused) => (follow.pause(paused), show()) }, announce);
  const pauses = new PauseChart<Collection>({ ...PAUSES, height: 160 }, group);
  const forecasts = new LineChart(FORECASTS, group);
  const small = [OVERDUE, BUSY].map((plan) => new LineChart(plan, group));

  root.append(
    h("div", { class: "title" }, h("h1", {}, "Policy"), h("span", { class: "spring" }), picker.element),
    facts,
    h("div", { class: "policy-now" }, now.element, ask.element),
    toolbar.element,
    trouble,
    pauses.element,
    forecasts.element,
    h("div", { class: "charts two" }, ...small.map((chart) => chart.element)),
    h(
      "div",
      { class: "halves" },
      section("Orders", "What was done, and for which reason, since the agent was installed.", given_orders.element),
      section("Decisions in this window", "Orders for young collections are too many to be listed; they are counted at the left.", past.element),
      section("Gaps, expected and real", "", held.element),
      section("Guards", "They take precedence over every policy.", above.element),
    ),
  );

  async function look(): Promise<void> {
    try {
      detail = whole(await get<One>(`processes/${part(id)}`, {}, stop.signal));
    } catch (error) {
      if (aborted(error)) return;
    }
    refresh();
  }

  /** What is true now. */
  function refresh(): void {
    const known = picker.find(id) ?? detail;
    if (!known) return;
    // Its window ends with it, which is known only now.
    if (known.state === "gone" && !over) {
      over = true;
      void follow.load();
    }
    const status = detail?.status ?? null;
    const conduct = follow.conduct ?? status?.conduct ?? null;
    const up = status ? status.uptime_s + (live.now_ms() - (detail?.status_ms ?? live.now_ms())) / 1000 : null;
    const text = `${brief(known.command)} · pid ${known.pid} on ${known.host} · ${known.python}${up === null ? "" : ` · observed for ${span(up)}`}`;
    say(facts, text);
    mark(facts, "title", known.command);
    now.set(known, conduct);
    ask.set(known);
    if (conduct) given_orders.set(conduct, up);
    held.set(conduct, status);
    above.set(conduct, known, status);
  }

  function show(): void {
    const { frame, log } = follow;
    toolbar.set({ range: range(view), zoomed: follow.window.kind === "fixed", paused: follow.paused, waiting: follow.waiting });
    trouble.hidden = follow.trouble === "" && log.not_kept === "";
    say(trouble, follow.trouble ? `This could not be loaded: ${follow.trouble}` : log.not_kept);
    refresh();
    if (follow.paused) return;
    group.window(follow.from, follow.to);
    pauses.notes = log.of("policy").map((event) => ({ t: event.t, text: `${event.before} → ${event.after}` }));
    pauses.set(log.of("collection"), log.left_out);
    forecasts.element.hidden = latest(frame, "conduct.gap_ms") === null;
    forecasts.set(frame);
    for (const chart of small) chart.set(frame);
    past.set([...log.of("order"), ...log.of("policy")], live.now_ms());
    if (group.hovered === null) toolbar.point(null, follow.from, follow.to);
  }

  const ended = () => {
    const known = picker.find(id);
    return known?.state === "gone" ? known.seen_ms : null;
  };
  const follow = new Follow(id, live, extent.window, ended, show);
  let over = false;
  live.watch([id]);
  group.onHover = (t) => toolbar.point(t, group.from, group.to);
  onTheme(() => group.recolour());
  const timer = setInterval(() => !document.hidden && live.connection.kind === "live" && look(), 2000);
  const off = live.onReturn(() => void look());
  void look();

  return () => {
    clearInterval(timer);
    stop.abort();
    off();
    follow.destroy();
    picker.destroy();
    group.destroy();
  };
}

export const policy: Page = { name: "policy", title: "Policy", mount };
