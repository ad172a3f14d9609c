// The shell around the pages: header, navigation, connection, drops, colours, token.

import "uplot/dist/uPlot.min.css";
import "./colours.css";
import "./style.css";
import "./process.css";
import "./flame/flame.css";
import "./heap/heap.css";
import { forgetToken, get, keepToken, whenUnauthorized } from "./api";
import { type Page, Processes } from "./context";
import { h, mark, say, unique } from "./dom";
import { bytes, count } from "./format";
import { Live } from "./live";
import { alerts } from "./pages/alerts";
import { compare } from "./pages/compare";
import { gpu } from "./pages/gpu";
import { heap } from "./pages/heap";
import { memory } from "./pages/memory";
import { overview } from "./pages/overview";
import { policy } from "./pages/policy";
import { process } from "./pages/process";
import { replay } from "./pages/replay";
import { Theme } from "./theme";
import type { Hub } from "./types";
import { View, link } from "./view";

const PAGES: Page[] = [overview, process, memory, heap, gpu, compare, replay, policy, alerts];

const theme = new Theme();
const live = new Live();
const processes = new Processes(live);

// The frame of the page.

const connection = h("span", { class: "connection", role: "status" });
const drops = h("span", { class: "drops", role: "status", hidden: true });
const themeButton = h("button", { type: "button", class: "theme", onclick: () => theme.next() });
const tabs = PAGES.map((page) => h("a", { href: link(page.name), "data-page": page.name }, page.title));
const main = h("main", { id: "main", tabindex: -1 });
const banner = h("div", { class: "banner", role: "alert", hidden: true });
const spoken = h("div", { class: "unseen", "aria-live": "polite" });
const toast = h("div", { class: "toast", hidden: true, "aria-hidden": "true" });
const footer = h("footer", {});

document.body.append(
  h("a", { class: "skip", href: "#main", onclick: (event: Event) => (event.preventDefault(), main.focus()) }, "Skip to the page"),
  h(
    "header",
    { class: "top" },
    h("a", { class: "brand", href: link("overview"), "aria-label": "NeuroGC, overview" }, mascot(), "NeuroGC"),
    h("nav", { "aria-label": "Pages" }, ...tabs),
    h("span", { class: "spring" }),
    drops,
    connection,
    themeButton,
  ),
  banner,
  main,
  footer,
  spoken,
  toast,
);

function mascot(): HTMLElement {
  return h("img", { src: "icon.svg", alt: "", width: 22, height: 22 });
}

// Tabs keep the process and the part of time that were looked at.

const KEPT = ["range", "from", "to", "slo"];
const kept: Record<string, string | null> = {};

function keep(view: View): void {
  const id = view.get("id") ?? view.get("b");
  if (id) kept.id = id;
  // A comparison from the starts of both counts time otherwise.
  const relative = new Set(view.get("align") === "start" ? ["from", "to"] : []);
  if (["process", "policy", "compare"].includes(view.page)) for (const name of KEPT) kept[name] = relative.has(name) ? null : view.get(name);
  for (const tab of tabs) {
    const page = tab.dataset.page as string;
    const { id: process = null, ...window } = kept;
    // A comparison begins with this process as the second one; the page finds the other.
    if (["memory", "heap", "gpu"].includes(page)) tab.setAttribute("href", link(page, { id: process }));
    else if (page === "process" || page === "policy") tab.setAttribute("href", link(page, { id: process, ...window }));
    else if (page === "compare") tab.setAttribute("href", link(page, view.page === "compare" ? { a: view.get("a"), b: view.get("b"), ...window } : { b: process, ...window }));
  }
}
View.changed = keep;

// Saying things.

let toastTimer = 0;

function announce(text: string, tone: "good" | "bad" | "quiet" = "quiet"): void {
  spoken.textContent = text;
  if (tone === "quiet" && text.length > 60) return;
  toast.textContent = text;
  toast.dataset.tone = tone;
  toast.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = window.setTimeout(() => (toast.hidden = true), tone === "bad" ? 8000 : 3500);
}

// Connection.

const dialog = h("dialog", { "aria-label": "Token" });
document.body.append(dialog);

live.onConnection((state) => {
  mark(connection, "data-state", state.kind);
  if (state.kind === "live") {
    if (!banner.hidden) announce("Connected again");
    banner.hidden = true;
    say(connection, "Live");
  } else if (state.kind === "lost") {
    const wait = Math.max(0, Math.ceil((state.retry_at - Date.now()) / 1000));
    say(connection, dialog.open ? "Token required" : "Disconnected");
    // The dialog says what is missing; the connection is not the matter.
    banner.hidden = dialog.open;
    const text = `The connection to the hub is lost; what is shown is not current. ${wait > 0 ? `Next try in ${wait} s` : "Trying now"} (try ${state.attempt}).`;
    if (!banner.firstChild) {
      banner.append(h("span", {}), h("button", { type: "button", onclick: () => live.now() }, "Try now"));
    }
    // Only the first words are spoken: a countdown would be read out every second.
    mark(banner, "role", state.attempt === 1 ? "alert" : null);
    say(banner.firstElementChild as Element, text);
  } else {
    say(connection, "Connecting…");
  }
});

// The hub itself: what it dropped, and how full it is.

async function lookAtHub(): Promise<void> {
  const hub = await get<Hub>("hub").catch(() => null);
  if (!hub) return;
  const lost: string[] = [];
  if (hub.ingest.missed) lost.push(`${count(hub.ingest.missed)} events dropped by agents`);
  if (hub.ingest.refused) lost.push(`${count(hub.ingest.refused)} reports refused`);
  if (hub.store.dropped) lost.push(`${count(hub.store.dropped)} rows not stored`);
  if (hub.clients.skipped) lost.push(`${count(hub.clients.skipped)} messages skipped for slow browsers`);
  if (hub.store.trouble) lost.push(hub.store.kind === "sqlite" ? `store: ${hub.store.trouble}` : hub.store.trouble);
  drops.hidden = lost.length === 0;
  say(drops, lost.join(" · "));
  const { store, clients, ingest } = hub;
  footer.replaceChildren(
    h("span", {}, `NeuroGC ${hub.neurogc} on ${hub.host}`),
    h("span", {}, `${count(hub.processes.live)} live, ${count(hub.processes.known)} known`),
    h("span", {}, `${count(ingest.reports)} reports, ${count(ingest.events)} events`),
    h("span", { title: store.not_kept.join("\n") || null }, store.kind === "sqlite" ? `history ${bytes(store.bytes)} of ${bytes(store.limit_bytes)}` : `history from Prometheus at ${store.path}`),
    h("span", {}, `hub uses ${bytes(hub.rss)}`),
    h("span", {}, `${count(clients.connected)} ${clients.connected === 1 ? "browser" : "browsers"}`),
  );
}
setInterval(() => !document.hidden && live.connection.kind === "live" && lookAtHub(), 5000);

// The token.

whenUnauthorized(() => {
  if (dialog.open) return;
  const refused = forgetToken();
  const id = unique("token");
  const input = h("input", { id, type: "password", autocomplete: "off", required: true });
  dialog.replaceChildren(
    h(
      "form",
      {
        method: "dialog",
        onsubmit: () => {
          keepToken(input.value);
          location.reload();
        },
      },
      h("h2", {}, "This hub requires a token"),
      refused ? h("p", { role: "alert" }, "The token that was given is not the hub's.") : "",
      h("p", {}, "Open the address that `neurogc hub` printed: it carries the token. Or type a token of the hub's file hub.tokens here; it is kept for this session of the browser only."),
      h("label", { for: id, class: "field" }, h("span", {}, "Token"), input),
      h("button", { type: "submit", class: "primary" }, "Open"),
    ),
  );
  dialog.showModal();
});

// Colours.

function showTheme(): void {
  say(themeButton, `Theme: ${theme.choice}`);
  mark(themeButton, "aria-label", `Colours: ${theme.choice}. Change`);
}
theme.on(showTheme);
showTheme();

// Pages.

let leave = () => {};

/** What is shown for an address that names no page. */
function missing(name: string): Page {
  const mount = (root: HTMLElement) => {
    root.append(h("div", { class: "title" }, h("h1", {}, "No such page")), h("p", { class: "nothing" }, `The dashboard has no page “${name}”. `, h("a", { href: link("overview") }, "Go to the overview")));
    return () => {};
  };
  return { name, title: "No such page", mount };
}

function open(): void {
  const view = View.read();
  const page = PAGES.find((other) => other.name === view.page) ?? missing(view.page);
  keep(view);
  leave();
  live.watch([]);
  main.replaceChildren();
  for (const tab of tabs) mark(tab, "aria-current", tab.dataset.page === page.name ? "page" : null);
  document.title = `${page.title} – NeuroGC`;
  const undo: (() => void)[] = [];
  const unmount = page.mount(main, {
    view,
    live,
    processes,
    announce,
    onTheme: (act) => {
      const off = theme.on(act);
      undo.push(off);
      return off;
    },
  });
  leave = () => {
    unmount();
    for (const act of undo) act();
  };
}

let seen = "";
addEventListener("hashchange", () => {
  open();
  const page = View.read().page;
  if (page !== seen) {
    seen = page;
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
});
seen = View.read().page;

open();
void lookAtHub();
live.connect();
