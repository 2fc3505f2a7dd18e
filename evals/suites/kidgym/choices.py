"""Which letters a text in prose chooses: every letter in it is judged by the words around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from evals.suites.kidgym import vocabulary as words

TEXT: Final = "[\ue000-\ue0ff]"
"""Stands for an action's text in a masked text (``evals.suites.kidgym.paraphrase``)."""
LONGEST_BARE_TEXT: Final = 300
"""Characters of a text without tags in which a mere mention counts, wherever it stands; of longer ones, the last line."""

_BEFORE, _BEHIND = 80, 80
"""Characters around a letter that are looked at."""
_MOST: Final = 200
"""Letters of a text that are judged, the last ones: what chooses stands at the end."""
_TOKEN = re.compile(
    rf"(?:(?<![\w.-])(?<!\w')(?P<letter>[A-Z])(?!'?\w|-\w))(?:\W{{0,4}}(?P<same>{TEXT}))?|(?P<text>{TEXT})"
)
_SMALL = re.compile(r"(?P<letter>[b-hj-p])\W*$|(?P<first>[b-hj-p])(?=\s+(?:because|since|is|as)\b)")
_LISTED = re.compile(
    rf"^\W{{0,4}}(?:option\s+|action\s+)?(?:(?P<letter>[A-Z])(?:\s?[).:|-]|\s+\w)|{TEXT}$).*[\w\ue000-\ue0ff].*$",
    re.MULTILINE,
)
_VERDICT = re.compile(r"(?<!not )(?<!in)\b(?:correct|right|yes|best|works)\W*$", re.IGNORECASE)
"""At the end of such a line: it is the one."""
_RUN = re.compile(r"(?<!\w)[A-Z](?:(?:\s*,\s*(?:and\s+|or\s+)?|\s+and\s+)[A-Z](?![\w'])){2,}")
"""Letters in a row, as the question lists them."""
"""A line that begins with a letter, as in a list of all actions."""
_SENTENCE_END: Final = re.compile(r"[.!?\n]")
_SOLE = (
    re.compile(r"""(?:^|[.!?\n:])\s*(?:(?:option|action|answer|choice)\s+)?["'(\[]*$""", re.IGNORECASE),
    re.compile(r"""["')\]]*(?:[.!]|\s*(?:\n|$))"""),
)
"""Before and behind a letter that is a sentence by itself."""
_ARROW = re.compile(r"(?:=|→|->|=>)\s*$")
"""Before a letter that is what the words before it amount to: *label 4 -> A*."""
_LAST = re.compile(r"""(?<!\b[A-Z])[,)]\s*(?:so\s+)?["'(]*$""")
"""Before a letter at the very end that concludes: *the kite, A*."""
_AFTER_LETTER = re.compile(
    r"because|since|as|and|or|for|which|so|to|with|that|here|now|then|given|due|is|seems|looks|gets|moves|takes|picks|puts|"
    r"opens|leads|brings|has|makes|goes|fits|gives|unlocks|places|works|matches|helps|wins|comes|first|it|remains|beats|no|"
    r"yes|wrong|correct|right|over|instead|rather|es|est|ist|e|y|et|und|sino|mais|sondern"
)
"""Words that come after a letter, and so tell it from the article *A* and the pronoun *I*."""
_AFTER_A = re.compile(r"was|would|should|pick|put|obtain|choose")
_AFTER_PRONOUN = re.compile(
    r"think|believe|guess|would|will|can|could|should|must|am|have|had|do|need|see|choose|chose|want|take|pick|know|suppose|"
    rf"say|cannot|go|select|prefer|was|might|may|did|recall|remember|recommend|place|put|still|also|first|{TEXT}"
)

Stance = Literal["declared", "mention", "alone", "rejected"]


@dataclass(frozen=True)
class Prose:
    """What a text in prose chooses."""

    positions: set[int]
    """Places of the actions in the list; more than one where the text contradicts itself."""
    how: Stance


@dataclass(frozen=True)
class _Named:
    """A letter or an action's text somewhere in a text."""

    start: int
    positions: frozenset[int]
    stance: Stance
    listed: bool = False
    """Whether it is one line's verdict in a list of the actions."""


def read_prose(text: str, bare: bool) -> Prose | None:
    """What a masked text chooses, None if it names no action; ``bare`` if no tag says that it holds the answer."""
    named = list(_named(text, bare))
    declared = [one for one in named if one.stance == "declared"]
    if declared:
        last = declared[-1]
        if any(
            one.stance == "rejected" and one.start > last.start and one.positions == last.positions for one in named
        ):
            return None
        verdicts = [one.positions for one in declared if one.listed] if last.listed else [last.positions]
        return Prose(set().union(*verdicts), "declared")
    if bare and len(text) > LONGEST_BARE_TEXT:
        end = max(text.rstrip().rfind("\n"), text.rstrip(" .!").rfind(". "))
        named = [one for one in named if one.start > end and len(text) - end <= LONGEST_BARE_TEXT]
    rejected = {place for one in named if one.stance == "rejected" for place in one.positions}
    for stance in ("mention", "alone"):
        positions = {place for one in named if one.stance == stance for place in one.positions}
        if positions and not (stance == "alone" and positions <= rejected):
            return Prose(positions, stance)  # type: ignore[arg-type]
    return None


def left_over(text: str, count: int) -> int | None:
    """The one of so many actions that a masked text does not reject, where it rejects all others and chooses none."""
    if count < 3 or words.OPEN_ENDED.search(text):
        return None
    named = list(_named(text, bare=False))
    rejected = {place for one in named if one.stance == "rejected" for place in one.positions}
    rest = set(range(count)) - rejected
    return rest.pop() if len(rest) == 1 and len(rejected) == count - 1 else None


def _named(text: str, bare: bool) -> Iterator[_Named]:
    """Every letter and every action's text that is neither rejected nor means something else."""
    listed, runs = _listed(text), [match.span() for match in _RUN.finditer(text)]
    mapped = [match.span() for match in words.MAPPED.finditer(text)]
    mapped = mapped if len(mapped) > 1 else []
    earlier = False
    for match in list(_TOKEN.finditer(text))[-_MOST:]:
        end = match.end("letter") if match["letter"] else match.end()
        before, behind = text[max(0, match.start() - _BEFORE) : match.start()], text[end : end + _BEHIND]
        letter = match["letter"]
        if letter and _is_word(letter, before, behind):
            if not match["same"]:
                continue
            letter, before, behind = (
                None,
                text[max(0, match.start("same") - _BEFORE) : match.start("same")],
                text[match.end() :],
            )
        stance = _stance(letter, bool(match["same"]), before, behind[:_BEHIND], bare)
        if any(start <= match.start() < stop for start, stop in mapped):
            continue
        if within := [good for start, stop, good in listed if start <= match.start() < stop]:
            commended = within[0] or (words.COMMENDS.match(behind) and not _refused(before, behind))
            stance = "declared" if commended else None
        if stance in ("mention", "alone") and any(start <= match.start() < stop for start, stop in runs):
            stance = None
        if stance is not None and not (letter and earlier and words.LATER.search(before)):
            positions = {_position(letter)} if letter else set()
            if mask := match["same"] or match["text"]:
                positions.add(ord(mask) - ord("\ue000"))
            yield _Named(match.start(), frozenset(positions), stance, bool(within))
        earlier = True
    yield from _small(text, bare)


def _small(text: str, bare: bool) -> Iterator[_Named]:
    """A lower-case letter, at the end behind words that announce it, or at the beginning before its reason."""
    if (first := _SMALL.match(text)) and first["first"]:
        yield _Named(0, frozenset({_position(first["first"])}), "declared")
    last = re.search(r"(?<![\w'.-])(?P<letter>[a-z])\W*$", text)
    if last:
        before = text[max(0, last.start() - _BEFORE) : last.start()]
        announced = words.DECLARES.search(before) or (last["letter"] not in "ai" and re.search(r"[,:]\s*$", before))
        if announced and not _refused(before, text[last.end("letter") :]):
            yield _Named(last.start(), frozenset({_position(last["letter"])}), "declared")


def _stance(letter: str | None, with_text: bool, before: str, behind: str, bare: bool) -> Stance | None:
    """How a letter (None for an action's text alone) is named; None if that does not count."""
    if _refused(before, behind) or _asked(behind):
        return "rejected"
    if words.DECLARES.search(before):
        return "declared"
    if letter and (words.PLACE.search(before) or (words.PLACE_BEHIND.match(behind) and not with_text)):
        return None
    if words.COMMENDS.match(behind) and not re.search(r"[A-Z]\s+(?:and|or)\s+$", before):
        return "declared"
    if letter and (words.CONCLUDES.search(before) or _ARROW.search(before)) and words.CLAUSE_ENDS.match(behind):
        return "declared"
    if letter and not behind.strip(" .!\"')]") and _LAST.search(before):
        return "declared"
    if _SOLE[0].search(before) and _SOLE[1].match(behind):
        return "declared"
    if words.MENTIONS.search(before) or with_text or letter is None or (before[-1:] == "(" and behind[:1] == ")"):
        return "mention"
    paired = words.PAIRED.match(behind) or re.search(r"\bboth\s+(?:[A-Z]\s+and\s+)?$", before)
    return None if paired or (bare and not words.LEADS.search(before)) else "alone"


def _refused(before: str, behind: str) -> bool:
    """Whether the words around a letter reject it or leave it open."""
    return bool(
        words.REJECTED_BEFORE.search(before)
        or words.REJECTED_BEHIND.match(behind)
        or words.ALTERNATIVE_BEFORE.search(before)
        or words.ALTERNATIVE_BEHIND.match(behind)
    )


def _asked(behind: str) -> bool:
    """Whether the sentence is a question."""
    stop = _SENTENCE_END.search(behind, 0, 40)
    return bool(stop and stop[0] == "?")


def _listed(text: str) -> list[tuple[int, int, bool]]:
    """Where a list of actions stands, lines that begin with different letters, and which line calls its own right."""
    lines = [match for match in _LISTED.finditer(text) if match["letter"]]
    if len({match["letter"] for match in lines}) < 2:
        return []
    return [(match.start(), match.end("letter") + 3, bool(_VERDICT.search(match[0]))) for match in lines]


def _is_word(letter: str, before: str, behind: str) -> bool:
    """Whether a letter is the article *A* or the pronoun *I*.

    A capital *A* is an article only where a sentence begins. After *choose* or *is*, an *I* is a letter unless a verb follows.
    """
    if letter not in ("A", "I"):
        return False
    following = re.match(rf"\s+(?P<word>[^\W\d_]+|{TEXT})(?P<be>\s+be\b)?", behind)
    if not following or _AFTER_LETTER.fullmatch(following["word"]):
        return False
    if not (following["word"].isascii() or re.match(TEXT, following["word"])):
        return False
    declared = bool(words.DECLARES.search(before))
    if letter == "A":
        inside = re.search(r"[a-z\d,] $", before[-2:])
        article = not (inside or re.match(TEXT, following["word"]) or _AFTER_A.fullmatch(following["word"]))
        return article and not (declared and following["word"].islower() and len(following["word"]) < 3)
    return not following["be"] and (not declared or bool(_AFTER_PRONOUN.fullmatch(following["word"])))


def _position(letter: str) -> int:
    return ord(letter.upper()) - ord("A")
