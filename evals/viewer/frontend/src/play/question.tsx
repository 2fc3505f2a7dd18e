// One question: the picture or the rules on the left, what is new and the choices on the right, all in one window.

import { useEffect, useRef, useState } from "preact/hooks";
import { Text } from "../text";
import { Clock } from "./clock";
import { Rendered } from "./rendered";
import type { Ask, Given, Part, State } from "./state";

/** A choice so soon after its question was shown is the second click of a double click, meant for the question before. */
const DOUBLE_CLICK_MILLISECONDS = 400;
/** More pictures than these stand among the texts instead of side by side. */
const MOST_SIDE_BY_SIDE = 4;
const SHORT_CAPTION = 3;
/** More choices than these are set smaller, in columns. */
const MANY_CHOICES = 8;

type Pictures = Map<string, string>;

type Props = {
  state: State;
  pictures: Pictures;
  busy: boolean;
  answer: (key: string, given: Given) => Promise<void>;
};

export function Question({ state, pictures, busy, answer }: Props) {
  const { rules = [], past = [], shown = [], asks = [] } = state;
  const drawn = shown.filter((part) => "picture" in part);
  const sideBySide = drawn.length > 0 && drawn.length <= MOST_SIDE_BY_SIDE;
  const onlyText = drawn.length === 0;
  const choose = useChoose(state.key, answer);
  const wide = useMedia("(min-width: 75rem)");
  const told = useRef<HTMLDivElement>(null);
  const side = useRef<HTMLElement>(null);

  useEffect(() => {
    // what was said before stands above what is new
    if (onlyText && past.length) told.current?.scrollTo(0, told.current.scrollHeight);
    side.current?.focus({ preventScroll: true });
  }, []);

  const stage = sideBySide ? drawn : onlyText ? rules : shown;
  const news = sideBySide ? numbered(shown) : onlyText ? shown : [];
  const rulesApart = onlyText ? [] : rules;
  return (
    <main class={`question${wide && rulesApart.length ? " with-rules" : ""}${stage.length ? "" : " no-stage"}`}>
      {wide && rulesApart.length > 0 && (
        <section class="rules" aria-label="Rules" tabIndex={0}>
          <h2>Rules</h2>
          <Parts parts={rulesApart} pictures={pictures} />
        </section>
      )}
      {stage.length > 0 && (
        <section
          class={sideBySide ? `stage pictures-${drawn.length}` : "stage texts"}
          aria-label={onlyText ? "Rules" : "Game"}
          tabIndex={sideBySide ? undefined : 0}
        >
          <Parts parts={stage} pictures={pictures} />
        </section>
      )}
      <section class="side" aria-label="Question" ref={side} tabIndex={-1}>
        <div class="told" ref={told} tabIndex={0} aria-label="What is new" role="region">
          {onlyText && past.map((said, place) => <Said key={place} said={said} pictures={pictures} />)}
          <Parts parts={news} pictures={pictures} />
          {state.for_models && (
            <p class="note">Choose an answer. What the text says about how to write or explain one is meant for models.</p>
          )}
        </div>
        <Answers asks={asks} given={state.given} busy={busy} choose={choose} />
        <div class="folds">
          {!wide && rulesApart.length > 0 && (
            <details id="rules">
              <summary>Rules</summary>
              <Parts parts={rulesApart} pictures={pictures} />
            </details>
          )}
          {!onlyText && past.length > 0 && (
            <details id="past">
              <summary>Earlier in this game</summary>
              {past.map((said, place) => (
                <Said key={place} said={said} pictures={pictures} />
              ))}
            </details>
          )}
          {state.help && (
            <details id="help">
              <summary>Instructions</summary>
              <Rendered html={state.help} />
            </details>
          )}
        </div>
      </section>
    </main>
  );
}

/** Sends a choice with the times; one that comes too soon is counted instead. */
function useChoose(key: string, answer: Props["answer"]): (choices: number[]) => void {
  const clock = useRef<Clock | null>(null);
  const shownAt = useRef(performance.now());
  const moved = useRef(false);
  const ignored = useRef(0);

  useEffect(() => {
    clock.current = new Clock(key);
    shownAt.current = performance.now();
    // whoever has moved the focus since the question was shown has seen it
    const note = (event: KeyboardEvent) => {
      moved.current ||= /^(Tab|Arrow)/.test(event.key) && !event.repeat;
    };
    document.addEventListener("keydown", note, true);
    return () => {
      document.removeEventListener("keydown", note, true);
      clock.current?.stop();
    };
  }, [key]);

  return (choices) => {
    if (performance.now() - shownAt.current < DOUBLE_CLICK_MILLISECONDS && !moved.current) {
      ignored.current += 1;
      return;
    }
    const times = clock.current?.read() ?? { visible: 0, hidden: 0 };
    void answer(key, { choices, ...times, ignored: ignored.current });
  };
}

type AnswersProps = { asks: Ask[]; given?: string; busy: boolean; choose: (choices: number[]) => void };

function Answers({ asks, given, busy, choose }: AnswersProps) {
  const only = asks.length === 1 && !asks[0]!.text ? asks[0]! : null;
  return only ? (
    <Menu ask={only} busy={busy} choose={choose} />
  ) : (
    <Form asks={asks} given={given} busy={busy} choose={choose} />
  );
}

/** One choice: a click, Enter, or an option's own letter or digit answers. */
function Menu({ ask, busy, choose }: { ask: Ask } & Omit<AnswersProps, "asks" | "given">) {
  const group = useRef<HTMLDivElement>(null);
  const latest = useRef({ busy, choose });
  latest.current = { busy, choose };

  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || latest.current.busy) return;
      if ((event.target as HTMLElement).matches("select, input, summary")) return;
      const buttons = [...(group.current?.querySelectorAll("button") ?? [])];
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        // within a text the arrow keys scroll
        if ((event.target as HTMLElement).matches(".stage, .told, .rules")) return;
        const now = buttons.indexOf(document.activeElement as HTMLButtonElement);
        const next = event.key === "ArrowDown" ? now + 1 : now < 0 ? buttons.length - 1 : now - 1;
        buttons[Math.min(Math.max(next, 0), buttons.length - 1)]?.focus();
        event.preventDefault();
        return;
      }
      const index = ask.options.findIndex((option) => option.toLowerCase() === event.key.toLowerCase());
      if (index >= 0) {
        event.preventDefault();
        latest.current.choose([index]);
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [ask]);

  const short = ask.captions.every((caption) => caption.length <= SHORT_CAPTION);
  const many = ask.captions.length > MANY_CHOICES;
  return (
    <div
      id="options"
      class={`answers${short ? " short" : many ? " many" : ""}`}
      role="group"
      aria-label="Your answer"
      ref={group}
    >
      {ask.captions.map((caption, index) => (
        <button key={index} type="button" disabled={busy} onClick={() => choose([index])}>
          <Text value={caption} short />
        </button>
      ))}
    </div>
  );
}

/** Several things are asked at once, and sent together. */
function Form({ asks, given = "", busy, choose }: AnswersProps) {
  const [chosen, setChosen] = useState<(number | null)[]>(asks.map(() => null));
  const complete = chosen.every((index) => index !== null);
  return (
    <form
      id="options"
      class="answers form"
      onSubmit={(event) => {
        event.preventDefault();
        if (complete) choose(chosen as number[]);
      }}
    >
      <p class="given">
        <Text value={given} />
      </p>
      {asks.map((ask, place) => (
        <div key={ask.name} class="asked" role="radiogroup" aria-labelledby={`asked-${place}`}>
          <span id={`asked-${place}`}>
            <Text value={ask.text} />
          </span>
          {ask.captions.map((caption, index) => (
            <label key={index}>
              <input
                type="radio"
                name={ask.name}
                disabled={busy}
                checked={chosen[place] === index}
                onChange={() => setChosen(chosen.map((old, at) => (at === place ? index : old)))}
              />
              <Text value={caption} short />
            </label>
          ))}
        </div>
      ))}
      <button type="submit" class="go-on" disabled={busy || !complete}>
        Next
      </button>
    </form>
  );
}

function Said({ said, pictures }: { said: { role: string; parts: Part[] }; pictures: Pictures }) {
  const own = said.role === "assistant";
  return (
    <div class={own ? "said own" : "said"}>
      {own && <span>Your answer: </span>}
      <Parts parts={said.parts} pictures={pictures} />
    </div>
  );
}

function Parts({ parts, pictures }: { parts: Part[]; pictures: Pictures }) {
  const drawn = parts.filter((part) => "picture" in part);
  return (
    <>
      {parts.map((part, place) =>
        "text" in part ? (
          part.text.trim() && (
            <p class="text" key={place}>
              <Text value={part.text.trim()} />
            </p>
          )
        ) : (
          <img
            key={place}
            src={pictures.get(part.picture)}
            alt={drawn.length > 1 ? `Picture ${drawn.indexOf(part) + 1} of the game` : "The game's picture"}
            width={part.size[0]}
            height={part.size[1]}
          />
        ),
      )}
    </>
  );
}

/** The texts, with a word in the place of each picture where there are several. */
function numbered(parts: Part[]): Part[] {
  const drawn = parts.filter((part) => "picture" in part);
  if (drawn.length === 1) return parts.filter((part) => "text" in part);
  return parts.map((part) => ("text" in part ? part : { text: `(picture ${drawn.indexOf(part) + 1})` }));
}

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const note = () => setMatches(list.matches);
    list.addEventListener("change", note);
    return () => list.removeEventListener("change", note);
  }, [query]);
  return matches;
}
