// What the server sends (evals/human/page.py), and how it is asked until it answers.

export type Part = { text: string } | { picture: string; size: [number, number] };

export type Ask = { name: string; text: string; options: string[]; captions: string[] };

export type State = {
  phase: "question" | "page" | "wait" | "over";
  key: string;
  progress?: { word: string; at: number; of: number };
  title?: string;
  rules?: Part[];
  past?: { role: string; parts: Part[] }[];
  shown?: Part[];
  asks?: Ask[];
  /** The answer that is judged. */
  given?: string;
  for_models?: boolean;
  /** What the button says that ends the games here; without it there is none. */
  stop?: string;
  /** HTML that the server made from Markdown without raw HTML. */
  html?: string;
  button?: string;
  help?: string;
  text?: string;
  code?: string;
};

/** What is sent for a question: the chosen options, seconds in sight and hidden, clicks that came too soon. */
export type Given = { choices: number[]; visible: number; hidden: number; ignored: number };

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8_000;
const TIMEOUT = 30_000;

/** Asks again, after longer and longer pauses, until the server answers; `trouble` is told meanwhile. */
export async function persist(address: string, init: RequestInit, trouble: (lost: boolean) => void): Promise<Response> {
  for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
    try {
      const answer = await fetch(address, { ...init, signal: AbortSignal.timeout(TIMEOUT) });
      if (answer.status < 500) {
        // the whole answer: it may be cut off, too
        const body = await answer.blob();
        trouble(false);
        return new Response(answer.status === 204 ? null : body, { status: answer.status });
      }
    } catch {
      // no network, or no server: both may come back
    }
    trouble(true);
    await new Promise((done) => setTimeout(done, pause));
  }
}

const loaded = new Map<string, string>();

/** The addresses of all pictures of a state, each of which is there when this returns. */
export async function picturesOf(state: State, trouble: (lost: boolean) => void): Promise<Map<string, string>> {
  const parts = [...(state.rules ?? []), ...(state.past ?? []).flatMap((said) => said.parts), ...(state.shown ?? [])];
  const keys = new Set(parts.flatMap((part) => ("picture" in part ? [part.picture] : [])));
  for (const key of keys) {
    if (loaded.has(key)) continue;
    const answer = await persist(`pictures/${key}.png`, {}, trouble);
    if (answer.ok) loaded.set(key, URL.createObjectURL(await answer.blob()));
  }
  for (const [key, address] of loaded) {
    if (keys.has(key)) continue;
    URL.revokeObjectURL(address);
    loaded.delete(key);
  }
  return new Map(loaded);
}
