import { useState } from "preact/hooks";
import { changed } from "./address";
import { archive, askText, named, reference } from "./api";
import type { Episode } from "./schema";

export function Copy({ episode }: { episode: Episode }) {
  const [said, setSaid] = useState("");
  const [text, setText] = useState("");
  const copy = async (what: string, make: () => string | Promise<string>) => {
    let made: string;
    try {
      made = await make();
    } catch (problem) {
      setSaid(`${what} not copied: ${(problem as Error).message}`);
      return;
    }
    try {
      await navigator.clipboard.writeText(made);
      setText("");
      setSaid(`${what} copied`);
    } catch {
      setText(made); // no clipboard here: to be copied by hand
      setSaid(`${what}: copy it from below`);
    }
  };
  const anywhere = { link: () => location.href };
  const whole = (): string => JSON.stringify(episode, null, 2);
  const ofServer: Record<string, () => string | Promise<string>> = {
    JSON: () => askText("raw", changed(named(reference(episode.listed)), { attempt: String(episode.listed.attempt) })),
    Python: () => python(episode),
    command: () => `raycade view ${quoted(episode.folder)} --episode ${episode.listed.episode_id}`,
    ...anywhere,
  };
  // static pages do not say in which folder the run lay
  const ways = archive ? { JSON: whole, ...anywhere } : ofServer;
  return (
    <div class="copy" role="group" aria-label="Copy">
      <span>copy as</span>
      {Object.entries(ways).map(([what, make]) => (
        <button type="button" key={what} onClick={() => void copy(what, make)}>
          {what}
        </button>
      ))}
      <span role="status">{said}</span>
      {text && <textarea aria-label="Text to copy" readOnly value={text} />}
    </div>
  );
}

function python(episode: Episode): string {
  const { episode_id: id, suite } = episode.listed;
  const lines = [
    "import pyarrow.compute as pc",
    "from evals.ledger.ledger import open_ledger",
    "",
    `ledger = open_ledger(${JSON.stringify(episode.folder)})`,
    "for rows in ledger.batches(ledger.schema.names):",
    `    for row in rows.filter(pc.equal(rows["episode_id"], ${JSON.stringify(id)})).to_pylist():`,
    '        for turn in row["turns"]:',
    '            print(turn["action"], turn["rule"], turn["reply"])',
  ];
  const pictures = [
    "        from evals.suites.kidgym import rerender_episode",
    "",
    "        for step in rerender_episode(row).steps:",
    "            print(step.chosen, step.accepted, step.frame.render().shape)",
  ];
  return [...lines, ...(suite === "kidgym" ? pictures : []), ""].join("\n");
}

export function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
