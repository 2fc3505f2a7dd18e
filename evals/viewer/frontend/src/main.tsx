import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { state, useAddress } from "./address";
import { archive, ask } from "./api";
import { ComparePage } from "./compare";
import { Compared } from "./compared";
import { Episodes } from "./episodes";
import { Link } from "./link";
import { Report } from "./report";
import { ResultsPage } from "./results";
import type { State } from "./schema";
import { number } from "./text";
import { Theme } from "./theme";

const POLL = 2000;
/** What the first press of Tab offers to skip to. */
const SKIPS: Record<string, [label: string, target: string]> = {
  runs: ["the results", ".scores a, h1"],
  compare: ["the comparison", "h1"],
  episode: ["the episode", "h1"],
  episodes: ["the list of episodes", "[role=grid]"],
};

function App() {
  const [address, go] = useAddress();
  const [status, setState] = useState<State | null>(null);
  const [lost, setLost] = useState("");
  useEffect(() => {
    let timer = 0;
    let stopped = false;
    const poll = async () => {
      try {
        const next = await ask<State>("state", new URLSearchParams());
        setState((old) => (old && JSON.stringify(old) === JSON.stringify(next) ? old : next));
        setLost(next.trouble);
      } catch (error) {
        const message = (error as Error).message;
        setLost(archive ? message : `The server does not answer: ${message}`);
      }
      if (!stopped && !archive) timer = setTimeout(poll, document.hidden ? 5 * POLL : POLL);
    };
    void poll();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, []);
  const page = address.get("page");
  const [label, target] = SKIPS[page ?? "runs"];
  return (
    <>
      <a
        class="skip"
        href="#app"
        onClick={(event) => {
          event.preventDefault();
          document.querySelector<HTMLElement>(target)?.focus();
        }}
      >
        skip to {label}
      </a>
      <header class="top">
        <Link class="home" to={state("runs")}>
          raycade
        </Link>
        <nav class="pages" aria-label="Pages">
          <Link to={state("runs")} current={page === "runs"}>
            results
          </Link>
          <Link to={state("episodes")} current={page === "episodes"}>
            episodes
          </Link>
        </nav>
        <Runs state={status} />
        <Theme />
      </header>
      <p class="disconnected" role="alert" hidden={!lost}>
        {lost}
      </p>
      {page === "runs" && <ResultsPage address={address} go={go} status={status} />}
      {page === "compare" && <ComparePage address={address} go={go} status={status} />}
      {page === "episode" && <Compared address={address} go={go} version={status?.version ?? 0} />}
      {page === "episodes" && <Episodes address={address} go={go} state={status} />}
    </>
  );
}

function Runs({ state }: { state: State | null }) {
  if (!state) return <p class="runs">reading …</p>;
  const sum = (name: "planned" | "done" | "failed" | "waiting") => state.runs.reduce((all, run) => all + run[name], 0);
  const damage = state.runs.flatMap((run) => run.damage.map((what) => `${run.name}: ${what}`));
  const stopping = state.runs.flatMap((run) => run.stopping.map((what) => `${run.name}: ${what}`));
  const played = sum("done") + sum("failed");
  return (
    <div class="runs">
      <span>
        {state.runs.length === 1 ? state.runs[0].name : `${state.runs.length} runs`}
        {" · "}
        {number(played)} of {number(sum("planned"))} episodes
        {sum("failed") > 0 && <span class="failed"> · {number(sum("failed"))} failed</span>}
        {(!state.loaded || sum("waiting") > 0) && <span> · reading the ledger …</span>}
      </span>
      <progress value={played} max={sum("planned") || 1} aria-label="episodes played" />
      {stopping.length === 1 && <span class="stopping">{stopping[0]}</span>}
      {stopping.length > 1 && (
        <details class="stopping">
          <summary>{stopping.length} stopping rules</summary>
          <ul>
            {stopping.map((what) => (
              <li key={what}>{what}</li>
            ))}
          </ul>
        </details>
      )}
      {damage.length > 0 && (
        <details class="damage">
          <summary>{damage.length} not readable</summary>
          <ul>
            {damage.map((what) => (
              <li key={what}>{what}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

render(document.getElementById("report") ? <Report /> : <App />, document.getElementById("app")!);
