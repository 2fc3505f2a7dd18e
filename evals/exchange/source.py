"""One suite as one player played it: what every format is written from."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from envs.picture import render_description
from evals.exchange.public import left_out, places_of, public_error, public_model, public_settings
from evals.ledger.columns import COLUMNS
from evals.ledger.run_data import RunData
from evals.suite import Suite
from evals.types import stable_hash
from evals.viewer.episode import png_of

ROWS_AT_ONCE = 32
"""Episodes with their turns that become Python values together."""
PICTURES_KEPT = 256
"""Rendered pictures that are kept, since games show the same one again."""
PROJECT = "raycade"
EARLIER_ATTEMPTS = "Earlier attempts at episodes that were played again."
"""What no format takes."""
COMMON_LOSS = "Earlier attempts at episodes that were played again, and which session played a row."
"""What formats without a column for the session do not take."""


@dataclass(frozen=True)
class Said:
    """One message of an episode, in the order in which it was said."""

    role: str
    parts: Sequence[Mapping[str, Any]]
    """``evals.ledger.columns.PartRow`` as mappings: a text, or a picture's description."""
    turn: int
    reply: Mapping[str, Any] | None = None
    """The stored turn, where this is the player's reply to it."""


@dataclass(frozen=True)
class Source:
    """A suite's episodes of one player, with the facts that travel with them."""

    suite: Suite
    player: str
    run: RunData
    """The suite's part of the run."""
    section: Mapping[str, Any]
    """The suite's settings that may leave."""
    model: Mapping[str, Any]
    """The model's settings that may leave; empty for a built-in player."""
    decoding: str
    asked: Mapping[str, Any]
    """How else the model was asked: ``history`` and ``deterministic`` of the configuration, where they are set."""
    versions: Mapping[str, str]
    """Of the packages that played, of the latest session."""
    began: str
    """When the first session began, in ISO 8601 with its offset."""
    withheld: tuple[str, ...] = ()
    """Settings that do not leave."""
    lost_pictures: set[str] = field(default_factory=set)
    """Content hashes of the pictures that ``png`` was asked for and could not render."""
    _planned: dict[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The suite as reports spell it."""
        return self.suite.title or self.suite.name

    @property
    def model_id(self) -> str:
        """The model as ORGANIZATION/NAME; what is no such model is raycade's own."""
        weights = str(self.model.get("engine", {}).get("model") or "")
        is_hub_id = re.fullmatch(r"[\w.-]+/[\w.-]+", weights) is not None
        return weights if is_hub_id else f"{PROJECT}/{safe_name(self.player)}"

    @property
    def moment(self) -> datetime.datetime:
        """When the run began; the epoch where that is not known."""
        if not self.began:
            return datetime.datetime.fromtimestamp(0, datetime.UTC)
        began = datetime.datetime.fromisoformat(self.began)
        return began if began.tzinfo else began.replace(tzinfo=datetime.UTC)

    @property
    def key(self) -> str:
        """Thirty-two hexadecimal digits of these planned episodes; the same for each export of a run."""
        digest = hashlib.blake2b(digest_size=16)
        for name in self.plan["episode_id"].to_pylist():
            digest.update(name.encode())
        return digest.hexdigest()

    @functools.cached_property
    def plan(self) -> Any:
        """The planned episodes of the player, a table."""
        return self.run.plan.filter(pc.equal(self.run.plan["player"], self.player))

    def rows(self, turns: bool = True) -> Iterator[dict[str, Any]]:
        """The finished episodes, a few at a time in memory; addresses in the causes of failures are hidden.

        Args:
            turns: With the episode turn by turn.
        """
        names = [name for name in (*COLUMNS, *self.suite.columns) if turns or name != "turns"]
        places = places_of(self.run.settings)
        for table in self.run.batches(names):
            mine = table.filter(pc.equal(table["player"], self.player))
            for batch in mine.to_batches(max_chunksize=ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    row["error"] = public_error(row["error"], places)
                    yield row

    def planned(self, episode_id: str) -> dict[str, Any]:
        """The plan's row of an episode."""
        if not self._planned:
            self._planned.update({name: place for place, name in enumerate(self.plan["episode_id"].to_pylist())})
        row: dict[str, Any] = self.plan.slice(self._planned[episode_id], 1).to_pylist()[0]
        return row

    def png(self, description: str) -> bytes | None:
        """A picture as a PNG file; None if it can no longer be rendered, which is noted."""
        picture = png(description)
        if picture is None:
            self.lost_pictures.add(picture_key(description))
        return picture

    def unplayed(self) -> list[dict[str, Any]]:
        """The plan's rows of episodes that the ledger does not have."""
        played = {name for table in self.run.batches(["episode_id"]) for name in table["episode_id"].to_pylist()}
        missing = [name not in played for name in self.plan["episode_id"].to_pylist()]
        rows: list[dict[str, Any]] = self.plan.filter(missing).to_pylist()
        return rows


def sources_of(run: RunData, suite: Suite) -> list[Source]:
    """Each suite of a run as each of its players played it, in the order of the plan."""
    model = public_model(run.settings)
    asked = {name: run.settings[name] for name in ("history", "deterministic") if run.settings.get(name) is not None}
    began, versions = "", dict[str, str]()
    if run.sessions:
        began = str(run.sessions[0].get("began") or "")
        versions = _versions(run.sessions[-1])
    found = []
    for part, own in zip(suite.parts, _sections(run, suite), strict=True):
        data = run.of(part.name)
        public = public_settings(own, part.given_again)
        for player in pc.unique(data.plan["player"]).to_pylist():
            found.append(
                Source(
                    suite=part,
                    player=player,
                    run=data,
                    section=public,
                    model=model if player == model.get("name") else {},
                    decoding=str(run.settings.get("decoding") or ""),
                    asked=public_settings(asked),
                    versions=versions,
                    began=began,
                    withheld=tuple(left_out(own, public, "suite")),
                )
            )
    return found


def _sections(run: RunData, suite: Suite) -> list[Any]:
    """The configuration of each part of a suite."""
    section = run.settings.get("suite") or {}
    nested = section.get("suites")
    # A bundle has a section for each.
    if isinstance(nested, list) and len(nested) == len(suite.parts):
        return nested
    return [section]


def _versions(session: Mapping[str, Any]) -> dict[str, str]:
    """The versions of packages among what a session has noted."""
    versions = {}
    for name, value in session.items():
        if name in ("id", "began", "complete", "retry"):
            continue
        if isinstance(value, str):
            versions[name] = value
    return versions


def messages_of(turns: Sequence[Mapping[str, Any]]) -> Iterator[Said]:
    """An episode as one sequence of messages: what each turn added to the chat, then the player's reply to it.

    A turn stores the reply to the turn before as the first message that it adds; that one is not said twice.
    """
    length = 0
    for number, turn in enumerate(turns):
        for place, message in enumerate(turn["prompt"]):
            is_reply_before = place == 0 and number > 0 and message["role"] == "assistant" and turn["kept"] == length
            if not is_reply_before:
                yield Said(message["role"], message["parts"], number)
        length = turn["kept"] + len(turn["prompt"])
        yield Said("assistant", [{"text": turn["reply"], "picture": None}], number, turn)


def as_text(parts: Sequence[Mapping[str, Any]]) -> str:
    """Parts as text, with a line for each picture that names it."""
    texts = [part["text"] if part["picture"] is None else f"[picture {picture_key(part['picture'])}]" for part in parts]
    return "\n".join(texts)


def picture_key(description: str) -> str:
    """A picture's content hash, as ``envs.picture.Picture.key``."""
    return hashlib.blake2b(description.encode(), digest_size=16).hexdigest()


@functools.lru_cache(PICTURES_KEPT)
def png(description: str) -> bytes | None:
    """A picture as a PNG file; None if it can no longer be rendered."""
    try:
        return png_of(render_description(description)[1])
    except ValueError:
        return None


def game_key(row: Mapping[str, Any]) -> str:
    """The name of a game, equal for all players and repeats; each part of it is a safe file name."""
    return "/".join(safe_name(str(row[name])) for name in ("suite", "task", "level", "mode", "index"))


def safe_name(text: str) -> str:
    """Text as a file name that every system takes, short, and different for different texts that had to be changed."""
    kept = re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:80].strip("._ ")
    return kept if kept == text and kept else f"{kept or 'name'}-{stable_hash(text)[:8]}"


def told_apart(names: Mapping[tuple[str, ...], str]) -> dict[tuple[str, ...], str]:
    """The same names, where two things of one name differ: the first keeps it, later ones have a hash behind it.

    >>> told_apart({("a b", "c"): "a b c", ("a", "b c"): "a b c"})
    {('a b', 'c'): 'a b c', ('a', 'b c'): 'a b c-2e6730c8'}
    """
    taken: set[str] = set()
    apart = {}
    for key, name in names.items():
        apart[key] = name if name not in taken else f"{name}-{stable_hash(*key)[:8]}"
        taken.add(name)
    return apart


def write_json(path: Path, value: object) -> None:
    """JSON that any reader takes: ASCII, and no NaN."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="ascii")


def json_line(value: object) -> bytes:
    """One line of JSON lines."""
    return json.dumps(value, allow_nan=False).encode("ascii") + b"\n"
