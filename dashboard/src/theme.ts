// Light or dark: what the system says, or what was chosen here.

export type Choice = "auto" | "light" | "dark";

const KEY = "neurogc.theme";
const ORDER: Choice[] = ["auto", "light", "dark"];

// A page that was opened as a file may have no storage; then nothing is remembered.

function remembered(): Choice | null {
  try {
    return localStorage.getItem(KEY) as Choice | null;
  } catch {
    return null;
  }
}

function remember(choice: Choice): void {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    return;
  }
}

export class Theme {
  choice: Choice;
  private listeners = new Set<() => void>();
  private system = matchMedia("(prefers-color-scheme: dark)");

  constructor() {
    const kept = remembered();
    this.choice = kept && ORDER.includes(kept) ? kept : "auto";
    this.system.addEventListener("change", () => this.apply());
    this.apply();
  }

  next(): void {
    this.choice = ORDER[(ORDER.indexOf(this.choice) + 1) % ORDER.length];
    remember(this.choice);
    this.apply();
  }

  on(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private apply(): void {
    const dark = this.choice === "dark" || (this.choice === "auto" && this.system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    for (const listener of this.listeners) listener();
  }
}
