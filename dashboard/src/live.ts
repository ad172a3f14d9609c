// The WebSocket to the hub: it says what is watched, comes back after a loss with growing pauses, and says so.

import { token } from "./api";
import type { LiveMessage } from "./types";

export type Connection =
  | { kind: "connecting"; attempt: number }
  | { kind: "live" }
  | { kind: "lost"; attempt: number; retry_at: number };

const FIRST_MS = 500;
const LONGEST_MS = 10_000;
/** The hub sends the list of processes every second; so long a silence means that the connection is dead. */
const SILENCE_MS = 8_000;

type Heard<T extends LiveMessage["type"]> = Extract<LiveMessage, { type: T }>;

export class Live {
  connection: Connection = { kind: "connecting", attempt: 0 };
  /** What the clock of the hub is ahead of ours. */
  ahead_ms = 0;
  /** Messages that this browser was too slow for. */
  skipped = 0;

  private socket: WebSocket | null = null;
  private attempt = 0;
  private timer = 0;
  private heard_at = 0;
  private ids: string[] = [];
  private listeners = new Map<string, Set<(message: never) => void>>();
  private watchers = new Set<(connection: Connection) => void>();
  private returned = new Set<() => void>();
  private was_live = false;

  constructor() {
    setInterval(() => this.look(), 1000);
    addEventListener("online", () => this.now());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.now();
    });
  }

  now_ms(): number {
    return Date.now() + this.ahead_ms;
  }

  connect(): void {
    clearTimeout(this.timer);
    this.set({ kind: "connecting", attempt: this.attempt });
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const held = token();
    const socket = new WebSocket(`${scheme}//${location.host}/api/v1/live`, held ? ["neurogc.v1", `token.${held}`] : ["neurogc.v1"]);
    this.socket = socket;
    this.heard_at = Date.now();
    socket.onopen = () => this.send();
    socket.onmessage = (event) => this.hear(event.data as string);
    socket.onclose = () => {
      if (this.socket === socket) this.lose();
    };
  }

  /** Tries at once what would be tried later. */
  now(): void {
    if (this.connection.kind === "lost") this.connect();
  }

  /** Which processes to send samples and events of; the list of processes always comes. */
  watch(ids: string[]): void {
    this.ids = ids;
    this.send();
  }

  on<T extends LiveMessage["type"]>(type: T, listener: (message: Heard<T>) => void): () => void {
    const set = this.listeners.get(type) ?? new Set();
    this.listeners.set(type, set);
    set.add(listener as never);
    return () => set.delete(listener as never);
  }

  /** Called at every change of the connection, and now. */
  onConnection(listener: (connection: Connection) => void): () => void {
    this.watchers.add(listener);
    listener(this.connection);
    return () => this.watchers.delete(listener);
  }

  /** Called when a lost connection is back: what was loaded has a hole since then. */
  onReturn(listener: () => void): () => void {
    this.returned.add(listener);
    return () => this.returned.delete(listener);
  }

  private send(): void {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    this.socket.send(JSON.stringify({ type: "watch", processes: true, ids: this.ids }));
  }

  private hear(text: string): void {
    this.heard_at = Date.now();
    const message = JSON.parse(text) as LiveMessage;
    if (message.type === "hello") {
      this.attempt = 0;
      this.ahead_ms = message.now_ms - Date.now();
      this.set({ kind: "live" });
      if (this.was_live) for (const listener of this.returned) listener();
      this.was_live = true;
    } else if (message.type === "skipped") {
      this.skipped += message.count;
    }
    for (const listener of this.listeners.get(message.type) ?? []) listener(message as never);
  }

  private lose(): void {
    this.socket = null;
    const pause = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.attempt);
    this.attempt += 1;
    this.set({ kind: "lost", attempt: this.attempt, retry_at: Date.now() + pause });
    this.timer = window.setTimeout(() => this.connect(), pause);
  }

  private look(): void {
    if (this.connection.kind === "live" && Date.now() - this.heard_at > SILENCE_MS) {
      const dead = this.socket;
      this.lose();
      dead?.close();
    }
    if (this.connection.kind === "lost") this.set(this.connection);
  }

  private set(connection: Connection): void {
    this.connection = connection;
    for (const watcher of this.watchers) watcher(connection);
  }
}
