// What is shown, as the hash of the address: a link that restores the view.

export class View {
  constructor(
    readonly page: string,
    private words: URLSearchParams,
  ) {}

  /** Told when the address has changed without a new page. */
  static changed: (view: View) => void = () => {};

  static read(): View {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    return new View(path || "overview", new URLSearchParams(query));
  }

  get(name: string): string | null {
    return this.words.get(name);
  }

  /** A list that is written with commas. */
  list(name: string): string[] {
    return (this.get(name) ?? "").split(",").filter(Boolean);
  }

  number(name: string): number | null {
    const value = Number(this.get(name) ?? Number.NaN);
    return Number.isFinite(value) ? value : null;
  }

  /** Changes the address without a new entry in the history and without mounting the page again. */
  set(changes: Record<string, string | number | null>): void {
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") this.words.delete(name);
      else this.words.set(name, String(value));
    }
    history.replaceState(null, "", link(this.page, Object.fromEntries(this.words)));
    View.changed(this);
  }
}

export function link(page: string, words: Record<string, string | number | null> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(words)) if (value !== null && value !== "") query.set(name, String(value));
  const tail = query.toString();
  return `#/${page}${tail ? `?${tail}` : ""}`;
}
