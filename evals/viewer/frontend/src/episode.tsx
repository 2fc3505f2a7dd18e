import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { reference } from "./api";
import { Book, Graph } from "./figures";
import type { Episode, Facts, Row, Step } from "./schema";
import { StepView } from "./step";
import { number, Outcome, seconds, Text, words } from "./text";

interface Given {
  episode: Episode;
  step: number;
  toStep: (step: number) => void;
  whole: boolean;
  found?: number[];
  answerOnly?: boolean;
}

export function title(row: Row): string {
  return `${row.suite} · ${row.task} · ${row.level} · ${row.mode} · game ${row.index}`;
}

export function EpisodeView({ episode, step, toStep, whole, found = [], answerOnly = false }: Given) {
  const { row, steps, listed } = episode;
  const here = steps.length ? Math.min(step, steps.length) : 0;
  return (
    <article class="episode" aria-label={`${row.player}, ${reference(listed)}`}>
      <header>
        <h2>
          {row.player} <Outcome row={row} />
        </h2>
        <p class="sum">
          {listed.run && `${listed.run} · `}
          {row.steps === null ? "" : `${number(row.steps)} of ${number(row.budget)} steps · `}
          {row.repeat ? `repeat ${row.repeat} · ` : ""}
          {number(row.prompt_tokens)} + {number(row.completion_tokens)} tokens · {seconds(row.seconds)}
          {row.cost ? ` · cost ${number(row.cost, 4)}` : ""}
          {listed.attempts.length > 1 ? ` · attempt ${row.attempt} of ${listed.attempts.length}` : ""}
        </p>
        {row.error && (
          <p class="error" role="note">
            <Text value={row.error} />
          </p>
        )}
        {episode.notice && (
          <p class="notice" role="note">
            {episode.notice}
          </p>
        )}
      </header>
      <Steps steps={steps} here={here} toStep={toStep} found={found} />
      {here > 0 ? (
        <StepView episode={episode} number={here - 1} whole={whole} ended={step > steps.length} answerOnly={answerOnly} />
      ) : (
        <p class="nothing">the episode failed before its first reply</p>
      )}
      {episode.graph.length > 0 && (
        <Fold title="chain of questions" open>
          <Graph questions={episode.graph} turn={here - 1} toStep={toStep} />
        </Fold>
      )}
      {episode.book.length > 0 && (
        <Fold title="book: what each outcome rules out" open>
          <Book rules={episode.book} step={here - 1} toStep={toStep} />
        </Fold>
      )}
      <Fold title="episode">
        <FactList facts={{ ...episode.facts, ...episode.columns, episode: row.episode_id, session: row.session }} />
      </Fold>
    </article>
  );
}

interface StepsGiven {
  steps: Step[];
  here: number;
  toStep: (step: number) => void;
  found: number[];
}

function Steps({ steps, here, toStep, found }: StepsGiven) {
  const strip = useRef<HTMLOListElement>(null);
  useEffect(() => {
    const current = strip.current?.querySelector<HTMLElement>("[aria-current]");
    if (!current || !strip.current) return;
    strip.current.scrollTop = current.offsetTop - strip.current.clientHeight / 2;
  }, [here]);
  return (
    <ol class="steps" ref={strip} aria-label="Steps" tabIndex={0}>
      {steps.map((step, place) => {
        const [kind, said] = judged(step);
        return (
          <li key={place}>
            <button
              type="button"
              class={found.includes(place + 1) ? `${kind} found` : kind}
              aria-current={place + 1 === here ? "step" : undefined}
              aria-label={`step ${place + 1}: ${said}${found.includes(place + 1) ? ", contains the text" : ""}`}
              title={`${step.decoded ?? "nothing decoded"} (${said})`}
              onClick={() => toStep(place + 1)}
            >
              {place + 1}
            </button>
          </li>
        );
      })}
    </ol>
  );
}

export function judged(step: Step): [kind: string, said: string] {
  if (step.decoded === null) return ["unread", "not decoded"];
  if (step.lost) return ["worse", "the game is lost"];
  if (step.best !== null && step.best === step.decoded) return ["best", "as the oracle"];
  if (step.regret === null) return ["unknown", "regret not known"];
  return step.regret > 1e-6 ? ["worse", `regret ${number(step.regret)}`] : ["best", "as good as the oracle"];
}

export function Fold({ title, open = false, children }: { title: string; open?: boolean; children: ComponentChildren }) {
  return (
    <details class="fold" open={open}>
      <summary>{title}</summary>
      {children}
    </details>
  );
}

export function FactList({ facts }: { facts: Facts }) {
  const known = Object.entries(facts).filter(([, value]) => value !== null && value !== "" && value !== undefined);
  if (!known.length) return null;
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{words(name)}</dt>
          <dd>
            <Fact value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Fact({ value }: { value: unknown }) {
  if (typeof value === "number") return <>{number(value)}</>;
  if (typeof value === "boolean") return <>{value ? "yes" : "no"}</>;
  if (Array.isArray(value)) return <Text value={value.map((each) => plain(each)).join(", ")} />;
  if (value && typeof value === "object")
    return (
      <Text
        value={Object.entries(value)
          .map(([name, each]) => `${name}: ${plain(each)}`)
          .join("; ")}
      />
    );
  return <Text value={String(value)} />;
}

function plain(value: unknown): string {
  if (typeof value === "number") return number(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
