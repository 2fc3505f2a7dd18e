"""Which actions a step offers: in which order, by which letters, or, where they are not listed, in which forms."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Final

from envs.kidgym import Action, World, solve
from envs.kidgym.catalog import ROMAN, SLOTS
from evals.presentation import OptionOrder
from evals.presentation.order import by_text
from evals.replies.reader import Choices, Reading, read
from evals.suites.kidgym.decode import NOUNS

NOT_OFFERED: Final = "not offered"
"""The rule of a reply that writes an action which the game has, but does not offer here: it is refused."""

_LABELS: Final = tuple(str(number) for number in range(12))
_BLANKS: Final = (
    (re.compile(r"\blabel \d+\b"), "label (number)", tuple(f"label {label}" for label in _LABELS)),
    (re.compile(r"\bbackpack [A-D]\b"), "backpack (letter)", tuple(f"backpack {slot}" for slot in SLOTS)),
    (re.compile(r"\bgrid [IVX]+\b"), "grid (numeral)", tuple(f"grid {numeral}" for numeral in ROMAN)),
    (re.compile(r"\bposition [IVX]+\b"), "position (numeral)", tuple(f"position {numeral}" for numeral in ROMAN)),
)
"""What tells actions of one form apart, what stands in its place in the form, and all that it can be."""


def in_order(world: World, order: OptionOrder) -> tuple[Action, ...]:
    """The actions offered now as they are shown: in the order that the game draws at every step, or by their texts."""
    if order == "shuffled":
        return world.ordered
    return tuple(world.ordered[place] for place in by_text(world.actions))


def form_of(text: str) -> str:
    """The form of an action: ``pick up the item with label 3`` is of the form ``... with label (number)``."""
    for pattern, blank, _ in _BLANKS:
        text = pattern.sub(blank, text)
    return text


def forms_ahead(world: World) -> list[str]:
    """The forms of all actions that are offered on the shortest way to win, each once; of those offered now without one."""
    here = world.copy()
    forms = dict.fromkeys(form_of(text) for text in here.actions)
    for action in solve(world) or ():
        here.take(action)
        if not here.done:
            forms |= dict.fromkeys(form_of(text) for text in here.actions)
    return list(forms)


def read_written(text: str, offered: Sequence[str], forms: Iterable[str], cut_off: bool) -> tuple[Reading, str]:
    """Read an action that a player wrote without having seen a list.

    Args:
        text: The reply, its reasoning set apart.
        offered: The actions that the game offers.
        forms: Of all actions that it may offer.
        cut_off: Whether the token limit or a content filter ended the reply.

    Returns:
        The reading and the action's text. The option is an index into ``offered``, or beyond it (rule ``NOT_OFFERED``) if
        the game has such an action, but not here; None if the reply names none.
    """
    # What is offered comes first, so that an index into it is an index into all.
    known = tuple(dict.fromkeys([*offered, *itertools.chain.from_iterable(map(_filled, forms))]))
    reading = read(text, Choices(known, nouns=NOUNS, first_of_list=True), cut_off)
    if reading.option is None:
        return reading, ""
    if reading.option >= len(offered):
        return Reading(len(offered), NOT_OFFERED), known[reading.option]
    return reading, known[reading.option]


def _filled(form: str) -> list[str]:
    """All actions of a form."""
    texts = [form]
    for _, blank, values in _BLANKS:
        if blank in form:
            texts = [text.replace(blank, value) for text in texts for value in values]
    return texts
