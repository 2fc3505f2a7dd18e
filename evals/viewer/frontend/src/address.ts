// The page's state is its address: filters, sorting, the episode that is open, its step, and the episode beside it.

import { useEffect, useState } from "preact/hooks";

const OF_THE_PAGE = ["episode", "step", "beside", "prompt"];

export type Change = Record<string, string | string[] | null>;

export function useAddress(): [URLSearchParams, (change: Change, replace?: boolean) => void] {
  const [search, setSearch] = useState(location.search);
  useEffect(() => {
    const moved = () => setSearch(location.search);
    addEventListener("popstate", moved);
    return () => removeEventListener("popstate", moved);
  }, []);
  const go = (change: Change, replace = false) => {
    const next = changed(new URLSearchParams(location.search), change);
    const text = next.size ? `?${next}` : location.pathname;
    history[replace ? "replaceState" : "pushState"](null, "", text);
    setSearch(location.search);
  };
  return [new URLSearchParams(search), go];
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
