// The list of episodes: only the rows in sight are asked for and drawn, so that a million are as quick as a hundred.

import { useEffect, useRef, useState } from "preact/hooks";
import { addressOf, type Change, changed, filters } from "./address";
import { ask, reference } from "./api";
import type { Page, Row } from "./schema";
import { number, Outcome, seconds, Text } from "./text";

const HEIGHT = 32;
const PAGE = 100;
const TALLEST = 8_000_000; // pixels; browsers do not draw elements that are much taller
const SEARCH_POLL = 400;
const NARROW = 600; // pixels

/** Where each list of this page stood when an episode was opened from it: Back and Esc lead there again. */
const left = new Map<string, { top: number; cursor: number }>();

interface Column {
  name: string;
  label: string;
  width: number;
  cell: (row: Row) => preact.ComponentChildren;
  right?: boolean;
}

const COLUMNS: Column[] = [
  { name: "success", label: "outcome", width: 76, cell: (row) => <Outcome row={row} /> },
  { name: "suite", label: "suite", width: 80, cell: (row) => row.suite },
  { name: "task", label: "task", width: 150, cell: (row) => <span title={row.task}>{row.task}</span> },
  { name: "level", label: "level", width: 60, cell: (row) => row.level },
  { name: "mode", label: "mode", width: 112, cell: (row) => row.mode },
  { name: "index", label: "game", width: 58, right: true, cell: (row) => number(row.index) },
  { name: "repeat", label: "repeat", width: 62, right: true, cell: (row) => number(row.repeat) },
  { name: "player", label: "player", width: 112, cell: (row) => row.player },
  { name: "steps", label: "steps", width: 58, right: true, cell: (row) => number(row.steps) },
  { name: "score", label: "score", width: 58, right: true, cell: (row) => number(row.score, 2) },
  { name: "completion_tokens", label: "written", width: 74, right: true, cell: (row) => number(row.completion_tokens) },
  { name: "prompt_tokens", label: "prompt", width: 78, right: true, cell: (row) => number(row.prompt_tokens) },
  { name: "cost", label: "cost", width: 64, right: true, cell: (row) => (row.cost ? number(row.cost, 5) : "") },
  { name: "seconds", label: "time", width: 80, right: true, cell: (row) => seconds(row.seconds) },
  { name: "cut_off", label: "ended early", width: 92, right: true, cell: (row) => (row.cut_off ? number(row.cut_off) : "") },
  { name: "error", label: "error", width: 220, cell: (row) => <Text value={row.error} short /> },
];
const OTHER: Column = {
  name: "other",
  label: "compared",
  width: 84,
  cell: (row) => row.other && <Outcome row={row.other} />,
};
const TAGS: Column = {
  name: "tags",
  label: "tags",
  width: 150,
  cell: (row) => <Text value={(row.tags ?? []).join(", ")} short />,
};
const RUN: Column = { name: "run", label: "run", width: 190, cell: (row) => row.run };

interface Given {
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
  version: number;
  loading: boolean;
  runs: number;
  /** Whether any episode has tags. */
  tagged: boolean;
}

interface Known {
  asked: string;
  total: number;
  pages: Map<number, { rows: Row[]; version: number }>;
}

export function List({ address, go, version, loading, runs, tagged }: Given) {
  const asked = filters(changed(address, { panel: null, across: null, shown: null })).toString();
  const { known, searching, error, want, loaded } = usePages(asked, version);
  const grid = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [room, setRoom] = useState(NARROW);
  const [cursor, setCursor] = useState(0);
  const versus = address.has("versus") ? [OTHER] : [];
  const run = runs > 1 ? [RUN] : [];
  const tags = tagged ? [TAGS] : [];
  // what tells episodes apart comes first; where there is little room, the suite and the run come last
  const [outcome, suite, ...others] = COLUMNS;
  const columns =
    room < NARROW
      ? [outcome, ...versus, ...tags, ...others, suite, ...run]
      : [outcome, ...versus, ...tags, ...run, suite, ...others];
  const width = columns.reduce((sum, column) => sum + column.width, 0);
  const total = known?.total ?? 0;
  const inSight = Math.max(1, Math.floor(height / HEIGHT));
  const tall = Math.min(total * HEIGHT, TALLEST);
  const scale = tall > height ? Math.max(0, total - inSight) / (tall - height) : 0;
  const first = Math.min(Math.floor(top * scale), Math.max(0, total - inSight));
  const last = Math.min(total, first + inSight + 2);

  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const before = () => setPrinting(true); // on paper nothing scrolls
    const after = () => setPrinting(false);
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => {
      removeEventListener("beforeprint", before);
      removeEventListener("afterprint", after);
    };
  }, []);
  useEffect(() => {
    const body = grid.current!;
    const sized = new ResizeObserver(() => {
      setHeight(body.clientHeight - HEIGHT);
      setRoom(body.clientWidth);
    });
    sized.observe(body);
    return () => sized.disconnect();
  }, []);
  useEffect(() => {
    grid.current!.scrollTop = 0;
    setTop(0);
    setCursor(0);
  }, [asked]);
  // the list has its height, and can be scrolled, once it is known how many rows there are
  useEffect(() => {
    const stood = left.get(asked);
    if (!total || !stood || known?.asked !== asked) return;
    left.delete(asked);
    grid.current!.scrollTop = stood.top;
    setCursor(Math.min(stood.cursor, total - 1));
    grid.current!.focus({ preventScroll: true });
  }, [asked, total > 0, known?.asked]);
  useEffect(() => want(first, last), [first, last, asked, version, loaded]);

  const move = (next: number) => {
    const to = Math.max(0, Math.min(total - 1, next));
    setCursor(to);
    const shown = to < first ? to : to > first + inSight - 1 ? to - inSight + 1 : first;
    if (shown !== first && scale) grid.current!.scrollTop = Math.ceil(shown / scale);
  };
  const rowAt = (place: number) => known?.pages.get(Math.floor(place / PAGE))?.rows[place % PAGE];
  const opened = (row: Row): Change => ({
    page: "episode",
    episode: reference(row),
    step: null,
    beside: row.other ? reference(row.other) : null,
  });
  const open = (row: Row | undefined, place: number) => {
    if (!row) return;
    left.set(asked, { top: grid.current!.scrollTop, cursor: place });
    go(opened(row));
  };
  const clicked = (event: MouseEvent, row: Row | undefined, place: number) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // the link opens in another tab or window
    event.preventDefault();
    open(row, place);
  };
  const pressed = (event: KeyboardEvent) => {
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      j: 1,
      k: -1,
      PageDown: inSight,
      PageUp: -inSight,
      Home: -total,
      End: total,
    };
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) move(cursor + steps[event.key]);
    else if (event.key === "Enter") open(rowAt(cursor), cursor);
    else return;
    event.preventDefault();
  };
  const sort = address.get("sort") ?? "";
  const sorted = (name: string) => (sort === name ? `-${name}` : sort === `-${name}` ? null : name);
  const rows = [];
  const [from, until] = printing ? [0, Math.min(total, PAGE)] : [first, last];
  for (let place = from; place < until; place++) rows.push({ place, row: rowAt(place) });

  return (
    <section class="list" aria-label="List of episodes">
      <p class="count" role="status">
        {error || (
          <>
            {number(total)} episodes
            {searching && ` · searching: ${number(searching.searched)} of ${number(searching.of)} files`}
            {loading && " · reading the ledger …"}
            <span class="printed"> · printed here: {number(rows.filter(({ row }) => row).length)}</span>
          </>
        )}
      </p>
      <div
        ref={grid}
        class="grid"
        role="grid"
        aria-label="Episodes"
        aria-rowcount={total + 1}
        aria-colcount={columns.length}
        aria-activedescendant={total ? `row-${cursor}` : undefined}
        tabIndex={0}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        onKeyDown={pressed}
      >
        <div class="head" role="row" aria-rowindex={1} style={{ width: `${width}px` }}>
          {columns.map((column) => (
            <div
              key={column.name}
              role="columnheader"
              class={column.right ? "number" : ""}
              style={{ width: `${column.width}px` }}
              aria-sort={sort === column.name ? "ascending" : sort === `-${column.name}` ? "descending" : "none"}
            >
              <button
                type="button"
                disabled={column === OTHER || column === TAGS}
                onClick={() => go({ sort: sorted(column.name) }, true)}
              >
                {column.label}
                <span aria-hidden="true">{sort === column.name ? " ↑" : sort === `-${column.name}` ? " ↓" : ""}</span>
              </button>
            </div>
          ))}
        </div>
        <div class="rows" role="rowgroup" style={{ height: `${tall}px`, width: `${width}px` }}>
          {rows.map(({ place, row }) => (
            <div
              key={place}
              id={`row-${place}`}
              role="row"
              aria-rowindex={place + 2}
              aria-selected={place === cursor}
              class={row ? "row" : "row absent"}
              style={{ transform: `translateY(${tall < TALLEST ? place * HEIGHT : top + (place - first) * HEIGHT}px)` }}
              onClick={(event) => clicked(event, row, place)}
            >
              {columns.map((column) => (
                <div
                  key={column.name}
                  role="gridcell"
                  class={column.right ? "number" : ""}
                  style={{ width: `${column.width}px` }}
                >
                  {!row ? (
                    "…"
                  ) : column.name === "success" ? (
                    <a href={addressOf(changed(address, opened(row)))} tabIndex={-1} title={row.task}>
                      {column.cell(row)}
                    </a>
                  ) : (
                    column.cell(row)
                  )}
                </div>
              ))}
            </div>
          ))}
        </div>
        {known && !total && !loading && !error && <p class="nothing">no episode fits these filters</p>}
      </div>
    </section>
  );
}

/** The pages of the list that were in sight, kept until the filters change and asked for again when the runs went on. */
function usePages(asked: string, version: number) {
  const [loaded, setLoaded] = useState(0);
  const known = useRef<Known | null>(null);
  const shown = useRef<Known | null>(null);
  const waiting = useRef(new Set<string>());
  const [searching, setSearching] = useState<Page["search"]>(null);
  const [error, setError] = useState("");
  if (known.current?.asked !== asked) known.current = { asked, total: 0, pages: new Map() };
  const here = known.current;

  const load = async (page: number) => {
    const name = `${asked} ${page}`;
    if (waiting.current.has(name)) return;
    waiting.current.add(name);
    try {
      const given = changed(new URLSearchParams(asked), { from: String(page * PAGE), count: String(PAGE) });
      const answer = await ask<Page>("episodes", given);
      here.total = answer.total;
      here.pages.set(page, { rows: answer.rows, version: answer.version });
      if (answer.version > version) dispatchEvent(new Event("grown")); // by what a search has found, say
      if (known.current !== here) return;
      shown.current = here;
      setError("");
      setSearching(answer.search?.running ? answer.search : null);
      if (answer.search?.running) setTimeout(() => known.current === here && load(page), SEARCH_POLL);
    } catch (problem) {
      here.pages.set(page, { rows: [], version }); // not asked again before something has changed
      if (known.current === here) setError((problem as Error).message);
    } finally {
      waiting.current.delete(name);
      setLoaded((count) => count + 1);
    }
  };
  const want = (first: number, last: number) => {
    const least = Math.floor(first / PAGE);
    const most = Math.max(least, Math.floor((last - 1) / PAGE));
    for (let page = least; page <= most; page++) if ((here.pages.get(page)?.version ?? -1) < version) void load(page);
  };
  // until the first rows of new filters are here, the old ones stay
  return { known: here.pages.size ? here : shown.current, searching, error, want, loaded };
}
