// Asking the hub. The address that the hub prints leaves a cookie with its token; a token that is typed lives in the
// session of the browser. Both go nowhere but to the hub.

const KEY = "neurogc.token";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export function token(): string | null {
  return sessionStorage.getItem(KEY);
}

export function keepToken(value: string): void {
  sessionStorage.setItem(KEY, value);
}

/** Forgets a token that the hub has refused. Says whether there was one, typed or in the address. */
export function forgetToken(): boolean {
  const had = token() !== null || location.search === "?wrong-token";
  sessionStorage.removeItem(KEY);
  return had;
}

let unauthorized = () => {};

/** What to do when the hub wants a token, or another one. */
export function whenUnauthorized(act: () => void): void {
  unauthorized = act;
}

type Query = Record<string, string | number | null | undefined>;

function address(path: string, query: Query): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value != null && value !== "") words.set(name, String(value));
  const tail = words.toString();
  return `/api/v1/${path}${tail ? `?${tail}` : ""}`;
}

async function ask(url: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  const held = token();
  if (held) headers.set("Authorization", `Bearer ${held}`);
  let answer: Response;
  try {
    answer = await fetch(url, { ...init, headers });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "the hub does not answer");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => null);
  if (answer.status === 401) unauthorized();
  throw new ApiError(
    answer.status,
    said?.error?.code ?? "error",
    said?.error?.message ?? `the hub answered ${answer.status} ${answer.statusText}`,
  );
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await ask(address(path, query), { signal })).json();
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return (await ask(address(path, {}), { method: "POST", headers, body: JSON.stringify(body) })).json();
}

export async function upload<T>(path: string, query: Query, body: Blob): Promise<T> {
  const headers = { "Content-Type": "application/octet-stream" };
  return (await ask(address(path, query), { method: "POST", headers, body })).json();
}

export async function remove(path: string): Promise<void> {
  await ask(address(path, {}), { method: "DELETE" });
}

export async function file(path: string): Promise<Blob> {
  return (await ask(address(path, {}), {})).blob();
}

/** A part of a path that comes from outside. */
export function part(name: string): string {
  return encodeURIComponent(name);
}

/** Whether an error only says that the request was aborted. */
export function aborted(error: unknown): boolean {
  return (error as Error)?.name === "AbortError";
}

export function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
