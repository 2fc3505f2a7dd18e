// Two rows of the results on identical games: differences, tasks by their size, outcomes, and the games that only one won.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Change, state } from "./address";
import { useAnswer } from "./answer";
import { reference } from "./api";
import { firstDifference, isKnown, useEpisode } from "./compared";
import { EffectCells, EffectHead } from "./effect";
import { Fold } from "./episode";
import { Link } from "./link";
import type { ComparedMeasure, ComparedSuite, Comparison, Effect, Episode, Outcomes, Page, Row, State } from "./schema";
import { Picture } from "./step";
import { type Axis, around, value } from "./strip";
import { number, Outcome, Text } from "./text";

interface Given {
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
  status: State | null;
}

export function ComparePage({ address, go, status }: Given) {
  const first = address.get("first") ?? "";
  const second = address.get("second") ?? "";
  const asked = new URLSearchParams({ first, second }).toString();
  const [answer, error] = useAnswer<Comparison>(status && first && second ? "compare" : "", asked, status?.version ?? 0);
  const shown = answer?.first === first && answer.second === second ? answer : null;
  useEffect(() => {
    document.title = `${first} and ${second} · raycade`;
  }, [first, second]);
  useWalk();
  return (
    <main class="compare-page">
      <nav class="bar" aria-label="Comparison">
        <Link to={state("runs")}>
          <span aria-hidden="true">← </span>results
        </Link>
        <Link to={state("compare", { first: second, second: first })} replace>
          swap sides
        </Link>
      </nav>
      <h1 tabIndex={-1}>
        <Text value={first} /> <span class="small">and</span> <Text value={second} />
      </h1>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {!shown && !error && (
        <p class="nothing" role="status">
          {first && second ? "comparing …" : "choose two rows of the results"}
        </p>
      )}
      {shown && <Shown answer={shown} address={address} go={go} version={status?.version ?? 0} />}
    </main>
  );
}

/** j and k walk through the games that only one side won; Enter opens one, as of any link. */
function useWalk(): void {
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const busy = event.target instanceof Element && event.target.closest("input, select, textarea");
      if (busy || event.ctrlKey || event.metaKey || event.altKey || !["j", "k", "Escape"].includes(event.key)) return;
      event.preventDefault();
      if (event.key === "Escape") {
        document.querySelector<HTMLElement>(".compare-page .bar a")?.click();
        return;
      }
      const all = [...document.querySelectorAll<HTMLElement>(".flip > a")];
      const here = all.indexOf(document.activeElement as HTMLElement);
      const next = all[here < 0 ? 0 : Math.max(0, Math.min(all.length - 1, here + (event.key === "j" ? 1 : -1)))];
      next?.focus();
      next?.scrollIntoView({ block: "nearest" });
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}

function Shown({ answer, address, go, version }: Omit<Given, "status"> & { answer: Comparison; version: number }) {
  const { first, second, suites, settings } = answer;
  const measured = suites.flatMap((suite) => suite.measures.map((measure) => ({ suite, measure })));
  const byCell = address.get("by") === "cell";
  return (
    <>
      <p class="sentence">
        <Text value={answer.sentence} />
      </p>
      {measured.length > 0 && (
        <div class="wide" tabIndex={0} role="region" aria-label="Differences by suite">
          <table class="plain forest">
            <thead>
              <tr>
                <th scope="col">suite</th>
                <th scope="col" class="number">
                  {first}
                </th>
                <th scope="col" class="number">
                  {second}
                </th>
                <EffectHead />
                <th
                  scope="col"
                  class="number"
                  title="the true difference that so many games show in 80 % of all cases, at p < .05"
                >
                  shows from
                </th>
              </tr>
            </thead>
            <tbody>
              {measured.map(({ suite, measure }) => (
                <EffectRow
                  key={`${suite.title} ${measure.measure}`}
                  names={[`${suite.title}: ${measure.measure}`]}
                  effect={measure.overall}
                  share={measure.share}
                  axis={around(
                    measured
                      .filter((each) => each.measure.share === measure.share)
                      .map((each) => each.measure.overall.difference),
                  )}
                  detects={measure.detects}
                />
              ))}
            </tbody>
          </table>
          <p class="small">
            {first} minus {second}, shares in points. Intervals are clustered by game. shows from: the true difference that so
            many games show in 80 % of all cases, at p &lt; .05.
          </p>
        </div>
      )}
      {settings.length > 0 && (
        <Fold title={`settings that differ (${settings.length})`}>
          <dl class="facts">
            {settings.map(({ name, values }) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  <Text value={`${values[first]} | ${values[second]}`} />
                </dd>
              </div>
            ))}
          </dl>
        </Fold>
      )}
      {suites.map((suite) => (
        <section key={suite.title} class="of-a-suite" aria-label={suite.title}>
          <h2>{suite.title}</h2>
          <p class="small">{suite.about}</p>
          {!suite.measures.length && <p class="nothing">no game in common</p>}
          {suite.measures.slice(0, 1).map((measure) => (
            <Cells key={measure.measure} title={suite.title} measure={measure} answer={answer} byCell={byCell} go={go} />
          ))}
          {suite.outcomes.length > 0 && <OutcomesView suite={suite} answer={answer} />}
          {suite.outcomes.length > 0 && <Flips suite={suite} answer={answer} version={version} />}
        </section>
      ))}
    </>
  );
}

interface EffectGiven {
  names: string[];
  effect: Effect;
  share: boolean;
  axis: Axis;
  detects?: number | null;
}

function EffectRow({ names, effect, share, axis, detects }: EffectGiven) {
  const { first, second } = effect;
  const [name, ...others] = names;
  return (
    <tr>
      <th scope="row">{name}</th>
      {others.map((each, place) => (
        <td key={place}>{each}</td>
      ))}
      <td class="number">{value(first, share)}</td>
      <td class="number">{value(second, share)}</td>
      <EffectCells effect={effect} share={share} axis={axis} />
      {detects !== undefined && <td class="number">{detects === null ? "–" : value(detects, share)}</td>}
    </tr>
  );
}

const AT_FIRST = 12;

function Cells({
  title,
  measure,
  answer,
  byCell,
  go,
}: {
  title: string;
  measure: ComparedMeasure;
  answer: Comparison;
  byCell: boolean;
  go: Given["go"];
}) {
  const [all, setAll] = useState(false);
  const effects = byCell ? measure.cells : measure.tasks;
  const dimensions = byCell ? measure.dimensions : measure.dimensions.slice(0, 1);
  const axis = around(effects.map((effect) => effect.difference));
  return (
    <>
      <h3>
        {measure.measure} by {dimensions.join(", ")}, the largest difference first
      </h3>
      <label class="check">
        <input
          type="checkbox"
          checked={byCell}
          onChange={(event) => go({ by: event.currentTarget.checked ? "cell" : null }, true)}
        />
        by {measure.dimensions.join(", ")}
      </label>
      <div class="wide" tabIndex={0} role="region" aria-label={`${title}: ${measure.measure} by ${dimensions.join(", ")}`}>
        <table class="plain forest">
          <thead>
            <tr>
              {dimensions.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
              <th scope="col" class="number">
                {answer.first}
              </th>
              <th scope="col" class="number">
                {answer.second}
              </th>
              <EffectHead />
            </tr>
          </thead>
          <tbody>
            {(all ? effects : effects.slice(0, AT_FIRST)).map((effect) => (
              <EffectRow key={effect.cell.join(" ")} names={effect.cell} effect={effect} share={measure.share} axis={axis} />
            ))}
          </tbody>
        </table>
      </div>
      {effects.length > AT_FIRST && (
        <button type="button" onClick={() => setAll(!all)}>
          {all ? "show the largest only" : `show all ${effects.length}`}
        </button>
      )}
    </>
  );
}

/** The episodes of the first side in a cell, with those of the second beside them, by who won. */
export function games(suite: ComparedSuite, cell: Outcomes | null, mine: boolean, theirs: boolean): URLSearchParams {
  return state("episodes", {
    ...{ suite: suite.suite, run: suite.first.run, player: suite.first.player },
    ...{ versus_run: suite.second.run, versus: suite.second.player },
    ...(cell ? { task: cell.task, level: cell.level, mode: cell.mode } : {}),
    ...(mine ? { won: "1" } : { not_won: "1" }),
    versus_outcome: theirs ? "won" : "not won",
  });
}

function OutcomesView({ suite, answer }: { suite: ComparedSuite; answer: Comparison }) {
  const [all, setAll] = useState(false);
  const shown = all ? suite.outcomes : suite.outcomes.slice(0, AT_FIRST);
  return (
    <>
      <h3>outcomes of the same games, those that differ most first; each number leads to its games</h3>
      <ul class="outcomes">
        {shown.map((cell) => {
          const name = `${cell.task}, ${cell.level}, ${cell.mode}`;
          const count = (mine: boolean, theirs: boolean, many: number) => (
            <td class={mine === theirs ? "number" : "number differs"}>
              <Link
                id={`${suite.title} ${name} ${mine} ${theirs}`}
                to={games(suite, cell, mine, theirs)}
                label={`${name}: ${many} games that ${answer.first} ${mine ? "won" : "did not win"} and ${answer.second} ${theirs ? "won" : "did not win"}`}
              >
                {number(many)}
              </Link>
            </td>
          );
          return (
            <li key={name}>
              <table class="two-by-two">
                <caption>{name}</caption>
                <thead>
                  <tr>
                    <td />
                    <th scope="col" title={answer.second}>
                      B won
                    </th>
                    <th scope="col" title={answer.second}>
                      B not
                    </th>
                  </tr>
                </thead>
                <tbody>
                  <tr>
                    <th scope="row" title={answer.first}>
                      A won
                    </th>
                    {count(true, true, cell.both)}
                    {count(true, false, cell.first)}
                  </tr>
                  <tr>
                    <th scope="row" title={answer.first}>
                      A not
                    </th>
                    {count(false, true, cell.second)}
                    {count(false, false, cell.neither)}
                  </tr>
                </tbody>
              </table>
            </li>
          );
        })}
      </ul>
      <p class="small">
        A is {answer.first}, B is {answer.second}; a failed episode counts as not won.
      </p>
      {suite.outcomes.length > AT_FIRST && (
        <button type="button" onClick={() => setAll(!all)}>
          {all ? "show fewer" : `show all ${suite.outcomes.length}`}
        </button>
      )}
    </>
  );
}

const FLIPS = 4;
/** How many games were shown of each list, for whoever comes back. */
const shownOf = new Map<string, number>();

function Flips({ suite, answer, version }: { suite: ComparedSuite; answer: Comparison; version: number }) {
  return (
    <>
      {[true, false].map((mine) => (
        <OneWay key={String(mine)} suite={suite} answer={answer} mine={mine} version={version} />
      ))}
    </>
  );
}

function OneWay({
  suite,
  answer,
  mine,
  version,
}: {
  suite: ComparedSuite;
  answer: Comparison;
  mine: boolean;
  version: number;
}) {
  const found = games(suite, null, mine, !mine);
  const asked = new URLSearchParams([...found].filter(([name]) => name !== "page"));
  const list = asked.toString();
  const [count, setCount] = useState(shownOf.get(list) ?? FLIPS);
  const more = () => {
    shownOf.set(list, count + FLIPS);
    setCount(count + FLIPS);
  };
  asked.set("from", "0");
  asked.set("count", String(count));
  const [page, error] = useAnswer<Page>("episodes", asked.toString(), version);
  const total = suite.outcomes.reduce((sum, cell) => sum + (mine ? cell.first : cell.second), 0);
  if (!total) return null;
  return (
    <>
      <h3>
        <Link to={found}>
          {number(total)} {total === 1 ? "game" : "games"} that {mine ? answer.first : answer.second} won and{" "}
          {mine ? answer.second : answer.first} did not
        </Link>
        , at the first step that differs <kbd>j</kbd> <kbd>k</kbd>
      </h3>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      <ul class="flips">
        {(page?.rows ?? []).map((row) => (
          <Flip key={row.id} row={row} answer={answer} version={version} />
        ))}
      </ul>
      {total > count && (
        <button type="button" onClick={more}>
          show more
        </button>
      )}
    </>
  );
}

function Flip({ row, answer, version }: { row: Row; answer: Comparison; version: number }) {
  const [item, near] = useNear(isKnown(reference(row), ""));
  const [left, leftError] = useEpisode(near ? reference(row) : null, "", version);
  const [right, rightError] = useEpisode(near && row.other ? reference(row.other) : null, "", version);
  const place = firstDifference(left, right);
  const name = `${row.task} · ${row.level} · ${row.mode} · game ${row.index}`;
  const to = state("episode", {
    episode: reference(row),
    beside: row.other ? reference(row.other) : null,
    step: String(place),
  });
  return (
    <li class={left && right ? "flip" : "flip absent"} ref={item}>
      <Link id={`flip ${reference(row)}`} to={to}>
        {name}, step {place}
      </Link>
      {left && <Seen episode={left} place={place} />}
      {(leftError || rightError) && <p class="error">{leftError || rightError}</p>}
      <div class="both">
        <Said name={answer.first} episode={left} place={place} />
        <Said name={answer.second} episode={right} place={place} />
      </div>
    </li>
  );
}

/** Whether an element is in sight, or was: what it shows is asked for then. */
function useNear(before: boolean): [preact.RefObject<HTMLLIElement | null>, boolean] {
  const item = useRef<HTMLLIElement>(null);
  const [near, setNear] = useState(before);
  useEffect(() => {
    const watched = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setNear(true), {
      rootMargin: "300px",
    });
    watched.observe(item.current!);
    return () => watched.disconnect();
  }, []);
  return [item, near];
}

/** What both saw before they decided: the last picture up to the step, else the end of its prompt. */
function Seen({ episode, place }: { episode: Episode; place: number }) {
  const parts = episode.steps.slice(0, place).flatMap((step) => step.shown.flatMap((message) => message.parts));
  const picture = parts.findLast((part) => "picture" in part);
  if (picture && "picture" in picture) return <Picture episode={episode} id={picture.picture} alt="the game before the step" />;
  const text = parts.findLast((part) => "text" in part);
  return (
    <p class="words small">{text && "text" in text ? <Text value={text.text.slice(-300)} short /> : "nothing was shown"}</p>
  );
}

function Said({ name, episode, place }: { name: string; episode: Episode | null; place: number }) {
  const step = episode?.steps[place - 1];
  return (
    <div>
      <p>
        <b>{name}</b> {episode && <Outcome row={episode.row} />}
      </p>
      {episode && !step && <p class="nothing">ended before this step</p>}
      {step && (
        <>
          <p>decided: {step.decoded === null ? "nothing" : <Text value={step.decoded} short />}</p>
          <p class="words reply">
            <Text value={step.reply} short />
          </p>
        </>
      )}
    </div>
  );
}
