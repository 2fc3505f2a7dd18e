"""Where in a reply its answer stands: between tags, in a box, in a JSON field, or anywhere else."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Form = Literal["tag", "open tag", "closing tag", "box", "field", "answer line"]

_ANSWER: Final = r"(?:final[ _]?answer|answer|answr|anwser|awnser|anser|anwer|ans|choice|action)"
"""What answer tags are called, spelled as models misspell them."""
_TAG = re.compile(rf"\\?[<\[]\s*(?P<close>[/\\]?)\s*{_ANSWER}\s*\\?[>\]]", re.IGNORECASE)
_HALF_CLOSED = re.compile(r"(<\s*answer\s*>[^<>]*)<\s*/\s*(?:a|an|ans|answ|answe|answer)?\s*$", re.IGNORECASE)
_BOX = re.compile(r"\\boxed\s*\{(?P<content>(?:[^{}]|\{[^{}]*\})*)\}")
_FIELD = re.compile(
    r"""["'](?:[\w ]*answer|(?:final|next|my)?_?(?:prediction|predict|choice|option|label|text|decision
    |action|test|conclusion|diagnosis|final))["']
    \s*:\s*(?P<quote>["'])(?P<content>(?:(?!(?P=quote)).|(?<=\w)'(?=\w))*)(?P=quote)""",
    re.IGNORECASE | re.VERBOSE,
)
_ANSWER_LINE = re.compile(
    r"^\W{0,8}(?:the )?(?:final |correct )?(?:answer|ans|option|choice)(?: is)?\W*:(?P<content>[^\n]*?)(?:\n|\.\s)(?=.*\S)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_PLACEHOLDERS: Final = frozenset({"name", "letter"})
"""What prompts write between the tags that they show."""

_NOT_MEANT = re.compile(
    r"\b(?:(?:nearly|almost|was about to|would have|i'd then) \w+"
    r"|(?:for example|e\.g\.|for instance|such as|you would write)[^.!?\n]{0,30}"
    r"|(?:if|unless|should)\b(?=[^.!?\n]*\b(?:would|could|might|(?:i|we)'d)\b)[^.!?\n]{0,200})[^\w.!?\n]*\Z",
    re.IGNORECASE,
)
"""Before tags that show, suppose or regret an answer: *If it is high, I would then say <answer>B</answer>*."""
_DENIED = re.compile(r"(?<!why )\b(?:not|never|instead of|rather than)[ \t\"'`*(]*\Z", re.IGNORECASE)
_ON_CONDITION = re.compile(
    r"(?:\A|[.!?;\n])\W*(?:if|should|unless|in case)\b(?! (?:of|i|we|you|i'm|so|anything|forced|asked|pressed|needed)\b)"
    r"[^.!?,:\n]{1,80}(?:[,:→]|->| then)\W*(?:(?:then|it is|it's|i (?:will )?(?:say|answer|predict|choose))\W*)?\Z",
    re.IGNORECASE,
)
"""Before a tag that holds only if something does: *If positive: <answer>B</answer>*."""
_CONCLUDES = re.compile(r"\b(?:so|thus|hence|therefore)\W*\Z", re.IGNORECASE)
_BEFORE: Final = 250
"""Characters before a tag that are looked at."""
_SIDE_BY_SIDE = re.compile(r"\W*(?:or)?\W*|\s*(?:[→⇒➜]|[-=]+>)[^\n]*", re.IGNORECASE)

_OTHER_SIDE = re.compile(r"(?:\n|\A)\W{0,4}(?:human|user|player)\s{0,3}:", re.IGNORECASE)
_ASSISTANT = re.compile(r"\n\W{0,4}(?:assistant|ai|model)\s{0,3}:", re.IGNORECASE)
_SUPPOSED: Final = r"(?:suppose|supposing|assume|assuming|imagine|let's (?:say|assume|suppose|imagine))\b"
_NEXT_QUESTION = re.compile(r"\n\W{0,8}Question\s*\d*\s*:")


@dataclass(frozen=True)
class Place:
    """A part of a reply that holds an answer.

    Attributes:
        form: How it is marked.
        content: What it holds.
        start: Where its marks begin in the reply.
        end: Where they end.
    """

    form: Form
    content: str
    start: int
    end: int


def own_turn(text: str, told: str = "") -> str | None:
    """What a reply says before it makes up what comes next; None if it then answers once more.

    Args:
        text: The reply.
        told: A regular expression for how a suite's next message begins. Behind an answer, a line or sentence that begins so
            is made up, as is one that supposes; before it, the reply quotes what it was told.
    """
    text = _NEXT_QUESTION.split(text)[0]
    turn = _OTHER_SIDE.search(text)
    if turn:
        if _ASSISTANT.search(text, turn.end()):
            return None
        return text[: turn.start()]
    closing = [tag.end() for tag in _TAG.finditer(text) if tag["close"]]
    if not closing:
        return text
    answered = closing[0]
    begins = "|".join(filter(None, (told, _SUPPOSED)))
    made_up = re.compile(rf"(?:(?<=[>\]])|[\n.!?)])\W{{0,8}}(?:{begins})", re.IGNORECASE).search(text, answered)
    if not made_up:
        return text
    own = text[: made_up.start() + 1]
    answers_again = _contents(text[made_up.end() :]) - _contents(own)
    return None if answers_again else own


def _contents(text: str) -> set[str]:
    """What stands between the answer tags of a text."""
    return {place.content.strip().casefold() for place in _tagged(text, list(_TAG.finditer(text)))}


def places(text: str, cut_off: bool = False) -> list[Place]:
    """Where a reply holds answers in the first form that it uses of: tags, boxes, fields.

    Args:
        text: The reply.
        cut_off: Whether the token limit or a content filter ended it; then forms count that were completed, and answer lines.
    """
    if cut_off:
        text = _HALF_CLOSED.sub(r"\1</answer>", text)
    tags = list(_TAG.finditer(text))
    if tags:
        found = [place for place in _tagged(text, tags) if _is_meant(text, place)]
        if cut_off:
            found = _completed(found, tags)
        return found
    boxes = _matches("box", _BOX, text)
    if boxes:
        return boxes
    fields = _matches("field", _FIELD, text)
    if fields:
        return fields
    if cut_off:
        return _matches("answer line", _ANSWER_LINE, text)
    return []


def _completed(found: list[Place], tags: list[re.Match[str]]) -> list[Place]:
    """Of the tags in a reply that was cut off, those that count."""
    closed = [bool(tag["close"]) for tag in tags[-2:]]
    if closed == [False, True]:
        return found
    # A tag that was opened last may have been going to hold another answer, unless it repeats the one before.
    if len(found) > 1 and found[-1].content == found[-2].content:
        return found[-2:-1]
    return []


def _matches(form: Form, pattern: re.Pattern[str], text: str) -> list[Place]:
    return [Place(form, match["content"], match.start(), match.end()) for match in pattern.finditer(text)]


def without_tags(text: str) -> str:
    """What stands behind the last answer tag where tags hold no answer; the whole reply if it has none."""
    tags = list(_TAG.finditer(text))
    if not tags:
        return text
    return text[tags[-1].end() :] if tags[-1]["close"] else ""


def has_tags(text: str) -> bool:
    """Whether a text has answer tags, empty or not."""
    return _TAG.search(text) is not None


def side_by_side(text: str, one: Place, other: Place) -> bool:
    """Whether nothing parts two answers, or only *or* or steps between arrows."""
    return bool(_SIDE_BY_SIDE.fullmatch(text, one.end, other.start))


def _tagged(text: str, tags: list[re.Match[str]]) -> Iterator[Place]:
    """What stands between answer tags, in reading order, whichever of them are missing."""
    opened = False
    start = 0
    for tag, following in itertools.zip_longest(tags, tags[1:]):
        if tag["close"]:
            # The opening tag is missing: the last line that says something counts.
            if not opened:
                lines = [line for line in text[start : tag.start()].splitlines() if line.strip()]
                yield Place("closing tag", lines[-1] if lines else "", start, tag.end())
        elif following is None:
            yield Place("open tag", text[tag.end() :], tag.start(), len(text))
        else:
            end = following.end() if following["close"] else following.start()
            yield Place("tag", text[tag.end() : following.start()], tag.start(), end)
        opened = not tag["close"]
        start = tag.end()


def _is_meant(text: str, place: Place) -> bool:
    """Whether a tag holds something that is no placeholder, an example or a supposition."""
    content = place.content.strip().casefold()
    before = text[max(0, place.start - _BEFORE) : place.start]
    if not re.search(r"\w", content) or content in _PLACEHOLDERS:
        return False
    if _CONCLUDES.search(before):
        return True
    return not any(pattern.search(before) for pattern in (_NOT_MEANT, _DENIED, _ON_CONDITION))
