// Requests to the server: the key, errors and streams are handled here.
import { askForKey, storedKey } from "./key";
import { words } from "./strings";

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly param: string,
  ) {
    super(message);
  }
}

async function failure(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const e = (JSON.parse(text) as { error: { message: string; code?: string; param?: string } }).error;
    return new ApiError(e.message, response.status, e.code ?? "", e.param ?? "");
  } catch {
    return new ApiError(text.slice(0, 300) || response.statusText, response.status, "", "");
  }
}

export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const headers = new Headers(init.headers);
    const key = storedKey();
    if (key) headers.set("authorization", `Bearer ${key}`);
    const response = await fetch(path, { ...init, headers }).catch((error: unknown) => {
      throw error instanceof TypeError ? new ApiError(words.unreachable, 0, "unreachable", "") : error;
    });
    if (response.status === 401) {
      // Another request may have got the right key in the meantime.
      if (key === storedKey() && (await askForKey(key !== "")) === null)
        throw new ApiError(words.key.needed, 401, "key_needed", "");
      continue;
    }
    if (!response.ok) throw await failure(response);
    return response;
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await call(path, { signal })).json() as Promise<T>;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await call(path, { method: "POST", body: JSON.stringify(body), signal });
  return response.json() as Promise<T>;
}

export async function remove<T>(path: string): Promise<T> {
  return (await call(path, { method: "DELETE" })).json() as Promise<T>;
}

// The events of a stream. A stream that ends without [DONE] is an error: the connection was dropped.
export async function* events<T>(path: string, body: unknown, signal: AbortSignal): AsyncGenerator<T, void> {
  const response = await call(path, { method: "POST", body: JSON.stringify(body), signal });
  const dropped = () => new ApiError(words.dropped, 0, "dropped", "");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      throw signal.aborted ? error : dropped();
    });
    if (done) throw dropped();
    buffer += value;
    let start = 0;
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n", start)) {
      const event = buffer.slice(start, end);
      start = end + 2;
      if (!event.startsWith("data: ")) continue;
      const data = event.slice(6);
      if (data === "[DONE]") return;
      const json = JSON.parse(data) as T & { error?: { message: string; code?: string } };
      if (json.error) throw new ApiError(json.error.message, 500, json.error.code ?? "", "");
      yield json as Awaited<T>;
    }
    buffer = buffer.slice(start);
  }
}

// Saves a text under a name, as a download.
export function download(name: string, text: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function bytes(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) out[i] = text.charCodeAt(i);
  return out;
}
