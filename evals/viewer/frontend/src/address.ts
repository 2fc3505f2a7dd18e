// The page's state is its address: filters, sorting, the episode that is open, its step, and the episode beside it.

import { useEffect, useState } from "preact/hooks";
import { archive } from "./api";

const OF_THE_PAGE = ["episode", "step", "beside", "prompt"];

export type Change = Record<string, string | string[] | null>;

export function useAddress(): [URLSearchParams, (change: Change, replace?: boolean) => void] {
  const [search, setSearch] = useState(here());
  useEffect(() => {
    const moved = () => setSearch(here());
    addEventListener("popstate", moved);
    return () => removeEventListener("popstate", moved);
  }, []);
  const go = (change: Change, replace = false) => {
    const next = changed(new URLSearchParams(here()), change);
    history[replace ? "replaceState" : "pushState"](null, "", addressOf(next));
    setSearch(here());
  };
  return [new URLSearchParams(search), go];
}

/** What the address says; behind `#` in static pages, because a page opened from a disk may change nothing else. */
function here(): string {
  return archive ? location.hash.slice(1) : location.search;
}

/** The address of a state of the page. */
export function addressOf(state: URLSearchParams): string {
  if (archive) return `#${state}`;
  return state.size ? `?${state}` : location.pathname;
}

export function changed(given: URLSearchParams, change: Change): URLSearchParams {
  const next = new URLSearchParams(given);
  for (const [name, value] of Object.entries(change)) {
    next.delete(name);
    for (const each of value === null ? [] : [value].flat()) if (each !== "") next.append(name, each);
  }
  return next;
}

/** The part of an address that the server filters and sorts by. */
export function filters(given: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...given].filter(([name]) => !OF_THE_PAGE.includes(name)));
}
