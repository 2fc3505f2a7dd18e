import { Archive } from "./archive/archive";

// What the server answers, and how it is asked. Everything here is data: texts are shown as text, never as markup.

export interface Row {
  id: number;
  run: string;
  episode_id: string;
  suite: string;
  task: string;
  level: string;
  mode: string;
  index: number;
  repeat: number;
  player: string;
  status: string;
  error: string;
  error_kind: string;
  success: boolean | null;
  score: number | null;
  steps: number | null;
  budget: number;
  prompt_tokens: number;
  completion_tokens: number;
  reasoning_tokens: number;
  cached_tokens: number;
  seconds: number;
  cost: number;
  cut_off: number;
  attempt: number;
  other?: { run: string; episode_id: string; status: string; success: boolean | null } | null;
}

export interface Progress {
  searched: number;
  of: number;
  running: boolean;
}

export interface Page {
  total: number;
  from: number;
  rows: Row[];
  search: Progress | null;
  version: number;
}

export interface RunStatus {
  name: string;
  path: string;
  planned: number;
  done: number;
  failed: number;
  waiting: number;
  players: string[];
  damage: string[];
  stopping: string[];
}

export interface State {
  version: number;
  loaded: boolean;
  trouble: string;
  runs: RunStatus[];
}

export type Values = Record<string, Record<string, number>>;

export interface Cell {
  run: string;
  suite: string;
  task: string;
  level: string;
  mode: string;
  player: string;
  played: number;
  won: number;
  failed: number;
}

export interface Cause {
  cause: string;
  error_kind: string;
  count: number;
  example: string;
  players: string[];
  episodes: Row[];
}

export type Part = { text: string; picture?: undefined } | { picture: string; text?: undefined };

export interface Message {
  role: string;
  parts: Part[];
}

export type Facts = Record<string, unknown>;

export interface Step {
  shown: Message[];
  kept: number;
  reply: string;
  reasoning: string;
  decoded: string | null;
  rule: string;
  facts: Facts;
  best: string | null;
  regret: number | null;
  lost: boolean;
  after: string | null;
  remaining: string[] | null;
  probabilities: Record<string, number>;
  options: string[];
  finish: string;
  prompt_tokens: number;
  completion_tokens: number;
  reasoning_tokens: number;
  cached_tokens: number;
  seconds: number;
  cost: number;
  label_mass: number | null;
  exact: boolean | null;
}

export interface Rule {
  test: string;
  outcome: string;
  rules_out: string[];
  used: number | null;
}

export interface Question {
  name: string;
  stage: string;
  answer: string | null;
  key: string;
  parents: string[];
  weights: number[];
  turn: number;
  counts: boolean;
  score: number | null;
}

export interface Episode {
  steps: Step[];
  facts: Facts;
  regret_unit: string;
  candidates: string[];
  book: Rule[];
  graph: Question[];
  row: Row & Facts;
  columns: Facts;
  notice: string;
  pictures: Record<string, { width: number; height: number; error: string }>;
  listed: Row & { attempts: number[] };
  place: { position: number | null; total: number; before: Row | null; after: Row | null };
  same_game: Row[];
  folder: string;
  /** In static pages, the chunk that has the episode and its pictures. */
  chunk?: string;
}

/** Static pages, which answer from their own files (`raycade view --export`); null where a server answers. */
export const archive = document.documentElement.dataset.source === "archive" ? new Archive() : null;

export async function ask<T>(path: string, given: URLSearchParams, signal?: AbortSignal): Promise<T> {
  if (archive) return (await archive.ask(path, given)) as T;
  const answer = await fetch(`api/${path}?${given}`, { signal });
  if (!answer.ok) {
    const text = await answer.text();
    let error = text;
    try {
      error = (JSON.parse(text) as { error: string }).error;
    } catch {
      // not JSON: the text itself says what is wrong
    }
    throw new Error(error || `the server answered ${answer.status}`);
  }
  return (await answer.json()) as T;
}

export function reference(row: { run: string; episode_id: string }): string {
  return `${row.run}/${row.episode_id}`;
}

export function named(text: string): URLSearchParams {
  return new URLSearchParams({ at: text });
}
