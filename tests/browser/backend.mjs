// What the page stands before: a real hub with two real processes, or the stand-in.

import { spawn } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const mock = join(here, "../../dashboard/mock/server.mjs");
export const BENCH = join(here, "run.json");
const PATIENCE_MS = 60_000;

export class Backend {
  #options;
  #port;
  #hub = null;
  #services = [];
  #folder;
  #home;

  constructor(options) {
    this.#options = options;
  }

  get real() {
    return Boolean(this.#options.hub);
  }

  /** The command that the hub is part of. */
  get command() {
    return resolve(this.#options.hub);
  }

  get python() {
    return this.#options.python.includes("/") ? resolve(this.#options.python) : this.#options.python;
  }

  get base() {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start() {
    this.#port = await freePort();
    this.#folder = await mkdtemp(join(tmpdir(), "neurogc-browser-"));
    await mkdir(join(this.#folder, "recordings", "sunday"), { recursive: true });
    await copyFile(BENCH, join(this.#folder, "recordings", "sunday", "run.json"));
    // The page shows the last three parts of a path: so deep, no path of this machine is in a picture.
    this.#home = join(this.#folder, "srv", "shop");
    await mkdir(this.#home, { recursive: true });
    await copyFile(join(here, "service.py"), join(this.#home, "service.py"));
    // A rule that fires for every service that serves.
    await writeFile(join(this.#folder, "alerts.toml"), '[[rule]]\nname = "slow"\np99_ms = 0.01\n');
    await this.up();
    if (!this.real) {
      const { processes } = await this.get("processes");
      [this.without, this.with] = processes.slice(0, 2).map((process) => process.id);
      await this.#name();
      return "the stand-in";
    }
    const [without, gap] = [this.#service("observe"), this.#service("gap", "--trace", join(this.#folder, "service.ngct"))];
    this.without = await this.#seen(without.pid);
    this.with = await this.#seen(gap.pid);
    // Charts and comparisons need some seconds to show.
    await this.until(async () => {
      const { t } = await this.get(`processes/${this.with}/series`, { range: "1m" });
      return t.length >= 12;
    }, "no series of twelve seconds");
    await this.#name();
    return `${this.#options.hub} with ${this.#options.python}`;
  }

  /** Both processes are one service: its name, and the overview with it open. */
  async #name() {
    ({ service: this.service } = await this.get(`processes/${this.with}`));
    this.overview = `#/overview?${new URLSearchParams({ open: encodeURIComponent(this.service) })}`;
  }

  async stop() {
    for (const service of this.#services) await end(service);
    await this.down();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Starts the hub, or starts it again where it was. */
  async up() {
    const [program, words] = this.real
      ? [this.command, ["hub", "--no-token", "--listen", `127.0.0.1:${this.#port}`, "--data", join(this.#folder, "data"), "--recordings", join(this.#folder, "recordings"), "--alerts", join(this.#folder, "alerts.toml")]]
      : [process.execPath, [mock, "--port", String(this.#port), "--recording", BENCH]];
    this.#hub = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"] });
    await line(this.#hub, /http:/);
  }

  async down() {
    if (this.#hub) await end(this.#hub, "SIGKILL");
    this.#hub = null;
  }

  /** A second hub that wants a token. */
  async guarded(token, act) {
    const port = await freePort();
    const [program, words] = this.real
      ? [this.command, ["hub", "--listen", `127.0.0.1:${port}`, "--data", join(this.#folder, "guarded")]]
      : [process.execPath, [mock, "--port", String(port), "--token", token]];
    const env = this.real ? { ...process.env, NEUROGC_HUB_TOKEN: token } : process.env;
    const hub = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"], env });
    try {
      await line(hub, /http:/);
      return await act(`http://127.0.0.1:${port}`);
    } finally {
      await end(hub, "SIGKILL");
    }
  }

  async get(path, query = {}) {
    const answer = await fetch(`${this.base}/api/v1/${path}?${new URLSearchParams(query)}`);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  async until(act, why, patience = PATIENCE_MS) {
    const end = Date.now() + patience;
    for (;;) {
      const got = await act().catch((error) => (Date.now() > end ? Promise.reject(error) : null));
      if (got) return got;
      if (Date.now() > end) throw new Error(`waited in vain: ${why}`);
      await new Promise((wake) => setTimeout(wake, 100));
    }
  }

  /** A trace to upload, as it has been written so far. */
  async trace() {
    const to = join(this.#folder, "upload.ngct");
    if (!this.real) {
      await writeFile(to, "NGCT");
      return to;
    }
    const written = (await readdir(this.#folder)).find((name) => name.startsWith("service") && name.endsWith(".ngct"));
    await copyFile(join(this.#folder, written), to);
    return to;
  }

  /** Puts a trace on the shelf of the hub. */
  async upload() {
    const body = await readFile(await this.trace());
    const answer = await fetch(`${this.base}/api/v1/recordings?name=service.ngct`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body });
    return (await answer.json()).id;
  }

  /** Gives the process with NeuroGC's conductor another policy. */
  async switchTo(policy) {
    await fetch(`${this.base}/api/v1/processes/${this.with}/policy`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ policy }) });
  }

  /** Starts a training loop on a made-up card; real hubs only. Gives its id, and what ends it. */
  async training() {
    const words = ["run", "--policy", "observe", "--", this.python, join(here, "training.py")];
    const env = { ...process.env, PYTHONPATH: join(here, "../apps/fake_torch") };
    const program = spawn(this.command, words, { cwd: this.#home, env, stdio: ["ignore", "ignore", "inherit"] });
    this.#services.push(program);
    return { id: await this.#seen(program.pid), end: () => end(program) };
  }

  /** Ends the process without NeuroGC's conductor, and returns its id. */
  async finish() {
    if (!this.real) return (await this.get("processes", { gone: "true" })).processes.find((process) => process.state === "gone").id;
    await end(this.#services[0]);
    return this.without;
  }

  #service(policy, ...more) {
    const words = ["run", "--policy", policy, ...more, "--", this.python, "service.py", ...(this.#options.live ? [this.#options.live] : [])];
    const service = spawn(this.command, words, { cwd: this.#home, stdio: ["ignore", "ignore", "inherit"] });
    this.#services.push(service);
    return service;
  }

  /** The id that the hub gives to a process. `neurogc run` replaces itself, so the process id is known. */
  #seen(pid) {
    return this.until(async () => {
      const { processes } = await this.get("processes");
      return processes.find((process) => process.pid === pid)?.id;
    }, `the hub does not list process ${pid}`);
  }
}

function freePort() {
  return new Promise((found, failed) => {
    const server = createServer().on("error", failed);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => found(port));
    });
  });
}

function line(child, pattern) {
  return new Promise((found, failed) => {
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
      if (pattern.test(text)) found(text);
    });
    child.on("error", failed);
    child.on("exit", (code) => failed(new Error(`it ended with ${code} before it was ready: ${text}`)));
  });
}

function end(child, signal = "SIGTERM") {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((gone) => {
    const hard = setTimeout(() => child.kill("SIGKILL"), 5000);
    child.removeAllListeners("exit");
    child.on("exit", () => {
      clearTimeout(hard);
      gone();
    });
    child.kill(signal);
  });
}
