// The columns of a difference between two sides: what it is, its interval as numbers and drawn, and how sure it is.

import type { Effect, StudyEffect } from "./schema";
import { type Axis, interval, probability, Strip, signed } from "./strip";
import { number } from "./text";

export function EffectHead() {
  return (
    <>
      <th scope="col" class="number">
        difference
      </th>
      <th scope="col">interval at 95 %</th>
      <th scope="col" class="number">
        p after Holm
      </th>
      <th scope="col" class="number">
        games
      </th>
    </>
  );
}

export function EffectCells({ effect, share, axis }: { effect: Effect | StudyEffect; share: boolean; axis: Axis }) {
  const { difference, holm, games } = effect;
  return (
    <>
      <td class="number">
        <b>{signed(difference.mean, share)}</b> <span class="interval">{interval(difference, share)}</span>
      </td>
      <td class="drawn">
        <Strip estimate={difference} axis={axis} ticks={[{ kind: "zero", value: 0 }]} />
      </td>
      <td class={holm < 0.05 ? "number sure" : "number"}>{probability(holm)}</td>
      <td class="number">{number(games)}</td>
    </>
  );
}
