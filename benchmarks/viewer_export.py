"""Exports a KidGym run of 10,800 episodes as static pages: bytes, files, bytes a row, and the time that it takes.

The run is the whole suite (12 tasks, 3 levels, 100 games, 3 modes), played by a player that draws its moves and writes about
sixty words before each, drawn from 5,000 words by Zipf's law: text that compresses less than what models write. Sizes
stand beside their limits, and beside the same pictures as one lossless WebP file each.

    python -m benchmarks.viewer_export
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import sync_playwright

from cluster.console import show
from cluster.storage.stored_run import Run
from envs.picture import render_description
from evals.archive.chunks import read_chunk
from evals.archive.export import export
from evals.ledger.parts import write_part
from evals.ledger.records import PARQUET_OPTIONS, plan_to_table, records_to_table
from evals.suite import ledger_columns, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.tables import Table
from evals.types import Episode, Reply, Turn
from evals.viewer.episode import show_episode
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ViewedRun
from tests.browser.firefox import firefox, installed

PART_ROWS = 500
WORDS = 5_000
WORDS_OF_A_REPLY = 60
PLAYER = "wordy"
MOST_FILES = 2_000


class WordyPlayer:
    """Draws a move, and writes words before it."""

    def __init__(self) -> None:
        draw = random.Random(1)
        letters = "etaoinshrdlucmfwyp"
        self._words = ["".join(draw.choices(letters, k=draw.randint(2, 10))) for _ in range(WORDS)]
        self._weights = [1 / place for place in range(1, WORDS + 1)]

    async def reply(self, turn: Turn) -> Reply:
        """Words, then one of the options."""
        draw = random.Random(turn.seed)
        said = draw.choices(self._words, self._weights, k=WORDS_OF_A_REPLY)
        text = f"{' '.join(said)}\n<answer>{draw.choice(turn.options)}</answer>"
        prompt, written = draw.randint(500, 3_000), draw.randint(70, 130)
        return Reply(text, prompt_tokens=prompt, completion_tokens=written, cached_tokens=draw.randint(0, prompt))


def make_run(run_dir: Path, episodes: int) -> int:
    """A run directory with ``episodes`` games of each task, level and mode; returns how many episodes that are."""
    section = {"tasks": "all", "levels": [1, 2, 3], "modes": ["zero_shot", "cot", "icl"], "episodes": episodes}
    suite = KidGymSuite(**section)
    player = WordyPlayer()
    plan = [episode.assigned(PLAYER, "") for episode in suite.plan()]
    folder = run_dir / "episodes"
    folder.mkdir(parents=True)
    (run_dir / "config.yaml").write_text(
        yaml.safe_dump({"suite": {"type": "kidgym", **section}, "model": {"name": PLAYER}})
    )
    pq.write_table(plan_to_table(plan), run_dir / "plan.parquet", **PARQUET_OPTIONS)

    async def play(part: Sequence[Episode]) -> None:
        records = [await play_episode(suite, episode, player) for episode in part]
        rows = records_to_table(records, ledger_columns(suite))
        (folder / f"part-{start // PART_ROWS + 1:06d}-wordy.parquet").write_bytes(write_part([rows], rows.schema))

    for start in range(0, len(plan), PART_ROWS):
        asyncio.run(play(plan[start : start + PART_ROWS]))
    return len(plan)


# --- what the page shows, compared with what Pillow renders ------------------------------------------------------------

DIGESTS = """async (places) => {
  const digests = {};
  for (const place of places) {
    location.hash = place;
    for (;;) {
      await new Promise((done) => setTimeout(done, 10));
      const asked = new URLSearchParams(place);
      const shown = document.querySelector(".episode [aria-current=step]")?.textContent === asked.get("step")
        && document.querySelector(".episode")?.getAttribute("aria-label")?.endsWith(asked.get("episode"));
      if (shown && document.querySelectorAll("canvas").length && !document.querySelector("canvas[aria-busy=true]")) break;
    }
    digests[place] = [...document.querySelectorAll("canvas")].map((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const pixels = new Uint32Array(data.buffer);
      let [one, other] = [canvas.width, canvas.height];
      pixels.forEach((pixel, at) => {
        one = (one + Math.imul(pixel, 2 * at + 1)) >>> 0;
        other = (other + Math.imul(pixel ^ (pixel >>> 15), 2654435761 * at + 1)) >>> 0;
      });
      return [one, other];
    });
  }
  return digests;
}"""
"""Opens episodes at steps (states of the address) and gives two sums over the pixels of each picture there."""


def digest(pixels: NDArray[np.uint8]) -> list[int]:
    """The two sums for a rendered picture."""
    height, width, _ = pixels.shape
    opaque = np.dstack([pixels, np.full((height, width), 255, np.uint8)])
    values = np.ascontiguousarray(opaque).view(np.uint32).ravel().astype(np.uint64)
    places = np.arange(len(values), dtype=np.uint64)
    one = width + int((values * (2 * places + 1) % 2**32).sum())
    other = height + int((((values ^ (values >> 15)) * ((2654435761 * places + 1) % 2**32)) % 2**32).sum())
    return [one % 2**32, other % 2**32]


def rendered(run: ViewedRun, most: int) -> dict[str, list[list[int]]]:
    """At least ``most`` pictures of a run's episodes: the digests of those at each step, by the state of the address."""
    found: dict[str, list[list[int]]] = {}
    for path in sorted((run.path / "episodes").glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            shown = show_episode(run, row)
            for number, step in enumerate(shown["steps"], 1):
                parts = [part for message in step["shown"] for part in message["parts"]]
                keys = [part["picture"] for part in parts if "picture" in part] + [step["after"]] * bool(step["after"])
                pictures = [render_description(shown["pictures"][key]["description"])[1] for key in keys]
                if pictures:
                    state = urlencode({"episode": f"{run.name}/{row['episode_id']}", "step": number})
                    found[state] = [digest(each) for each in pictures]
            if sum(map(len, found.values())) >= most:
                return found
    return found


async def in_firefox(address: str, states: Sequence[str]) -> dict[str, list[list[int]]]:
    """The digests of the pictures that Firefox shows."""
    async with firefox() as browser:
        await browser.open(address)
        found: dict[str, list[list[int]]] = await browser.evaluate(f"({DIGESTS})({json.dumps(states)})")
        return found


def in_chromium(address: str, states: Sequence[str]) -> dict[str, list[list[int]]]:
    """The digests of the pictures that Chromium shows."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(".scores .dot")  # from now on the page follows its address
        found: dict[str, list[list[int]]] = page.evaluate(f"({DIGESTS})({json.dumps(states)})")
        browser.close()
        return found


# --- sizes -------------------------------------------------------------------------------------------------------------


def webp_bytes(run: ViewedRun, sample: int) -> float:
    """Mean size of a picture as a lossless WebP file of its own."""
    path = min((run.path / "episodes").glob("*.parquet"))
    descriptions: dict[str, None] = {}
    for row in pq.read_table(path, columns=["turns"]).to_pylist():
        parts = [part for turn in row["turns"] for message in turn["prompt"] for part in message["parts"]]
        descriptions.update({part["picture"]: None for part in parts if part["picture"]})
    chosen = random.Random(1).sample(list(descriptions), min(sample, len(descriptions)))
    sizes = []
    for description in chosen:
        out = io.BytesIO()
        Image.fromarray(render_description(description)[1]).save(out, "WEBP", lossless=True)
        sizes.append(len(out.getvalue()))
    return statistics.fmean(sizes)


def pictures_of(folder: Path) -> int:
    """How many pictures the episodes of an export have, those of one chunk once."""
    return sum(len(read_chunk(path)[0]["pictures"]) for path in (folder / "data").glob("episodes-*.js"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=100, help="of each task, level and mode (default 100)")
    parser.add_argument("--pictures", type=int, default=500, help="compared in each browser (default 500)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = Path(scratch, "run")
        count = make_run(run_dir, options.games)
        run = ViewedRun(
            "run", run_dir, lambda: KidGymSuite(tasks="all", episodes=options.games), lambda: Run(run_dir).data
        )
        index = EpisodeIndex([run])
        index.refresh()
        rows: list[tuple[Any, ...]] = []
        for share, limit in ((0.01, 8.0), (1.0, 60.0)):
            folder = Path(scratch, f"share-{share}")
            start = time.process_time()
            written = export(index, [{}], folder, share)
            seconds = time.process_time() - start
            rows.append((f"share {share}: size", written.bytes / 1e6, "MB", limit))
            rows.append((f"share {share}: files", written.files, "", MOST_FILES))
            rows.append((f"share {share}: CPU time for an episode opened", seconds / written.opened, "s", None))
        rows.append(("list: bytes of a row, compressed", written.bytes_of_columns * 3 / 4 / count, "", 44))
        rows.append(("list: bytes of a row in its file, as base64", written.bytes_of_columns / count, "", None))
        pictures = pictures_of(folder)
        sheets = sum(path.stat().st_size for path in (folder / "data").glob("tiles-*.js"))
        rows.append(("tiles: bytes of a picture", sheets / pictures, "", None))
        rows.append(("beside it: a lossless WebP file", webp_bytes(run, 40), "", None))
        expected = rendered(run, options.pictures)
        address = (folder / "index.html").as_uri()
        compared = sum(map(len, expected.values()))
        browsers = {"Chromium": in_chromium(address, list(expected))}
        if installed():
            browsers["Firefox"] = asyncio.run(in_firefox(address, list(expected)))
        for name, shown in browsers.items():
            differing = sum(shown[state] != pictures for state, pictures in expected.items())
            rows.append(
                (f"{name}: steps whose pictures differ from Pillow's, of {compared:,} pictures", differing, "", 0)
            )
    columns = ("what", "measured", "unit", "limit")
    show([Table("viewer_export", f"Static pages of {count:,} KidGym episodes", columns, tuple(rows))])


if __name__ == "__main__":
    main()
