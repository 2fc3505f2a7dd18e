import { useEffect, useRef, useState } from "preact/hooks";
import type { Change } from "./address";
import type { RunStatus, Values } from "./schema";
import { words } from "./text";

const CHOICES = ["run", "suite", "task", "level", "mode", "player", "error_kind"];
const OUTCOMES = { won: "won", lost: "lost", failed: "failed", not_won: "not won" };
const BOUNDS = { steps: "steps", completion_tokens: "tokens written", prompt_tokens: "prompt tokens", seconds: "seconds" };
const OTHERS = [
  "tag",
  "won",
  "lost",
  "cut_off",
  "status",
  "cause",
  "id",
  "text",
  "versus",
  "versus_run",
  "flipped",
  "not_won",
  "versus_outcome",
];
const TYPING = 250;

interface Given {
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
  values: Values;
  runs: RunStatus[];
}

export function Filters({ address, go, values, runs }: Given) {
  const narrow = matchMedia("(max-width: 899px)").matches;
  const names = [...CHOICES, ...OTHERS, ...Object.keys(BOUNDS).flatMap((name) => [`min_${name}`, `max_${name}`])];
  const active = names.filter((name) => address.has(name) && name !== "versus_run");
  const outcome = ["won", "lost", "not_won"].find((name) => address.has(name)) ?? address.get("status") ?? "";
  const choose = (value: string) =>
    go({
      ...Object.fromEntries(["won", "lost", "not_won"].map((name) => [name, value === name ? "1" : null])),
      status: value === "failed" ? value : null,
    });
  return (
    <details class="filters" open={!narrow}>
      <summary>Filters{active.length ? ` (${active.length} active)` : ""}</summary>
      <form role="search" aria-label="Filter episodes" onSubmit={(event) => event.preventDefault()}>
        <Typed name="text" label="Text in prompts and replies" address={address} go={go} />
        <label>
          outcome
          <select value={outcome} onChange={(event) => choose(event.currentTarget.value)}>
            <option value="">any</option>
            {Object.entries(OUTCOMES).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {CHOICES.map((name) => (
          <Choice key={name} name={name} values={values[name] ?? {}} address={address} go={go} />
        ))}
        {(values.tag || address.has("tag")) && <Choice name="tag" values={values.tag ?? {}} address={address} go={go} />}
        <label class="check">
          <input
            type="checkbox"
            checked={address.has("cut_off")}
            onChange={(event) => go({ cut_off: event.currentTarget.checked ? "1" : null })}
          />
          a reply was cut off or filtered
        </label>
        {Object.entries(BOUNDS).map(([name, label]) => (
          <fieldset key={name} class="bounds">
            <legend>{label}</legend>
            <Typed name={`min_${name}`} label="from" number address={address} go={go} />
            <Typed name={`max_${name}`} label="to" number address={address} go={go} />
          </fieldset>
        ))}
        <Versus address={address} go={go} runs={runs} />
        <Typed name="id" label="Episode id" address={address} go={go} />
        {address.has("cause") && <p class="cause-filter">only failures with the chosen cause</p>}
        <button
          type="button"
          disabled={!active.length}
          onClick={() => go(Object.fromEntries(names.map((name) => [name, null])))}
        >
          clear filters
        </button>
      </form>
    </details>
  );
}

/** Another player or run, to list only games that both have played, or only those that ended otherwise. */
function Versus({ address, go, runs }: Omit<Given, "values">) {
  const pairs = runs.flatMap((run) => run.players.map((player) => [run.name, player]));
  const chosen = address.has("versus") ? JSON.stringify([address.get("versus_run"), address.get("versus")]) : "";
  const choose = (value: string) => {
    const [run, player] = value ? (JSON.parse(value) as string[]) : [null, null];
    go({ versus: player, versus_run: run, ...(value ? {} : { flipped: null, versus_outcome: null }) });
  };
  return (
    <>
      <label>
        compared with
        <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">nobody</option>
          {pairs.map(([run, player]) => (
            <option key={`${run} ${player}`} value={JSON.stringify([run, player])}>
              {runs.length > 1 ? `${player} · ${run}` : player}
            </option>
          ))}
        </select>
      </label>
      <label class="check">
        <input
          type="checkbox"
          disabled={!chosen}
          checked={address.has("flipped")}
          onChange={(event) => go({ flipped: event.currentTarget.checked ? "1" : null })}
        />
        outcome differs
      </label>
    </>
  );
}

function Choice({ name, values, address, go }: ChoiceGiven) {
  const chosen = address.getAll(name);
  const known = Object.keys(values);
  const offered = [...new Set([...known, ...chosen])];
  const one = chosen.length > 1 ? "several" : (chosen[0] ?? "");
  const idle = offered.length < 2 && !chosen.length && name !== "tag"; // one tag, too, tells some episodes from others
  return (
    <label class={idle ? "idle" : ""}>
      {words(name)}
      <select value={one} disabled={idle} onChange={(event) => go({ [name]: event.currentTarget.value || null })}>
        <option value="">{idle && known.length ? known[0] : "any"}</option>
        {chosen.length > 1 && <option value="several">{chosen.join(", ")}</option>}
        {!idle &&
          offered.map((value) => (
            <option key={value} value={value}>
              {value} ({(values[value] ?? 0).toLocaleString("en")})
            </option>
          ))}
      </select>
    </label>
  );
}

interface ChoiceGiven {
  name: string;
  values: Record<string, number>;
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
}

interface TypedGiven {
  name: string;
  label: string;
  number?: boolean;
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
}

/** A field whose value goes into the address once typing pauses. */
function Typed({ name, label, number, address, go }: TypedGiven) {
  const given = address.get(name) ?? "";
  const [value, setValue] = useState(given);
  const timer = useRef(0);
  useEffect(() => setValue(given), [given]);
  const typed = (text: string) => {
    setValue(text);
    clearTimeout(timer.current);
    if (number && text && Number.isNaN(Number(text))) return;
    timer.current = setTimeout(() => go({ [name]: text || null }, true), TYPING);
  };
  return (
    <label>
      {label}
      <input
        type="search"
        inputMode={number ? "decimal" : "search"}
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => typed(event.currentTarget.value)}
      />
    </label>
  );
}
