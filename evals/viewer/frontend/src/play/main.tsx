// The page on which people play: one question at a time, its choices beside the picture.

import { render } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Theme } from "../theme";
import { Question } from "./question";
import { Rendered } from "./rendered";
import { type Given, persist, picturesOf, type State } from "./state";

const LOST_ANSWER = "Your answer has not arrived yet. It is being sent again; nothing is lost, please wait.";
const LOST_SERVER = "The server does not answer. This page keeps trying; you can wait, or come back later with the same link.";

function Page() {
  const [state, setState] = useState<State | null>(null);
  const [pictures, setPictures] = useState(new Map<string, string>());
  const [busy, setBusy] = useState(true);
  const [trouble, setTrouble] = useState("");
  const sending = useRef(false);

  const silent = (lost: boolean) => setTrouble(lost ? LOST_SERVER : "");

  const follow = useCallback(async (first: State | null) => {
    let next = first;
    while (next === null || next.phase === "wait") {
      const known = next === null ? "" : `?known=${encodeURIComponent(next.key)}`;
      const answer = await persist(`state${known}`, {}, silent);
      if (!answer.ok) {
        setTrouble("This link is not known here. Please ask whoever sent it to you.");
        return;
      }
      next = (await answer.json()) as State;
    }
    setPictures(await picturesOf(next, silent));
    setState(next);
    setBusy(false);
    sending.current = false;
  }, []);

  useEffect(() => void follow(null), [follow]);

  const answer = useCallback(
    async (key: string, given: Given) => {
      if (sending.current) return;
      sending.current = true;
      setBusy(true);
      const body = JSON.stringify({ key, ...given });
      const request = { method: "POST", headers: { "Content-Type": "application/json" }, body };
      const reply = await persist("answer", request, (lost) => setTrouble(lost ? LOST_ANSWER : ""));
      // an answer that was refused was given before, in another window: go on from where the server is
      await follow(reply.ok ? ((await reply.json()) as State) : null);
    },
    [follow],
  );

  async function stop() {
    setBusy(true);
    await persist("quit", { method: "POST" }, silent);
    await follow({ phase: "wait", key: state!.key });
  }

  const progress = state?.progress;
  return (
    <>
      <header>
        <h1>{state?.title ?? "raycade"}</h1>
        <p id="progress" role="status">
          {progress && state?.phase !== "over" && `${progress.word} ${progress.at} of ${progress.of}`}
          {busy && state !== null && <span class="busy"> one moment …</span>}
        </p>
        <Theme />
        {state?.stop && state.phase === "question" && (
          <button id="stop" type="button" disabled={busy} onClick={() => void stop()}>
            {state.stop}
          </button>
        )}
      </header>
      <p id="trouble" role="alert">
        {trouble}
      </p>
      {state === null && !trouble && <p class="text-page">One moment …</p>}
      {state?.phase === "question" && (
        <Question key={state.key} state={state} pictures={pictures} busy={busy} answer={answer} />
      )}
      {state?.phase === "page" && (
        <main key={state.key} class="text-page">
          <Rendered html={state.html ?? ""} />
          <button
            type="button"
            class="go-on"
            disabled={busy}
            onClick={() => void answer(state.key, { choices: [0], visible: 0, hidden: 0, ignored: 0 })}
          >
            {state.button}
          </button>
        </main>
      )}
      {state?.phase === "over" && (
        <main class="text-page">
          {state.html ? <Rendered html={state.html} /> : <p>{state.text}</p>}
          {state.code && (
            <p>
              Your code: <output id="code">{state.code}</output>
            </p>
          )}
        </main>
      )}
    </>
  );
}

render(<Page />, document.getElementById("app")!);
