// The shell around the pages: header, navigation, connection, drops, colours, token.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { forgetToken, get, keepToken, whenUnauthorized } from "./api";
import { type Page, Processes } from "./context";
import { h, mark, say, unique } from "./dom";
import { bytes, count } from "./format";
import { Live } from "./live";
import { compare } from "./pages/compare";
import { overview } from "./pages/overview";
import { policy } from "./pages/policy";
import { process } from "./pages/process";
import { replay } from "./pages/replay";
import { Theme } from "./theme";
import type { Hub } from "./types";
import { View, link } from "./view";

const PAGES: Page[] = [overview, process, compare, replay, policy];

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

live.onConnection((state) => {
  mark(connection, "data-state", state.kind);
  if (state.kind === "live") {
    if (!banner.hidden) announce("Connected again");
    banner.hidden = true;
    say(connection, "Live");
  } else if (state.kind === "lost") {
    const wait = Math.max(0, Math.ceil((state.retry_at - Date.now()) / 1000));
    say(connection, "Disconnected");
    banner.hidden = false;
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
  if (hub.store.trouble) lost.push(`store: ${hub.store.trouble}`);
  drops.hidden = lost.length === 0;
  say(drops, lost.join(" · "));
  const { store, clients, ingest } = hub;
  footer.replaceChildren(
    h("span", {}, `NeuroGC ${hub.neurogc} on ${hub.host}`),
    h("span", {}, `${count(hub.processes.live)} live, ${count(hub.processes.known)} known`),
    h("span", {}, `${count(ingest.reports)} reports, ${count(ingest.events)} events`),
    h("span", {}, `history ${bytes(store.bytes)} of ${bytes(store.limit_bytes)}`),
    h("span", {}, `hub uses ${bytes(hub.rss)}`),
    h("span", {}, `${count(clients.connected)} ${clients.connected === 1 ? "browser" : "browsers"}`),
  );
}
setInterval(() => !document.hidden && live.connection.kind === "live" && lookAtHub(), 5000);

// The token.

const dialog = h("dialog", { "aria-label": "Token" });
document.body.append(dialog);
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

function open(): void {
  const view = View.read();
  const page = PAGES.find((other) => other.name === view.page) ?? overview;
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
