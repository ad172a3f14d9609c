// Making and changing elements. Text is always set as text, so nothing that a process says can become markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

/** An element: `on…` are listeners, `class` and the like are attributes, `false` and `null` leave one out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child != null && child !== false));
  return element;
}

/** Sets a text only where it differs, so that selections and screen readers are left alone. */
export function say(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets or removes an attribute only where it differs. */
export function mark(element: Element, name: string, value: string | null): void {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

let last = 0;

/** A name for an element that others refer to. */
export function unique(prefix: string): string {
  last += 1;
  return `${prefix}-${last}`;
}

export interface Choice {
  value: string;
  label: string;
}

/** A labelled select. */
export function select(label: string, choices: Choice[], chosen: string, changed: (value: string) => void) {
  const box = h("select", { onchange: () => changed(box.value) });
  const fill = (list: Choice[], value: string) => {
    const now = JSON.stringify([list, value]);
    if (box.dataset.now === now) return;
    box.dataset.now = now;
    box.replaceChildren(...list.map((choice) => h("option", { value: choice.value }, choice.label)));
    box.value = value;
  };
  fill(choices, chosen);
  return { element: h("label", { class: "field" }, h("span", {}, label), box), box, fill };
}

/** A row of buttons of which one is pressed. */
export function segments(label: string, choices: Choice[], chosen: string, changed: (value: string) => void) {
  const buttons = choices.map((choice) =>
    h("button", { type: "button", "data-value": choice.value, onclick: () => changed(choice.value) }, choice.label),
  );
  const set = (value: string) => buttons.forEach((button) => mark(button, "aria-pressed", String(button.dataset.value === value)));
  set(chosen);
  return { element: h("div", { class: "segments", role: "group", "aria-label": label }, ...buttons), set };
}

/** Asks before something is done. `yes` is what the button that does it says. */
export function confirmed(question: string, sentences: string[], yes: string): Promise<boolean> {
  return new Promise((decided) => {
    const id = unique("question");
    const dialog = h(
      "dialog",
      { class: "question", "aria-labelledby": id, onclose: () => (dialog.remove(), decided(dialog.returnValue === "yes")) },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id }, question),
        ...sentences.map((sentence) => h("p", {}, sentence)),
        h("div", { class: "row" }, h("button", { value: "no", autofocus: true }, "Cancel"), h("button", { value: "yes", class: "primary" }, yes)),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** The head of a column of texts; columns of numbers need only a title. */
export function left(title: string): HTMLTableCellElement {
  return h("th", { scope: "col", class: "text" }, title);
}

/**
 * A table. On a small screen its rows become cards, in which each cell says what it is: it is labelled by the head of its column
 * where it has no label of its own.
 */
export function table(caption: string | HTMLTableCaptionElement, heads: (string | HTMLTableCellElement)[], name = "") {
  const cells = heads.map((head) => (typeof head === "string" ? h("th", { scope: "col" }, head) : head));
  const body = h("tbody");
  const title = typeof caption === "string" ? h("caption", { class: "unseen" }, caption) : caption;
  const element = h("table", { class: name }, title, h("thead", {}, h("tr", {}, ...cells)), body);
  const set = (rows: HTMLTableRowElement[]) => {
    for (const row of rows) {
      for (const [i, cell] of [...row.cells].entries()) if (cell.tagName === "TD" && cells[i]?.textContent) cell.dataset.label ??= cells[i].textContent;
    }
    body.replaceChildren(...rows);
  };
  return { element, set };
}

/** A part of a page under a heading. */
export function section(title: string, note: string, ...children: Child[]): HTMLElement {
  const id = unique("section");
  return h(
    "section",
    { "aria-labelledby": id },
    h("div", { class: "section-head" }, h("h2", { id }, title), note ? h("p", { class: "note" }, note) : null),
    ...children,
  );
}
