// Success in each cell: tasks down, levels and modes of one player (or players) across. A click filters the list.

import { useMemo } from "preact/hooks";
import type { Change } from "./address";
import type { Cell, RunStatus } from "./schema";
import { percent } from "./text";

interface Given {
  cells: Cell[];
  runs: RunStatus[];
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
}

interface Sum {
  played: number;
  won: number;
  failed: number;
  choice: Record<string, string>;
}

export function HeatMap({ cells, runs, address, go }: Given) {
  const byPlayer = address.get("across") === "player";
  const offered = useMemo(() => pairsOf(cells, runs), [cells, runs]);
  const chosenPair = shownPair(offered, address);
  const suites = useMemo(
    () =>
      tables(
        byPlayer ? cells : cells.filter((cell) => pairName(cell.run, cell.player) === chosenPair?.name),
        byPlayer,
        runs.length,
      ),
    [cells, byPlayer, chosenPair?.name, runs.length],
  );
  const label = (pair: Pair) => (runs.length > 1 ? `${pair.player} · ${pair.run}` : pair.player);
  const chosen = (choice: Record<string, string>) =>
    Object.entries(choice).every(([name, value]) => address.getAll(name).includes(value));
  const choose = (choice: Record<string, string>) => {
    const off = Object.fromEntries(["suite", "task", "level", "mode"].map((name) => [name, null]));
    const same = chosen(choice);
    go({ ...off, player: null, run: null, ...(byPlayer ? {} : { shown: chosenPair?.name ?? null }), ...(same ? {} : choice) });
  };
  return (
    <div class="heat" tabIndex={0} role="group" aria-label="Success by cell">
      <div class="choices">
        <label class="across">
          columns
          <select
            value={byPlayer ? "player" : "mode"}
            onChange={(event) => go({ across: event.currentTarget.value === "player" ? "player" : null }, true)}
          >
            <option value="mode">levels and modes</option>
            <option value="player">players</option>
          </select>
        </label>
        {!byPlayer && (
          <label class="across">
            player
            <select
              value={chosenPair?.name ?? ""}
              onChange={(event) => go({ shown: event.currentTarget.value, player: null, run: null }, true)}
            >
              {offered.map((pair) => (
                <option key={pair.name} value={pair.name}>
                  {label(pair)}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {suites.map(({ suite, columns, rows }) => (
        <table key={suite}>
          <caption>
            {suite}, {played(rows).toLocaleString("en")} episodes{byPlayer || !chosenPair ? "" : `: ${label(chosenPair)}`}
          </caption>
          <thead>
            <tr>
              <td />
              {columns.map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ task, sums }) => (
              <tr key={task}>
                <th scope="row">{task}</th>
                {columns.map((name) => (
                  <HeatCell key={name} sum={sums.get(name)} where={`${task}, ${name}`} chosen={chosen} choose={choose} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      ))}
    </div>
  );
}

interface Pair {
  name: string;
  run: string;
  player: string;
}

function pairName(run: string, player: string): string {
  return `${player} ${run}`;
}

/** Players with their runs that have cells; the model of the first run first, since plans name it before baselines. */
export function pairsOf(cells: Cell[], runs: RunStatus[]): Pair[] {
  const played = new Set(cells.map((cell) => pairName(cell.run, cell.player)));
  const planned = runs.flatMap(({ name: run, players }) =>
    players.map((player) => ({ name: pairName(run, player), run, player })),
  );
  return planned.filter((pair) => played.has(pair.name));
}

/** The pair that was chosen in the heat map; else the first that the filters let through. */
export function shownPair(offered: Pair[], address: URLSearchParams): Pair | undefined {
  const lets = (name: string, value: string) => !address.has(name) || address.getAll(name).includes(value);
  const fits = offered.filter((pair) => lets("player", pair.player) && lets("run", pair.run));
  return fits.find((pair) => pair.name === address.get("shown")) ?? fits[0] ?? offered[0];
}

interface CellGiven {
  sum: Sum | undefined;
  where: string;
  chosen: (choice: Record<string, string>) => boolean;
  choose: (choice: Record<string, string>) => void;
}

function HeatCell({ sum, where, chosen, choose }: CellGiven) {
  if (!sum) return <td />;
  const share = sum.won / sum.played;
  const failed = sum.failed ? `, ${sum.failed} failed` : "";
  const said = `${percent(share)} of ${sum.played} episodes won${failed}`;
  return (
    <td>
      <button
        type="button"
        class={`cell heat-${Math.round(10 * share)}`}
        aria-pressed={chosen(sum.choice)}
        title={`${where}: ${said}`}
        aria-label={`${where}: ${said}`}
        onClick={() => choose(sum.choice)}
      >
        {Math.round(100 * share)}
        {sum.failed > 0 && <span class="flag" />}
      </button>
    </td>
  );
}

function played(rows: { sums: Map<string, Sum> }[]): number {
  return rows.flatMap(({ sums }) => [...sums.values()]).reduce((all, sum) => all + sum.played, 0);
}

function tables(cells: Cell[], byPlayer: boolean, runs: number) {
  const several = new Set(cells.map((cell) => cell.run)).size > 1;
  const suites = new Map<string, { columns: Set<string>; rows: Map<string, Map<string, Sum>> }>();
  for (const cell of cells) {
    const column = byPlayer ? (several ? `${cell.player} · ${cell.run}` : cell.player) : [cell.level, cell.mode].join(" · ");
    const choice: Record<string, string> = byPlayer
      ? { suite: cell.suite, task: cell.task, player: cell.player, ...(several ? { run: cell.run } : {}) }
      : {
          ...{ suite: cell.suite, task: cell.task, level: cell.level, mode: cell.mode, player: cell.player },
          ...(runs > 1 ? { run: cell.run } : {}),
        };
    const table = suites.get(cell.suite) ?? { columns: new Set(), rows: new Map() };
    suites.set(cell.suite, table);
    table.columns.add(column);
    const row = table.rows.get(cell.task) ?? new Map<string, Sum>();
    table.rows.set(cell.task, row);
    const sum = row.get(column) ?? { played: 0, won: 0, failed: 0, choice };
    row.set(column, sum);
    sum.played += cell.played;
    sum.won += cell.won;
    sum.failed += cell.failed;
  }
  return [...suites].map(([suite, { columns, rows }]) => ({
    suite,
    columns: [...columns].sort(),
    rows: [...rows].map(([task, sums]) => ({ task, sums })),
  }));
}
