"""What each cell of a suite needs: players that lack a sense, learned. Run: python -m benchmarks.shortcut_search --help.

    python -m benchmarks.shortcut_search kidgym modes=zero_shot --training episodes=600 --held-out episodes=400

For each cell of the suite a fixed learner (``evals.shortcut_search``) learns to play from what each feature class knows, on
games for training, and is measured on the open games. ``--write`` keeps what was found in a file, by which a suite shows the
best of it beside scores (``evals.shortcut_search.record``). Needs scikit-learn (``pip install 'raycade[search]'``).
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import yaml

from evals.shortcut_search.record import Search, write_record
from evals.shortcut_search.search import needs_table, search
from evals.training.games import suite_of

TRAINING: Final = "training:0"
"""Seeds of the games to learn from."""


def settings_of(pairs: Iterable[str]) -> dict[str, Any]:
    """Settings as they are typed: ``levels=[1,2]``."""
    return {name: yaml.safe_load(value) for name, _, value in (pair.partition("=") for pair in pairs)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", help="its name, such as kidgym")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="settings of the suite")
    parser.add_argument(
        "--training", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the games to learn from"
    )
    parser.add_argument(
        "--held-out", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the games to measure on"
    )
    parser.add_argument("--out", type=Path, help="folder for the table as JSON and Markdown")
    parser.add_argument(
        "--write", type=Path, help="file that keeps what was found; cells not searched stay as they are"
    )
    asked = parser.parse_args()
    shared = settings_of(asked.settings)
    training = suite_of(asked.suite, {**shared, **settings_of(asked.training), "seeds": TRAINING})
    held_out = suite_of(asked.suite, {**shared, **settings_of(asked.held_out)})
    command = shlex.join(["python", "-m", "benchmarks.shortcut_search", *sys.argv[1:]])
    this = Search(command, datetime.now(UTC).date().isoformat(), TRAINING)
    found = []
    for (task, level), of_cell in groupby(search(training, held_out), key=lambda each: (each.task, each.level)):
        for each in of_cell:
            found.append(each)
            print(f"{task:14}{level:8}{each.players:26}{each.success.mean:8.3f}", flush=True)
        if asked.write:  # cell by cell, so that a search that is ended keeps what it has found
            write_record(asked.write, found, this)
    table = needs_table(asked.suite, found)
    print(table.to_markdown())
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / f"{table.name}.md").write_text(table.to_markdown(), encoding="utf-8")
        (asked.out / f"{table.name}.csv").write_text(table.to_csv(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
