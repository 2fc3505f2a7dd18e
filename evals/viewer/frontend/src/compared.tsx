// One episode, or two of the same game side by side, step by step.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { back, type Change, changed, filters } from "./address";
import { ask, named, reference } from "./api";
import { Copy } from "./copy";
import { EpisodeView, title } from "./episode";
import { Notes } from "./notes";
import type { Episode, Row } from "./schema";
import { Prompt, sameQuestion } from "./step";
import { number, outcome, Sought } from "./text";

interface Given {
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
  version: number;
}

export function Compared({ address, go, version }: Given) {
  const [left, leftError] = useEpisode(address.get("episode"), filters(address).toString(), version);
  const [right, rightError] = useEpisode(address.get("beside"), "", version);
  const beside = address.has("beside") ? right : null;
  const most = Math.max(left?.steps.length ?? 0, beside?.steps.length ?? 0, 1);
  const sought = address.get("text") ?? "";
  const found = useMemo(() => (left && sought ? stepsWith(left, sought) : []), [left, sought]);
  const step = Math.max(1, Math.min(most, Number(address.get("step")) || found[0] || firstDifference(left, beside)));
  const heading = useRef<HTMLHeadingElement>(null);
  const whole = address.get("prompt") === "all";
  const to = (row: Row | null | undefined) => row && go({ episode: reference(row), step: null, beside: null }, true);
  const toStep = (next: number) => go({ step: String(Math.max(1, Math.min(most, next))) }, true);
  const leave = () => back(changed(address, { page: "episodes", episode: null, step: null, beside: null, prompt: null }));

  useEffect(() => heading.current?.focus({ preventScroll: true }), [left?.listed.id]);
  useEffect(() => {
    if (left) document.title = `${title(left.listed)} · raycade`;
  }, [left?.listed.id]);
  // a layout effect: a key that follows at once acts on what is shown, not on what was shown before
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const busy = event.target instanceof Element && event.target.closest("input, select, textarea, [role=grid]");
      if (busy || event.ctrlKey || event.metaKey || event.altKey) return;
      const keys: Record<string, () => unknown> = {
        ArrowRight: () => toStep(step + 1),
        ArrowLeft: () => toStep(step - 1),
        Home: () => toStep(1),
        End: () => toStep(most),
        j: () => to(left?.place.after),
        k: () => to(left?.place.before),
        p: () => go({ prompt: whole ? null : "all" }, true),
        Escape: leave,
      };
      if (!(event.key in keys)) return;
      event.preventDefault();
      keys[event.key]();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });

  if (leftError) return <Problem text={leftError} leave={leave} />;
  if (!left)
    return (
      <main class="episode-page waiting" aria-busy="true">
        <p class="nothing" role="status">
          reading the episode …
        </p>
      </main>
    );
  const { position, total, before, after } = left.place;
  const once = beside !== null && step >= 1 && sameQuestion(left, beside, step - 1, whole);
  return (
    <main class="episode-page">
      <nav class="bar" aria-label="Episode">
        <button type="button" onClick={leave}>
          <span aria-hidden="true">← </span>back
        </button>
        <span class="group">
          <button type="button" disabled={!before} onClick={() => to(before)}>
            previous <kbd>k</kbd>
          </button>
          <span class="position">{position === null ? "" : `${number(position + 1)} of ${number(total)}`}</span>
          <button type="button" disabled={!after} onClick={() => to(after)}>
            next <kbd>j</kbd>
          </button>
        </span>
        <label class="beside">
          beside
          <select
            value={address.get("beside") ?? ""}
            onChange={(event) => go({ beside: event.currentTarget.value || null }, true)}
          >
            <option value="">nothing</option>
            {left.same_game.map((row) => (
              <option key={row.id} value={reference(row)}>
                {besideName(row, left.listed)}
              </option>
            ))}
          </select>
        </label>
        <Copy episode={left} />
      </nav>
      <h1 tabIndex={-1} ref={heading}>
        {title(left.listed)}
      </h1>
      <div class="stepper" role="group" aria-label="Steps">
        <button type="button" disabled={step <= 1} onClick={() => toStep(step - 1)} aria-label="previous step">
          ←
        </button>
        <span role="status">
          step {number(step)} of {number(most)}
        </span>
        <button type="button" disabled={step >= most} onClick={() => toStep(step + 1)} aria-label="next step">
          →
        </button>
        <label class="check">
          <input
            type="checkbox"
            checked={whole}
            onChange={(event) => go({ prompt: event.currentTarget.checked ? "all" : null }, true)}
          />
          whole prompt <kbd>p</kbd>
        </label>
        {sought && (
          <span class="found" role="status">
            “{sought}” {found.length ? `in step${found.length > 1 ? "s" : ""} ${found.join(", ")}` : "in no step"}
          </span>
        )}
      </div>
      <Notes key={reference(left.listed)} episode={reference(left.listed)} version={version} />
      <Sought.Provider value={sought}>
        <div class={`panes${address.has("beside") ? " two" : ""}${once ? " once" : ""}`}>
          {once && (
            <section class="question" aria-label="What both were asked">
              <h2 class="for-readers">What both were asked</h2>
              <Prompt episode={left} number={step - 1} whole={whole} />
            </section>
          )}
          <EpisodeView episode={left} step={step} toStep={toStep} whole={whole} found={found} answerOnly={once} />
          {beside && <EpisodeView episode={beside} step={step} toStep={toStep} whole={whole} answerOnly={once} />}
          {rightError && <p role="alert">{rightError}</p>}
        </div>
      </Sought.Provider>
    </main>
  );
}

function Problem({ text, leave }: { text: string; leave: () => void }) {
  return (
    <main class="episode-page">
      <h1>Episode</h1>
      <p role="alert">{text}</p>
      <button type="button" onClick={leave}>
        back
      </button>
    </main>
  );
}

export function besideName(row: Row, other: Row): string {
  const differs = [
    row.player,
    row.run !== other.run && row.run,
    row.mode !== other.mode && row.mode,
    row.repeat !== other.repeat && `repeat ${row.repeat}`,
    outcome(row)[1],
  ];
  return differs.filter(Boolean).join(" · ");
}

/** The number of the first step at which two episodes decided differently; 1 without a second one. */
export function firstDifference(left: Episode | null, beside: Episode | null): number {
  if (!left || !beside) return 1;
  const place = left.steps.findIndex((step, at) => step.decoded !== beside.steps[at]?.decoded);
  return place < 0 ? 1 : place + 1;
}

/** Numbers of the steps whose prompt, reasoning or reply contains a text, in upper or lower case. */
export function stepsWith(episode: Episode, text: string): number[] {
  const wanted = text.toLowerCase();
  const has = (given: string | undefined) => (given ?? "").toLowerCase().includes(wanted);
  const places = episode.steps.map((step, place) => {
    const asked = step.shown.some((message) => message.parts.some((part) => "text" in part && has(part.text)));
    return asked || has(step.reasoning) || has(step.reply) ? place + 1 : 0;
  });
  return places.filter((place) => place > 0);
}

const KEPT = 64;
/** Episodes by what was asked: a page that is come back to is as tall at once as it was when it was left. */
const known = new Map<string, Episode>();

/** Whether an episode was opened before. */
export function isKnown(name: string, asked: string): boolean {
  return known.has(`${name} ${asked}`);
}

/** An episode by run and id; while another one is under way the old one stays. */
export function useEpisode(name: string | null, asked: string, version: number): [Episode | null, string] {
  const key = `${name} ${asked}`;
  const [episode, setEpisode] = useState<Episode | null>(() => known.get(key) ?? null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (!name) return;
    const stop = new AbortController();
    const given = changed(new URLSearchParams(asked), Object.fromEntries(named(name)));
    ask<Episode>("episode", given, stop.signal)
      .then((found) => {
        known.delete(key);
        known.set(key, found);
        for (const oldest of [...known.keys()].slice(0, -KEPT)) known.delete(oldest);
        setEpisode(found);
        setError("");
      })
      .catch((problem: Error) => stop.signal.aborted || setError(problem.message));
    return () => stop.abort();
  }, [name, asked, version]);
  return [episode, error];
}
