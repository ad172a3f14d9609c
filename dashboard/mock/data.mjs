// Made-up processes: every value follows from the process and the second, so any range can be asked for at any time.

import { readFileSync } from "node:fs";

const MIB = 1 << 20;

/** A number between 0 and 1 that is always the same for the same words. */
export function chance(...words) {
  let hash = 2166136261;
  for (const letter of words.join("|")) hash = Math.imul(hash ^ letter.charCodeAt(0), 16777619);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 2246822519);
  hash ^= hash >>> 13;
  return (hash >>> 0) / 4294967296;
}

/** What the hub would say of series and policies, and an empty report: written from the code of the hub and of the agent. */
export const { series: SERIES, policies: POLICIES, status: EMPTY } = JSON.parse(readFileSync(new URL("generated.json", import.meta.url), "utf8"));

/** Shares of the resident set. */
const PARTS = { python_used: 0.55, python_free: 0.06, malloc_used: 0.22, malloc_free: 0.06, mapped: 0.02, libraries: 0.07, stacks: 0.01, other: 0.01 };

const FOLD = Object.fromEntries(SERIES.map(({ name, fold }) => [name, fold]));
const COUNTS = new Set(["requests.in_flight", "gc.tracked", "gc.frozen", "fds", "threads", "children"]);

const SITES = [
  ["gil_native", "shop/image.py:12 in resize (libvips.so.42)"],
  ["python", "shop/pricing.py:88 in best_offer"],
  ["cpu_starved", ""],
  ["gil_native", "site-packages/tokenizers/__init__.py:61 in encode (tokenizers.abi3.so)"],
];

/** The events that began in a second. */
export function events(process, second) {
  if (second * 1000 < process.started_ms || second * 1000 >= (process.ended_ms ?? Infinity)) return [];
  const { id, policy, busy } = process;
  const acting = policy !== "observe";
  const list = [];
  const at = (n) => Math.round((second + chance(id, second, "at", n)) * 1e6) / 1e3;
  const collection = (n, what, place, ms, collected = 0) => {
    const cls = what === "clone" || what === "reap" ? what : place;
    list.push({ t: at(n), kind: "collection", class: cls, what, place, ms: Math.round(ms * 1e4) / 1e4, collected, uncollectable: 0, order: null });
  };
  for (let n = 0; n < (acting ? 2 : 5); n += 1) {
    const inside = acting ? chance(id, second, n) < 0.04 : chance(id, second, n) < busy;
    const what = n % 5 === 4 || (acting && chance(id, second, "m", n) < 0.1) ? "middle" : "young";
    const ms = (what === "middle" ? 1.2 : acting ? 0.7 : 0.15) * (0.6 + chance(id, second, "ms", n));
    collection(n, what, inside ? "in_request" : "in_gap", ms, Math.round(2000 * chance(id, second, "c", n)));
  }
  if (!acting && second % 7 === 3) {
    const ms = process.heap * (0.85 + 0.4 * chance(id, second, "full"));
    collection(50, "full", "in_request", ms, Math.round(9000 * chance(id, second, "f")));
    list.push({ t: at(50), kind: "stall", ms: ms + 0.4, cause: "gc", site: "shop/basket.py:33 in ring" });
  }
  if (acting && second % 40 === 5) {
    list.push({ t: at(60) - 2, kind: "order", id: 0, guard: false, what: "snapshot", reason: "much of the old heap is new" });
    collection(60, "clone", "in_gap", 1.4 + 1.5 * chance(id, second));
  }
  if (acting && second % 40 >= 8 && second % 40 <= 12) collection(61, "reap", "in_gap", 0.8 + chance(id, second, "reap"), 4000);
  if (acting && second % 40 === 8) list.push({ t: at(61) - 1, kind: "order", id: 0, guard: false, what: "reap", reason: "a snapshot has found garbage" });
  if (acting && second % 170 === 20) {
    list.push({ t: at(70) - 1, kind: "order", id: 0, guard: true, what: "full", reason: "memory has grown since the last full collection" });
    collection(70, "full", "forced", 30 * (0.8 + chance(id, second)), 31000);
  }
  if (chance(id, second, "stall") < 0.06) {
    const [cause, site] = SITES[Math.floor(SITES.length * chance(id, second, "which"))];
    list.push({ t: at(80), kind: "stall", ms: 10 + 60 * chance(id, second, "long") ** 3, cause, site });
  }
  for (const change of process.changes) if (Math.floor(change.t / 1000) === second) list.push(change);
  return list.sort((one, other) => one.t - other.t);
}

/** All series over one second. */
export function values(process, second) {
  const { id, policy, busy, rps, heap, base } = process;
  const acting = policy !== "observe";
  const wave = 1 + 0.18 * Math.sin(second / 47) + 0.3 * Math.sin(second / 13_750) + 0.08 * (chance(id, second, "w") - 0.5);
  const own = events(process, second);
  const sum = (keep) => own.filter((event) => event.kind === "collection" && keep(event)).reduce((total, event) => total + event.ms, 0);
  const number = (keep) => own.filter((event) => event.kind === "collection" && keep(event)).length;
  const longest = (kind) => Math.max(0, ...own.filter((event) => event.kind === kind).map((event) => event.ms));
  const served = rps * wave;
  const p50 = 3.9 + 1.4 * busy * wave + 0.4 * chance(id, second, "p50");
  const stop = longest("collection");
  const hit = own.some((event) => event.kind === "collection" && event.place === "in_request" && event.ms > 20);
  const p95 = p50 * 2 + (hit ? heap * 0.5 : 0);
  const p99 = p95 * 1.35 + (hit ? heap * 0.35 : 0);
  const age = second - process.started_ms / 1000;
  const saw = acting ? (second % 40) / 40 : (second % 7) / 7;
  const rss = base + Math.min(age, 4000) * 9000 + saw * (acting ? 40 : 14) * MIB + 3 * MIB * chance(id, second, "rss");
  const percent = Math.min(100, 100 * busy * wave);
  const stalls = (cause) => own.filter((event) => event.kind === "stall" && event.cause === cause).length;
  const requests = rps > 0;
  return {
    "requests.p50_ms": requests ? p50 : null,
    "requests.p95_ms": requests ? p95 : null,
    "requests.p99_ms": requests ? p99 : null,
    "requests.p999_ms": requests ? p99 * 1.25 + longest("stall") * 0.3 : null,
    "requests.max_ms": requests ? p99 * 1.4 + longest("stall") : null,
    "requests.rps": served,
    "requests.in_flight": Math.round(1 + 4 * wave + (hit ? heap / 8 : 0)),
    "gc.max_ms": stop,
    "gc.paused_ms": sum(() => true),
    "gc.in_request_ms": sum((event) => event.place === "in_request"),
    "gc.in_gap_ms": sum((event) => event.place === "in_gap"),
    "gc.forced_ms": sum((event) => event.place === "forced"),
    "gc.young": number((event) => event.what === "young"),
    "gc.middle": number((event) => event.what === "middle"),
    "gc.full": number((event) => event.what === "full"),
    "gc.reap": number((event) => event.what === "reap"),
    "gc.snapshots": number((event) => event.what === "clone"),
    "gc.collected": own.reduce((total, event) => total + (event.collected ?? 0), 0),
    "gc.tracked": Math.round(heap * 5200 + saw * 60_000),
    "gc.frozen": 0,
    "stalls.max_ms": longest("stall"),
    "stalls.gc": stalls("gc"),
    "stalls.gil_native": stalls("gil_native"),
    "stalls.python": stalls("python"),
    "stalls.cpu_starved": stalls("cpu_starved"),
    "stalls.unknown": 0,
    "gil.busy_percent": percent,
    "memory.rss": Math.round(rss),
    ...Object.fromEntries(Object.entries(PARTS).map(([part, share]) => [`memory.breakdown.${part}`, Math.round(rss * share)])),
    "memory.pss": process.blind ? null : Math.round(rss * 0.93),
    "memory.uss": process.blind ? null : Math.round(rss * 0.9),
    "memory.swap": 0,
    "memory.limit": process.limit,
    "memory.children": 0,
    "cpu.percent": percent * 1.08 + (acting && second % 40 >= 5 && second % 40 < 8 ? 45 : 0),
    "io.read": chance(id, second, "r") < 0.05 ? 4 * MIB : 0,
    "io.write": 9000 + 40_000 * chance(id, second, "wr"),
    "net.sent": served * 2400,
    "net.recv": served * 700,
    fds: 31,
    threads: 9,
    children: 0,
    "conduct.overdue_s": acting && second % 170 > 8 && second % 170 < 21 ? (second % 170) - 8 : 0,
    ...gaps(process, second),
    "agent.cpu_percent": 0.35 + 0.1 * chance(id, second, "a"),
    "agent.dropped": 0,
  };
}

/** What a model expected of the latest gap, and how long that one was. */
function gaps({ id, policy }, second) {
  const names = ["conduct.gap_ms", "conduct.gap_p10_ms", "conduct.gap_p50_ms", "conduct.gap_p90_ms"];
  const half = 3 + 2 * Math.sin(second / 40);
  const real = half * Math.exp(1.2 * (chance(id, second, "gap") - 0.5) * 2);
  const learned = policy.startsWith("neural");
  return Object.fromEntries(names.map((name, i) => [name, learned ? [real, half * 0.3, half, half * 3.2][i] : null]));
}

/** Several seconds as one. Percentiles of a mock cannot be merged, so their 90th largest stands for them. */
export function fold(name, list) {
  const there = list.filter((value) => value !== null && value !== undefined);
  if (there.length === 0) return null;
  switch (FOLD[name]) {
    case "max":
      return Math.max(...there);
    case "last":
      return there.at(-1);
    case "quantile":
      return [...there].sort((one, other) => one - other)[Math.floor(there.length * (name.includes("p50") ? 0.5 : 0.9))];
    default: {
      const mean = there.reduce((sum, value) => sum + value, 0) / there.length;
      return COUNTS.has(name) ? Math.round(mean) : mean;
    }
  }
}

/** Services as the hub tells of them. Percentiles of a mock cannot be merged. */
export function services(live, second) {
  const [sums, largest] = [["requests.rps", "requests.in_flight", "gc.in_request_ms", "memory.rss", "cpu.percent"], ["gc.max_ms", "gil.busy_percent"]];
  return [...new Set(live.map((process) => process.service))].sort().map((service) => {
    const rows = live.filter((process) => process.service === service).map((process) => values(process, second));
    const all = (name) => rows.map((row) => row[name]).filter((value) => value !== null);
    const latest = [
      ...sums.map((name) => [name, all(name).reduce((sum, value) => sum + value, 0)]),
      ...largest.map((name) => [name, Math.max(...all(name))]),
      ...SERIES.filter(({ fold }) => fold === "quantile").map(({ name }) => [name, fold(name, all(name))]),
    ];
    return { service, processes: rows.length, latest: Object.fromEntries(latest) };
  });
}

export function processes(now) {
  const second = Math.floor(now / 1000);
  const day = 86_400_000;
  const make = (pid, started_ms, command, more) => ({
    id: `web-1-${pid}-1789999990000`, host: "web-1", pid, command, service: "", role: "main", python: "CPython 3.12.1", neurogc: "0.1.0", started_ms,
    source: "socket", warnings: [], changes: [], heap: 210, busy: 0.62, rps: 480, base: 180 * MIB, limit: null, blind: false, missed: 0, ...more,
  });
  return [
    make(4242, now - 3 * day, "/usr/bin/python /srv/shop/.venv/bin/uvicorn shop.app:app --port 8000", { service: "shop", policy: "observe", limit: 512 * MIB }),
    make(4243, now - 3 * day + 800, "/usr/bin/python /srv/shop/.venv/bin/uvicorn shop.app:app --port 8001", { service: "shop", policy: "gap", limit: 512 * MIB, base: 196 * MIB }),
    make(5110, (second - 5400) * 1000, "python -m embed.server --model small", {
      service: "embed", policy: "neural", rps: 92, busy: 0.81, heap: 640, base: 1800 * MIB, blind: true,
      warnings: ["the kernel denies smaps_rollup, so PSS and USS are not known"],
    }),
    make(6001, (second - 900) * 1000, "python train.py --epochs 40", { service: "train", policy: "gap", set: "auto", rps: 0, busy: 0.95, heap: 120, base: 3400 * MIB, python: "CPython 3.13.0" }),
    make(3990, now - 2 * day, "gunicorn: worker [shop]", { service: "shop-workers", role: "worker 1", policy: "threshold:50000,500,1000", rps: 210, busy: 0.4, heap: 90, silent_from: now - 40_000 }),
    make(3801, now - 4 * day, "uvicorn shop.app:app", { service: "shop", policy: "gap", ended_ms: now - 7_200_000 }),
  ];
}
