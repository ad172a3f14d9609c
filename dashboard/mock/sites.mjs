// Made-up allocation sites: a cache that grows, buffers that shrink, and a name that is no markup.

const APP = "/srv/shop/web/app.py";
const LINES = [
  { stack: [["<module>", APP, 90], ["handle", APP, 31], ["add", "/srv/shop/web/cache.py", 41]], domain: "object", live: (t) => 180e6 + 40e3 * (t % 600), before: 0.9, rate: 3e6 },
  { stack: [["<module>", APP, 90], ["handle", APP, 31], ["add", "/srv/shop/web/cache.py", 41], ["raw_decode", "/usr/lib/python3.12/json/decoder.py", 353]], domain: "object", live: () => 24e6, before: 1, rate: 80e6 },
  { stack: [["<module>", APP, 90], ["resize", "/srv/shop/web/images.py", 77]], domain: "malloc", live: () => 40e6, before: 1.6, rate: 12e6 },
  { stack: [["<module>", APP, 90], ["</script><b>bold</b>", "<string>", 1]], domain: "malloc", live: () => 9e6, before: 0.5, rate: 1e5 },
  { stack: [["[no Python frame]", "", 0]], domain: "mmap", live: () => 16e6, before: 1, rate: 0 },
];

/** The answer to `GET /processes/{id}/sites`. */
export function sites(id, pid, query, up) {
  const measure = query.get("measure") ?? "live";
  const by = query.get("by") ?? "line";
  const compared = query.has("since");
  const now = Date.now();
  const lines = LINES.map(({ stack, domain, live, before, rate }) => {
    const bytes = live(up);
    return { stack, domain, bytes, growth: compared ? bytes - bytes * before : null, rate };
  });
  const value = (line) => ({ live: line.bytes, growth: line.growth ?? 0, rate: line.rate })[measure];
  const whole = lines.reduce((sum, line) => sum + Math.max(0, value(line)), 0);
  const place = ([name, file, line]) => ({ file, function: name, line, first_line: 0 });
  const rows = lines
    .map((line) => ({
      places: by === "domain" ? [] : by === "stack" ? line.stack.map(place).reverse() : [place(line.stack.at(-1))],
      domains: [line.domain], value: value(line), share: value(line) / whole, live_bytes: line.bytes, live_blocks: Math.round(line.bytes / 300),
      growth_bytes: line.growth, growth_blocks: line.growth, rate_bytes_s: line.rate, rate_blocks_s: line.rate / 300,
    }))
    .sort((one, other) => other.value - one.value);
  const shared = { pid, taken_unix_ms: now, since_unix_ms: now - 1000 * up, compared_unix_ms: compared ? now - 300_000 : null, mode: "native", measure };
  return { id, ...shared, by, sample_bytes: 32768, lost: 0, groups: rows.length, rows, flame: { ...shared, ...tree(lines, value, compared) } };
}

function tree(lines, value, compared) {
  const frames = [{ function: "all", file: "", line: 0 }];
  const nodes = [{ parent: 0, frame: 0, value: 0, blocks: 0, change: 0 }];
  const known = new Map();
  for (const line of lines) {
    let at = 0;
    const add = () => {
      nodes[at].value += Math.max(0, value(line));
      nodes[at].blocks += Math.round(line.bytes / 300);
      nodes[at].change += compared ? line.growth : 0;
    };
    add();
    for (const [name, file, number] of line.stack) {
      const key = JSON.stringify([at, name, file, number]);
      if (!known.has(key)) {
        frames.push({ function: name, file, line: number });
        nodes.push({ parent: at, frame: frames.length - 1, value: 0, blocks: 0, change: 0 });
        known.set(key, nodes.length - 1);
      }
      at = known.get(key);
      add();
    }
  }
  return { frames, nodes };
}
