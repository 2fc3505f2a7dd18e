// Pictures from tiles: copied one by one from the sheets onto a canvas, so that each pixel is the stored one.

import { open } from "./chunks";

const EDGE = 32;
const ACROSS = 32;
const OF_A_SHEET = ACROSS * ACROSS;
const SHEETS_KEPT = 12;

/** The tiles of each picture of a chunk; in the chunk, 0 stands for the tile of the picture before. */
export function gridsOf(sizes: [number, number][], tail: Uint8Array<ArrayBuffer>): Uint32Array[] {
  const numbers = new Uint32Array(tail.buffer, 0, tail.length / 4);
  let start = 0;
  let before = new Uint32Array(0);
  return sizes.map(([width, height]) => {
    const count = Math.ceil(width / EDGE) * Math.ceil(height / EDGE);
    const last = before;
    before = numbers.slice(start, start + count).map((tile, place) => (tile ? tile - 1 : last[place]));
    start += count;
    return before;
  });
}

const sheets = new Map<number, Promise<ImageBitmap>>();

function sheet(number: number): Promise<ImageBitmap> {
  const known =
    sheets.get(number) ??
    open(`tiles-${number}`).then(({ tail }) =>
      createImageBitmap(new Blob([tail], { type: "image/webp" }), { colorSpaceConversion: "none" }),
    );
  sheets.delete(number);
  sheets.set(number, known);
  known.catch(() => sheets.delete(number));
  for (const oldest of [...sheets.keys()].slice(0, -SHEETS_KEPT)) sheets.delete(oldest);
  return known;
}

/** Draw a picture of a chunk of episodes, by its number there. */
export async function draw(canvas: HTMLCanvasElement, chunk: string, key: string): Promise<void> {
  const { head, tail } = await open<{ pictures: [number, number][] }>(chunk);
  const tiles = gridsOf(head.pictures, tail)[Number(key)];
  const numbers = [...new Set([...tiles].map((tile) => Math.floor(tile / OF_A_SHEET)))];
  const found = new Map(await Promise.all(numbers.map(async (number) => [number, await sheet(number)] as const)));
  const context = canvas.getContext("2d")!;
  const columns = Math.ceil(canvas.width / EDGE);
  tiles.forEach((tile, place) => {
    const within = tile % OF_A_SHEET;
    const [left, top] = [(within % ACROSS) * EDGE, Math.floor(within / ACROSS) * EDGE];
    const [x, y] = [(place % columns) * EDGE, Math.floor(place / columns) * EDGE];
    context.drawImage(found.get(Math.floor(tile / OF_A_SHEET))!, left, top, EDGE, EDGE, x, y, EDGE, EDGE);
  });
}
