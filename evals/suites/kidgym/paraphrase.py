"""Actions named by their text, or in other words that fit one of them only: *unlock door 2 with the key in A*."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_FIRST: Final = ord("\ue000")
LONGEST: Final = 80
"""Characters of a clause that may describe an action."""
_VERBS: Final = (
    "pick|put|place|obtain|get|take|grab|collect|choose|select|use|unlock|open|"
    "picking|putting|placing|obtaining|choosing|using"
)
_INTENT: Final = re.compile(
    r"\W*(?:(?:so|then|therefore|thus|first|hence|now|next),?\s+)*"
    r"(?:(?:i|you|we|the person|the player)(?:\s+(?:will|would|should|must|can|need to|want to|have to|now|first)|'ll|'d)*\s+"
    r"|(?:the )?(?:next|best|correct|right)?\s*(?:action|step|move) is (?:to )?|let me |to )?"
    rf"(?P<verb>{_VERBS})\b",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"\W*(?:(?:i think )?(?:it|the (?:correct|right) \w+) is )?(?:the )?(?:\w+ )?(?:with )?(?:the )?"
    r"(?:label|grid|position)(?:l?ed)?\s+(?:\d|[IV]+)\W*",
    re.IGNORECASE,
)
"""What a reply may refer to an action by, without a verb."""
_PLACED = re.compile(r"\W*[A-D]\s*(?:\b(?:to|in|into|at|goes to)\b|->|→)\s*(?:the )?(?:grid |position )?[IV]+\W*")
_NUMBER = re.compile(r"(?<![\w.])\d(?!\w|\.\d)")
_SLOT = re.compile(
    r"(?:\b(?i:backpack|bag|slot)\s+(?P<named>[a-dA-D])"
    r"|(?:\b(?i:item|key|piece|animal|tile|from|in|put|place)\s+|^\W*)(?P<slot>[A-D])(?=\W*$|\s+(?i:in|to|at|into|on|with|door)\b))\b"
)
_ROMAN = re.compile(
    r"(?:\b(?i:grid|position|spot|place|number|at|into?|to|on)\s+|^\W*)(?P<roman>(?i:VI{0,3}|IV|I{1,3}))(?=\W*(?:$|[.,;:!)]))"
)
_DECLARATION = re.compile(r"\b(?:collected|collecting)\s+(?P<count>\d+)\s+(?P<what>[^\W\d]\w*)", re.IGNORECASE)
_KINDS: Final = {"unlock": "unlock", "door": "unlock", "put": "put", "plac": "put"}
_ROMANS: Final = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")


class _Means(NamedTuple):
    """What an action or a description of it refers to."""

    numbers: frozenset[str]
    slots: frozenset[str]
    romans: frozenset[str]


def masked(text: str, actions: tuple[str, ...]) -> str:
    """The text with a sign of its own in place of each action's text, so that their letters mean nothing."""
    for position, action in sorted(enumerate(actions), key=lambda entry: -len(entry[1])):
        text = _pattern(action).sub(chr(_FIRST + position), text)
    return "".join(
        _masked_clause(clause, actions) for clause in re.split(r"(?<=[.;:!?\n])|(?= because| since|, then|, so)", text)
    )


def unmasked(text: str) -> str:
    """A masked text without the signs."""
    return re.sub(r"[\ue000-\ue0ff]", " ", text)


def read_paraphrase(text: str, actions: tuple[str, ...], bare: bool) -> set[int]:
    """The actions that a short text refers to, verb or not; all that fit, if it is not clear which."""
    if bare and not _REFERENCE.fullmatch(text):
        return set()
    if len(text) > LONGEST or "?" in text or "collected" in text or not re.search("[a-z]{3}|[IV]", text):
        return set()
    found = _fitting(text, actions)
    return set(found) if len(found) == 1 else set()


def _pattern(action: str) -> re.Pattern[str]:
    """Finds an action's text in any case, whatever articles it has, and a plural for what may be one."""
    parts = []
    for word in action.split():
        if word in ("the", "The", "a", "an", "An"):  # a capital A is a basket or a slot
            continue
        parts.append(re.escape(word).replace(r"\(s\)", r"(?:\(s\)|s)?"))
    article = r"\s+(?:(?:the|a|an)\s+)?"
    return re.compile(r"(?<!\w)" + article.join(parts) + r"(?![\w(])", re.IGNORECASE)


def _masked_clause(clause: str, actions: tuple[str, ...]) -> str:
    """A clause that says, in other words, that one action is to be done, or else the clause as it is."""
    if declaration := _DECLARATION.search(clause):
        for position, action in enumerate(actions):
            offered = _DECLARATION.search(action)
            if offered and offered["count"] == declaration["count"] and declaration["what"][:3] == offered["what"][:3]:
                start = re.search(r"\bI(?:'ve| have)?\b", clause[: declaration.start()])
                return clause[: start.start() if start else declaration.start()] + chr(_FIRST + position)
        return clause
    if _PLACED.fullmatch(clause) and len(placed := _fitting(clause, actions)) == 1:
        return chr(_FIRST + placed[0])
    intent = re.search(rf"(?:^|(?<=\W)){_INTENT.pattern}", clause, re.IGNORECASE) if len(clause) <= LONGEST else None
    if not intent or re.search(r"\b(?:not|never|cannot|if|already)\b|n't|\?", clause):
        return clause
    rest = clause[intent.start("verb") :]
    found = _fitting(rest, actions)
    if len(found) != 1:
        return clause
    tail = re.search(r"\W*$", rest)
    return clause[: intent.start("verb")] + chr(_FIRST + found[0]) + (tail[0] if tail else "")


def _fitting(text: str, actions: tuple[str, ...]) -> list[int]:
    """The actions that have everything that a text refers to, and are done as it says."""
    said, kind = _means(text), _kind(text)
    found: list[int] = []
    for position, action in enumerate(actions):
        offered = _means(action)
        numbers, romans = said.numbers, said.romans
        if offered.romans and not offered.numbers and all(int(number) in range(1, 9) for number in numbers):
            numbers, romans = frozenset(), romans | {_ROMANS[int(number) - 1] for number in numbers}
        fits = numbers <= offered.numbers and said.slots <= offered.slots and romans <= offered.romans
        fits = fits and not _DECLARATION.search(action)
        if any(said) and fits and (kind is None or kind == _kind(action)):
            found.append(position)
    return found


def _means(text: str) -> _Means:
    slots = {(match["named"] or match["slot"]).upper() for match in _SLOT.finditer(text)}
    romans = {match["roman"].upper() for match in _ROMAN.finditer(text)}
    return _Means(frozenset(_NUMBER.findall(text)), frozenset(slots), frozenset(romans))


def _kind(text: str) -> str | None:
    """What is done: take, put or unlock; None if no verb says so."""
    verb = re.search(r"\b(?:unlock|door|put|plac|pick|obtain|get|tak|grab|collect|choos|select|chest)", text.lower())
    return None if verb is None else _KINDS.get(verb[0], "take")
