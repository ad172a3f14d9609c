// A made-up census: a dict that grows, a deque that is full, and what else programs have.

const EVERY_MS = 600_000;
const TYPES = [["dict", 61_000, 52e6, 0.04], ["app.Record", 120_000, 18e6, 0.03], ["list", 90_000, 11e6, 0], ["tuple", 150_000, 9e6, 0]];
const CONTAINERS = [["app.stats.running_stats", "dict", 250_000, 48, 0.05], ["app.log.records", "deque", 10_000, 9, 0], ["", "list", 8_000, 8, 0]];

/** A number that grew by this share an hour, as it was so many hours ago. */
const then = (value, share, hours) => Math.round(value / (1 + share * hours));

/** The part of the status report. */
export function census(process) {
  const at_s = (Date.now() - process.started_ms) / 1000;
  if (at_s < 60) return { at_s: 0, compared_s: 0, objects: 0, bytes: 0, types: [], containers: [] };
  return {
    at_s, compared_s: EVERY_MS / 1000, objects: 421_000, bytes: 90e6,
    types: TYPES.map(([type, count, bytes, share]) => ({ type, count, bytes, growth: bytes * share })),
    containers: CONTAINERS.map(([name, type, length, each, share]) => ({ name, type, length, bytes: length * each, growth: length * share })),
  };
}

/** What the agent says of it. */
export function leaks(process) {
  const { types, containers } = census(process);
  if (!types.length) return [];
  const [{ name, type, length, bytes }] = containers;
  return [
    {
      kind: "unbounded_container", confidence: 0.95, text: `LEAK, certain: module global ${name} (${type}) grows by 12 MB/h`, holder: name, site: "app/stats.py:41 in process_request",
      rate_bytes_h: 12e6, advice: "bound it: functools.lru_cache, or write it out", pattern: `${length} entries: one is added again and again, none is removed`,
      doc: "memory.md#verdicts", bytes, share: 0.86, since_s: 60,
    },
  ];
}

/** The course over time. */
export function course(process, from_ms, to_ms) {
  const t = [];
  for (let at = Math.max(from_ms, process.started_ms); at < to_ms; at += EVERY_MS) t.push(at);
  const past = (value, share) => t.map((at) => then(value, share, (to_ms - at) / 3.6e6));
  return {
    from_ms, to_ms, t, objects: past(421_000, 0.03), bytes: past(90e6, 0.03),
    types: TYPES.map(([type, count, bytes, share]) => ({ type, count: past(count, share), bytes: past(bytes, share) })),
    containers: CONTAINERS.filter(([name]) => name).map(([name, type, length, each, share]) => ({ name, type, length: past(length, share), bytes: past(length * each, share) })),
  };
}
