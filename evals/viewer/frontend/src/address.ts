// The page's state is its address: the path names the page, the rest says filters, sorting, steps, what is compared.

import { useEffect, useState } from "preact/hooks";
import { archive } from "./api";

const OF_THE_PAGE = [
  "page",
  "episode",
  "step",
  "beside",
  "prompt",
  "first",
  "second",
  "baseline",
  "order",
  "pin",
  "chosen",
  "by",
  "at",
];

export type Change = Record<string, string | string[] | null>;

/** Where an entry of the history stood when it was left: how far down, and what had the focus. */
const stood = new Map<string, { top: number; focus: string }>();
let entries = 0;

export function useAddress(): [URLSearchParams, (change: Change, replace?: boolean) => void] {
  const [address, setAddress] = useState(() => addressOf(current()));
  useEffect(() => {
    history.scrollRestoration = "manual";
    history.replaceState(history.state, "", addressOf(current())); // an old address becomes today's
    const visited = () => setAddress(addressOf(current()));
    const moved = () => {
      visited();
      const place = stood.get(entry());
      if (place) requestAnimationFrame(() => restore(place.top, place.focus, 120));
    };
    addEventListener("visited", visited);
    addEventListener("popstate", moved);
    visited(); // the address may have changed since the first frame was drawn
    return () => {
      removeEventListener("visited", visited);
      removeEventListener("popstate", moved);
    };
  }, []);
  const go = (change: Change, replace = false) => visit(changed(current(), change), replace);
  return [stateOf(address.replace(/^#/, "")), go];
}

/** Show a state of the page; in place of the current one, or as the next one of the history. */
export function visit(state: URLSearchParams, replace = false): void {
  if (replace) history.replaceState(history.state, "", addressOf(state));
  else {
    const turns = current().get("page") !== state.get("page");
    stood.set(entry(), { top: scrollY, focus: document.activeElement?.id ?? "" });
    history.pushState({ entry: `${performance.timeOrigin} ${++entries}`, inside: true }, "", addressOf(state));
    if (turns) scrollTo(0, 0);
  }
  dispatchEvent(new Event("visited"));
}

/** Back to where this page was opened from; where it was opened by its address, to another one. */
export function back(otherwise: URLSearchParams): void {
  if ((history.state as { inside?: boolean } | null)?.inside) history.back();
  else visit(otherwise);
}

function entry(): string {
  return (history.state as { entry?: string } | null)?.entry ?? "first";
}

/** Scroll and focus as they were, once the page is as tall again. */
function restore(top: number, focus: string, tries: number): void {
  const element = focus ? document.getElementById(focus) : null;
  const ready = (element || !focus) && document.documentElement.scrollHeight >= top + innerHeight;
  if (!ready && tries) {
    requestAnimationFrame(() => restore(top, focus, tries - 1));
    return;
  }
  scrollTo(0, top);
  element?.focus({ preventScroll: true });
}

/** What the address says; behind `#` in static pages, because a page opened from a disk may change nothing else. */
function current(): URLSearchParams {
  return stateOf(archive ? location.hash.slice(1) : location.pathname + location.search);
}

/** The state that an address stands for; addresses of a time when all was one page have no path. */
export function stateOf(address: string): URLSearchParams {
  const [path, ...rest] = address.startsWith("/") ? address.split("?") : ["", address.replace(/^\?/, "")];
  const state = new URLSearchParams(rest.join("?"));
  const [page, suite] = path.split("/").filter(Boolean);
  if (page === "suite" && suite) state.set("suite", decoded(suite));
  const known = ["runs", "episodes", "compare", "episode", "live", "study"].includes(page);
  const other = page === "suite" ? "episodes" : state.has("episode") ? "episode" : state.size ? "episodes" : "runs";
  state.set("page", known ? page : other);
  return state;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a hand-written address
  }
}

/** The address of a state of the page; that of one suite's episodes has the suite in its path. */
export function addressOf(state: URLSearchParams): string {
  const rest = new URLSearchParams(state);
  const page = rest.get("page") ?? "runs";
  rest.delete("page");
  const suites = rest.getAll("suite");
  const ofSuite = page === "episodes" && suites.length === 1;
  if (ofSuite) rest.delete("suite");
  const path = ofSuite ? `/suite/${encodeURIComponent(suites[0])}` : `/${page}`;
  return `${archive ? "#" : ""}${path}${rest.size ? `?${rest}` : ""}`;
}

/** A state of a page from nothing. */
export function state(page: string, choices: Change = {}): URLSearchParams {
  return changed(new URLSearchParams({ page }), choices);
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
