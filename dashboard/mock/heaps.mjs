// Made-up heap dumps: a registry of sessions that grows, a cache, and a name that is no markup.

const MIB = 1 << 20;
const MOST = { most_bytes: 4096 * MIB, most_heaps: 16 };
const HOSTILE = "</script><i>app</i>.Record";

const kept = [];

/** Takes a dump of a process. Each has more sessions than the one before. */
export function take(process, { text = true } = {}) {
  const taken_ms = Date.now();
  const entry = { id: `${taken_ms}-${process.id}.ngch`, process: process.id, taken_ms, bytes: 7 * MIB };
  kept.unshift({ entry, pid: process.pid, sessions: 20_000 + 5_000 * kept.length, text });
  return entry;
}

export function list(query) {
  const process = query.get("process");
  const heaps = kept.map((each) => each.entry).filter((entry) => !process || entry.process === process);
  return { heaps, bytes: kept.reduce((sum, { entry }) => sum + entry.bytes, 0), ...MOST };
}

/** A dump by its id, or nothing. */
export function find(id) {
  return kept.find((each) => each.entry.id === id);
}

export function remove(id) {
  kept.splice(kept.indexOf(find(id)), 1);
}

/** What is in a dump: the answers of docs/api.md, by the last part of the path. Nothing where there is no such thing. */
export function ask(dump, rest, query) {
  const all = heap(dump);
  if (rest === "tree") return branches(all, query.get("object"));
  if (rest === "path") return paths(all, query.get("what"));
  if (rest === "growth") {
    const before = find(query.get("since"));
    return before && { before: before.entry, after: dump.entry, growth: growth(before, dump) };
  }
  const by = { bytes: "bytes", retained: "retained", objects: "objects" }[query.get("by") ?? "bytes"];
  const types = [...all.types].sort((one, other) => other[by] - one[by]);
  const registry = object(all, "app.registry", "app.Registry", all.held);
  const sessions = object(all, "app.registry.sessions", "list", all.held - 100);
  const suspects = [
    { retained: all.held, share: all.held / all.bytes, holder: registry, gathers: sessions, parts: [{ type: "app.Session", objects: dump.sessions, retained: all.held - 200 }], text: "`app.registry`, an app.Registry; it gathers at `app.registry.sessions`, a list" },
  ];
  return { entry: dump.entry, summary: all.summary, types, all_types: 187, suspects, largest: [registry, sessions, object(all, "app.cache", "dict", 20 * MIB)] };
}

function heap({ entry, pid, sessions, text }) {
  const held = 220 * sessions;
  const bytes = 26 * MIB + held;
  const types = [
    { type: "dict", objects: 62_362, bytes: 13 * MIB, retained: 25 * MIB },
    { type: "str", objects: 163_334, bytes: 9 * MIB, retained: 9 * MIB },
    { type: "app.Session", objects: sessions, bytes: 80 * sessions, retained: held },
    { type: HOSTILE, objects: 12, bytes: 960, retained: 4096 },
  ];
  const summary = {
    pid, python: "3.12.1", taken_unix_ms: entry.taken_ms, started_unix_ms: entry.taken_ms - 600_000, objects: 380_000 + 4 * sessions, references: 900_000, bytes, named_bytes: bytes, from_c_bytes: 0,
    garbage_objects: 120, garbage_bytes: 9600, native_objects: 4616, resident_bytes: 412e6, pause_ms: 1.9, texts: text, missing: null,
  };
  return { held, bytes, types, summary, sessions };
}

function object(all, path, type, retained) {
  return { address: "0x7f7938487f00", what: type, type, bytes: 64, retained, share: retained / all.bytes, path };
}

function branches(all, holder) {
  const line = (number, step, what, retained, children) => ({ object: number, address: `0x${(0x1000 + number).toString(16)}`, step, what, bytes: 64, retained, share: retained / all.bytes, children });
  const levels = {
    "": [line(0, "sys.modules", "dict", all.bytes, 2), line(9, "held from C", HOSTILE, 4096, 0)],
    0: [line(1, "['app']", "module app", all.bytes - MIB, 2)],
    1: [line(2, ".cache", "dict", 20 * MIB, 0), line(3, ".registry", "app.Registry", all.held, 1)],
    3: [line(4, ".sessions", "list", all.held - 100, all.sessions)],
    4: Array.from({ length: 20 }, (_, i) => line(10 + i, `[${i}]`, "app.Session", 220, 0)),
  };
  const rows = levels[holder ?? ""] ?? [];
  return { rows, all: holder === "4" ? all.sessions : rows.length };
}

function paths(all, what) {
  if (what === "app.Session") {
    const row = { path: "app.registry.sessions[…]", objects: all.sessions, bytes: 80 * all.sessions, retained: all.held, example: "app.registry.sessions[17]", address: "0x7f7938487f00" };
    return { what, object: null, merged: { objects: all.sessions, garbage: 3, paths: 1, rows: [row] } };
  }
  if (!what?.startsWith("0x") && !what?.startsWith("app.registry")) return undefined;
  const step = (path, is, retained) => ({ path, what: is, bytes: 64, retained });
  const steps = [step("sys.modules", "dict", all.bytes), step("app", "module app", all.bytes - MIB), step("app.registry", "app.Registry", all.held)];
  return { what, merged: null, object: { object: object(all, "app.registry", "app.Registry", all.held), steps, holders: [step("app.registry", "globals of app", all.bytes - MIB)], referred: 1 } };
}

function growth(before, after) {
  const sessions = after.sessions - before.sessions;
  const line = { place: "app.registry.sessions[…]", type: "app.Session", objects: sessions, retained: 220 * sessions, objects_before: before.sessions, objects_after: after.sessions, kept: null, parts: [{ place: ".history", type: "list", objects: sessions, bytes: 64 * sessions }] };
  return { pid: after.pid, between_ms: after.entry.taken_ms - before.entry.taken_ms, objects: 4 * sessions, bytes: 220 * sessions, rows: sessions > 0 ? [line] : [], grown: sessions > 0 ? 1 : 0, other_process: false };
}
