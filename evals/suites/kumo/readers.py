"""How held replies are read, by our decoder and by the published one: for the benchmark of decoders and for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evals.replies.reasoning import separate_reasoning
from evals.suites.kumo.decode import decode
from evals.types import Reply


def readers(games: Mapping[str, Mapping[str, Any]]) -> dict[str, Callable[[Mapping[str, Any]], str | None]]:
    """What each decoder reads in a row with ``game``, ``reply`` and, where the reply was cut off, ``cut``.

    Args:
        games: for each game the names of its ``tests`` and ``truths``, and the domain's ``nouns``.
    """

    def reader(strict: bool) -> Callable[[Mapping[str, Any]], str | None]:
        def read(row: Mapping[str, Any]) -> str | None:
            game = games[row["game"]]
            said = separate_reasoning(Reply(row["reply"])).text
            cut = bool(row.get("cut"))
            return decode(said, game["tests"], game["truths"], strict, cut, game["nouns"]).name

        return read

    return {"lenient": reader(False), "published": reader(True)}
