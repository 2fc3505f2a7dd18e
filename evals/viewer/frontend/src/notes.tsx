// Tags and notes on the episode that is shown: read, added and removed without the mouse.

import { useEffect, useRef, useState } from "preact/hooks";
import { useAnswer } from "./answer";
import { archive, named, post } from "./api";
import type { Note, NotesAnswer } from "./schema";
import { Text } from "./text";

const AUTHOR = "raycade-author";

/** The notes on an episode; static pages have none. */
export function Notes({ episode, version }: { episode: string; version: number }) {
  const [read, readError] = useAnswer<NotesAnswer>(archive ? "" : "notes", named(episode).toString(), version);
  const [written, setWritten] = useState<{ version: number; answer: NotesAnswer } | null>(null);
  const [open, setOpen] = useState(false);
  const [error, setError] = useState("");
  const opener = useRef<HTMLButtonElement>(null);
  // what was answered to the last note is newer than what was read before it
  const answer = written && written.version >= version ? written.answer : read;

  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const busy = event.target instanceof Element && event.target.closest("input, select, textarea, [role=grid]");
      if (event.key !== "n" || busy || event.ctrlKey || event.metaKey || event.altKey || answer?.refusal) return;
      event.preventDefault();
      setOpen(true);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [answer?.refusal]);

  const close = () => {
    setOpen(false);
    setError("");
    opener.current?.focus();
  };
  const send = async (change: Record<string, string>) => {
    if (!(change.tag || change.text || change.remove)) {
      setError("a note has a tag, a text, or both");
      return;
    }
    try {
      setWritten({ version, answer: await post<NotesAnswer>("notes", { at: episode, ...change }) });
      dispatchEvent(new Event("grown")); // lists and filters, too, know more now
      close();
    } catch (problem) {
      setError((problem as Error).message);
    }
  };
  if (archive) return null;
  return (
    <section class="notes" aria-label="Notes">
      {answer && answer.notes.length > 0 && (
        <ul>
          {answer.notes.map((note) => (
            <li key={note.id}>
              <Said note={note} />
              {!answer.refusal && (
                <button
                  type="button"
                  aria-label={`remove the note ${note.tag || note.text.slice(0, 40)}`}
                  onClick={() => void send({ remove: note.id, author: author(answer) })}
                >
                  remove
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
      {answer && open && <Form answer={answer} send={send} close={close} />}
      <button
        type="button"
        ref={opener}
        hidden={open}
        disabled={answer?.refusal !== ""}
        title={answer?.refusal}
        onClick={() => setOpen(true)}
      >
        add a note <kbd>n</kbd>
      </button>
      {(error || readError) && (
        <p class="error" role="alert">
          {error || `notes: ${readError}`}
        </p>
      )}
    </section>
  );
}

function Said({ note }: { note: Note }) {
  return (
    <span title={`${note.author}, ${note.time}`}>
      {note.tag && (
        <b class="tag">
          <Text value={note.tag} />
        </b>
      )}{" "}
      <Text value={note.text} />{" "}
      <span class="small">
        <Text value={note.author} />, {note.time.slice(0, 10)}
      </span>
    </span>
  );
}

interface FormGiven {
  answer: NotesAnswer;
  send: (change: Record<string, string>) => Promise<void>;
  close: () => void;
}

function Form({ answer, send, close }: FormGiven) {
  const [given, setGiven] = useState({ tag: "", text: "", author: author(answer) });
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus(), []);
  const field = (name: keyof typeof given, label: string) => (
    <label class={name}>
      {label}
      <input
        ref={name === "tag" ? first : undefined}
        value={given[name]}
        list={name === "tag" ? "known-tags" : undefined}
        autocomplete="off"
        onInput={(event) => setGiven({ ...given, [name]: event.currentTarget.value })}
      />
    </label>
  );
  return (
    <form
      aria-label="New note"
      onSubmit={(event) => {
        event.preventDefault();
        remember(given.author);
        void send(given);
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        close();
      }}
    >
      {field("tag", "tag")}
      {field("text", "note")}
      {field("author", "by")}
      <datalist id="known-tags">
        {answer.tags.map((tag) => (
          <option key={tag} value={tag} />
        ))}
      </datalist>
      <button type="submit">add</button>
      <button type="button" onClick={close}>
        cancel
      </button>
    </form>
  );
}

/** Who wrote the last note in this browser; else the user of the server. */
function author(answer: NotesAnswer): string {
  try {
    return localStorage.getItem(AUTHOR) || answer.author;
  } catch {
    return answer.author; // a browser that keeps nothing for this page
  }
}

function remember(name: string): void {
  try {
    localStorage.setItem(AUTHOR, name);
  } catch {
    // as above
  }
}
