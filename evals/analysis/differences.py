"""What two runs differ in, besides their results: settings, software, and what their players were really shown."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from evals.analysis.compare import Side
from evals.tables import Table

SAMPLE = 12
"""Games whose opening prompts are compared."""
_OF_A_SESSION = ("id", "began", "config", "complete", "retry")
"""What a session notes that is no version."""
_AROUND = "surroundings"
"""Every installed package, vLLM's variables, GPUs, weights; see ``cluster.storage.surroundings``."""
MOST_PACKAGES = 12
"""Packages besides the chief ones that are shown."""


def differences_table(first: Side, second: Side, ignored: Collection[str]) -> Table:
    """Every setting and version that may explain a difference, and whether prompts and pictures differ.

    Args:
        first: One side.
        second: The other.
        ignored: Settings that change no answer, by path or the path of their section.
    """
    rows = list[tuple[str, ...]]()
    packages = list[tuple[str, ...]]()
    if first.player != second.player:
        rows.append(("player", first.player, second.player))
    if first.run is not second.run:
        one = dict(flat_settings(first.run.settings, ignored))
        other = dict(flat_settings(second.run.settings, ignored))
        for name in _differing(one, other):
            rows.append((name, _shown(one.get(name)), _shown(other.get(name))))
        one, other = _versions(first.run.sessions), _versions(second.run.sessions)
        for name in _differing(one, other):
            of_its_kind = packages if name.startswith("package ") else rows
            of_its_kind.append((name, _listed(one.get(name)), _listed(other.get(name))))
        rows += packages[:MOST_PACKAGES]
    notes = _prompt_notes(first, second)
    if len(packages) > MOST_PACKAGES:
        notes.append(f"{len(packages) - MOST_PACKAGES} more packages differ; versions.json of each run lists them.")
    if not rows:
        notes = ["No setting and no version differs: what differs is chance.", *notes]
    columns = ("what differs", first.label, second.label)
    return Table(f"differences_{first.label}_{second.label}", "What differs", columns, tuple(rows), tuple(notes))


def flat_settings(settings: Any, ignored: Collection[str] = (), path: str = "") -> Iterator[tuple[str, Any]]:
    """All values of a resolved configuration by their path; a part of a bundle goes by its name, not its number."""
    if path in ignored:
        return
    if isinstance(settings, Mapping):
        parts = list(settings.items())
    elif _is_bundle(settings):
        parts = [(_part_name(part, number), part) for number, part in enumerate(settings)]
    else:
        yield path, settings
        return
    for name, value in parts:
        below = str(name)
        if path:
            below = f"{path}.{below}"
        yield from flat_settings(value, ignored, below)


def _is_bundle(settings: Any) -> bool:
    return isinstance(settings, list) and any(isinstance(part, Mapping) for part in settings)


def _part_name(part: Any, number: int) -> Any:
    """Of two runs the same part may stand at different places, so its place counts only if it has no name."""
    return (part.get("name") or part.get("type") or number) if isinstance(part, Mapping) else number


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names whose values differ, in the order of the first side."""
    names = dict.fromkeys([*one, *other])
    return [name for name in names if one.get(name) != other.get(name)]


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)


def _listed(versions: Sequence[str] | None) -> str:
    return ", ".join(versions or ()) or "–"


def _versions(sessions: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Of each thing, in the table's words, all versions that sessions have played with."""
    found: dict[str, set[str]] = {}
    for session in sessions:
        for name, version in _noted(session):
            if version is not None:
                found.setdefault(name, set()).add(str(version))
    return {name: sorted(versions) for name, versions in found.items()}


def _noted(session: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What one session has noted: the versions of chief packages, then each of its surroundings."""
    for name, value in session.items():
        if name not in (*_OF_A_SESSION, _AROUND):
            yield f"version of {name}", value
    for path, value in flat_settings(session.get(_AROUND)):
        kind, _, name = path.partition(".")
        if kind == "packages" and name not in session:
            yield f"package {name}", value
        elif kind == "variables":
            yield f"variable {name}", value
        elif kind != "packages":
            yield kind, value


def _prompt_notes(first: Side, second: Side) -> list[str]:
    """How many of a sample of games open with another text, or another picture."""
    texts = pictures = 0
    pairs = list(_sampled_pairs(first, second))
    for one, other in pairs:
        texts += _opening(one, "text") != _opening(other, "text")
        pictures += _opening(one, "picture") != _opening(other, "picture")
    return [
        f"{what} differ in {count} of {len(pairs)} games looked at (their first prompt)."
        for what, count in (("Texts", texts), ("Pictures", pictures))
        if count
    ]


def _sampled_pairs(first: Side, second: Side) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Ledger rows of the same games, those in which both players were asked."""
    ours, theirs = _ids_by_game(first), _ids_by_game(second)
    shared = sorted(ours.keys() & theirs.keys())
    chosen = random.Random(0).sample(shared, min(SAMPLE, len(shared)))
    our_rows = {row["episode_id"]: row for row in first.run.find([ours[game] for game in chosen])}
    their_rows = {row["episode_id"]: row for row in second.run.find([theirs[game] for game in chosen])}
    for game in chosen:
        one, other = our_rows.get(ours[game]), their_rows.get(theirs[game])
        if one and other and one["turns"] and other["turns"]:
            yield one, other


def _ids_by_game(side: Side) -> dict[tuple[Any, ...], str]:
    names = ("suite", "task", "level", "mode", "index", "repeat", "seed")
    rows = side.run.episodes([*names, "player", "episode_id"]).to_pylist()
    mine = [row for row in rows if row["player"] == side.player]
    return {tuple(row[name] for name in names): row["episode_id"] for row in mine}


def _opening(row: Mapping[str, Any], kind: str) -> list[Any]:
    """All texts, or pictures, of an episode's first prompt."""
    return [part[kind] for said in row["turns"][0]["prompt"] for part in said["parts"] if part[kind] is not None]
