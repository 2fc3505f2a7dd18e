import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { state, useAddress } from "./address";
import { archive, ask } from "./api";
import { ComparePage } from "./compare";
import { Compared } from "./compared";
import { Episodes } from "./episodes";
import { Link } from "./link";
import { LivePage } from "./live";
import { Report } from "./report";
import { ResultsPage } from "./results";
import type { State } from "./schema";
import { StudyPage } from "./study";
import { number } from "./text";
import { Theme } from "./theme";

/** Seconds until a server is asked again that did not answer. */
const PATIENCE = 5;
/** What the first press of Tab offers to skip to. */
const SKIPS: Record<string, [label: string, target: string]> = {
  runs: ["the results", ".scores a, h1"],
  compare: ["the comparison", "h1"],
  episode: ["the episode", "h1"],
  episodes: ["the list of episodes", "[role=grid]"],
  live: ["the running episodes", ".running a, h1"],
  study: ["the study", "h1"],
};

function App() {
  const [address, go] = useAddress();
  const [status, setState] = useState<State | null>(null);
  const [lost, setLost] = useState("");
  useEffect(() => {
    let timer = 0;
    let stopped = false;
    const poll = async () => {
      clearTimeout(timer);
      let again = PATIENCE;
      try {
        const next = await ask<State>("state", new URLSearchParams());
        setState((old) => (old && JSON.stringify(old) === JSON.stringify(next) ? old : next));
        setLost(next.trouble);
        again = next.again;
      } catch (error) {
        const message = (error as Error).message;
        setLost(archive ? message : `The server does not answer: ${message}`);
      }
      // of finished runs nothing new will come: they are looked at again when somebody comes back to the page
      if (!stopped && !archive && again && !document.hidden) timer = setTimeout(poll, 1000 * again);
    };
    const seen = () => document.hidden || void poll();
    document.addEventListener("visibilitychange", seen);
    addEventListener("focus", seen);
    addEventListener("grown", seen);
    void poll();
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      removeEventListener("focus", seen);
      removeEventListener("grown", seen);
    };
  }, []);
  const page = address.get("page");
  const isStudy = useIsStudy(status);
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
          {(page === "study" || isStudy) && (
            <Link to={state("study")} current={page === "study"}>
              study
            </Link>
          )}
          {(page === "live" || status?.runs.some((run) => run.live)) && (
            <Link to={state("live")} current={page === "live"}>
              live
            </Link>
          )}
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
      {page === "study" && <StudyPage address={address} go={go} status={status} />}
      {page === "live" && <LivePage address={address} status={status} />}
      {page === "episodes" && <Episodes address={address} go={go} state={status} />}
    </>
  );
}

/** Whether the runs shown are one player's in different settings; asked of a server that shows several runs. */
function useIsStudy(status: State | null): boolean {
  const [known, setKnown] = useState(false);
  useEffect(() => {
    if (archive || !status?.loaded || status.runs.length < 2) return;
    ask<{ known: boolean }>("study/known", new URLSearchParams())
      .then((answer) => setKnown(answer.known))
      .catch(() => setKnown(false));
  }, [status?.version, status?.loaded]);
  return known;
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
