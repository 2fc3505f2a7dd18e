// Success over difficulty: a table for each suite and task, players by levels, with chance as a tick.

import { useAnswer } from "./answer";
import { Fold } from "./episode";
import type { Difficulty, DifficultyCurve } from "./schema";
import { interval, Strip, value } from "./strip";
import { Text } from "./text";

const SHARES = { low: 0, high: 1 };

export function DifficultyView({ version }: { version: number }) {
  const [answer] = useAnswer<Difficulty>("difficulty", "", version);
  const suites = new Map<string, DifficultyCurve[]>();
  for (const curve of answer?.curves ?? []) suites.set(curve.title, [...(suites.get(curve.title) ?? []), curve]);
  return (
    <>
      {[...suites].map(([title, curves]) => (
        <Fold key={title} title={`${title}: success over difficulty`}>
          {[...new Set(curves.map((curve) => curve.task))].map((task) => (
            <TaskView key={task} title={title} task={task} curves={curves.filter((curve) => curve.task === task)} />
          ))}
        </Fold>
      ))}
    </>
  );
}

function TaskView({ title, task, curves }: { title: string; task: string; curves: DifficultyCurve[] }) {
  const levels = [...new Set(curves.flatMap((curve) => curve.levels))];
  const at = (curve: DifficultyCurve, level: string) => curve.success[curve.levels.indexOf(level)] ?? null;
  const chance = curves.find((curve) => curve.reference && curve.player === "chance");
  // chance and perfect play are the same in all runs
  const rows = curves.filter(
    (curve, place) => !curve.reference || curves.findIndex((each) => each.player === curve.player && each.reference) === place,
  );
  const several = new Set(curves.map((curve) => curve.run)).size > 1;
  const name = (curve: DifficultyCurve) =>
    curve.reference ? curve.player : [curve.player, curve.mode, several && curve.run].filter(Boolean).join(", ");
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={`${title}, ${task}: success over difficulty`}>
      <table class="plain forest">
        <caption>
          <Text value={task} />
        </caption>
        <thead>
          <tr>
            <th scope="col">player</th>
            {levels.map((level) => (
              <th key={level} scope="col">
                level <Text value={level} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((curve) => (
            <tr key={name(curve)}>
              <th scope="row">
                <Text value={name(curve)} />
              </th>
              {levels.map((level) => {
                const share = at(curve, level);
                const tick = chance && at(chance, level);
                return (
                  <td key={level} class="cause">
                    {share ? (
                      <>
                        <b>{value(share.mean, true)}</b> <span class="interval">{interval(share, true)}</span>
                        <Strip estimate={share} axis={SHARES} ticks={tick ? [{ kind: "chance", value: tick.mean }] : []} />
                      </>
                    ) : (
                      "–"
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
