// Figures as a person reads them, the way the command writes them.

const NONE = "–";

export function bytes(size: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = size;
  let unit = 0;
  while (Math.abs(value) >= 1023.5 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(unit === 0 || Math.abs(value) >= 99.95 ? 0 : 1)} ${units[unit]}`;
}

export function ms(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0 ms";
  if (size < 0.9995) return `${(value * 1000).toFixed(0)} µs`;
  if (size < 99.95) return `${value.toFixed(1)} ms`;
  if (size < 9999.5) return `${value.toFixed(0)} ms`;
  return `${(value / 1000).toFixed(1)} s`;
}

/** A time span in its two largest units. */
export function span(seconds: number): string {
  const whole = Math.floor(Math.max(0, seconds));
  const two = (value: number) => String(value).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} m`;
  return `${Math.floor(whole / 86400)} d ${two(Math.floor(whole / 3600) % 24)} h`;
}

export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function decimal(value: number): string {
  const size = Math.abs(value);
  if (size >= 99.95) return count(value);
  return size >= 9.995 || size === 0 ? value.toFixed(size === 0 ? 0 : 1) : value.toFixed(size < 0.1 ? 3 : 2);
}

/** A value in the unit of its series. */
export function figure(value: number | null | undefined, unit: string): string {
  if (value == null || Number.isNaN(value)) return NONE;
  switch (unit) {
    case "ms":
      return ms(value);
    case "ms/s":
      return value === 0 ? "0 ms/s" : `${ms(value)}/s`;
    case "bytes":
      return bytes(value);
    case "bytes/s":
      return `${bytes(value)}/s`;
    case "percent":
      return `${decimal(value)} %`;
    case "s":
      return value < 60 ? `${decimal(value)} s` : span(value);
    case "1/s":
      return `${decimal(value)}/s`;
    default:
      return count(value);
  }
}

/** The same with its sign, for differences. */
export function signed(value: number | null | undefined, unit: string): string {
  if (value == null) return NONE;
  const text = unit === "percent" && Math.abs(value) < 9.95 ? `${Math.abs(value).toFixed(1)} %` : figure(Math.abs(value), unit);
  if (value === 0) return `±${text}`;
  return `${value > 0 ? "+" : "−"}${text}`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });

/** A moment: the time, with the day where it is not today's, with milliseconds where they matter. */
export function moment(t: number, fine = false): string {
  const date = new Date(t);
  const time = clock.format(date) + (fine ? `.${String(Math.floor(t) % 1000).padStart(3, "0")}` : "");
  return date.toDateString() === new Date().toDateString() ? time : `${day.format(date)}, ${time}`;
}

/** A position in a life or a recording: minutes and seconds, hours where there are some. */
export function position(milliseconds: number, fine = false): string {
  const whole = Math.max(0, Math.floor(milliseconds / 1000));
  const two = (value: number) => String(value).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const rest = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  const tail = fine ? `.${String(Math.floor(milliseconds) % 1000).padStart(3, "0")}` : "";
  return (hours ? `${hours}:${rest}` : rest) + tail;
}

export function ago(t: number, now: number): string {
  const seconds = (now - t) / 1000;
  return seconds < 1.5 ? "now" : `${span(seconds)} ago`;
}

/** The start of a command line, its folders left out. */
export function brief(command: string): string {
  const words = command.trim().split(/\s+/);
  return words.map((word) => (word.startsWith("/") ? word.slice(word.lastIndexOf("/") + 1) : word)).join(" ") || NONE;
}

/** A code site with the end of its path only: the line and the function are what one looks for. */
export function place(site: string): string {
  if (!site) return "not known";
  const [file, ...rest] = site.split(" in ");
  const parts = file.split("/");
  return [parts.slice(-2).join("/"), ...rest].join(" in ");
}
