// Runs by suites: scores on one axis, what they are made of, and on demand the paired differences to one of the rows.

import { useEffect } from "preact/hooks";
import { type Change, state } from "./address";
import { useAnswer } from "./answer";
import { archive } from "./api";
import { DifficultyView } from "./difficulty";
import { Link } from "./link";
import type { ResultBoard, ResultCell, ResultRow, Results, State } from "./schema";
import { type Axis, around, interval, probability, Strip, signed, value } from "./strip";
import { number, seconds, Text } from "./text";

interface Given {
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
  status: State | null;
}

const BAND = ["highest", "not told apart from the highest"];
const KINDS = { chance: "chance", shortcut: "best shortcut", paper: "paper's best", people: "people" };
const SORTED: Record<string, [label: string, of: (cell: ResultCell) => number | null]> = {
  score: ["score", (cell) => cell.difference?.difference.mean ?? cell.score?.mean ?? null],
  n: ["n", (cell) => cell.score?.n ?? null],
  unread: ["unread", (cell) => cell.unread],
  cut: ["cut off", (cell) => cell.cut],
  cost: ["cost", (cell) => cell.cost],
  seconds: ["time", (cell) => cell.seconds],
};

export function ResultsPage({ address, go, status }: Given) {
  const baseline = address.get("baseline") ?? "";
  const asked = new URLSearchParams(baseline ? { baseline } : {}).toString();
  const [answer, error] = useAnswer<Results>(status ? "results" : "", asked, status?.version ?? 0);
  useEffect(() => {
    document.title = "Results · raycade";
  }, []);
  return (
    <main class="results-page">
      <h1 tabIndex={-1}>Results</h1>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {answer ? (
        <Shown answer={answer} address={address} go={go} />
      ) : (
        !error && (
          <p class="nothing" role="status">
            reading the results …
          </p>
        )
      )}
      {answer && !archive && <DifficultyView version={status?.version ?? 0} />}
    </main>
  );
}

function Shown({ answer, address, go }: Omit<Given, "status"> & { answer: Results }) {
  const { boards, baseline, settings } = answer;
  const pinned = address.getAll("pin");
  const chosen = address.getAll("chosen").filter((name) => answer.rows.some((row) => row.name === name));
  const models = ordered(
    answer.rows.filter((row) => !row.reference),
    address.get("order") ?? "",
    pinned,
  );
  const references = answer.rows.filter((row) => row.reference);
  const axes = boards.map((board, place) => axisOf(board, answer.rows, place, baseline));
  const [first, second] = chosen;
  const row = (each: ResultRow) => (
    <RowView key={each.name} row={each} answer={answer} axes={axes} address={address} go={go} chosen={chosen} />
  );
  const band = answer.rows.some((each) => each.cells.some((cell) => cell && BAND.includes(cell.standing)));
  return (
    <>
      <p class="sentence">
        <Text value={answer.sentence} />
      </p>
      {answer.trouble.map((what) => (
        <p key={what} class="notice" role="note">
          <Text value={what} />
        </p>
      ))}
      <p class="acts">
        {chosen.length === 2 ? (
          <Link id="compare" class="act" to={state("compare", { first, second })}>
            Compare {first} with {second}
          </Link>
        ) : (
          <span class="small">Check two rows to compare them{chosen.length === 1 ? `: ${first} and …` : "."}</span>
        )}
        {baseline && (
          <span>
            Differences to <b>{baseline}</b> on identical games; p after Holm.{" "}
            <button type="button" onClick={() => go({ baseline: null }, true)}>
              show scores
            </button>
          </span>
        )}
        {band && !baseline && (
          <span class="small">
            <span class="swatch band" aria-hidden="true" /> not separable from the best (p ≥ .05, paired, corrected for all
            pairs and suites)
          </span>
        )}
      </p>
      <div class="wide" tabIndex={0} role="region" aria-label="Results by suite">
        <table class="scores">
          <thead>
            <tr>
              <th scope="col">player</th>
              {boards.map((board, place) => (
                <Head
                  key={board.title}
                  board={board}
                  place={place}
                  axis={axes[place]}
                  baseline={baseline}
                  address={address}
                  go={go}
                />
              ))}
            </tr>
          </thead>
          <tbody>{models.map(row)}</tbody>
          {references.length > 0 && (
            <tbody class="references">
              <tr>
                <th scope="colgroup" colSpan={boards.length + 1}>
                  for reference
                </th>
              </tr>
              {references.map(row)}
            </tbody>
          )}
        </table>
      </div>
      {settings.length > 0 && (
        <section aria-labelledby="settings">
          <h2 id="settings">Settings that differ</h2>
          <div class="wide" tabIndex={0} role="region" aria-label="Table of settings">
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">setting</th>
                  {models.map((each) => (
                    <th key={each.name} scope="col">
                      {each.name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {settings.map(({ name, values }) => (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    {models.map((each) => (
                      <td key={each.name}>
                        <Text value={values[each.name] ?? "–"} short />
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
    </>
  );
}

function axisOf(board: ResultBoard, rows: ResultRow[], place: number, baseline: string): Axis {
  if (!baseline) return board;
  return around(rows.flatMap((row) => row.cells[place]?.difference?.difference ?? []));
}

/** Pinned rows first; the others by a column (`PLACE:NAME`, `-` before it for the highest first), or as they came. */
export function ordered(rows: ResultRow[], order: string, pinned: string[]): ResultRow[] {
  const [place, name] = order.replace(/^-/, "").split(":");
  const of = SORTED[name]?.[1];
  const sign = order.startsWith("-") ? -1 : 1;
  const valued = (row: ResultRow) => {
    const cell = row.cells[Number(place)];
    return cell && of ? of(cell) : null;
  };
  const compare = (one: ResultRow, other: ResultRow) => {
    const pins = Number(pinned.includes(other.name)) - Number(pinned.includes(one.name));
    const [mine, theirs] = [valued(one), valued(other)];
    return pins || Number(mine === null) - Number(theirs === null) || sign * ((mine ?? 0) - (theirs ?? 0));
  };
  return [...rows].sort(compare);
}

interface HeadGiven {
  board: ResultBoard;
  place: number;
  axis: Axis;
  baseline: string;
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
}

function Head({ board, place, axis, baseline, address, go }: HeadGiven) {
  const order = address.get("order") ?? "";
  const column = (name: string) => `${place}:${name}`;
  const sorted = Object.keys(SORTED).find((name) => order.replace(/^-/, "") === column(name));
  // the highest first, then the lowest, then as they came
  const next = (name: string) =>
    order === `-${column(name)}` ? column(name) : order === column(name) ? null : `-${column(name)}`;
  return (
    <th scope="col" class="board" aria-sort={sorted ? (order.startsWith("-") ? "descending" : "ascending") : "none"}>
      <Link to={state("episodes", { suite: board.suite })} class="title">
        {board.title}
      </Link>
      <span class="about">{board.about}</span>
      <span class="measure">
        {baseline ? `difference of ${board.measure}` : board.measure}
        {board.share && (baseline ? ", points" : ", %")}
      </span>
      <span class="ends" aria-hidden="true">
        {[axis.low, (axis.low + axis.high) / 2, axis.high].map((each) => (
          <span key={each}>{baseline ? signed(each, board.share) : value(each, board.share).replace(/\.0$/, "")}</span>
        ))}
      </span>
      {!baseline && (
        <span class="legend">
          {board.ticks.map(({ kind, name, value: at }) => (
            <span key={kind} title={name}>
              <span class={`key ${kind}`} aria-hidden="true" />
              {KINDS[kind]} {value(at, board.share)}
            </span>
          ))}
        </span>
      )}
      <span class="sorts">
        sort by
        {Object.entries(SORTED).map(([name, [label]]) => (
          <button type="button" key={name} aria-pressed={sorted === name} onClick={() => go({ order: next(name) }, true)}>
            {label}
            <span aria-hidden="true">{sorted === name ? (order.startsWith("-") ? " ↓" : " ↑") : ""}</span>
          </button>
        ))}
      </span>
    </th>
  );
}

interface RowGiven {
  row: ResultRow;
  answer: Results;
  axes: Axis[];
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
  chosen: string[];
}

function RowView({ row, answer, axes, address, go, chosen }: RowGiven) {
  const { boards, baseline } = answer;
  const pinned = address.getAll("pin");
  const without = (names: string[]) => names.filter((name) => name !== row.name);
  const cells = row.cells.filter((cell) => cell !== null);
  const episodes = state("episodes", {
    run: [...new Set(cells.map((cell) => cell.run))],
    player: [...new Set(cells.map((cell) => cell.player))],
  });
  return (
    <tr class={row.name === baseline ? "baseline" : ""}>
      <th scope="row">
        <span class="who">
          <input
            type="checkbox"
            aria-label={`compare ${row.name}`}
            checked={chosen.includes(row.name)}
            disabled={chosen.length === 2 && !chosen.includes(row.name)}
            onChange={(event) => go({ chosen: event.currentTarget.checked ? [...chosen, row.name] : without(chosen) }, true)}
          />
          <Link id={`row-of-${row.name}`} to={episodes}>
            <Text value={row.name} />
          </Link>
        </span>
        <span class="small">{progress(cells)}</span>
        <span class="acts">
          {!row.reference && (
            <button
              type="button"
              aria-pressed={pinned.includes(row.name)}
              onClick={() => go({ pin: pinned.includes(row.name) ? without(pinned) : [...pinned, row.name] }, true)}
            >
              pin<span class="for-readers"> {row.name}</span>
            </button>
          )}
          <button
            type="button"
            aria-pressed={row.name === baseline}
            onClick={() => go({ baseline: row.name === baseline ? null : row.name }, true)}
          >
            baseline<span class="for-readers"> {row.name}</span>
          </button>
        </span>
      </th>
      {row.cells.map((cell, place) =>
        cell ? (
          <CellView key={place} cell={cell} board={boards[place]} row={row} axis={axes[place]} baseline={baseline} />
        ) : (
          <td key={place} class="nothing">
            not played
          </td>
        ),
      )}
    </tr>
  );
}

function progress(cells: ResultCell[]): string {
  const [played, planned] = [
    cells.reduce((sum, cell) => sum + cell.played, 0),
    cells.reduce((sum, cell) => sum + cell.planned, 0),
  ];
  const failed = cells.reduce((sum, cell) => sum + cell.failed, 0);
  const done = played < planned ? `${number(played)} of ${number(planned)} episodes` : "finished";
  return failed ? `${done}, ${number(failed)} failed` : done;
}

function CellView({
  cell,
  board,
  row,
  axis,
  baseline,
}: {
  cell: ResultCell;
  board: ResultBoard;
  row: ResultRow;
  axis: Axis;
  baseline: string;
}) {
  const band = !baseline && BAND.includes(cell.standing);
  const shown = baseline ? (cell.difference?.difference ?? null) : cell.score;
  const share = board.share;
  const facts: [string, string, string][] = [
    ["n", cell.score ? number(cell.score.n) : "0", "values behind the score"],
    ["unread", `${number(cell.unread)} of ${number(cell.replies)}`, "replies of which no answer could be read"],
    ["cut off", number(cell.cut), "replies that ended at the token limit"],
    ["cost", cell.cost ? number(cell.cost, 4) : "0", "in the currency of the prices"],
    ["an episode", cell.seconds === null ? "–" : seconds(cell.seconds), "mean time of an episode"],
  ];
  const cutOff = state("episodes", { suite: board.suite, run: cell.run, player: cell.player, cut_off: "1" });
  const of = `${cell.player}, n = ${cell.score?.n ?? 0}`;
  return (
    <td class={band ? "band" : ""}>
      <div class="value" title={of}>
        {shown ? (
          <>
            <b>{baseline ? signed(shown.mean, share) : value(shown.mean, share)}</b>{" "}
            <span class="interval">{interval(shown, share)}</span>
            {cell.difference && baseline && <span class="interval"> p {probability(cell.difference.holm)}</span>}
            {band && <span class="for-readers"> not separable from the best</span>}
          </>
        ) : (
          <span class="interval">
            {row.name === baseline ? "the baseline" : baseline ? "no game in common" : "no score yet"}
          </span>
        )}
      </div>
      <Strip estimate={shown} axis={axis} ticks={baseline ? [{ kind: "zero", value: 0 }] : board.ticks} />
      <dl class="facts-of-a-cell">
        {facts.map(([name, text, title]) => (
          <div key={name} title={`${title}: ${of}`}>
            <dt>{name}</dt>
            <dd>{name === "cut off" && cell.cut > 0 ? <Link to={cutOff}>{text}</Link> : text}</dd>
          </div>
        ))}
      </dl>
      {cell.notes.map((note) => (
        <p key={note} class="small">
          {note}
        </p>
      ))}
    </td>
  );
}
