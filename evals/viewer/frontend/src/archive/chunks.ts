// Data of static pages: script files that call one function with base64 text. A page opened from a disk may read nothing else.

/** A chunk's JSON, and the numbers or the picture behind it (evals/archive/chunks.py). */
export interface Chunk<T> {
  head: T;
  tail: Uint8Array<ArrayBuffer>;
}

const KEPT = 8;
const arrived = new Map<string, string>();

// A chunk says its name and its text; whatever a model wrote is inside of the text.
Object.assign(window, { raycadeChunk: (name: string, text: string) => arrived.set(name, text) });

const opened = new Map<string, Promise<Chunk<unknown>>>();

/** A chunk by its name; those opened last are kept. */
export function open<T>(name: string): Promise<Chunk<T>> {
  const known = opened.get(name) ?? load(name);
  opened.delete(name);
  opened.set(name, known);
  known.catch(() => opened.delete(name));
  for (const oldest of [...opened.keys()].slice(0, -KEPT)) opened.delete(oldest);
  return known as Promise<Chunk<T>>;
}

async function load(name: string): Promise<Chunk<unknown>> {
  const inline = document.getElementById(name)?.textContent;
  if (!inline) await script(`data/${name}.js`);
  const text = inline ?? arrived.get(name);
  arrived.delete(name);
  if (text === undefined) throw new Error(`data/${name}.js is not a file of this export`);
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const content = new Uint8Array(await new Response(unpacked).arrayBuffer());
  const end = 4 + new DataView(content.buffer).getUint32(0, true);
  const head: unknown = JSON.parse(new TextDecoder().decode(content.subarray(4, end)));
  return { head, tail: content.slice(end) };
}

function script(address: string): Promise<void> {
  return new Promise((loaded, failed) => {
    const element = document.createElement("script");
    element.src = address;
    element.onload = () => {
      element.remove();
      loaded();
    };
    element.onerror = () => {
      element.remove();
      failed(new Error(`${address} cannot be read: is the folder complete?`));
    };
    document.head.append(element);
  });
}
