// Text that a model or a suite wrote: shown as it is, with characters made visible that would hide or turn others.

import { type ComponentChildren, createContext } from "preact";
import { useContext, useState } from "preact/hooks";

/** The text that was searched for; it is marked wherever it stands. */
export const Sought = createContext("");

/** The same characters as in envs/printable.py, where each group is explained. */
const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: each stands for itself
  /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u2029\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufff8\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\u2800\ufff9-\ufffb\u{13430}-\u{1343f}]|(?<![#*0-9\u00a9\u00ae\u203c-\u3299\u{1f000}-\u{1faff}])[\ufe0e\ufe0f])/u;
const SHOWN_AT_FIRST = 20_000;

export function Text({ value, short = false }: { value: string; short?: boolean }) {
  const [all, setAll] = useState(false);
  const long = value.length > SHOWN_AT_FIRST && !short;
  const text = short ? value.slice(0, 300) : long && !all ? value.slice(0, SHOWN_AT_FIRST) : value;
  return (
    <>
      <bdi>
        {text.split(HIDDEN).map((piece, place) =>
          place % 2 ? (
            <span class="hidden-character" key={place}>
              U+{piece.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}
            </span>
          ) : (
            <Marked key={place} text={piece} />
          ),
        )}
      </bdi>
      {long && (
        <button type="button" class="more" onClick={() => setAll(!all)}>
          {all ? "show less" : `show all ${value.length.toLocaleString("en")} characters`}
        </button>
      )}
    </>
  );
}

function Marked({ text }: { text: string }) {
  const wanted = useContext(Sought).toLowerCase();
  const lower = text.toLowerCase();
  if (!wanted || lower.length !== text.length) return <>{text}</>;
  const pieces: ComponentChildren[] = [];
  let start = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, start)) {
    pieces.push(text.slice(start, at), <mark key={at}>{text.slice(at, at + wanted.length)}</mark>);
    start = at + wanted.length;
  }
  return (
    <>
      {pieces}
      {text.slice(start)}
    </>
  );
}

export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: Math.min(digits, 1) });
}

export function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}

export function seconds(value: number): string {
  // rounded before the unit is chosen: 59.97 s are a minute, not 60.0 s
  const whole = Math.round(value);
  if (value >= 59.95) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return value >= 0.9995 ? `${value.toFixed(1)} s` : `${Math.round(1000 * value)} ms`;
}

export function words(name: string): string {
  return name.replaceAll("_", " ");
}

export function outcome(row: { status: string; success: boolean | null }): [mark: string, word: string] {
  if (row.status === "failed") return ["!", "failed"];
  return row.success ? ["✓", "won"] : ["✗", "lost"];
}

export function Outcome({ row }: { row: { status: string; success: boolean | null } }) {
  const [mark, word] = outcome(row);
  return (
    <span class={`outcome ${word}`}>
      <span aria-hidden="true">{mark}</span> {word}
    </span>
  );
}
