// Pictures of what a suite knows: label probabilities, the chain of questions, the book and what it leaves possible.

import type { Episode, Question, Rule, Step } from "./schema";
import { number, percent } from "./text";

export function Bars({ step }: { step: Step }) {
  const known = Object.entries(step.probabilities);
  const most = Math.max(...known.map(([, share]) => share ?? 0), 1e-9);
  return (
    <>
      <h3>label probabilities</h3>
      <table class="bars">
        <thead class="for-readers">
          <tr>
            <th scope="col">label</th>
            <th scope="col">probability</th>
            <th scope="col">role</th>
          </tr>
        </thead>
        <tbody>
          {known.map(([label, share]) => (
            <tr key={label} class={label === step.best ? "key" : label === step.decoded ? "taken" : ""}>
              <th scope="row">{label}</th>
              <td>
                <span class="bar">
                  <span style={{ width: `${(100 * (share ?? 0)) / most}%` }} />
                </span>
                <span class="share">{probability(share)}</span>
              </td>
              <td>{[label === step.decoded && "answer", label === step.best && "key"].filter(Boolean).join(", ")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {step.label_mass !== null && <p class="small">together {percent(step.label_mass)} of the next token</p>}
    </>
  );
}

function probability(share: number | null): string {
  if (share === null) return "–";
  return share >= 0.0005 ? `${(100 * share).toFixed(1)} %` : share.toExponential(1);
}

export function Remaining({ episode, number: place }: { episode: Episode; number: number }) {
  const left = leftAfter(episode, place);
  const before = leftAfter(episode, place - 1);
  return (
    <>
      <h3>
        still possible: {number(left.size)} of {number(episode.candidates.length)}
      </h3>
      <ul class="remaining">
        {episode.candidates.map((name) => {
          const kind = left.has(name) ? "left" : before.has(name) ? "now" : "gone";
          return (
            <li key={name} class={kind}>
              {name}
              {kind !== "left" && <span class="for-readers">{kind === "now" ? " ruled out by this step" : " ruled out"}</span>}
            </li>
          );
        })}
      </ul>
    </>
  );
}

export function leftAfter(episode: Episode, place: number): Set<string> {
  for (let step = place; step >= 0; step--) {
    const known = episode.steps[step].remaining;
    if (known) return new Set(known);
  }
  return new Set(episode.candidates);
}

export function Book({ rules, step, toStep }: { rules: Rule[]; step: number; toStep: (step: number) => void }) {
  return (
    <div class="book" tabIndex={0} role="group" aria-label="Book">
      <table>
        <thead>
          <tr>
            <th scope="col">test</th>
            <th scope="col">outcome</th>
            <th scope="col">rules out</th>
            <th scope="col">used</th>
          </tr>
        </thead>
        <tbody>
          {rules.map((rule, place) => {
            const used = rule.used !== null && rule.used <= step;
            return (
              <tr key={place} class={used ? (rule.used === step ? "used now" : "used") : ""}>
                <th scope="row">
                  {place && rules[place - 1].test === rule.test ? <span class="for-readers">{rule.test}</span> : rule.test}
                </th>
                <td>{rule.outcome}</td>
                <td>{rule.rules_out.join(", ") || "–"}</td>
                <td>
                  {rule.used !== null && (
                    <button type="button" onClick={() => toStep(rule.used! + 1)}>
                      step {rule.used + 1}
                    </button>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

const ACROSS = 150;
const DOWN = 38;
const BOX = { width: 92, height: 30 };

export function Graph({ questions, turn, toStep }: { questions: Question[]; turn: number; toStep: (step: number) => void }) {
  const { places, width, height, rows, columns } = layout(questions);
  const byName = new Map(questions.map((question) => [question.name, question]));
  const current = questions.find((question) => question.turn === turn);
  return (
    <div class="graph" tabIndex={0} role="group" aria-label="Chain of questions">
      <div class="canvas" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">
          {questions.flatMap((question) =>
            question.parents.map((name, order) => {
              const from = places.get(name);
              const to = places.get(question.name)!;
              if (!from || !byName.has(name)) return null;
              const weight = question.weights[order];
              const here = question === current || name === current?.name;
              return (
                <path
                  key={`${name} ${question.name}`}
                  class={here ? "edge here" : "edge"}
                  stroke-width={weight === undefined ? 1 : 1 + 6 * weight}
                  d={curve(from, to)}
                />
              );
            }),
          )}
        </svg>
        {columns.map((name, order) => (
          <span class="axis" key={name} style={{ left: `${LEFT + order * ACROSS}px`, top: "0px", width: `${BOX.width}px` }}>
            {name}
          </span>
        ))}
        {rows.map(({ name, top }) => (
          <span class="axis side" key={name} style={{ left: "0px", top: `${top}px`, width: `${LEFT - 10}px` }}>
            {name}
          </span>
        ))}
        {questions.map((question) => {
          const { x, y } = places.get(question.name)!;
          const right = question.answer === question.key;
          return (
            <button
              type="button"
              key={question.name}
              class={`node ${right ? "right" : "wrong"}${question.counts ? "" : " link"}`}
              aria-current={question === current ? "step" : undefined}
              aria-label={described(question)}
              title={described(question)}
              style={{ left: `${x}px`, top: `${y}px`, width: `${BOX.width}px`, height: `${BOX.height}px` }}
              onClick={() => toStep(question.turn + 1)}
            >
              {right ? `✓ ${question.key}` : `✗ ${question.answer ?? "–"}, key ${question.key}`}
            </button>
          );
        })}
      </div>
      {current && <Weights question={current} />}
    </div>
  );
}

function Weights({ question }: { question: Question }) {
  const own = 1 - question.weights.reduce((sum, weight) => sum + weight, 0);
  return (
    <p class="small">
      {question.name}: answer {question.answer ?? "none"}, key {question.key}
      {question.score !== null && `; MSEval ${percent(question.score)} of perfect play's`}
      {question.weights.length > 0 &&
        `; weights: ${question.parents.map((name, order) => `${name} ${number(question.weights[order], 2)}`).join(", ")}, its own ${number(own, 2)}`}
    </p>
  );
}

function described(question: Question): string {
  const told = question.parents.map((name, order) =>
    question.weights.length ? `${name} (weight ${number(question.weights[order], 2)})` : name,
  );
  return (
    `${question.name}: answer ${question.answer ?? "none"}, key ${question.key}` +
    (told.length ? `; told ${told.join(", ")}` : "")
  );
}

const LEFT = 96;

/** Stages across, in the order in which they come; attributes down, each with as many lines as its fullest stage. */
function layout(questions: Question[]) {
  const columns = [...new Set(questions.map((question) => question.stage))];
  const groups = new Map<string, Map<string, Question[]>>();
  for (const question of questions) {
    const group = question.name.includes("/") ? question.name.split("/").slice(0, -1).join("/") : "";
    const stages = groups.get(group) ?? new Map<string, Question[]>();
    groups.set(group, stages);
    stages.set(question.stage, [...(stages.get(question.stage) ?? []), question]);
  }
  const places = new Map<string, { x: number; y: number }>();
  const rows: { name: string; top: number }[] = [];
  let top = 26;
  for (const [name, stages] of groups) {
    const lines = Math.max(...[...stages.values()].map((each) => each.length));
    const alone = name === "";
    rows.push({ name, top: top + ((lines - 1) * DOWN) / 2 });
    for (const [stage, each] of stages)
      each.forEach((question, order) => {
        places.set(question.name, {
          x: LEFT + columns.indexOf(stage) * ACROSS,
          y: alone ? 26 + Math.max(0, top - 26 - DOWN) / 2 : top + ((lines - each.length) * DOWN) / 2 + order * DOWN,
        });
      });
    if (!alone || groups.size === 1) top += lines * DOWN + 14;
  }
  return { places, rows: rows.filter((row) => row.name), columns, width: LEFT + columns.length * ACROSS, height: top };
}

function curve(from: { x: number; y: number }, to: { x: number; y: number }): string {
  const [x, y] = [from.x + BOX.width, from.y + BOX.height / 2];
  const [end, high] = [to.x, to.y + BOX.height / 2];
  if (from.x === to.x) {
    const side = from.x + BOX.width / 2;
    return `M ${side} ${from.y + BOX.height} L ${side} ${to.y}`;
  }
  const bend = (end - x) / 2;
  return `M ${x} ${y} C ${x + bend} ${y}, ${end - bend} ${high}, ${end} ${high}`;
}
