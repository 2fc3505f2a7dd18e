// What pages choose and order, apart from how they draw it.

import { afterEach, describe, expect, test, vi } from "vitest";
import { ask, askText } from "../src/api";
import { games } from "../src/compare";
import { besideName, firstDifference, stepsWith } from "../src/compared";
import { quoted } from "../src/copy";
import { judged } from "../src/episode";
import { leftAfter } from "../src/figures";
import { pairsOf, shownPair } from "../src/heat";
import { missing } from "../src/live";
import { ordered } from "../src/results";
import { sameQuestion } from "../src/step";

describe("results", () => {
  const row = (name: string, mean: number | null) => ({
    name,
    cells: [mean === null ? null : { score: { mean, n: 1 }, difference: null }],
  });
  const rows = [row("b", 0.2), row("none", null), row("c", 0.9), row("a", 0.5)] as never;
  const names = (order: string, pinned: string[] = []) =>
    ordered(rows, order, pinned)
      .map((each) => each.name)
      .join(" ");

  test("as they came without an order", () => expect(names("")).toBe("b none c a"));
  test("by a column, in both directions, rows without it last", () => {
    expect(names("0:score")).toBe("b a c none");
    expect(names("-0:score")).toBe("c a b none");
  });
  test("pinned rows are first in any order", () => expect(names("-0:score", ["b"])).toBe("b c a none"));
});

describe("the heat map's player", () => {
  const runs = [
    { name: "one", players: ["model", "oracle"] },
    { name: "two", players: ["model"] },
  ] as never;
  const cells = [
    { run: "two", player: "model" },
    { run: "one", player: "oracle" },
    { run: "one", player: "model" },
  ] as never;
  const shown = (asked: string) => shownPair(pairsOf(cells, runs), new URLSearchParams(asked));

  test("is the model of the first run", () => expect(shown("")).toMatchObject({ run: "one", player: "model" }));
  test("is one that the filters let through", () => {
    expect(shown("player=oracle")).toMatchObject({ run: "one", player: "oracle" });
    expect(shown("run=two")).toMatchObject({ run: "two", player: "model" });
  });
  test("is the chosen one", () => expect(shown("shown=oracle+one")).toMatchObject({ player: "oracle" }));
});

describe("episodes side by side", () => {
  const step = (decoded: string | null, reply = "") => ({
    decoded,
    reply,
    reasoning: "",
    shown: [{ parts: [{ text: "Look." }] }],
  });
  const episode = (...decoded: (string | null)[]) => ({ steps: decoded.map((each) => step(each, `I say ${each}`)) }) as never;

  test("open at the first decision that differs", () => {
    expect(firstDifference(episode("a", "b", "c"), episode("a", "x", "c"))).toBe(2);
    expect(firstDifference(episode("a", "b"), episode("a"))).toBe(2);
    expect(firstDifference(episode("a"), episode("a"))).toBe(1);
    expect(firstDifference(episode("a"), null)).toBe(1);
  });
  test("steps with a text, in upper or lower case", () => {
    expect(stepsWith(episode("a", "b"), "SAY B")).toEqual([2]);
    expect(stepsWith(episode("a", "b"), "look")).toEqual([1, 2]);
  });
  test("show once what both were asked", () => {
    const asks = (chunk: unknown, ...parts: object[]) =>
      ({ chunk, steps: parts.map((part) => ({ kept: 0, shown: [{ role: "user", parts: [part] }] })) }) as never;
    const [text, other, picture] = [{ text: "Which?" }, { text: "Why?" }, { picture: "0" }];
    expect(sameQuestion(asks(null, text), asks(null, text), 0, false)).toBe(true);
    expect(sameQuestion(asks(null, text), asks(null, other), 0, false)).toBe(false);
    expect(sameQuestion(asks(null, text), asks(null, text), 1, false)).toBe(false);
    expect(sameQuestion(asks(null, text, other), asks(null, other, other), 1, false)).toBe(true);
    expect(sameQuestion(asks({}, picture), asks({}, picture), 0, false)).toBe(false); // another chunk's picture
    expect(sameQuestion(asks({}, text), asks({}, text), 0, false)).toBe(true);
  });
  test("are named by what differs", () => {
    const row = { player: "oracle", run: "one", mode: "icl", repeat: 1, status: "done", success: true };
    expect(besideName(row as never, { ...row, repeat: 0 } as never)).toBe("oracle · repeat 1 · won");
    expect(besideName(row as never, { ...row, run: "two" } as never)).toBe("oracle · one · won");
  });
});

test("a step is judged by the oracle", () => {
  const kind = (step: object) => judged({ decoded: "a", best: null, regret: null, lost: false, ...step } as never)[0];
  expect(kind({ decoded: null, lost: true })).toBe("unread");
  expect(kind({ lost: true, best: "a" })).toBe("worse");
  expect(kind({ best: "a", regret: 1 })).toBe("best");
  expect(kind({})).toBe("unknown");
  expect(kind({ best: "b", regret: 0.5 })).toBe("worse");
  expect(kind({ best: "b", regret: 0 })).toBe("best");
});

test("candidates are left as the last known step says", () => {
  const episode = { candidates: ["x", "y", "z"], steps: [{ remaining: null }, { remaining: ["y"] }, { remaining: null }] };
  expect([0, 1, 2].map((place) => [...leftAfter(episode as never, place)].join(""))).toEqual(["xyz", "y", "y"]);
});

test("a number of the comparison leads to its games", () => {
  const suite = { suite: "kumo", first: { run: "one", player: "model" }, second: { run: "two", player: "other" } };
  const cell = { task: "medical", level: "hard", mode: "chat" };
  const asked = games(suite as never, cell as never, false, true);
  expect(Object.fromEntries(asked)).toEqual({
    ...{ page: "episodes", suite: "kumo", run: "one", player: "model", versus_run: "two", versus: "other" },
    ...{ task: "medical", level: "hard", mode: "chat", not_won: "1", versus_outcome: "won" },
  });
});

test("a path is safe in a shell", () => {
  expect(quoted("runs/one-2.5_x")).toBe("runs/one-2.5_x");
  expect(quoted("it's $HOME")).toBe(`'it'\\''s $HOME'`);
});

describe("turns of a running episode", () => {
  const asked = (first: number, ...turns: number[]) => missing(new Map(turns.map((turn) => [turn, {} as never])), first);

  test("are asked for from the first one that is not here", () => {
    expect(asked(0)).toBe(0);
    expect(asked(0, 0, 1)).toBe(2);
    expect(asked(0, 3, 0, 1)).toBe(2);
  });
  test("are not asked for where the log has dropped them", () => expect(asked(7, 7, 8)).toBe(9));
});

describe("answers", () => {
  afterEach(() => vi.unstubAllGlobals());
  const answering = (body: string, status: number) => vi.stubGlobal("fetch", async () => new Response(body, { status }));
  const nothing = new URLSearchParams();

  test("are JSON", async () => {
    answering('{"total": 3}', 200);
    expect(await ask("episodes", nothing)).toEqual({ total: 3 });
  });
  test.each([
    ['{"error": "no such column"}', 400, "no such column"],
    ["This viewer asks for its token.", 403, "This viewer asks for its token."],
    ["", 502, "the server answered 502"],
  ])("an error says why: %s", async (body, status, why) => {
    answering(body, status);
    await expect(askText("raw", nothing)).rejects.toThrow(new Error(why));
  });
});
