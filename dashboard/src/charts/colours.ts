// Colours as the style sheet has them, for canvases.

/** The colour behind a name such as `p99`. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888888";
}

/** The same with less weight; the style sheet writes all colours with six digits. */
export function faint(name: string, alpha: number): string {
  return colour(name) + Math.round(alpha * 255).toString(16).padStart(2, "0");
}

/** The font of the labels on a canvas. */
export function font(size: number, weight = 400): string {
  return `${weight} ${size}px system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif`;
}
