// Success in each cell: tasks down, levels and modes (or players) across. A click filters the list.

import { useMemo } from "preact/hooks";
import type { Change } from "./address";
import type { Cell } from "./api";
import { percent } from "./text";

interface Given {
  cells: Cell[];
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
}

interface Sum {
  played: number;
  won: number;
  failed: number;
  choice: Record<string, string>;
}

export function HeatMap({ cells, address, go }: Given) {
  const byPlayer = address.get("across") === "player";
  const suites = useMemo(() => tables(cells, byPlayer), [cells, byPlayer]);
  const chosen = (choice: Record<string, string>) =>
    Object.entries(choice).every(([name, value]) => address.getAll(name).includes(value));
  const choose = (choice: Record<string, string>) => {
    const off = Object.fromEntries(["suite", "task", "level", "mode"].map((name) => [name, null]));
    const same = chosen(choice);
    go({ ...off, ...(byPlayer ? { player: null, run: null } : {}), ...(same ? {} : choice) });
  };
  return (
    <div class="heat" tabIndex={0} role="group" aria-label="Success by cell">
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
      {suites.map(({ suite, columns, rows }) => (
        <table key={suite}>
          <caption>{suite}</caption>
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

function tables(cells: Cell[], byPlayer: boolean) {
  const several = new Set(cells.map((cell) => cell.run)).size > 1;
  const suites = new Map<string, { columns: Set<string>; rows: Map<string, Map<string, Sum>> }>();
  for (const cell of cells) {
    const column = byPlayer
      ? several ? `${cell.player} · ${cell.run}` : cell.player
      : [cell.level, cell.mode].join(" · ");
    const choice: Record<string, string> = byPlayer
      ? { suite: cell.suite, task: cell.task, player: cell.player, ...(several ? { run: cell.run } : {}) }
      : { suite: cell.suite, task: cell.task, level: cell.level, mode: cell.mode };
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
