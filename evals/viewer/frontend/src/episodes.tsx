// The first view: filters, the heat map or the causes of failure, and the list.

import { useEffect } from "preact/hooks";
import { type Change, changed, filters } from "./address";
import { useAnswer } from "./answer";
import { Causes } from "./causes";
import { Filters } from "./filters";
import { HeatMap } from "./heat";
import { List } from "./list";
import type { Cause, Cell, State, Values } from "./schema";

interface Given {
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
  state: State | null;
}

export function Episodes({ address, go, state }: Given) {
  const version = state?.version ?? 0;
  const asked = filters(address).toString();
  const panel = address.get("panel") === "failures" ? "failures" : "cells";
  const [values, valuesError] = useAnswer<Values>(state ? "values" : "", "", version);
  // the heat map shows one player of one run, chosen in it, or all players side by side
  const ofOne = address.get("across") !== "player";
  const askedCells = ofOne ? filters(changed(address, { player: null, run: null })).toString() : asked;
  const [cells, cellsError] = useAnswer<Cell[]>(state && panel === "cells" ? "cells" : "", askedCells, version);
  const [causes, causesError] = useAnswer<Cause[]>(state && panel === "failures" ? "causes" : "", asked, version);
  useEffect(() => {
    document.title = "Episodes · raycade";
  }, []);
  const failed = state?.runs.reduce((all, run) => all + run.failed, 0) ?? 0;
  return (
    <main class="episodes">
      <h1 class="for-readers">Episodes</h1>
      <Filters address={address} go={go} values={values ?? {}} runs={state?.runs ?? []} />
      <div class="results">
        <Problem text={valuesError && `what the filters may choose from: ${valuesError}`} />
        <section class="panel" aria-label="Overview">
          <div class="tabs">
            {(["cells", "failures"] as const).map((name) => (
              <button
                type="button"
                key={name}
                aria-pressed={panel === name}
                onClick={() => go({ panel: name === "cells" ? null : name }, true)}
              >
                {name === "cells" ? "success by cell (%)" : `causes of failure (${failed.toLocaleString("en")})`}
              </button>
            ))}
          </div>
          <Problem text={panel === "cells" ? cellsError : causesError} />
          {panel === "cells" ? (
            <HeatMap cells={cells ?? []} runs={state?.runs ?? []} address={address} go={go} />
          ) : (
            <Causes causes={causes} address={address} go={go} />
          )}
        </section>
        {state ? (
          <List
            address={address}
            go={go}
            version={version}
            loading={!state.loaded}
            runs={state.runs.length}
            tagged={Boolean(values?.tag)}
          />
        ) : (
          <section class="list" aria-busy="true" /> // its columns depend on the number of runs
        )}
      </div>
    </main>
  );
}

function Problem({ text }: { text: string }) {
  if (!text) return null;
  return (
    <p class="error" role="alert">
      {text}
    </p>
  );
}
