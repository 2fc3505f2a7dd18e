import { useEffect, useMemo, useState } from "preact/hooks";
import { ask } from "./api";

const KEPT = 40;
/** Answers by what was asked: a page that is left and come back to stands there at once. */
const known = new Map<string, unknown>();

/** The server's last answer, and why there is no newer one. While one is under way the old one stays: nothing jumps. */
export function useAnswer<T>(path: string, asked: string, version: number): [T | null, string] {
  const [error, setError] = useState("");
  const key = `${path}?${asked}`;
  const [answer, setAnswer] = useState<{ path: string; value: T } | null>(() =>
    known.has(key) ? { path, value: known.get(key) as T } : null,
  );
  const stop = useMemo(() => ({ current: new AbortController() }), []);
  useEffect(() => {
    if (!path) return;
    stop.current.abort();
    stop.current = new AbortController();
    const stopped = stop.current.signal;
    ask<T>(path, new URLSearchParams(asked), stopped)
      .then((value) => {
        known.delete(key);
        known.set(key, value);
        for (const oldest of [...known.keys()].slice(0, -KEPT)) known.delete(oldest);
        setAnswer({ path, value });
        setError("");
      })
      .catch((problem: Error) => stopped.aborted || setError(problem.message));
  }, [path, asked, version]);
  return [answer?.path === path ? answer.value : null, error];
}
