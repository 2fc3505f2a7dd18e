"""What the prose of a domain must keep to, so that books are sound: definitions define, and rule-outs stand elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envs.kumo.domain import Action, Domain

Place = str
"""Where in a domain something stands, such as ``truth 'Gout'``."""

SHORTEST, LONGEST = 20, 400
"""Characters of a definition or note."""
_RULES = re.compile(
    r"\b(rul(e[sd]?|ing) out|ruled-out|exclud\w+|eliminat\w+|incompatible|speaks? against|impossible|strike off)\b",
    re.IGNORECASE,
)
_MARKS = set('"“”*#<>[]{}|`')


def language_problems(domain: Domain) -> Iterator[tuple[Place, str]]:
    """What is wrong with a domain's definitions, notes and units, each with where it stands.

    A definition must not rule anything out, tell a test's outcome in its words, or name another truth or test (of names
    of one word only the capitalized form counts, as "the tempo is slow" is no test called Tempo).
    """
    names = (*domain.truths, *(action.name for action in domain.actions))
    outcomes = _outcomes_of_several_words(domain)
    seen: dict[str, str] = {}
    for name in names:
        text = domain.definitions.get(name, "")
        if not text:
            continue
        if name in domain.truths:
            place, secret = f"truth {name!r}, definition", outcomes
        else:
            place, secret = f"action {name!r}, definition", []
        for what in _problems_of_definition(name, text, names, secret):
            yield place, what
        if text in seen:
            yield place, f"is the same as that of {seen[text]!r}"
        seen[text] = name
    for note in domain.notes:
        yield from _problems_of_note(note, names)
    for action in domain.actions:
        yield from _problems_of_words(action)


def _outcomes_of_several_words(domain: Domain) -> list[str]:
    """Those that no definition of a truth may tell; one of one word ("high") may be said of a truth."""
    outcomes = []
    for action in domain.actions:
        for state in action.states:
            if isinstance(state.value, str) and " " in state.value:
                outcomes.append(state.value)
    return outcomes


def _problems_of_definition(name: str, text: str, names: Sequence[str], outcomes: Sequence[str]) -> Iterator[str]:
    yield from _prose_problems(text)
    rest = text.replace(name, "")
    for other in names:
        if other != name and _mentions(rest, other):
            yield f"names {other!r}; a definition speaks of its own subject only"
    for outcome in outcomes:
        if _mentions(rest, outcome):
            yield f"gives away the outcome {outcome!r} of a test; say it in other words"


def _problems_of_note(note: str, names: Sequence[str]) -> Iterator[tuple[Place, str]]:
    place = f"note {note[:40]!r}..."
    yield from ((place, what) for what in _prose_problems(note))
    for other in names:
        if _mentions(note, other):
            yield place, f"names {other!r}; a note bears on no truth and no test"


def _problems_of_words(action: Action) -> Iterator[tuple[Place, str]]:
    """What is wrong with an action's unit and the names of its outcomes."""
    if action.unit.startswith(("per ", "in ")):
        yield (
            f"action {action.name!r}",
            f"unit {action.unit!r} must read well after a number, as in '12 beats per minute'",
        )
    for state in action.states:
        if isinstance(state.value, str) and set(state.value) & (_MARKS | {";"}):
            yield f"action {action.name!r}, outcome {state.value!r}", f"holds one of {' '.join(sorted(_MARKS))} ;"


def _prose_problems(text: str) -> Iterator[str]:
    if not SHORTEST <= len(text) <= LONGEST:
        yield f"has {len(text)} characters, where {SHORTEST} to {LONGEST} are allowed"
    if not (text[0].isupper() or text[0].isdigit()) or not text.endswith("."):
        yield "must begin with a capital and end with a period"
    if marks := sorted(set(text) & _MARKS):
        yield f"holds {' '.join(marks)}; write plain sentences"
    if match := _RULES.search(text):
        yield f"speaks of ruling out ({match[0]!r}); outcomes alone do that"


def _mentions(text: str, name: str) -> bool:
    """Whether a text holds a name: as it is written if it is one word, in any case if it is several."""
    if name not in text and name.casefold() not in text.casefold():
        return False
    flags = re.IGNORECASE if " " in name else re.NOFLAG
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, flags) is not None
