// The list of an export: whatever a filter is, it gives the rows that a plain loop gives.

import { describe, expect, test } from "vitest";
import { splitReference } from "../src/archive/archive";
import { gridsOf } from "../src/archive/pictures";
import { causeOf, Table } from "../src/archive/table";
import type { PackedColumn } from "../src/schema";

interface Played {
  run: string;
  player: string;
  success: boolean | null;
  status: string;
  steps: number;
  error: string;
  mode: string;
  game: number;
  repeat: number;
}

const RUNS = ["first", "second"];
const ROWS: Played[] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map((row) => ({
  run: RUNS[row < 6 ? 0 : 1],
  player: row % 2 ? "random" : "oracle",
  success: row % 4 === 3 ? null : row % 3 === 0,
  status: row % 4 === 3 ? "failed" : "done",
  steps: row % 5 === 4 ? Number.NaN : (row * 7) % 11,
  error: row % 4 === 3 ? `timed out after ${row}.5 s at 0x${row}f` : "",
  mode: "zero_shot",
  game: row % 3,
  repeat: 0,
}));

const NUMBERED = ["success", "status", "error", "mode", "game", "repeat", "player"] as const;

/** Columns as evals/archive packs them: values by number in the order of the values, at places that are multiples of 8. */
function packed(): Table {
  const columns: PackedColumn[] = [];
  const tail = new Uint8Array(8 * 100);
  let start = 0;
  const add = (name: string, numbers: number[], values?: unknown[]) => {
    columns.push({ name, kind: values ? "values" : "numbers", type: values ? "uint8" : "float32", values });
    const place = values
      ? new Uint8Array(tail.buffer, start, numbers.length)
      : new Float32Array(tail.buffer, start, numbers.length);
    place.set(numbers);
    start += Math.ceil(place.byteLength / 8) * 8;
  };
  add(
    "run",
    ROWS.map((row) => RUNS.indexOf(row.run)),
    [],
  );
  for (const name of NUMBERED) {
    const values = [...new Set(ROWS.map((row) => row[name]))].sort();
    add(
      name,
      ROWS.map((row) => values.indexOf(row[name])),
      values,
    );
  }
  add(
    "steps",
    ROWS.map((row) => row.steps),
  );
  return new Table(ROWS.length, columns, tail, RUNS);
}

const TABLE = packed();
const where = (fits: (row: Played) => boolean) =>
  ROWS.map((row, place) => (fits(row) ? place : -1)).filter((place) => place >= 0);
const found = (asked: string, hits?: Set<number>) => [...TABLE.select(new URLSearchParams(asked), hits)];

describe("filters", () => {
  test.each<[string, (row: Played) => boolean]>([
    ["", () => true],
    ["player=oracle", (row) => row.player === "oracle"],
    ["player=oracle&player=random&run=second", (row) => row.run === "second"],
    ["player=", () => true],
    ["won=1", (row) => row.success === true],
    ["lost=1", (row) => row.success !== true && row.status === "done"],
    ["not_won=1", (row) => row.success !== true],
    ["min_steps=3&max_steps=7", (row) => row.steps >= 3 && row.steps <= 7],
    [`cause=${encodeURIComponent(causeOf(ROWS[3].error))}`, (row) => row.status === "failed"],
    ["cause=another", () => false],
  ])("%s", (asked, fits) => expect(found(asked)).toEqual(where(fits)));

  test("a text search leaves its hits", () => expect(found("player=oracle", new Set([0, 1, 4]))).toEqual([0, 4]));

  test("games that another player decided otherwise", () => {
    const partner = TABLE.partners("second", "random");
    expect([0, 1, 2].map(partner)).toEqual([9, 7, 11]);
    expect(partner(11)).toBeNull(); // itself
    for (const row of found("run=first&versus_run=second&versus=random&flipped=1"))
      expect(ROWS[row].success).not.toBe(ROWS[partner(row)!].success);
    expect(found("versus_run=second&versus=random&versus_outcome=won").every((row) => ROWS[partner(row)!].success)).toBe(true);
  });
});

test.each(["steps", "-steps"])("sorted by %s, what is not known comes last", (sort) => {
  const order = found(`sort=${sort}`).map((row) => ROWS[row].steps);
  const known = order.filter((steps) => !Number.isNaN(steps));
  expect(known).toEqual([...known].sort((one, other) => (sort === "steps" ? one - other : other - one)));
  expect(order.slice(known.length).every(Number.isNaN)).toBe(true);
  expect(order).toHaveLength(ROWS.length);
});

test("the same game: first that of the same run", () => {
  const same = TABLE.sameGame(7);
  expect(same).toEqual([10, 1, 4]);
  expect(TABLE.counts("status")).toEqual({ done: 9, failed: 3 });
});

test("causes differ by words, not by numbers", () => {
  expect(causeOf("3 of 10,000.5 at 0xdeadbeef")).toBe(causeOf("4 of 7 at 0x1"));
  expect(causeOf("no memory")).not.toBe(causeOf("no disk"));
});

test("a run's name may hold a slash", () => expect(splitReference("runs/one/0123")).toEqual(["runs/one", "0123"]));

test("pictures: 0 is the tile of the picture before", () => {
  const tail = new Uint8Array(new Uint32Array([5, 6, 0, 9]).buffer);
  const grids = gridsOf(
    [
      [64, 32],
      [64, 32],
    ],
    tail,
  );
  expect(grids.map((grid) => [...grid])).toEqual([
    [4, 5],
    [4, 8],
  ]);
});
