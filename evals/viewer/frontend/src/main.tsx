import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { addressOf, useAddress } from "./address";
import { archive, ask } from "./api";
import type { State } from "./schema";
import { Compared } from "./compared";
import { Episodes } from "./episodes";
import { Report } from "./report";
import { number } from "./text";
import { Theme } from "./theme";

const POLL = 2000;

function App() {
  const [address, go] = useAddress();
  const [state, setState] = useState<State | null>(null);
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
  const open = address.get("episode");
  return (
    <>
      <a
        class="skip"
        href="#app"
        onClick={(event) => {
          event.preventDefault();
          document.querySelector<HTMLElement>("[role=grid], h1[tabindex]")?.focus();
        }}
      >
        skip to {open ? "the episode" : "the list of episodes"}
      </a>
      <header class="top">
        <a
          class="home"
          href={addressOf(new URLSearchParams())}
          onClick={(event) => {
            event.preventDefault();
            go(Object.fromEntries([...address.keys()].map((name) => [name, null])));
          }}
        >
          raycade
        </a>
        <Runs state={state} />
        <Theme />
      </header>
      <p class="disconnected" role="alert" hidden={!lost}>
        {lost}
      </p>
      {open ? (
        <Compared address={address} go={go} version={state?.version ?? 0} />
      ) : (
        <Episodes address={address} go={go} state={state} />
      )}
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
