"""The page of a study: what each setting changes on the same games, and why games were lost, with the games behind each share.

The runs that the viewer shows are a study if one player played them in different settings (``evals.study.conditions``). The
first one is the baseline, or the one that the page names. Games behind a share carry a tag, by which the list of episodes
filters them.
"""

from __future__ import annotations

import itertools
import math
import string
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from evals.analysis.compare import Side
from evals.ledger.run_data import count_rows
from evals.serving import AnyTextResponse
from evals.stats.intervals import Estimate
from evals.study.conditions import Condition, conditions_of
from evals.study.effects import interactions, main_effects, measured, shared_names
from evals.study.split import MODALITY, PICTURES_ONLY, Pair, Split, pairs_of, splits_of, text_twins
from evals.study.variance import variance_shares
from evals.summary.paired import Effect, holm
from evals.viewer.cache import kept
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ReadSoFar
from evals.viewer.schema.results import Interval
from evals.viewer.schema.study import Study, StudyCell, StudyCondition, StudyEffect, StudyLosses, StudySource

SOURCE: Final = "study"
"""Of the tags that the page gives."""
TAGS: Final = {
    "form": "study: lost by form",
    "seeing": "study: won in words only",
    "planning": "study: lost in words, too",
    PICTURES_ONLY: "study: won from pictures only",
}
"""The games that are counted behind each share."""


class StudyPage:
    """What the runs of a viewer tell as a study."""

    def __init__(self, index: EpisodeIndex) -> None:
        """Nothing is read yet."""
        self._index = index
        self._seen: list[ReadSoFar] = []
        self._conditions: list[Condition] = []
        self._trouble = "the runs have not been read yet"
        self._pairs: dict[tuple[str, str], list[Pair]] = {}
        self._tagged: set[int] = set()
        """Numbers of the runs whose games have tags."""
        self._answers: dict[str, Study] = {}
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Read the runs again if any has grown, and tag the games behind the shares."""
        seen = [run.read_so_far for run in self._index.runs]
        if seen == self._seen:
            return
        with self._lock:
            self._seen, self._answers, self._pairs = seen, {}, {}
            # A single run, which may have a million episodes, is no study: it need not be opened.
            sides = self._sides() if len(seen) > 1 else ()
            tagged_before, self._tagged = self._tagged, set()
            try:
                self._conditions, self._trouble = conditions_of(list(sides)), ""
                self._read_pairs()
            except Exception as error:  # runs may be of anybody: whatever is wrong, they are no study
                self._conditions, self._trouble = [], str(error)
            for number in tagged_before - self._tagged:
                self._index.set_tags(number, [], SOURCE)

    def routes(self) -> list[Route]:
        """What the viewer's server answers beside its own."""
        return [Route("/api/study", kept(self._study)), Route("/api/study/known", kept(self._known))]

    def _known(self, request: Request) -> Response:
        """Whether the runs are a study."""
        return AnyTextResponse({"known": bool(self._conditions)})

    def _study(self, request: Request) -> Response:
        """All that the page shows, against the run that ``baseline`` names, by default the first."""
        baseline = request.query_params.get("baseline", "")
        with self._lock:
            if baseline and baseline not in [each.side.name for each in self._conditions]:
                raise HTTPException(400, f"baseline: there is no run {baseline!r} in this study")
            if baseline not in self._answers:
                self._answers[baseline] = self._computed(baseline)
            return AnyTextResponse(self._answers[baseline])

    # --- what is read ---

    def _sides(self) -> Iterator[Side]:
        """The model of each run."""
        for label, run in zip(_labels(), self._index.runs, strict=False):
            data = run.data()
            players = data.plan["player"]
            if len(players):
                yield Side(label, players[0].as_py(), data, run.suite(), run.name)

    def _read_pairs(self) -> None:
        """Read the games that were played from pictures and in words."""
        numbers = {run.name: number for number, run in enumerate(self._index.runs)}
        for picture, text in text_twins(self._conditions):
            pairs = pairs_of(picture, text)
            self._pairs[picture.side.name, text.side.name] = pairs
            tags = [(pair.episode, TAGS[pair.cause]) for pair in pairs if pair.cause]
            number = numbers[picture.side.name]
            self._index.set_tags(number, tags, SOURCE)
            self._tagged.add(number)

    # --- what is shown ---

    def _computed(self, baseline: str) -> Study:
        if not self._conditions:
            return {"trouble": self._trouble, "conditions": [], "measures": [], "losses": []}
        ordered = sorted(self._conditions, key=lambda each: each.side.name != baseline)
        observations = measured(ordered)
        return {
            "trouble": "",
            "conditions": [_condition(each) for each in ordered],
            "measures": [
                {
                    "measure": name,
                    "share": all(0 <= one.value <= 1 for each in observations.values() for one in each[name]),
                    "effects": _effects(main_effects(ordered, observations, name)),
                    "together": _effects(interactions(ordered, observations, name)),
                    "variance": _variance(variance_shares(ordered, observations, name)),
                }
                for name in shared_names(observations)
            ],
            "losses": [self._losses(picture, text) for picture, text in text_twins(ordered)],
        }

    def _losses(self, picture: Condition, text: Condition) -> StudyLosses:
        pairs = self._pairs[picture.side.name, text.side.name]
        return {
            "run": picture.side.name,
            "text_run": text.side.name,
            "player": picture.side.player,
            "about": ", ".join(f"{name} {value}" for name, value in picture.others(MODALITY)),
            "cells": [_cell(cell, one, pairs) for cell, one in splits_of(pairs)] if pairs else [],
        }


def _condition(condition: Condition) -> StudyCondition:
    side = condition.side
    statuses = count_rows(side.run.episodes(["player", "status"]), ("player", "status"))
    return {
        "run": side.name,
        "player": side.player,
        "levels": dict(condition.levels),
        "played": statuses.get((side.player, "done"), 0),
    }


def _effects(effects: Sequence[Effect]) -> list[StudyEffect]:
    """The effects of one table, p corrected for its rows."""
    corrected = holm([effect.p for effect in effects])
    return [
        {
            "change": f"{effect.cell[0]} {effect.cell[1]}".strip(),
            "against": effect.cell[2],
            "first": effect.first,
            "second": effect.second,
            "difference": _interval(effect.difference),
            "p": effect.p,
            "holm": p,
            "games": effect.games,
        }
        for effect, p in zip(effects, corrected, strict=True)
    ]


def _variance(shares: dict[str, Estimate]) -> list[StudySource]:
    """The shares of variance, the largest first."""
    ordered = sorted(shares.items(), key=lambda item: -item[1].mean)
    return [{"source": source, "share": _interval(share)} for source, share in ordered]


def _cell(cell: tuple[str, str], found: Split, pairs: Sequence[Pair]) -> StudyCell:
    """The causes of one cell's losses; ``("all", "")`` is all of them."""
    of_cell = pairs if cell == ("all", "") else [pair for pair in pairs if pair.cell == cell]
    games = Counter(pair.cause for pair in of_cell)
    shares: dict[str, Estimate | None] = {
        "form": found.form,
        "seeing": found.seeing,
        "planning": found.planning,
        PICTURES_ONLY: None,
    }
    return {
        "task": cell[0],
        "level": cell[1],
        "games": found.games,
        "lost": found.lost,
        "causes": [
            {
                "cause": cause,
                "share": _interval(share) if share is not None and share.n else None,
                "tag": TAGS[cause],
                "games": games[cause],
            }
            for cause, share in shares.items()
        ],
    }


def _interval(estimate: Estimate) -> Interval:
    """As the page draws it: ends that are not known are null."""
    low, high = (end if math.isfinite(end) else None for end in (estimate.low, estimate.high))
    return {"mean": estimate.mean, "low": low, "high": high, "n": estimate.n}


def _labels() -> Iterator[str]:
    """A, B, ..., Z, R27, ..."""
    return itertools.chain(string.ascii_uppercase, (f"R{number}" for number in itertools.count(27)))
