"""One episode for the page: its row from the ledger, its suite's view of it, and its pictures, rendered again."""

from __future__ import annotations

import hashlib
import io
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from envs.picture import picture_from_description, render_description
from evals.ledger.parts import LedgerChangedError, check_values, open_part
from evals.suite import Suite
from evals.suite_results import reason_of
from evals.view import EpisodeView, default_view
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ViewedRun

OF_A_TURN = (
    "kept",
    "options",
    "finish",
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "seconds",
    "cost",
    "label_mass",
    "exact",
)
"""What the page shows of a stored turn beside the suite's view of it."""
ROWS_AT_ONCE = 64
EPISODES_KEPT = 32


class Episodes:
    """Opens episodes of the list; those opened last are kept."""

    def __init__(self, index: EpisodeIndex) -> None:
        self._index = index
        self._opened: OrderedDict[tuple[str, int], dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, run: ViewedRun, row: Mapping[str, Any]) -> dict[str, Any]:
        """Everything that the page shows of an episode, as JSON values.

        Args:
            run: Its run.
            row: Its row of the list.

        Raises:
            LedgerChangedError: its part was merged into another one, or replaced, since the list was read.
            OSError, pyarrow.ArrowException: the part cannot be read.
        """
        key = (run.name, row["id"])  # another run that takes the place of this one has other rows
        with self._lock:
            if key in self._opened:
                self._opened.move_to_end(key)
                return self._opened[key]
        path, place = self._index.place_of(row["id"])
        stored = stored_row(path, place)
        if (stored["episode_id"], stored["attempt"]) != (row["episode_id"], row["attempt"]):
            raise LedgerChangedError(path.name)  # another run has just taken the place of this one
        shown = show_episode(run, stored)
        with self._lock:
            self._opened[key] = shown
            while len(self._opened) > EPISODES_KEPT:
                self._opened.popitem(last=False)
        return shown

    def picture(self, run: ViewedRun, row: Mapping[str, Any], key: str) -> bytes | None:
        """A picture of an episode as PNG; None if the episode has no such picture, or it cannot be rendered any more."""
        description = self.open(run, row)["pictures"].get(key, {}).get("description")
        try:
            return png_of(render_description(description)[1]) if description else None
        except ValueError:
            return None


def stored_row(path: Path, place: int) -> dict[str, Any]:
    """A row of a part.

    Raises:
        LedgerChangedError, OSError, pyarrow.ArrowException: it cannot be read.
        ValueError: its turns are damaged.
    """
    with open_part(path) as file:
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if place >= rows:
                place -= rows
                continue
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=[group]):
                if place < len(batch):
                    found = pa.Table.from_batches([batch.slice(place, 1)])
                    check_values(found)
                    row: dict[str, Any] = found.to_pylist()[0]
                    return row
                place -= len(batch)
    raise LedgerChangedError(path.name)


def show_episode(run: ViewedRun, row: Mapping[str, Any], public: bool = False) -> dict[str, Any]:
    """A ledger row as the page shows it, with the view of its suite.

    Args:
        run: Its run.
        row: With stored column names.
        public: Whether others read the page (``evals.suite_results.reason_of``).
    """
    return shown_as_json(*_view(run, row, public), row)


def shown_as_json(view: EpisodeView, notice: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A ledger row as the page shows it: a view of it, each step with its turn's counts, pictures by key.

    Args:
        view: Of the row.
        notice: What is wrong with the view; may be empty.
        row: With stored column names.
    """
    pictures: dict[str, dict[str, Any]] = {}
    shown: dict[str, Any] = view.to_json()
    for step, turn in zip(shown["steps"], row["turns"], strict=True):
        step |= {name: turn[name] for name in OF_A_TURN}
        step["shown"] = [_message(message, pictures) for message in step["shown"]]
        if step["after"]:
            step["after"] = _picture(step["after"], pictures)
        else:
            step["after"] = None
    columns = {"row": _common_columns(row), "columns": _own_columns(row)}
    plain: dict[str, Any] = _plain({**shown, **columns, "notice": notice})
    return {**plain, "pictures": pictures}


def _common_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that every suite has, but for the turns."""
    return {name: value for name, value in row.items() if "." not in name and name != "turns"}


def _own_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """The suite's own columns that hold one value, by their short names."""
    own = {}
    for name, value in row.items():
        if not name.startswith(f"{row['suite']}."):
            continue
        is_scalar = value is not None and not isinstance(value, list | dict)
        if is_scalar:
            own[name.partition(".")[2]] = value
    return own


def _message(message: Mapping[str, Any], pictures: dict[str, dict[str, Any]]) -> dict[str, Any]:
    parts = [_part(part, pictures) for part in message["parts"]]
    return {"role": message["role"], "parts": parts}


def _view(run: ViewedRun, row: Mapping[str, Any], public: bool) -> tuple[EpisodeView, str]:
    """The suite's view of a row; the plain one, with the reason why, where the suite has none to give."""
    prefix = f"{row['suite']}."
    short = {name.removeprefix(prefix): value for name, value in row.items()}
    try:
        suite = _suite_named(run.suite(), row["suite"])
        return suite.view(short), ""
    except Exception as error:  # a plugin that is missing here, or a row that its suite no longer understands
        return default_view(row), f"Shown without the help of suite {row['suite']}: {reason_of(error, public)}"


def _suite_named(suite: Suite, name: str) -> Suite:
    for part in suite.parts:
        if part.name == name:
            return part
    raise ValueError(f"the run's configuration has no suite {name!r}")


def _part(part: Mapping[str, Any], pictures: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if part["picture"] is None:
        return {"text": part["text"]}
    return {"picture": _picture(part["picture"], pictures)}


def _picture(description: str, pictures: dict[str, dict[str, Any]]) -> str:
    """The key of a picture, which is noted with its size, or with what prevents rendering it."""
    key = hashlib.blake2b(description.encode(), digest_size=16).hexdigest()
    if key not in pictures:
        try:
            width, height = picture_from_description(description).size
            known: dict[str, Any] = {"width": width, "height": height, "error": ""}
        except Exception as error:  # a ledger may be anybody's; what is wrong with a picture must not hide the episode
            known = {"width": 0, "height": 0, "error": str(error)}
        pictures[key] = {"description": description, **known}
    return key


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """A picture's pixels as a PNG file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=1)
    return out.getvalue()


def for_the_page(shown: Mapping[str, Any]) -> dict[str, Any]:
    """An opened episode without its pictures' descriptions, each of which the page asks for by key."""
    sizes = {
        key: {name: value for name, value in known.items() if name != "description"}
        for key, known in shown["pictures"].items()
    }
    row = {**shown["row"], "seed": str(shown["row"]["seed"])}  # JavaScript's numbers have fewer digits
    return {**shown, "pictures": sizes, "row": row}


def whole(shown: Mapping[str, Any]) -> str:
    """An opened episode as JSON text, pictures as descriptions."""
    return json.dumps(shown, indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """JSON values: numbers that JSON does not know become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
