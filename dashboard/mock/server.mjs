// A stand-in for the hub: serves the page and the API of docs/api.md with made-up data.
//
//     node dashboard/mock/server.mjs [--port 7077] [--token TOKEN] [--recording FILE]…

import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { WebSocketServer } from "ws";
import { census, course, leaks } from "./census.mjs";
import * as heaps from "./heaps.mjs";
import * as snapshot from "./snapshot.mjs";
import { sites } from "./sites.mjs";
import { EMPTY, POLICIES, SERIES, events, fold, processes, services, values } from "./data.mjs";

const { values: options } = parseArgs({
  options: {
    port: { type: "string", default: "7077" },
    token: { type: "string" },
    recording: { type: "string", multiple: true, default: [] },
  },
});
const dist = join(dirname(fileURLToPath(import.meta.url)), "../dist");
const started_ms = Date.now();
const known = processes(started_ms);
const NAMES = SERIES.map((series) => series.name);
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain" };
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'";

class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

function described(process) {
  const now = Date.now();
  const state = process.ended_ms ? "gone" : process.silent_from ? "silent" : "live";
  const second = Math.floor((process.ended_ms ?? now) / 1000) - 1;
  const { id, host, pid, command, service, role, python, neurogc, source, policy, warnings } = process;
  return {
    id, host, pid, command, service, role, python, neurogc, state, source, started_ms: process.started_ms,
    seen_ms: process.ended_ms ?? process.silent_from ?? now, policy, policy_shown: process.set ? `${process.set} (${policy})` : policy, acting: policy !== "observe",
    due: conduct(process, second).due, overdue_s: conduct(process, second).overdue_s, warnings, latest: values(process, second),
  };
}

function served() {
  return services(known.filter((process) => !process.ended_ms && !process.silent_from), Math.floor(Date.now() / 1000) - 1);
}

function conduct(process, second) {
  const acting = process.policy !== "observe";
  const overdue_s = values(process, second)["conduct.overdue_s"];
  const up = second - process.started_ms / 1000;
  const order = (what, reason, guard, every, offset) => ({ what, reason, guard, count: Math.floor(up / every), last_s: up - ((second - offset) % every) });
  return {
    ...EMPTY.conduct,
    acting,
    due: !acting ? "" : overdue_s > 0 ? "full: memory has grown since the last full collection" : second % 5 < 3 ? "young: young objects have gathered" : "",
    overdue_s,
    missed: acting ? Math.floor(up / 37) : 0,
    model: process.policy.startsWith("neural") ? forecasts(values(process, second), up) : null,
    guards: { memory_max_mb: 0, memory_percent: 90, growth_percent: 20, postpone_s: 30, gc_percent: 10 },
    orders: acting
      ? [
          order("young", "young objects have gathered", false, 1, 0),
          order("middle", "young collections have left survivors", false, 9, 2),
          order("snapshot", "much of the old heap is new", false, 40, 5),
          order("reap", "a snapshot has found garbage", false, 40, 8),
          order("full", "memory has grown since the last full collection", true, 170, 20),
        ]
      : [],
  };
}

/** A model that is calibrated. */
function forecasts(now, up) {
  const [low, half, high] = [now["conduct.gap_p10_ms"], now["conduct.gap_p50_ms"], now["conduct.gap_p90_ms"]];
  const expected_ms = [low, (low + half) / 2, half, (half + high) / 2, high];
  return {
    family: "tcn", gap_ms: expected_ms, latest: { lasted_ms: now["conduct.gap_ms"], expected_ms }, gaps: Math.floor(up * 60),
    covered: [0.11, 0.24, 0.52, 0.77, 0.9], astray: 0.21, drifted: false, drifts: 1,
  };
}

/** A heap that stays below its goal. */
function bound(acting, up) {
  if (!acting) return EMPTY.bound;
  return {
    ...EMPTY.bound,
    goal_bytes: 260 << 20, live_bytes: 208 << 20, goal_objects: 1_200_000, live_objects: 960_000, objects: 1_080_000, over: 0,
    launches: Math.floor(up / 40), backstops: Math.floor(up / 170), throttled_ms: 0, assisted_ms: Math.floor(up / 8),
  };
}

function status(process) {
  const second = Math.floor(Date.now() / 1000) - 1;
  const acting = process.policy !== "observe";
  const up = second - process.started_ms / 1000;
  const place = (count, each, max_ms) => ({ count: Math.floor(count), total_ms: count * each, max_ms });
  return {
    ...EMPTY, pid: process.pid, command: process.command, python: process.python, neurogc: process.neurogc,
    policy: process.policy, policy_set: process.set ?? process.policy, uptime_s: up, degraded: process.warnings, conduct: conduct(process, second), bound: bound(acting, up),
    gc: {
      ...EMPTY.gc,
      in_request: acting ? place(up * 0.1, 0.8, 2.4) : place(up * 4, 8, 268), in_gap: place(up * 2, 0.8, 31), forced: acting ? place(up / 170, 30, 36.4) : place(0, 0, 0),
      tracked: 1_080_000, frozen: 0,
      snapshot: acting
        ? { ...EMPTY.gc.snapshot, count: Math.floor(up / 40), clone_p50_ms: 1.9, clone_max_ms: 3.1, flight_p50_ms: 212, copied_ms: 900, extra_max_mb: 31, candidates: Math.floor(up * 520), freed: Math.floor(up * 519) }
        : EMPTY.gc.snapshot,
    },
    gil: { busy_percent: 100 * process.busy, busy: { count: Math.floor(up * 300), p50_ms: 1.1, p99_ms: 7.4, max_ms: 268 }, idle: { count: Math.floor(up * 300), p50_ms: 0.9, p99_ms: 11.2, max_ms: 48 } },
    census: census(process), findings: process.service === known[1].service ? leaks(process) : [],
    memory: { ...EMPTY.memory, rss: values(process, second)["memory.rss"], limit: process.limit },
  };
}

/** The window that a request asks for. */
function asked(query, life) {
  if (query.has("from") || query.has("to")) {
    const [from, to] = [Number(query.get("from")), Number(query.get("to"))];
    if (!(to > from)) throw new Refused(400, "bad_request", "`to` must be after `from`");
    return [from, to];
  }
  if (life) return life;
  const match = /^(\d+)([smhd])$/.exec(query.get("range") ?? "5m");
  if (!match) throw new Refused(400, "bad_request", "`range` is a whole number of s, m, h or d");
  const to = Math.floor(Date.now() / 1000) * 1000;
  return [to - Number(match[1]) * { s: 1e3, m: 6e4, h: 36e5, d: 864e5 }[match[2]], to];
}

function alive(process, second) {
  return second * 1000 >= process.started_ms && second * 1000 < (process.ended_ms ?? process.silent_from ?? Infinity);
}

function series(process, from, to, names, points, shift = 0) {
  const wanted = Math.max(1000, (to - from) / points);
  const step_ms = wanted <= 1000 ? 1000 : wanted <= 10_000 ? Math.ceil(wanted / 1000) * 1000 : Math.ceil(wanted / 60_000) * 60_000;
  const t = [];
  const columns = Object.fromEntries(names.map((name) => [name, []]));
  for (let end = Math.ceil(from / step_ms) * step_ms + step_ms; end <= to; end += step_ms) {
    // A few seconds stand for a long step: this is a stand-in.
    const seconds = Array.from({ length: Math.min(8, step_ms / 1000) }, (_, i) => Math.floor((end + shift) / 1000 - 1 - (i * step_ms) / 8000));
    const rows = seconds.filter((second) => alive(process, second)).map((second) => values(process, second));
    if (rows.length === 0) continue;
    t.push(end);
    for (const name of names) columns[name].push(fold(name, rows.map((row) => row[name])));
  }
  return { from_ms: from, to_ms: to, step_ms, t, series: columns };
}

/** Latencies in half octaves, about as the percentiles say. */
function heat(process, from, to, points) {
  const levels_ms = Array.from({ length: 41 }, (_, i) => 0.05 * 2 ** (i / 2));
  const level = (ms) => Math.max(1, Math.min(38, Math.floor(2 * Math.log2(ms / 0.05))));
  const { t, step_ms, series: drawn } = series(process, from, to, ["requests.rps", "requests.p50_ms", "requests.p99_ms"], points);
  const counts = t.map((_, i) => {
    const [rps, p50, p99] = ["requests.rps", "requests.p50_ms", "requests.p99_ms"].map((name) => drawn[name][i] ?? 0);
    if (!(rps > 0 && p50 > 0)) return [];
    const [usual, slow] = [level(p50), level(p99)];
    const shares = new Map();
    for (const [at, share] of [[usual - 1, 0.2], [usual, 0.5], [usual + 1, 0.24], [Math.round((usual + slow) / 2), 0.05], [slow, 0.01]]) shares.set(at, (shares.get(at) ?? 0) + share);
    const many = (rps * step_ms) / 1000;
    return [...shares].map(([at, share]) => [at, Math.round(share * many)]).filter(([, count]) => count > 0).sort(([one], [other]) => one - other);
  });
  return { from_ms: from, to_ms: to, step_ms, levels_ms, t, counts };
}

function happened(process, from, to, query) {
  const kinds = query.get("kinds")?.split(",");
  const limit = Math.min(20_000, Number(query.get("limit") ?? 2000));
  const stride = Math.max(1, Math.round((to - from) / 3_600_000));
  let list = [];
  for (let second = Math.floor(from / 1000); second * 1000 < to; second += stride) if (alive(process, second)) list.push(...events(process, second));
  list = list.filter((event) => event.t >= from && event.t <= to && event.t <= Date.now() && (!kinds || kinds.includes(event.kind)));
  const lasting = (event) => event.ms ?? Infinity;
  const kept = list.length > limit ? [...list].sort((one, other) => lasting(other) - lasting(one)).slice(0, limit) : list;
  return { from_ms: from, to_ms: to, left_out: list.length - kept.length, events: kept.sort((one, other) => one.t - other.t) };
}

function names(query) {
  const list = query.get("names")?.split(",") ?? NAMES;
  const unknown = list.find((name) => !NAMES.includes(name));
  if (unknown) throw new Refused(400, "bad_request", `there is no series ${unknown}; GET /api/v1/series lists them`);
  return list;
}

function find(id) {
  const process = known.find((other) => other.id === id);
  if (!process) throw new Refused(404, "not_found", `there is no process ${id}; GET /api/v1/processes lists them`);
  return process;
}

function compare(query) {
  const [a, b] = ["a", "b"].map((side) => find(query.get(side)));
  const start = query.get("align") === "start";
  let [from, to] = asked(query);
  if (start && !query.has("from")) [from, to] = [0, to - from];
  const points = Number(query.get("points") ?? 600);
  const list = names(query);
  const one = series(a, from, to, list, points, start ? a.started_ms : 0);
  const other = series(b, from, to, list, points, start ? b.started_ms : 0);
  const t = [...new Set([...one.t, ...other.t])].sort((x, y) => x - y);
  const row = (side, name) => {
    const at = new Map(side.t.map((time, i) => [time, side.series[name][i]]));
    return t.map((time) => at.get(time) ?? null);
  };
  const minus = (x, y) => (x === null || y === null ? null : y - x);
  const columns = {};
  const whole = {};
  for (const name of list) {
    const [left, right] = [row(one, name), row(other, name)];
    columns[name] = { a: left, b: right, diff: left.map((value, i) => minus(value, right[i])) };
    const [x, y] = [fold(name, left), fold(name, right)];
    whole[name] = { a: x, b: y, diff: minus(x, y), percent: x && y !== null ? (100 * (y - x)) / x : null };
  }
  const side = ({ id, command, policy }) => ({ id, command, policy });
  return { a: side(a), b: side(b), align: start ? "start" : "clock", from_ms: from, to_ms: to, step_ms: one.step_ms, t, series: columns, whole };
}

// Recordings. A trace is always the same made-up process of five minutes.

const traced = { ...known[1], id: "trace", started_ms: 1_789_999_000_000, policy: "gap", changes: [], ended_ms: 1_789_999_300_000 };
const recordings = [];

function keep(name, bytes, uploaded) {
  const text = bytes.subarray(0, 4).toString("latin1");
  const kind = text === "NGCT" || name.endsWith(".ngct") ? "trace" : "bench";
  let run = null;
  if (kind === "bench") {
    try {
      run = JSON.parse(bytes.toString("utf8"));
    } catch {
      throw new Refused(400, "bad_request", `${name} is neither a trace nor a result of neurogc bench`);
    }
  }
  const entry = { id: `r${recordings.length + 1}`, name, kind, bytes: bytes.length, added_ms: Date.now(), uploaded };
  recordings.push({ entry, run, bytes });
  return entry;
}

function recording(id) {
  const found = recordings.find((each) => each.entry.id === id);
  if (!found) throw new Refused(404, "not_found", `there is no recording ${id}`);
  return found;
}

function play(id, rest, query) {
  const { entry, run, bytes } = recording(id);
  const life = [traced.started_ms, traced.ended_ms];
  if (rest === "series") return { id, ...series(traced, ...asked(query, life), names(query), Number(query.get("points") ?? 600)) };
  if (rest === "latency") return { id, ...heat(traced, ...asked(query, life), Number(query.get("points") ?? 600)) };
  if (rest === "events") return { id, ...happened(traced, ...asked(query, life), query) };
  if (rest === "file") return bytes;
  if (entry.kind === "bench") return { id, name: entry.name, kind: "bench", run };
  const { pid, command, python, neurogc, policy } = traced;
  return { id, name: entry.name, kind: "trace", process: { pid, command, python, neurogc, policy }, from_ms: life[0], to_ms: life[1], damage: [] };
}

function read(body) {
  const found = snapshot.told(body);
  if (!found) throw new Refused(400, "bad_request", "this is no snapshot of PyTorch's allocator");
  return found;
}

function opened(method, id, rest, query) {
  const dump = heaps.find(id);
  if (!dump) throw new Refused(404, "not_found", "there is no such heap dump; GET /api/v1/heaps lists them");
  if (method === "DELETE") return heaps.remove(id);
  const found = heaps.ask(dump, rest, query);
  if (!found) throw new Refused(404, "not_found", `the dump has no type and no module \`${query.get("what")}\``);
  return found;
}

function change(process, body) {
  if (!POLICIES.some((policy) => policy.name === String(body.policy).split(":")[0])) {
    throw new Refused(422, "refused", `there is no policy ${body.policy}`);
  }
  const before = process.policy;
  process.policy = body.policy;
  process.set = undefined;
  process.changes.push({ t: Date.now(), kind: "policy", before, after: body.policy });
  return { before, after: body.policy };
}

async function answer(request, url) {
  const query = url.searchParams;
  const path = url.pathname.replace("/api/v1/", "").split("/").map(decodeURIComponent);
  const [what, id, rest] = path;
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  if (what === "hub") {
    return {
      neurogc: "0.1.0", host: "web-1", now_ms: Date.now(), started_ms, token: Boolean(options.token), may_order: true, processes: { live: 4, known: known.length },
      ingest: { reports: 10_212, events: 88_123, missed: 0, refused: 0 },
      store: { path: "hub.db", bytes: 41_943_040, limit_bytes: 1_073_741_824, written: 10_200, dropped: 0, trouble: null, tiers: [] },
      clients: { connected: sockets.clients.size, skipped: 0 }, cpu_ms: 812, rss: 31_457_280,
    };
  }
  if (what === "alerts") return options.token ? { enabled: false, file: "", file_error: null, rules: [], channels: [], alerts: [], resolved: [], dropped: 0 } : alerts();
  if (what === "series") return { series: SERIES };
  if (what === "policies") return { policies: POLICIES };
  if (what === "compare") return compare(query);
  if (what === "gpu") return read(body);
  if (what === "recordings" && request.method === "POST") return keep(query.get("name"), body, true);
  if (what === "recordings" && request.method === "DELETE") return void recordings.splice(recordings.indexOf(recording(id)), 1);
  if (what === "recordings") return id ? play(id, rest, query) : { recordings: recordings.map((each) => each.entry) };
  if (what === "heaps") return id ? opened(request.method, id, rest, query) : heaps.list(query);
  if (what === "services" && rest === "latency") return { id, ...heat(known.find((process) => process.service === id) ?? known[0], ...asked(query), Number(query.get("points") ?? 600)) };
  if (what !== "processes") throw new Refused(404, "not_found", `there is no ${url.pathname}`);
  if (!id) {
    const list = known.map(described).filter((process) => process.state !== "gone" || query.get("gone") === "true");
    return { now_ms: Date.now(), processes: list, services: served() };
  }
  const process = find(id);
  if (rest === "series") return { id, ...series(process, ...asked(query), names(query), Number(query.get("points") ?? 600)) };
  if (rest === "latency") return { id, ...heat(process, ...asked(query), Number(query.get("points") ?? 600)) };
  if (rest === "events") return { id, ...happened(process, ...asked(query), query) };
  if (rest === "sites" && process === known[0]) throw new Refused(422, "refused", "the allocators are debug allocators (PYTHONMALLOC)");
  if (rest === "sites") return sites(id, process.pid, query, (Date.now() - process.started_ms) / 1000);
  if (rest === "census") return { id, ...course(process, ...asked(query)) };
  if (rest === "pprof") return Buffer.from([0x1f, 0x8b]);
  if (rest === "policy") return change(process, JSON.parse(body));
  if (rest === "heap") return heaps.take(process, JSON.parse(body));
  if (rest === "collect") return { how: "snapshot", found: 812, pause_ms: 1.9 };
  return { ...described(process), status: process.ended_ms ? null : status(process), status_ms: Date.now() };
}

/** A rule on latency that fires for every process. */
function alerts() {
  const one = ({ id, pid, host, service, role, command }) => ({
    id: `slow-${id}`, rule: "slow", state: "firing", process: { id, host, pid, service, role, command }, since_ms: started_ms, fired_ms: started_ms, resolved_ms: null, changes: 0,
    text: `${service} (process ${pid} on ${host}): the p99 of its requests is 16.0 ms, over 0.01 ms.`, kind: "", certainty: "", holder: "", site: "", advice: "", doc: "", value: 16, unit: "milliseconds",
  });
  const rules = [{ name: "slow", condition: "p99 over 0.01 ms", to: ["log"], firing: 2 }];
  const channels = [{ name: "log", what: "the hub's log", sent: 2, failed: 0, dropped: 0, waiting: 0, last_error: null }];
  return { enabled: true, file: "alerts.toml", file_error: null, rules, channels, alerts: known.map(described).filter((process) => process.state !== "gone").slice(0, 2).map(one), resolved: [], dropped: 0 };
}

function allowed(request) {
  return !options.token || request.headers.authorization === `Bearer ${options.token}`;
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  if (url.pathname.startsWith("/api/")) {
    let [code, said] = [200, null];
    try {
      if (!allowed(request)) throw new Refused(401, "unauthorized", "this hub wants a token");
      said = await answer(request, url);
      if (said === undefined) code = 204;
      else if (request.method === "POST" && /\/(recordings|heap)$/.test(url.pathname)) code = 201;
    } catch (error) {
      code = error.status ?? 500;
      said = { error: { code: error.code ?? "error", message: error.message } };
    }
    response.writeHead(code, { "Content-Type": Buffer.isBuffer(said) ? "application/octet-stream" : "application/json" });
    response.end(code === 204 ? undefined : Buffer.isBuffer(said) ? said : JSON.stringify(said));
    return;
  }
  const name = extname(url.pathname) ? basename(url.pathname) : "index.html";
  response.setHeader("Content-Security-Policy", POLICY);
  response.setHeader("Content-Type", TYPES[extname(name)] ?? "application/octet-stream");
  createReadStream(join(dist, name))
    .on("error", () => response.writeHead(404).end())
    .pipe(response);
});

// Live.

const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => "neurogc.v1" });

server.on("upgrade", (request, socket, head) => {
  const words = (request.headers["sec-websocket-protocol"] ?? "").split(/,\s*/);
  if (options.token && !words.includes(`token.${options.token}`)) return socket.destroy();
  return sockets.handleUpgrade(request, socket, head, (client) => {
    const send = (message) => client.send(JSON.stringify(message));
    let watch = { processes: false, ids: [] };
    const list = () => watch.processes && send({ type: "processes", now_ms: Date.now(), processes: known.map(described).filter((process) => process.state !== "gone"), services: served() });
    client.on("message", (text) => {
      watch = { ids: [], ...JSON.parse(text) };
      list();
    });
    send({ type: "hello", neurogc: "0.1.0", now_ms: Date.now(), started_ms });
    let last = Math.floor(Date.now() / 1000);
    const timer = setInterval(() => {
      const second = Math.floor(Date.now() / 1000);
      if (second === last) return;
      last = second;
      list();
      for (const id of watch.ids) {
        const process = known.find((other) => other.id === id);
        if (!process || !alive(process, second - 1)) continue;
        const news = events(process, second - 1);
        if (news.length) send({ type: "events", id, events: news });
        send({ type: "sample", id, t: second * 1000, values: values(process, second - 1), conduct: conduct(process, second - 1) });
      }
    }, 50);
    client.on("close", () => clearInterval(timer));
  });
});

for (const path of options.recording) keep(basename(path), await readFile(path), false);
keep("service.ngct", Buffer.from("NGCT"), false);
server.listen(Number(options.port), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
