// The list of episodes as columns of numbers: filtered, sorted and counted in the page.

import type { PackedColumn, Row } from "../schema";

type Numbers = Uint8Array | Uint16Array | Uint32Array | Float32Array;

const TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };
const ID_BYTES = 16;

/** One column: the number of each row's value, and the values. */
interface Column {
  kind: PackedColumn["kind"];
  numbers: Numbers;
  values: unknown[];
}

const CAUSE = /0x[0-9a-f]+|\b[0-9a-f]{16,}\b|[0-9]+([.,:][0-9]+)*/g;
export const CHOICES = ["run", "suite", "task", "level", "mode", "player", "status", "error_kind"];
const BOUNDED = ["steps", "prompt_tokens", "completion_tokens", "reasoning_tokens", "seconds", "cost", "score"];
const CELL = ["run", "suite", "task", "level", "mode", "player"];

/** A cause of failure without the numbers in which its occurrences differ. */
export function causeOf(error: string): string {
  return error.replace(CAUSE, "#");
}

type Test = (row: number) => boolean;

export class Table {
  private columns = new Map<string, Column>();

  constructor(
    public size: number,
    packed: PackedColumn[],
    tail: Uint8Array<ArrayBuffer>,
    runs: string[],
  ) {
    let start = 0;
    for (const { name, kind, type, values } of packed) {
      const count = kind === "ids" ? size * ID_BYTES : size;
      const numbers = new TYPES[type](tail.buffer, start, count);
      start += Math.ceil(numbers.byteLength / 8) * 8;
      this.columns.set(name, { kind, numbers, values: name === "run" ? runs : (values ?? []) });
    }
  }

  value(name: string, row: number): unknown {
    const { kind, numbers, values } = this.columns.get(name)!;
    if (kind === "values") return values[numbers[row]];
    if (kind === "numbers") return Number.isNaN(numbers[row]) ? null : numbers[row];
    const bytes = numbers.subarray(row * ID_BYTES, (row + 1) * ID_BYTES);
    return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  row(row: number): Row {
    const names = [...this.columns.keys()];
    const found = Object.fromEntries(names.map((name) => [name, this.value(name, row)]));
    return { ...found, id: row } as unknown as Row;
  }

  /** The row of an episode, -1 where there is none. */
  find(run: string, id: string): number {
    for (let row = 0; row < this.size; row++)
      if (this.value("run", row) === run && this.value("episode_id", row) === id) return row;
    return -1;
  }

  /** The rows that an address asks for, sorted. `hits` are those that a text search has found. */
  select(asked: URLSearchParams, hits?: Set<number>): Uint32Array {
    const tests = this.tests(asked);
    if (hits) tests.push((row) => hits.has(row));
    const found = new Uint32Array(this.size);
    let count = 0;
    for (let row = 0; row < this.size; row++) if (tests.every((test) => test(row))) found[count++] = row;
    return this.sorted(found.subarray(0, count), asked.get("sort") ?? "");
  }

  private tests(asked: URLSearchParams): Test[] {
    const tests: Test[] = [];
    for (const name of CHOICES) {
      const chosen = asked.getAll(name).filter(Boolean);
      if (chosen.length) tests.push(this.having(name, (value) => chosen.includes(String(value))));
    }
    for (const name of BOUNDED) {
      const [least, most] = [asked.get(`min_${name}`), asked.get(`max_${name}`)];
      if (least) tests.push(this.having(name, (value) => value !== null && (value as number) >= Number(least)));
      if (most) tests.push(this.having(name, (value) => value !== null && (value as number) <= Number(most)));
    }
    if (asked.get("won")) tests.push(this.having("success", (value) => value === true));
    if (asked.get("lost")) {
      tests.push(this.having("success", (value) => value !== true));
      tests.push(this.having("status", (value) => value === "done"));
    }
    if (asked.get("not_won")) tests.push(this.having("success", (value) => value !== true));
    if (asked.get("cut_off")) tests.push(this.having("cut_off", (value) => (value as number) > 0));
    const cause = asked.get("cause");
    if (cause) {
      tests.push(this.having("status", (value) => value === "failed"));
      tests.push(this.having("error", (value) => causeOf(value as string) === cause));
    }
    const id = asked.get("id");
    if (id) tests.push((row) => (this.value("episode_id", row) as string).startsWith(id));
    if (asked.get("versus")) {
      const partner = this.partners(asked.get("versus_run") ?? "", asked.get("versus")!);
      const success = this.columns.get("success")!.numbers;
      const flipped = Boolean(asked.get("flipped"));
      const outcome = asked.get("versus_outcome");
      const hasWon = this.having("success", (value) => value === true);
      tests.push((row) => {
        const other = partner(row);
        if (other === null || (flipped && success[other] === success[row])) return false;
        return !outcome || hasWon(other) === (outcome === "won");
      });
    }
    return tests;
  }

  /** A test of one column's value, which looks at each different value once. */
  private having(name: string, fits: (value: unknown) => boolean): Test {
    const { kind, numbers, values } = this.columns.get(name)!;
    if (kind !== "values") return (row) => fits(this.value(name, row));
    const known = values.map(fits);
    return (row) => known[numbers[row]];
  }

  private sorted(rows: Uint32Array, sort: string): Uint32Array {
    const name = sort.replace(/^-/, "");
    const column = this.columns.get(name);
    if (!column) return rows;
    const sign = sort.startsWith("-") ? -1 : 1;
    const { kind, numbers, values } = column;
    if (kind === "ids") {
      const compare = (one: number, other: number) =>
        String(this.value(name, one)) < String(this.value(name, other)) ? -sign : sign;
      return rows.slice().sort(compare);
    }
    // values are sorted, so that their numbers are; what is not known comes last in both directions
    const unknown = (row: number) => (kind === "values" ? values[numbers[row]] === null : Number.isNaN(numbers[row]));
    const compare = (one: number, other: number) =>
      Number(unknown(one)) - Number(unknown(other)) || sign * (numbers[one] - numbers[other]) || one - other;
    return rows.slice().sort(compare);
  }

  /** For each row the same game, asked in the same way and as often, of a run's player; null where that one has not played it. */
  partners(run: string, player: string): (row: number) => number | null {
    const key = (row: number) => ["game", "mode", "repeat"].map((name) => this.columns.get(name)!.numbers[row]).join(" ");
    const known = new Map<string, number>();
    const [isRun, isPlayer] = [
      this.having("run", (value) => value === run),
      this.having("player", (value) => value === player),
    ];
    for (let row = 0; row < this.size; row++) if (isRun(row) && isPlayer(row)) known.set(key(row), row);
    return (row) => {
      const other = known.get(key(row));
      return other === undefined || other === row ? null : other;
    };
  }

  /** The other rows of the same game: first those of the same run, mode and repeat. */
  sameGame(row: number): number[] {
    const game = this.columns.get("game")!.numbers;
    const found: number[] = [];
    for (let other = 0; other < this.size; other++) if (game[other] === game[row] && other !== row) found.push(other);
    const distance = (other: number) =>
      ["run", "mode", "repeat"].map((name) => Number(this.value(name, other) !== this.value(name, row)));
    const compare = (one: number, other: number) => {
      const [mine, theirs] = [distance(one), distance(other)];
      const place = mine.findIndex((each, at) => each !== theirs[at]);
      return place < 0 ? one - other : mine[place] - theirs[place];
    };
    return found.sort(compare);
  }

  /** Rows by their cell (run, suite, task, level, mode, player), the cells in the order of their values. */
  cells(rows: Uint32Array): number[][] {
    const columns = CELL.map((name) => this.columns.get(name)!);
    const groups = new Map<number, number[]>();
    for (const row of rows) {
      const key = columns.reduce((sum, { numbers, values }) => sum * values.length + numbers[row], 0);
      const group = groups.get(key);
      if (group) group.push(row);
      else groups.set(key, [row]);
    }
    return [...groups].sort(([one], [other]) => one - other).map(([, group]) => group);
  }

  /** How many rows have each value of a column. */
  counts(name: string): Record<string, number> {
    const { numbers, values } = this.columns.get(name)!;
    const counts = new Array<number>(values.length).fill(0);
    for (const number of numbers) counts[number]++;
    const found = values.map((value, place) => [String(value ?? ""), counts[place]] as const);
    return Object.fromEntries(found.filter(([value, count]) => value !== "" && count > 0));
  }
}
