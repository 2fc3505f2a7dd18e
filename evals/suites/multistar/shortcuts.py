"""Players that answer without doing what is asked: what a model could score by knowing how questions are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from envs.raven import RavenPicture, load, majority_vote
from evals.suites.multistar.prompts import labels_of
from evals.suites.multistar.questions import Question

SHORTCUT_HELP: Final = {
    "base_rates": "sees no picture; chooses the option that is most often true of questions of this kind",
    "most_alike": "last question: the candidate most like the others, without a look at the matrix; else base_rates",
}


def base_rates(question: Question) -> str:
    """The label of the option that is true most often; the first of equals."""
    return labels_of(question)[question.rates.index(max(question.rates))]


def most_alike(question: Question) -> str:
    """Of the whole puzzle the candidate that a vote of all candidates, attribute by attribute, is for.

    It solves nearly all of RAVEN's own answer sets, whose wrong candidates each differ from the answer in one attribute.
    """
    if question.stage != "final" or not isinstance(question.picture, RavenPicture):
        return base_rates(question)
    return labels_of(question)[majority_vote(load(question.picture.source))[0]]


SHORTCUTS: Final[Mapping[str, Callable[[Question], str]]] = {"base_rates": base_rates, "most_alike": most_alike}
