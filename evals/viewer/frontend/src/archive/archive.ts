// Static pages: what the server would answer, from the columns and chunks of an export.

import {
  type Cause,
  type Cell,
  type Columns,
  type Episode,
  type Page,
  type Progress,
  type Row,
  type Shown,
  type Stored,
  type Values,
  VERSION,
} from "../schema";
import { open } from "./chunks";
import { CHOICES, causeOf, Table } from "./table";

const EXAMPLES = 20;
const MOST_ROWS = 500;

interface Episodes {
  episodes: Shown[];
}

type Answer = (asked: URLSearchParams) => unknown;

export class Archive {
  private known: Promise<{ head: Columns; table: Table }> | null = null;
  private search: Search | null = null;
  private ordered = { asked: "", rows: new Uint32Array() as Uint32Array };

  private async list(): Promise<{ head: Columns; table: Table }> {
    const { head, tail } = await open<Columns>("columns");
    if (head.version !== VERSION) throw new Error(`these files are of version ${head.version}, this page of ${VERSION}`);
    return {
      head,
      table: new Table(
        head.rows,
        head.columns,
        tail,
        head.answers.state.runs.map((run) => run.name),
      ),
    };
  }

  async ask(path: string, asked: URLSearchParams): Promise<unknown> {
    this.known ??= this.list();
    const { head, table } = await this.known;
    const answers: Record<string, Answer> = {
      state: () => head.answers.state,
      values: () => this.values(table),
      episodes: () => this.page(table, head, asked),
      cells: () => this.cells(table, head, asked),
      causes: () => this.causes(table, head, asked),
      episode: () => this.episode(table, head, asked),
    };
    if (path === "results" || path === "compare") return this.results(path, asked);
    if (path in answers) return answers[path](asked);
    throw new Error(`this export has no answer to ${path}`);
  }

  private async results(path: string, asked: URLSearchParams): Promise<unknown> {
    const { head } = await open<Stored>("results");
    const [first, second] = [asked.get("first") ?? "", asked.get("second") ?? ""];
    const found = path === "results" ? head.results[asked.get("baseline") ?? ""] : head.compare[first]?.[second];
    if (!found) throw new Error(path === "results" ? "this export has no such row" : "this export does not compare these two");
    return found;
  }

  private values(table: Table): Values {
    return Object.fromEntries(CHOICES.map((name) => [name, table.counts(name)]));
  }

  private select(table: Table, head: Columns, asked: URLSearchParams): [Uint32Array, Progress | null] {
    const text = asked.get("text") ?? "";
    if (text && this.search?.text !== text) {
      this.search?.stop();
      this.search = new Search(text, table, head.size);
    }
    const search = text ? this.search : null;
    const plain = new URLSearchParams([...asked].filter(([name]) => !["from", "count"].includes(name)));
    const key = `${plain} ${search?.hits.size}`;
    if (this.ordered.asked !== key) this.ordered = { asked: key, rows: table.select(asked, search?.hits) };
    return [this.ordered.rows, search && { searched: search.searched, of: search.chunks, running: search.running }];
  }

  private page(table: Table, head: Columns, asked: URLSearchParams): Page {
    const [found, search] = this.select(table, head, asked);
    const from = Number(asked.get("from") ?? 0);
    const count = Math.min(Number(asked.get("count") ?? 100), MOST_ROWS);
    const rows = [...found.subarray(from, from + count)].map((row) => table.row(row));
    const versus = asked.get("versus");
    if (versus) {
      const partner = table.partners(asked.get("versus_run") ?? "", versus);
      for (const row of rows) {
        const other = partner(row.id);
        row.other = other === null ? null : table.row(other);
      }
    }
    return { total: found.length, from, rows, search, version: head.answers.state.version };
  }

  /** The rows that an address asks for, once a text search has read everything: counts do not grow afterwards. */
  private async all(table: Table, head: Columns, asked: URLSearchParams): Promise<Uint32Array> {
    this.select(table, head, asked);
    if (asked.get("text")) await this.search?.done;
    return this.select(table, head, asked)[0];
  }

  private async cells(table: Table, head: Columns, asked: URLSearchParams): Promise<Cell[]> {
    const open = new URLSearchParams([...asked].filter(([name]) => !["suite", "task", "level", "mode"].includes(name)));
    return table.cells(await this.all(table, head, open)).map((rows) => {
      const { run, suite, task, level, mode, player } = table.row(rows[0]);
      const won = rows.filter((row) => table.value("success", row) === true).length;
      const failed = rows.filter((row) => table.value("status", row) === "failed").length;
      const planned = head.answers.planned[JSON.stringify([run, suite, task, level, mode, player])] ?? null;
      return { run, suite, task, level, mode, player, played: rows.length, won, failed, planned };
    });
  }

  private async causes(table: Table, head: Columns, asked: URLSearchParams): Promise<Cause[]> {
    const groups = new Map<string, Row[]>();
    for (const row of await this.all(table, head, asked)) {
      if (table.value("status", row) !== "failed") continue;
      const found = table.row(row);
      const key = JSON.stringify([causeOf(found.error), found.error_kind]);
      groups.set(key, [...(groups.get(key) ?? []), found]);
    }
    const causes = [...groups].map(([key, rows]) => {
      const [cause, error_kind] = JSON.parse(key) as [string, string];
      const example = rows.map((row) => row.error).sort()[0];
      const players = [...new Set(rows.map((row) => row.player))];
      return { cause, error_kind, count: rows.length, example, players, episodes: rows.slice(0, EXAMPLES) };
    });
    return causes.sort((one, other) => other.count - one.count || (one.cause < other.cause ? -1 : 1));
  }

  private async episode(table: Table, head: Columns, asked: URLSearchParams): Promise<Episode> {
    const [run, id] = splitReference(asked.get("at") ?? "");
    const number = table.find(run, id);
    if (number < 0) throw new Error(`run ${run} has no episode ${id} in this export`);
    const row = table.row(number) as Row & { at: number | null };
    if (row.at === null) throw new Error("This episode is counted and listed here, but its steps were left out of the export.");
    const name = `episodes-${Math.floor(row.at / head.size)}`;
    const chunk = await open<Episodes>(name);
    const [order] = this.select(table, head, asked);
    const position = order.indexOf(number);
    const neighbor = (place: number) => (position >= 0 && place in order ? table.row(order[place]) : null);
    return {
      ...chunk.head.episodes[row.at % head.size],
      chunk: name,
      listed: { ...row, attempts: [row.attempt] },
      place: {
        position: position < 0 ? null : position,
        total: order.length,
        before: neighbor(position - 1),
        after: neighbor(position + 1),
      },
      same_game: table.sameGame(number).map((other) => table.row(other)),
      folder: run,
    };
  }
}

/** Reads the texts chunk by chunk; what it has found so far can be listed meanwhile. */
class Search {
  hits = new Set<number>();
  searched = 0;
  chunks: number;
  running = true;
  done: Promise<void>;
  private rowsOf = new Map<number, number>();

  constructor(
    public text: string,
    table: Table,
    private size: number,
  ) {
    for (let row = 0; row < table.size; row++) {
      const at = table.value("at", row) as number | null;
      if (at !== null) this.rowsOf.set(at, row);
    }
    this.chunks = Math.ceil(this.rowsOf.size / size);
    this.done = this.run();
  }

  stop(): void {
    this.running = false;
  }

  private async run(): Promise<void> {
    const wanted = this.text.toLowerCase();
    for (let chunk = 0; chunk < this.chunks && this.running; chunk++) {
      const { episodes } = (await open<Episodes>(`episodes-${chunk}`)).head;
      episodes.forEach((episode, place) => {
        if (contains(episode, wanted)) this.hits.add(this.rowsOf.get(chunk * this.size + place)!);
      });
      this.searched = chunk + 1;
    }
    this.running = false;
  }
}

function contains(episode: Episodes["episodes"][number], wanted: string): boolean {
  const has = (text: string | undefined) => (text ?? "").toLowerCase().includes(wanted);
  return episode.steps.some(
    (step) =>
      has(step.reply) ||
      has(step.reasoning) ||
      step.shown.some(({ parts }) => parts.some((part) => "text" in part && has(part.text))),
  );
}

export function splitReference(text: string): [run: string, id: string] {
  const place = text.lastIndexOf("/");
  return [text.slice(0, place), text.slice(place + 1)];
}
