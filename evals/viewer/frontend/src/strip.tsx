// A mean and its interval on an axis, as dot and bar; numbers stand beside it.

import type { Interval } from "./schema";
import { number } from "./text";

export interface Axis {
  low: number;
  high: number;
}

export function Strip({
  estimate,
  axis,
  ticks = [],
}: {
  estimate: Interval | null;
  axis: Axis;
  ticks?: { kind: string; value: number }[];
}) {
  const at = (value: number) =>
    (100 * (Math.min(Math.max(value, axis.low), axis.high) - axis.low)) / (axis.high - axis.low || 1);
  const low = estimate?.low ?? null;
  const high = estimate?.high ?? null;
  return (
    <div class="strip" aria-hidden="true">
      {ticks.map(({ kind, value }) => (
        <span key={kind} class={`tick ${kind}`} style={{ left: `${at(value)}%` }} />
      ))}
      {low !== null && high !== null && <span class="range" style={{ left: `${at(low)}%`, width: `${at(high) - at(low)}%` }} />}
      {estimate && <span class="dot" style={{ left: `${at(estimate.mean)}%` }} />}
    </div>
  );
}

/** A share in per cent, another measure as it is. */
export function value(given: number, share: boolean): string {
  return share ? (100 * given).toFixed(1) : number(given, 3);
}

export function interval({ low, high }: Interval, share: boolean): string {
  return low === null || high === null ? "" : `[${value(low, share)}, ${value(high, share)}]`;
}

export function signed(given: number, share: boolean): string {
  const text = value(given, share);
  return given > 0 ? `+${text}` : text.replace("-", "−");
}

export function probability(p: number): string {
  return p < 0.001 ? "< .001" : p.toFixed(3).replace(/^0/, "");
}

/** An axis of differences: as far to both sides as any interval reaches. */
export function around(differences: Interval[]): Axis {
  const most = Math.max(...differences.flatMap(({ mean, low, high }) => [mean, low ?? mean, high ?? mean]).map(Math.abs), 1e-9);
  return { low: -most, high: most };
}
