import { describe, expect, test } from "vitest";
import { addressOf, changed, filters, state, stateOf } from "../src/address";

const ADDRESSES = [
  "/runs",
  "/runs?baseline=a%2Fb&order=-0%3Ascore&pin=one&pin=two",
  "/episodes?player=oracle&player=random&min_steps=3",
  "/suite/kidgym?won=1",
  "/suite/a%2Fb",
  "/episodes?suite=kidgym&suite=kumo",
  "/compare?first=one&second=two",
  "/episode?episode=runs%2Fone%2F0123&step=4&text=a+b%26c",
];

describe("addresses", () => {
  test.each(ADDRESSES)("%s stands for one state, and that one for it", (address) => {
    expect(addressOf(stateOf(address))).toBe(address);
  });

  test.each([
    ["/", "runs"],
    ["", "runs"],
    ["/?episode=run%2F01", "episode"],
    ["/?player=oracle", "episodes"],
    ["/nowhere", "runs"],
  ])("%s, of a time when all was one page, is the page %s", (address, page) => {
    expect(stateOf(address).get("page")).toBe(page);
  });

  test("a suite that is no percent encoding is taken as it is", () => {
    expect(stateOf("/suite/50%").get("suite")).toBe("50%");
  });

  test("a question mark within a value stays", () => {
    expect(stateOf("/episodes?text=why?").get("text")).toBe("why?");
  });
});

describe("changes", () => {
  test("replace, add several, remove, and leave the rest", () => {
    const given = new URLSearchParams("page=episodes&task=CL&task=SE&won=1&level=1");
    const next = changed(given, { task: ["DE"], won: null, mode: ["icl", "cot"], level: "" });
    expect(next.toString()).toBe("page=episodes&task=DE&mode=icl&mode=cot");
    expect(given.getAll("task")).toEqual(["CL", "SE"]);
  });

  test("only filters and sorting reach the server", () => {
    const asked = state("episode", { episode: "run/1", step: "3", beside: "run/2", prompt: "1", task: "CL", sort: "-steps" });
    expect(filters(asked).toString()).toBe("task=CL&sort=-steps");
  });
});
