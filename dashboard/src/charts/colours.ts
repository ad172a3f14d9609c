// Colours as the style sheet has them, for canvases.

const known = new Map<string, string>();

/** The colour behind a name such as `p99`. It is looked up once for each theme: asking the style sheet is dear. */
export function colour(name: string): string {
  const key = `${document.documentElement.dataset.theme} ${name}`;
  let found = known.get(key);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888888";
    known.set(key, found);
  }
  return found;
}

/** The same with less weight; the style sheet writes all colours with six digits. */
export function faint(name: string, alpha: number): string {
  return colour(name) + Math.round(alpha * 255).toString(16).padStart(2, "0");
}

/** The font of the labels on a canvas. */
export function font(size: number, weight = 400): string {
  return `${weight} ${size}px system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif`;
}
