"""Episodes, prompts and settings as parts of the page: long texts cut, pictures rendered, values as words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from evals.report.episodes import Prompt, Shown
from evals.report.pictures import Album
from evals.tables import Table
from evals.view import EpisodeView, StepView

_LONGEST: Final = 6_000
"""Characters of a text that are shown."""
_FIRST, _LAST = 8, 2
"""Steps of a long episode that are shown."""
_PLACE: Final = ("suite", "task", "level", "mode", "index", "repeat", "player")


def episode_parts(shown: Shown, album: Album) -> dict[str, Any]:
    """An episode for the template."""
    row, view = shown.row, shown.view
    place = [f"{name} {row[name]}" if name in ("level", "index", "repeat") else str(row[name]) for name in _PLACE]
    facts = {"episode": row["episode_id"], "seed": row["seed"], **view.facts}
    return {
        "id": f"episode-{row['episode_id']}-{row['player']}",
        "ending": shown.ending,
        "title": " · ".join(place),
        "facts": list(_facts(facts)),
        "steps": list(_steps(view, row["turns"], album)),
    }


def prompt_parts(prompt: Prompt, album: Album) -> dict[str, Any]:
    """An example of a mode's first prompt for the template."""
    title = f"{prompt.suite}, mode {prompt.mode}: first prompt of an episode of {prompt.task}"
    return {"title": title, "messages": _messages(prompt.messages, album)}


def _steps(view: EpisodeView, turns: Sequence[Mapping[str, Any]], album: Album) -> Iterator[dict[str, Any]]:
    count = len(view.steps)
    for number, (step, turn) in enumerate(zip(view.steps, turns, strict=True), 1):
        if count > _FIRST + _LAST + 1 and _FIRST < number <= count - _LAST:
            if number == _FIRST + 1:
                left_out = count - _FIRST - _LAST
                yield {"omitted": f"{left_out} more steps are left out here; `raycade view` shows them all."}
            continue
        yield _step(number, step, turn, album)


def _step(number: int, step: StepView, turn: Mapping[str, Any], album: Album) -> dict[str, Any]:
    facts = {
        "decoded": "nothing" if step.decoded is None else step.decoded,
        "by the rule": step.rule,
        "reply ended by": turn["finish"],
        "tokens": f"{turn['prompt_tokens']:,} prompt, {turn['completion_tokens']:,} completion",
        "perfect play": step.best,
        "regret": "the game is lost" if step.lost else step.regret,
        "still possible": step.remaining and list(step.remaining),
        "probabilities": step.probabilities,
        **step.facts,
    }
    return {
        "number": number,
        "omitted": "",
        "messages": _messages(step.shown, album),
        "reasoning": _cut(step.reasoning),
        "reply": _cut(step.reply),
        "facts": list(_facts(facts)),
    }


def _messages(said: Sequence[Mapping[str, Any]], album: Album) -> list[dict[str, Any]]:
    return [{"role": message["role"], "parts": [_part(part, album) for part in message["parts"]]} for message in said]


def _part(part: Mapping[str, Any], album: Album) -> dict[str, Any]:
    if part["picture"] is None:
        return {"text": _cut(part["text"] or ""), "picture": None}
    return {"picture": album.show(part["picture"]), "alt": "Picture as the player saw it"}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n[{len(text) - _LONGEST:,} more characters]"


def _facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if value not in (None, "", [], {}):
            yield name, _cut(_in_words(value))


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_in_words(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    return str(value)


# --- how a run was made ----------------------------------------------------------------------------------------------


def versions_table(run_sessions: Sequence[Mapping[str, Any]], name: str) -> Table | None:
    """Versions of each session, one row for each package; None where no session is on record."""
    sessions = [{key: value for key, value in session.items() if key != "config"} for session in run_sessions]
    rows = tuple(
        (key, *(_version(session.get(key)) for session in sessions))
        for key in dict.fromkeys(key for session in sessions for key in session)
    )
    columns = ("package", *(f"session {number}" for number in range(1, len(sessions) + 1)))
    return Table(f"versions_{name}", f"Versions: {name}", columns, rows) if rows else None


def _version(value: Any) -> str | None:
    return None if value is None else str(value)


def settings_text(settings: Mapping[str, Any]) -> str:
    """The resolved configuration."""
    text: str = yaml.safe_dump(json.loads(json.dumps(settings, default=str)), sort_keys=False, allow_unicode=True)
    return text
