// Alerts: those that fire, those that have ended, the rules, and where messages go.

import { aborted, get, message } from "../api";
import type { Context, Page } from "../context";
import { h, left, mark, say, section, table } from "../dom";
import { brief, count, moment } from "../format";
import type { AlertReport, AlertsReport } from "../generated/hub";
import { link } from "../view";

const EVERY_MS = 5000;

const EXAMPLE = `# alerts.toml
[[rule]]
name = "leak"
finding = "leak"

[[rule]]
name = "limit-is-near"
limit_in = "6h"`;

const STATES: Record<AlertReport["state"], string> = { firing: "firing", pending: "not for long enough yet", resolved: "over" };

function mount(root: HTMLElement, { live }: Context): () => void {
  const gone = new AbortController();
  const state = h("p", { class: "nothing", role: "status" }, "Loading…");
  const wrong = h("p", { class: "problem", role: "alert", hidden: true });
  const how = h(
    "div",
    { class: "alerts-how", hidden: true },
    h("p", {}, "This hub has no rules, so it sends no alerts. Write rules into a file and start the hub with it:"),
    h("pre", {}, EXAMPLE),
    h("pre", {}, "neurogc hub --alerts alerts.toml"),
    h("p", { class: "note" }, "Messages go to the log, to a webhook, to Slack or to a command; docs/alerts.md says how. The file is read again when it changes."),
  );
  const alerts = table("Alerts", [left("State"), left("Since"), left("Rule"), left("Process"), left("What")], "alerts");
  const rules = table("Rules", [left("Rule"), left("Condition"), left("Sent to"), "Firing"], "rules");
  const channels = table("Channels", [left("Channel"), left("What it is"), "Sent", "Failed", "Dropped", left("Last error")], "channels");
  const body = h(
    "div",
    { hidden: true },
    section("Rules", "", h("div", { class: "table-frame" }, rules.element)),
    section("Channels", "", h("div", { class: "table-frame" }, channels.element)),
  );
  root.append(h("div", { class: "title" }, h("h1", {}, "Alerts")), wrong, state, h("div", { class: "table-frame" }, alerts.element), how, body);
  alerts.element.hidden = true;

  function row(alert: AlertReport): HTMLTableRowElement {
    const { process } = alert;
    const name = process.service || brief(process.command);
    const since = moment(alert.fired_ms ?? alert.since_ms) + (alert.resolved_ms ? ` to ${moment(alert.resolved_ms)}` : "");
    const what = [h("div", {}, alert.text), alert.site ? h("div", { class: "note" }, `at ${alert.site}`) : null, alert.advice ? h("div", { class: "note" }, alert.advice) : null];
    const element = h(
      "tr",
      {},
      h("th", { scope: "row", class: "text" }, STATES[alert.state]),
      h("td", { class: "text" }, since),
      h("td", { class: "text" }, alert.rule),
      h("td", { class: "text" }, h("a", { href: link(alert.holder || alert.kind ? "memory" : "process", { id: process.id }) }, `${name}, pid ${process.pid} on ${process.host}`)),
      h("td", { class: "text" }, ...what),
    );
    mark(element, "data-state", alert.state);
    return element;
  }

  function set(report: AlertsReport): void {
    const all = [...report.alerts].sort((one, other) => Number(other.state === "firing") - Number(one.state === "firing") || other.since_ms - one.since_ms);
    const firing = all.filter((alert) => alert.state === "firing").length;
    how.hidden = report.enabled;
    body.hidden = !report.enabled;
    wrong.hidden = !report.file_error;
    say(wrong, report.file_error ? `The file with the rules has an error; the rules from before are in force. ${report.file_error}` : "");
    const dropped = report.dropped ? ` There was no room for ${count(report.dropped)} more.` : "";
    say(state, !report.enabled ? "No rules are set." : firing ? `${count(firing)} firing.${dropped}` : `Nothing fires now.${report.resolved.length ? "" : " No alert has fired since the hub keeps them."}${dropped}`);
    const shown = [...all, ...report.resolved];
    alerts.element.hidden = shown.length === 0;
    alerts.set(shown.map(row));
    rules.set(report.rules.map((rule) => h("tr", {}, h("th", { scope: "row", class: "text" }, rule.name), h("td", { class: "text" }, rule.condition), h("td", { class: "text" }, rule.to.join(", ")), h("td", {}, count(rule.firing)))));
    channels.set(
      report.channels.map((channel) =>
        h("tr", {}, h("th", { scope: "row", class: "text" }, channel.name), h("td", { class: "text" }, channel.what), ...[channel.sent, channel.failed, channel.dropped].map((value) => h("td", {}, count(value))), h("td", { class: "text" }, channel.last_error ?? "–")),
      ),
    );
  }

  async function load(): Promise<void> {
    try {
      set(await get<AlertsReport>("alerts", {}, gone.signal));
    } catch (error) {
      if (!aborted(error)) say(state, message(error));
    }
  }

  const timer = setInterval(() => !document.hidden && live.connection.kind === "live" && void load(), EVERY_MS);
  const off = live.onReturn(() => void load());
  void load();
  return () => {
    clearInterval(timer);
    gone.abort();
    off();
  };
}

export const alerts: Page = { name: "alerts", title: "Alerts", mount };
