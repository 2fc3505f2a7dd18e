// Episodes that are being played: which there are, what each has said so far, and how far their runs are.

import { useEffect, useRef, useState } from "preact/hooks";
import { state } from "./address";
import { useAnswer } from "./answer";
import { ask, named, reference } from "./api";
import { Fold } from "./episode";
import { Link } from "./link";
import type { LiveCell, LiveEpisode, LiveRun, LiveTurn, LiveTurns, LivePicture as Picture, State } from "./schema";
import { number, percent, seconds, Text } from "./text";

const LOOK = 2000;
const MOST_CELLS = 24;
const AT_WORK = "at work";
const WRITERS: Record<string, string> = {
  [AT_WORK]: "at work",
  silent: "overdue: its node may be gone; the same command resumes the run",
  gone: "dead: the same command resumes the run",
  done: "stopped: the same command resumes the run",
};
const NUMBERS: Record<string, [word: string, digits: number]> = {
  "episodes/alive": ["episodes running", 0],
  requests_per_second: ["requests/s", 1],
  tokens_per_second: ["tokens/s", 0],
  "replicas/busy": ["replicas busy", 0],
  "requests/queued": ["requests queued", 0],
  spent: ["spent", 3],
  gpu_cost: ["cost of GPUs", 3],
};

export function LivePage({ address, status }: { address: URLSearchParams; status: State | null }) {
  const playing = status?.runs.some((run) => run.live) ?? false;
  const [look, setLook] = useState(0);
  const [runs, error] = useAnswer<LiveRun[]>(status ? "live" : "", "", look + (status?.version ?? 0));
  useEffect(() => {
    document.title = "Live · raycade";
  }, []);
  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => document.hidden || setLook((count) => count + 1), LOOK);
    return () => clearInterval(timer);
  }, [playing]);
  const running = runs?.flatMap((run) => run.running) ?? [];
  const [first, setFirst] = useState("");
  useEffect(() => {
    if (!first && running.length) setFirst(reference(running[0]));
  }, [first, running.length]);
  const chosen = address.get("at") ?? first;
  const others = running.filter((each) => reference(each) !== chosen);
  return (
    <main class="live-page">
      <h1 tabIndex={-1}>Live</h1>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {!runs && !error && <p class="nothing">reading …</p>}
      {runs && !runs.length && <p class="nothing">no run is under way</p>}
      {runs?.map((run) => (
        <RunView key={run.run} run={run} chosen={chosen} />
      ))}
      {chosen && <Said key={chosen} at={chosen} listed={running.find((each) => reference(each) === chosen)} next={others[0]} />}
    </main>
  );
}

function RunView({ run, chosen }: { run: LiveRun; chosen: string }) {
  const atWork = run.writer === AT_WORK;
  const planned = run.cells.reduce((sum, cell) => sum + cell.planned, 0);
  const played = run.cells.reduce((sum, cell) => sum + cell.done + cell.failed, 0);
  const numbers = Object.entries(NUMBERS).filter(([name]) => run.numbers[name] !== undefined);
  return (
    <section class="live-run" aria-label={run.run}>
      <h2>
        {run.run} <span class={atWork ? "tag at-work" : "tag"}>{WRITERS[run.writer] ?? "not at work"}</span>
      </h2>
      <p class="small">
        {number(played)} of {number(planned)} episodes played
        {run.cost > 0 && ` · cost ${number(run.cost, 4)}`}
        {run.numbers.seconds !== undefined && ` · this session: ${seconds(run.numbers.seconds)}`}
        {atWork && run.numbers.seconds_left !== undefined && `, about ${seconds(run.numbers.seconds_left)} left`}
      </p>
      <progress value={played} max={planned || 1} aria-label={`${run.run}: episodes played`} />
      {numbers.length > 0 && (
        <p class="small">
          {run.noted !== null && `${ago(run.noted)} ago: `}
          {numbers.map(([name, [word, digits]]) => `${word} ${number(run.numbers[name], digits)}`).join(" · ")}
        </p>
      )}
      {run.trouble && <p class="error">the live log cannot be read: {run.trouble}</p>}
      {run.running.length > 0 ? (
        <ul class="running" aria-label="Running episodes" tabIndex={0}>
          {run.running.map((each) => (
            <li key={each.episode_id}>
              <Running episode={each} chosen={reference(each) === chosen} atWork={atWork} />
            </li>
          ))}
        </ul>
      ) : (
        <p class="nothing">
          no running episode is followed: built-in players, and runs with <code>cluster.live=false</code>, note none
        </p>
      )}
      <Fold title={`progress by cell (${number(run.cells.length)})`}>
        <Cells cells={run.cells} />
      </Fold>
    </section>
  );
}

function Running({ episode, chosen, atWork }: { episode: LiveEpisode; chosen: boolean; atWork: boolean }) {
  return (
    <Link to={state("live", { at: reference(episode) })} current={chosen} replace>
      <span class="game">
        {episode.player} · {episode.suite} · {episode.task} · {episode.level} · {episode.mode} · game {episode.index}
        {episode.repeat > 0 && ` · repeat ${episode.repeat}`}
        {episode.attempt > 1 && ` · attempt ${episode.attempt}`}
      </span>
      <span class="turn">
        {episode.ended ? "ended" : `turn ${episode.turns + 1}`}
        {atWork && ` · ${ago(episode.began)}`}
      </span>
      <span class="last">{episode.last ? <Text value={episode.last} short /> : "nothing yet"}</span>
    </Link>
  );
}

function Cells({ cells }: { cells: LiveCell[] }) {
  const isOpen = (cell: LiveCell) => cell.done + cell.failed < cell.planned;
  const hasBegun = (cell: LiveCell) => cell.done + cell.failed > 0;
  const sorted = [...cells].sort((a, b) => Number(isOpen(b) && hasBegun(b)) - Number(isOpen(a) && hasBegun(a)));
  return (
    <div class="wide" tabIndex={0} role="group" aria-label="Progress by cell">
      <table class="plain">
        <thead>
          <tr>
            {["player", "suite", "task", "level", "mode", "played", "failed", "won"].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, MOST_CELLS).map((cell) => {
            const played = cell.done + cell.failed;
            const names = [cell.player, cell.suite, cell.task, cell.level, cell.mode];
            return (
              <tr key={names.join(" ")}>
                {names.map((name, place) => (
                  <td key={place}>{name}</td>
                ))}
                <td>
                  <progress value={played} max={cell.planned} aria-label={`${names.join(" ")}: played`} /> {number(played)} of{" "}
                  {number(cell.planned)}
                </td>
                <td class="number">{number(cell.failed)}</td>
                <td class="number">{played ? percent(cell.won / played) : "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {sorted.length > MOST_CELLS && <p class="small">and {number(sorted.length - MOST_CELLS)} more cells</p>}
    </div>
  );
}

interface SaidGiven {
  at: string;
  listed?: LiveEpisode;
  next?: LiveEpisode;
}

/** The turns of one episode, the latest first; they stay when the episode is over. */
function Said({ at, listed, next }: SaidGiven) {
  const [turns, episode, error] = useTurns(at, listed);
  const over = !listed;
  return (
    <section class="said-live" aria-label="What is said">
      <h2>
        {episode ? `${episode.player} · ${episode.task} · ${episode.level} · ${episode.mode} · game ${episode.index}` : "…"}
      </h2>
      {over && (
        <p class="notice" role="status">
          This episode is over, or is played again. <Link to={state("episode", { episode: at })}>Open it in the ledger</Link>
          {next && (
            <>
              {" or "}
              <Link to={state("live", { at: reference(next) })} replace>
                look at another one
              </Link>
            </>
          )}
          .
        </p>
      )}
      {error && !over && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {listed && !listed.ended && <p class="small">turn {listed.turns + 1} is being answered …</p>}
      <ol class="turns">
        {[...turns].reverse().map((turn) => (
          <li key={turn.turn}>
            <TurnView turn={turn} at={at} />
          </li>
        ))}
      </ol>
      {turns.length > 0 && turns[0].turn > 0 && (
        <p class="small">turns before turn {turns[0].turn + 1} are no longer in the live log</p>
      )}
    </section>
  );
}

function TurnView({ turn, at }: { turn: LiveTurn; at: string }) {
  return (
    <article class="turn-live" aria-label={`turn ${turn.turn + 1}`}>
      <h3>
        turn {turn.turn + 1} · {ago(turn.at)} ago
      </h3>
      {turn.bare ? (
        <p class="nothing">texts left out: more was played than the live log takes</p>
      ) : (
        <>
          {turn.pictures.length > 0 && (
            <div class="pictures">
              {[...turn.pictures].reverse().map((picture, place) => (
                <LivePicture
                  key={picture.key}
                  picture={picture}
                  at={at}
                  alt={`picture ${turn.pictures.length - place} of the prompt`}
                />
              ))}
            </div>
          )}
          <Fold title="new in the prompt">
            <div class="words">
              <Text value={turn.prompt} />
            </div>
          </Fold>
          {turn.reasoning && (
            <div class="words reasoning">
              <Text value={turn.reasoning} />
            </div>
          )}
          <div class="words reply">{turn.reply ? <Text value={turn.reply} /> : <span class="nothing">empty</span>}</div>
        </>
      )}
      <p class="small">
        decoded: {turn.action === null ? "nothing" : <Text value={turn.action} />}
        {turn.rule && ` (${turn.rule})`}
        {turn.finish !== "stop" && <span class="tag">{turn.finish === "length" ? "cut off" : turn.finish}</span>}
        {" · "}
        {number(turn.prompt_tokens)} + {number(turn.completion_tokens)} tokens · {seconds(turn.seconds)}
        {turn.cost > 0 && ` · cost ${number(turn.cost, 5)}`}
      </p>
    </article>
  );
}

function LivePicture({ picture, at, alt }: { picture: Picture; at: string; alt: string }) {
  const { key, width, height, error } = picture;
  if (error) return <p class="error">this picture cannot be rendered: {error}</p>;
  return <img src={`/api/live/picture/${key}?${named(at)}`} width={width} height={height} alt={alt} />;
}

/** The turns so far: only those that are not here yet are asked for. */
function useTurns(at: string, listed?: LiveEpisode): [LiveTurn[], LiveEpisode | null, string] {
  const known = useRef({ began: 0, turns: new Map<number, LiveTurn>() });
  const [episode, setEpisode] = useState<LiveEpisode | null>(listed ?? null);
  const [error, setError] = useState("");
  const [, setCount] = useState(0);
  useEffect(() => {
    if (!listed) return;
    if (known.current.began !== listed.began) known.current = { began: listed.began, turns: new Map() };
    const { turns } = known.current;
    const from = missing(turns, listed.first);
    const stop = new AbortController();
    ask<LiveTurns>("live/turns", new URLSearchParams({ at, from: String(from) }), stop.signal)
      .then((answer) => {
        for (const turn of answer.turns) turns.set(turn.turn, turn);
        setEpisode(answer.episode);
        setError("");
        setCount((count) => count + 1);
      })
      .catch((problem: Error) => stop.signal.aborted || setError(problem.message));
    return () => stop.abort();
  }, [at, listed?.began, listed?.last_at, listed?.turns]);
  return [[...known.current.turns.values()].sort((a, b) => a.turn - b.turn), episode, error];
}

/** The first turn of those in the log that is not here; turns that are asked at once may come in any order. */
export function missing(turns: Map<number, LiveTurn>, first: number): number {
  let turn = first;
  while (turns.has(turn)) turn++;
  return turn;
}

function ago(at: number): string {
  const past = Math.max(0, Date.now() / 1000 - at);
  return past < 60 ? `${Math.round(past)} s` : `${Math.floor(past / 60)} min`;
}
