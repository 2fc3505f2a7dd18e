// How the server, or an export, is asked; what either answers is in schema.ts.

import { Archive } from "./archive/archive";

/** Static pages, which answer from their own files (`raycade view --export`); null where a server answers. */
export const archive = document.documentElement.dataset.source === "archive" ? new Archive() : null;

export async function ask<T>(path: string, given: URLSearchParams, signal?: AbortSignal): Promise<T> {
  if (archive) return (await archive.ask(path, given)) as T;
  return JSON.parse(await askText(path, given, signal)) as T;
}

/** Send something to be kept; the server's answer to it. */
export async function post<T>(path: string, what: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return JSON.parse(await textOf(await fetch(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(what) }))) as T;
}

/** The server's answer as text; an error is thrown in the server's own words. */
export async function askText(path: string, given: URLSearchParams, signal?: AbortSignal): Promise<string> {
  return textOf(await fetch(`/api/${path}?${given}`, { signal }));
}

async function textOf(answer: Response): Promise<string> {
  const text = await answer.text();
  if (!answer.ok) {
    let error = text;
    try {
      error = (JSON.parse(text) as { error: string }).error;
    } catch {
      // not JSON: the text itself says what is wrong
    }
    throw new Error(error || `the server answered ${answer.status}`);
  }
  return text;
}

export function reference(row: { run: string; episode_id: string }): string {
  return `${row.run}/${row.episode_id}`;
}

export function named(text: string): URLSearchParams {
  return new URLSearchParams({ at: text });
}
