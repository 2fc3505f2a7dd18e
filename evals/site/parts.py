"""Games as parts of a site's pages: long texts cut, pictures rendered, values as words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from evals.report.episodes import Shown
from evals.site.pictures import Album
from evals.view import StepView

_LONGEST: Final = 6_000
"""Characters of a text that are shown."""
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
        "steps": [_step(step, turn, album) for step, turn in zip(view.steps, row["turns"], strict=True)],
    }


def _step(step: StepView, turn: Mapping[str, Any], album: Album) -> dict[str, Any]:
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
