import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { named, reference } from "./api";
import { draw } from "./archive/pictures";
import { FactList, Fold } from "./episode";
import { Bars, Remaining } from "./figures";
import type { Episode, Message, Step } from "./schema";
import { number, percent, Sought, seconds, Text } from "./text";

interface Given {
  episode: Episode;
  number: number;
  whole: boolean;
  ended: boolean;
  /** The prompt stands elsewhere on the page. */
  answerOnly: boolean;
}

export function StepView({ episode, number: place, whole, ended, answerOnly }: Given) {
  const step = episode.steps[place];
  return (
    <div class={answerOnly ? "step answer-only" : "step"}>
      {ended && <p class="notice">ended here, after {number(episode.steps.length)} steps</p>}
      {!answerOnly && <Prompt episode={episode} number={place} whole={whole} />}
      <div role="group" class="answered" aria-label="Reply">
        <Decision step={step} unit={episode.regret_unit} />
        {step.reasoning && (
          <Fold title={`reasoning (${number(step.reasoning.length)} characters)`} open>
            <div class="words reasoning">
              <Text value={step.reasoning} />
            </div>
          </Fold>
        )}
        <h3>reply</h3>
        <div class="words reply">{step.reply ? <Text value={step.reply} /> : <span class="nothing">empty</span>}</div>
        {Object.keys(step.probabilities).length > 0 && <Bars step={step} />}
        {step.after && (
          <>
            <h3>after the step</h3>
            <Picture episode={episode} id={step.after} alt="the game after the step" />
          </>
        )}
        {episode.candidates.length > 0 && <Remaining episode={episode} number={place} />}
        <FactList facts={step.facts} />
        <Counts step={step} />
      </div>
    </div>
  );
}

export function Prompt({ episode, number: place, whole }: { episode: Episode; number: number; whole: boolean }) {
  const sought = useContext(Sought).toLowerCase();
  const messages = asked(episode, place, whole);
  return (
    <div role="group" class="asked" aria-label={whole ? "Whole prompt" : "New in the prompt"}>
      <h3>{whole ? "whole prompt" : episode.steps[place].kept ? "new in the prompt" : "prompt"}</h3>
      {!messages.length && <p class="nothing">nothing new</p>}
      {messages.map((message, order) =>
        message.role === "system" && !whole ? (
          <details key={order} class="said system" open={sought !== "" && contains(message, sought)}>
            <summary>system</summary>
            <Parts message={message} episode={episode} />
          </details>
        ) : (
          <div key={order} class={`said ${message.role}`}>
            <h4>{message.role}</h4>
            <Parts message={message} episode={episode} />
          </div>
        ),
      )}
    </div>
  );
}

/** What a step asked: the whole prompt, or what it added. */
function asked(episode: Episode, place: number, whole: boolean): Message[] {
  return whole ? chatOf(episode.steps, place) : episode.steps[place].shown;
}

/** Whether two episodes were asked the very same at a step, so that it needs to be shown once. */
export function sameQuestion(left: Episode, right: Episode, place: number, whole: boolean): boolean {
  if (!left.steps[place] || !right.steps[place]) return false;
  const [here, there] = [left, right].map((episode) => asked(episode, place, whole));
  const pictures = here.some((message) => message.parts.some((part) => "picture" in part));
  // static pages number the pictures of each chunk anew
  return JSON.stringify(here) === JSON.stringify(there) && (!pictures || left.chunk === right.chunk);
}

const FINISHES: Record<string, string> = { length: "cut off", content_filter: "filtered", refusal: "refused" };

function Decision({ step, unit }: { step: Step; unit: string }) {
  const agrees = step.best !== null && step.best === step.decoded;
  return (
    <dl class="decision">
      <div class={step.decoded === null ? "bad" : ""}>
        <dt>decoded</dt>
        <dd>{step.decoded === null ? "nothing" : <Text value={step.decoded} />}</dd>
      </div>
      <div>
        <dt>rule</dt>
        <dd>
          <Text value={step.rule || "–"} />
          {step.finish !== "stop" && <span class="tag">{FINISHES[step.finish] ?? step.finish}</span>}
        </dd>
      </div>
      <div class={agrees ? "good" : ""}>
        <dt>oracle</dt>
        <dd>{step.best === null ? "–" : <Text value={step.best} />}</dd>
      </div>
      <div class={step.lost || (!agrees && step.regret !== null && step.regret > 1e-6) ? "bad" : ""}>
        <dt>regret</dt>
        <dd>
          {step.lost ? "game lost" : number(step.regret)}
          {!step.lost && step.regret !== null && <span class="unit"> {unit}</span>}
        </dd>
      </div>
    </dl>
  );
}

function Counts({ step }: { step: Step }) {
  const cached = step.prompt_tokens ? step.cached_tokens / step.prompt_tokens : 0;
  return (
    <dl class="counts">
      <div>
        <dt>prompt tokens</dt>
        <dd>{number(step.prompt_tokens)}</dd>
      </div>
      <div>
        <dt>from the prefix cache</dt>
        <dd>{percent(cached)}</dd>
      </div>
      <div>
        <dt>written</dt>
        <dd>
          {number(step.completion_tokens)}
          {step.reasoning_tokens ? `, reasoning ${number(step.reasoning_tokens)}` : ""}
        </dd>
      </div>
      <div>
        <dt>time</dt>
        <dd>{seconds(step.seconds)}</dd>
      </div>
      {step.cost > 0 && (
        <div>
          <dt>cost</dt>
          <dd>{number(step.cost, 5)}</dd>
        </div>
      )}
    </dl>
  );
}

function contains(message: Message, text: string): boolean {
  return message.parts.some((part) => "text" in part && part.text.toLowerCase().includes(text));
}

const LONG = 1500;

export function Parts({ message, episode }: { message: Message; episode: Episode }) {
  let pictures = 0;
  return (
    <>
      {message.parts.map((part, order) =>
        "text" in part ? (
          <div
            class={part.text.length > LONG ? "words long" : "words"}
            tabIndex={part.text.length > LONG ? 0 : undefined}
            key={order}
          >
            <Text value={part.text} />
          </div>
        ) : (
          <Picture key={order} episode={episode} id={part.picture} alt={`picture ${++pictures} of the prompt`} />
        ),
      )}
    </>
  );
}

export function Picture({ episode, id, alt }: { episode: Episode; id: string; alt: string }) {
  const { width, height, error } = episode.pictures[id];
  if (error) return <p class="error">this picture cannot be rendered any more: {error}</p>;
  if (episode.chunk) return <Drawn key={`${reference(episode.listed)} ${id}`} episode={episode} id={id} alt={alt} />;
  const address = `/api/picture/${id}?${named(reference(episode.listed))}&attempt=${episode.listed.attempt}`;
  return <img src={address} width={width} height={height} alt={`${alt}, ${width} by ${height} pixels`} decoding="sync" />;
}

/** A picture of static pages: copied from tiles, since they have no file for each. */
function Drawn({ episode, id, alt }: { episode: Episode; id: string; alt: string }) {
  const { width, height } = episode.pictures[id];
  const [error, setError] = useState("");
  const [drawn, setDrawn] = useState(false);
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    draw(canvas.current!, episode.chunk!, id)
      .then(() => setDrawn(true))
      .catch((problem: Error) => setError(problem.message));
  }, [episode, id]);
  if (error) return <p class="error">{error}</p>;
  return (
    <canvas
      ref={canvas}
      width={width}
      height={height}
      role="img"
      aria-label={`${alt}, ${width} by ${height} pixels`}
      aria-busy={!drawn}
    />
  );
}

/** The chat as the player got it: each turn keeps the beginning of the one before. */
function chatOf(steps: Step[], place: number): Message[] {
  let chat: Message[] = [];
  for (const step of steps.slice(0, place + 1)) chat = [...chat.slice(0, step.kept), ...step.shown];
  return chat;
}
