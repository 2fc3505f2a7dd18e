import { describe, expect, test } from "vitest";
import { around, interval, probability, signed, value } from "../src/strip";
import { number, outcome, percent, seconds, words } from "../src/text";

describe("numbers", () => {
  test.each([
    [null, "–"],
    [undefined, "–"],
    [0, "0"],
    [1234567, "1,234,567"],
    [0.5, "0.5"],
    [12.34567, "12.346"],
  ])("%s is written %s", (given, written) => expect(number(given)).toBe(written));

  test.each([
    [0, "0 ms"],
    [0.9994, "999 ms"],
    [0.9996, "1.0 s"],
    [59.94, "59.9 s"],
    [59.97, "1 min 0 s"],
    [119.4, "1 min 59 s"],
    [119.6, "2 min 0 s"],
    [3725, "62 min 5 s"],
  ])("%s seconds are written %s", (given, written) => expect(seconds(given)).toBe(written));

  test("shares", () => {
    expect([percent(0.333), value(0.3333, true), value(0.3333, false)]).toEqual(["33 %", "33.3", "0.333"]);
  });
});

describe("statistics", () => {
  test("differences have a sign, zero has none", () => {
    expect([signed(0.061, true), signed(-0.061, true), signed(0, true)]).toEqual(["+6.1", "−6.1", "0.0"]);
  });

  test("an interval that is not known is not shown", () => {
    expect(interval({ mean: 0.5, low: 0.25, high: 0.75, n: 4 } as never, true)).toBe("[25.0, 75.0]");
    expect(interval({ mean: 0.5, low: null, high: null, n: 1 } as never, true)).toBe("");
  });

  test.each([
    [0, "< .001"],
    [0.0009, "< .001"],
    [0.001, ".001"],
    [0.0496, ".050"],
    [1, "1.000"],
  ])("p = %s is written %s", (p, written) => expect(probability(p)).toBe(written));

  test("an axis of differences reaches as far to both sides as any interval", () => {
    const differences = [
      { mean: 0.1, low: -0.3, high: 0.2 },
      { mean: 0.25, low: null, high: null },
    ];
    expect(around(differences as never)).toEqual({ low: -0.3, high: 0.3 });
    expect(around([]).high).toBeGreaterThan(0);
  });
});

test("words and outcomes", () => {
  expect(words("zero_shot_mode")).toBe("zero shot mode");
  expect(outcome({ status: "failed", success: null })).toEqual(["!", "failed"]);
  expect(outcome({ status: "done", success: true })).toEqual(["✓", "won"]);
  expect(outcome({ status: "done", success: false })).toEqual(["✗", "lost"]);
});
