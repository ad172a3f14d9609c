// The frame around a chart: title, legend, export, the table that says the same, keys.

import { h, left, mark, say, table, unique } from "../dom";
import { csv, download, picture } from "../export";
import type { Group } from "./group";

export interface Item {
  key: string;
  label: string;
  colour: string;
  /** How the mark in the legend looks. */
  shape?: string;
}

export interface Inside {
  /** The canvas that is exported. */
  canvas(): HTMLCanvasElement | null;
  /** All rows that are shown, for CSV and for the table. */
  rows(): { head: string[]; rows: string[][]; cells: (string | number | null)[][] };
  toggle(key: string): void;
  /** Moves the pointer by so many points and says what is there. */
  step(by: number): void;
}

const KEYS = "Arrow keys move the cursor, plus and minus zoom, Escape goes back, T shows a table.";

export class Card {
  readonly element: HTMLElement;
  readonly body: HTMLElement;
  readonly note: HTMLElement;
  readonly bar: HTMLElement;
  private legend: HTMLElement;
  private values = new Map<string, { button: HTMLButtonElement; value: HTMLElement }>();
  private table: HTMLElement;
  private tableButton: HTMLButtonElement;

  constructor(
    readonly id: string,
    readonly title: string,
    items: Item[],
    private group: Group,
    private inside: Inside,
    help = "",
  ) {
    const heading = unique("chart");
    this.legend = h("div", { class: "legend" }, ...items.map((item) => this.entry(item)));
    this.note = h("p", { class: "chart-note" });
    this.body = h("div", {
      class: "plot",
      tabindex: 0,
      role: "group",
      "aria-roledescription": "chart",
      "aria-label": `${title}. ${help} ${KEYS}`,
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    this.table = h("div", { class: "chart-table", hidden: true, tabindex: 0, role: "region", "aria-label": `${title}, as a table` });
    this.tableButton = h(
      "button",
      { type: "button", "aria-expanded": "false", title: "Show the values as a table", onclick: () => this.toggleTable() },
      "Table",
    );
    this.bar = h(
      "div",
      { class: "chart-actions", role: "group", "aria-label": `Actions for ${title}` },
      this.tableButton,
      h("button", { type: "button", title: "Save the values as CSV", onclick: () => this.csv() }, "CSV"),
      h("button", { type: "button", title: "Save the chart as a picture", onclick: () => this.png() }, "PNG"),
    );
    this.element = h(
      "figure",
      { class: "chart", "data-chart": id, "aria-labelledby": heading },
      h("header", {}, h("h3", { id: heading, title: help }, title), this.bar),
      this.legend,
      this.body,
      this.table,
      this.note,
    );
  }

  private entry(item: Item): HTMLElement {
    const value = h("span", { class: "value" });
    const swatch = h("i", { class: `swatch ${item.shape ?? "line"}`, "aria-hidden": "true" });
    swatch.style.setProperty("--c", `var(--${item.colour})`);
    const button = h(
      "button",
      { type: "button", "data-key": item.key, "aria-pressed": "true", onclick: () => this.inside.toggle(item.key) },
      swatch,
      h("span", { class: "label" }, item.label),
      value,
    );
    this.values.set(item.key, { button, value });
    return button;
  }

  value(key: string, text: string): void {
    const entry = this.values.get(key);
    if (entry) say(entry.value, text);
  }

  visible(key: string, shown: boolean): void {
    const entry = this.values.get(key);
    if (entry) mark(entry.button, "aria-pressed", String(shown));
  }

  /** Brings an open table up to date. */
  refresh(): void {
    if (!this.table.hidden && !this.table.matches(":hover, :focus")) this.fill();
  }

  private toggleTable(): void {
    this.table.hidden = !this.table.hidden;
    this.body.classList.toggle("with-table", !this.table.hidden);
    mark(this.tableButton, "aria-expanded", String(!this.table.hidden));
    if (!this.table.hidden) {
      this.fill();
      this.table.focus();
    }
  }

  private fill(): void {
    const { head, rows, cells } = this.inside.rows();
    const shown = rows.slice(0, 300);
    const text = head.map((_, i) => typeof cells[0]?.[i] === "string");
    const align = (i: number) => (text[i] ? "text" : null);
    const values = table(this.title, head.map((name, i) => (text[i] ? left(name) : name)));
    values.set(shown.map((row) => h("tr", {}, ...row.map((cell, i) => h(i ? "td" : "th", { scope: i ? null : "row", class: align(i) }, cell)))));
    this.table.replaceChildren(
      values.element,
      rows.length > shown.length ? h("p", { class: "note" }, `${rows.length - shown.length} more rows are in the CSV.`) : "",
      rows.length === 0 ? h("p", { class: "note" }, "Nothing in this window.") : "",
    );
  }

  private csv(): void {
    const { head, cells } = this.inside.rows();
    download(new Blob([csv(head, cells)], { type: "text/csv" }), `neurogc-${this.id}.csv`);
    this.group.announce(`${this.title} saved as CSV`);
  }

  private async png(): Promise<void> {
    const canvas = this.inside.canvas();
    if (!canvas) return;
    const items = [...this.values].filter(([, entry]) => entry.button.getAttribute("aria-pressed") === "true");
    const legend = items.map(([, { button, value }]) => {
      const swatch = button.querySelector("i") as HTMLElement;
      return {
        text: `${button.querySelector(".label")?.textContent} ${value.textContent}`.trim(),
        colour: getComputedStyle(swatch).getPropertyValue("--c").trim() || getComputedStyle(swatch).backgroundColor,
      };
    });
    download(await picture(this.title, legend, canvas), `neurogc-${this.id}.png`);
    this.group.announce(`${this.title} saved as a picture`);
  }

  private key(event: KeyboardEvent): void {
    const { from, to, hovered, actions } = this.group;
    const centre = hovered ?? (from + to) / 2;
    const width = to - from;
    const around = (factor: number) => {
      const left = centre - (centre - from) * factor;
      actions.zoom(left, left + width * factor);
    };
    const act: Record<string, () => void> = {
      ArrowLeft: () => this.inside.step(event.shiftKey ? -10 : -1),
      ArrowRight: () => this.inside.step(event.shiftKey ? 10 : 1),
      "+": () => around(0.5),
      "=": () => around(0.5),
      "-": () => around(2),
      Escape: () => {
        this.group.point(null);
        actions.reset();
      },
      t: () => this.toggleTable(),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in act)) return;
    event.preventDefault();
    act[event.key]();
  }
}
