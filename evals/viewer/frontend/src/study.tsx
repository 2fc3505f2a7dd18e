// The same games in several settings: what each setting changes, shares of variance, and why games were lost.

import { useEffect } from "preact/hooks";
import { type Change, state } from "./address";
import { useAnswer } from "./answer";
import { EffectCells, EffectHead } from "./effect";
import { Link } from "./link";
import type { State, Study, StudyCause, StudyCell, StudyCondition, StudyEffect, StudyLosses, StudyMeasure } from "./schema";
import { around, interval, Strip, value } from "./strip";
import { number, Text } from "./text";

interface Given {
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
  status: State | null;
}

const SHARES = { low: 0, high: 1 };

export function StudyPage({ address, go, status }: Given) {
  const baseline = address.get("baseline") ?? "";
  const asked = new URLSearchParams(baseline ? { baseline } : {}).toString();
  const [answer, error] = useAnswer<Study>(status?.loaded ? "study" : "", asked, status?.version ?? 0);
  useEffect(() => {
    document.title = "Study · raycade";
  }, []);
  return (
    <main class="compare-page study-page">
      <h1 tabIndex={-1}>Study: where the score comes from</h1>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {!answer && !error && (
        <p class="nothing" role="status">
          comparing …
        </p>
      )}
      {answer?.trouble && (
        <p class="nothing" role="status">
          No study: <Text value={answer.trouble} />
        </p>
      )}
      {answer && !answer.trouble && (
        <>
          <Conditions conditions={answer.conditions} go={go} />
          {answer.losses.map((losses) => (
            <LossesView key={`${losses.run} ${losses.text_run}`} losses={losses} />
          ))}
          {answer.measures.map((measure) => (
            <MeasureView key={measure.measure} measure={measure} />
          ))}
        </>
      )}
    </main>
  );
}

function Conditions({ conditions, go }: { conditions: StudyCondition[]; go: Given["go"] }) {
  const factors = Object.keys(conditions[0].levels);
  return (
    <section aria-label="Conditions">
      <h2>Conditions</h2>
      <div class="wide" tabIndex={0} role="region" aria-label="Conditions of the study">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">run</th>
              {factors.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
              <th scope="col" class="number">
                games
              </th>
              <th scope="col">baseline</th>
            </tr>
          </thead>
          <tbody>
            {conditions.map((each, place) => (
              <tr key={each.run}>
                <th scope="row">
                  <Link to={state("episodes", { run: each.run, player: each.player })}>
                    <Text value={each.run} />
                  </Link>
                </th>
                {factors.map((name) => (
                  <td key={name}>
                    <Text value={each.levels[name]} />
                  </td>
                ))}
                <td class="number">{number(each.played)}</td>
                <td>
                  <button type="button" aria-pressed={place === 0} onClick={() => go({ baseline: each.run }, true)}>
                    {place === 0 ? "baseline" : "make it the baseline"}
                    <span class="for-readers"> {each.run}</span>
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="small">One player, {conditions[0].player}, on the same games. Effects are against the baseline's values.</p>
    </section>
  );
}

function LossesView({ losses }: { losses: StudyLosses }) {
  const title = `Why games were lost${losses.about ? `: ${losses.about}` : ""}`;
  if (!losses.cells.length) return null;
  const causes = losses.cells[0].causes;
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <div class="wide" tabIndex={0} role="region" aria-label={`Shares by task. ${title}`}>
        <table class="plain forest">
          <thead>
            <tr>
              <th scope="col">task</th>
              <th scope="col">level</th>
              <th scope="col" class="number">
                games
              </th>
              <th scope="col" class="number">
                lost
              </th>
              {causes.map(({ cause }) => (
                <th key={cause} scope="col">
                  {cause}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {losses.cells.map((cell) => (
              <tr key={`${cell.task} ${cell.level}`}>
                <th scope="row">
                  <Text value={cell.task} />
                </th>
                <td>{cell.level}</td>
                <td class="number">{number(cell.games)}</td>
                <td class="number">{number(cell.lost)}</td>
                {cell.causes.map((each) => (
                  <CauseView key={each.cause} losses={losses} cell={cell} cause={each} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="small">
        Shares of the games lost from pictures, in per cent, and the games behind them. form: the last reply could not be read.
        seeing: won when the pictures are described in words, less the games won from pictures only, since luck goes both ways.
        planning: lost in words, too. Intervals at 95 %, clustered by game.
      </p>
    </section>
  );
}

function CauseView({ losses, cell, cause }: { losses: StudyLosses; cell: StudyCell; cause: StudyCause }) {
  const whole = cell.task === "all" && cell.level === "";
  const to = state("episodes", {
    ...{ tag: cause.tag, run: losses.run, player: losses.player },
    ...{ versus_run: losses.text_run, versus: losses.player },
    ...(whole ? {} : { task: cell.task, level: cell.level }),
  });
  const where = `${cell.task} ${cell.level}`.trim();
  const count = `${number(cause.games)} ${cause.games === 1 ? "game" : "games"}`;
  return (
    <td class="cause">
      {cause.share && (
        <>
          <b>{value(cause.share.mean, true)}</b> <span class="interval">{interval(cause.share, true)}</span>
          <Strip estimate={cause.share} axis={SHARES} />
        </>
      )}
      {cause.games > 0 ? (
        <Link to={to} label={`${where}, ${cause.cause}: ${count}`}>
          {count}
        </Link>
      ) : (
        <span class="small">no game</span>
      )}
    </td>
  );
}

function MeasureView({ measure }: { measure: StudyMeasure }) {
  const { effects, together, variance, share } = measure;
  if (!effects.length) return null;
  return (
    <section aria-label={measure.measure}>
      <h2>
        <Text value={measure.measure} />
      </h2>
      <Effects title={`Effects on ${measure.measure}`} effects={effects} share={share} />
      {together.length > 0 && (
        <>
          <h3>Two changes together, beyond the sum of each alone</h3>
          <Effects title={`Interactions: ${measure.measure}`} effects={together} share={share} alone={false} />
        </>
      )}
      {variance.length > 0 && (
        <>
          <h3>Shares of variance</h3>
          <div class="wide" tabIndex={0} role="region" aria-label={`Shares of variance: ${measure.measure}`}>
            <table class="plain forest">
              <thead>
                <tr>
                  <th scope="col">source</th>
                  <th scope="col" class="number">
                    share
                  </th>
                  <th scope="col">interval at 95 %</th>
                </tr>
              </thead>
              <tbody>
                {variance.map((each) => (
                  <tr key={each.source}>
                    <th scope="row">{each.source}</th>
                    <td class="number">
                      <b>{value(each.share.mean, true)}</b> <span class="interval">{interval(each.share, true)}</span>
                    </td>
                    <td class="drawn">
                      <Strip estimate={each.share} axis={SHARES} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <p class="small">
            game: how hard it is in all conditions. game by X: how games differ in what X does to them. Bootstrap over games.
          </p>
        </>
      )}
    </section>
  );
}

function Effects({
  title,
  effects,
  share,
  alone = true,
}: {
  title: string;
  effects: StudyEffect[];
  share: boolean;
  alone?: boolean;
}) {
  const axis = around(effects.map((effect) => effect.difference));
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={title}>
      <table class="plain forest">
        <thead>
          <tr>
            <th scope="col">{alone ? "change" : "changes"}</th>
            {alone && (
              <>
                <th scope="col">against</th>
                <th scope="col" class="number">
                  with it
                </th>
                <th scope="col" class="number">
                  without
                </th>
              </>
            )}
            <EffectHead />
          </tr>
        </thead>
        <tbody>
          {effects.map((effect) => (
            <tr key={`${effect.change} ${effect.against}`}>
              <th scope="row">
                <Text value={effect.change} />
              </th>
              {alone && (
                <>
                  <td>
                    <Text value={effect.against} />
                  </td>
                  <td class="number">{value(effect.first, share)}</td>
                  <td class="number">{value(effect.second, share)}</td>
                </>
              )}
              <EffectCells effect={effect} share={share} axis={axis} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
