"""Checks that a chat template passes a chat on as it was meant: every text and every picture once, and in order.

Templates fail silently: some move pictures in front of all words, some write a system turn as ``[{'type': 'text', ...``, some
drop words. An engine therefore renders probe chats when it starts, in each ``Arrangement`` until one is right, and checks
every prompt afterwards.

    >>> check_prompt((Message("user", ("Look.", "Now answer.")),), "<u>Look. Now answer.</u>", None)
    >>> check_prompt((Message("user", ("Look.", "Now answer.")),), "<u>Now answer. Look.</u>", None)
    Traceback (most recent call last):
    ...
    cluster.engines.prompt_check.WrongPromptError: the text 'Now answer.' is missing, or stands before the part that precedes it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from envs.picture import Picture
from evals.replies.reasoning import THINKING_MARKS, Marks
from evals.types import Chat, Message, Part

SystemRole = Literal["auto", "system", "user"]
"""How system turns are sent: as ``system``, at the start of the first ``user`` turn, or the first of these that is right."""


_MISTRAL_PICTURE = re.compile(r"(?:\[IMG\]|\[IMG_BREAK\])+\[IMG_END\]")
"""A picture as Mistral's own tokenizer writes it: a mark for each of its tokens, so their number differs with its size."""


class WrongPromptError(ValueError):
    """A rendered prompt does not say what the chat says; the message names the first part that is wrong."""


@dataclass(frozen=True)
class Arrangement:
    """One way of handing a chat to the template."""

    system_role: Literal["system", "user"] = "system"
    content_format: Literal["auto", "string"] = "auto"
    """Whether a message's parts are handed over in the form that the template seems to want, or as one text."""
    interleaved: bool = False
    """Whether pictures stay between the words when a message is handed over as one text."""
    reasoning: Literal["dropped", "field", "text"] = "dropped"
    """How the reasoning of earlier turns is handed over: not at all, apart from the words, or before them between marks."""


def arrangements(system_role: SystemRole, multimodal: bool, keeps_reasoning: bool = False) -> Iterator[Arrangement]:
    """What to try, the most usual first."""
    roles: tuple[Literal["system", "user"], ...] = ("system", "user") if system_role == "auto" else (system_role,)
    places: tuple[Literal["dropped", "field", "text"], ...] = ("field", "text") if keeps_reasoning else ("dropped",)
    for role in roles:
        for reasoning in places:
            yield Arrangement(role, reasoning=reasoning)
            if multimodal:
                yield Arrangement(role, interleaved=True, reasoning=reasoning)
            yield Arrangement(role, "string", multimodal, reasoning)


def arranged(chat: Chat, arrangement: Arrangement, marks: Marks = THINKING_MARKS[0]) -> Chat:
    """The chat as an arrangement hands it to the template.

    Args:
        chat: With the reasoning of earlier turns.
        arrangement: See there.
        marks: What stands before and after reasoning that is written as text.
    """
    if arrangement.system_role == "user":
        chat = with_system_as_user(chat)
    if arrangement.reasoning == "field":
        return chat
    return tuple(_without_field(said, arrangement, marks) if said.reasoning else said for said in chat)


def _without_field(said: Message, arrangement: Arrangement, marks: Marks) -> Message:
    parts = said.parts
    if arrangement.reasoning == "text":
        thought = f"{marks[0]}\n{said.reasoning}\n{marks[1]}\n\n"
        parts = (thought, *parts)
        if isinstance(said.parts[0], str):  # one text, since some templates join neighboring texts
            parts = (thought + said.parts[0], *said.parts[1:])
    return Message(said.role, parts)


def with_system_as_user(chat: Chat) -> Chat:
    """The chat with the words of a leading system turn at the start of the first user turn."""
    if len(chat) < 2 or chat[0].role != "system" or chat[1].role != "user":
        return chat
    system, first, *rest = chat
    words = "\n".join(str(part) for part in system.parts)
    parts: tuple[Part, ...] = (words, *first.parts)
    if isinstance(first.parts[0], str):  # one text, since some templates join neighboring texts without a line break
        parts = (f"{words}\n\n{first.parts[0]}", *first.parts[1:])
    return (Message("user", parts), *rest)


@dataclass(frozen=True)
class BlankPicture(Picture):
    """The picture of the probe."""

    kind: ClassVar[str] = "blank"

    @property
    def size(self) -> tuple[int, int]:
        """Large enough for the smallest picture that image processors take."""
        return 112, 112

    def render(self) -> NDArray[np.uint8]:
        """Black."""
        return np.zeros((112, 112, 3), dtype=np.uint8)


def probe_chats(pictures: int) -> tuple[Chat, ...]:
    """Chats of the forms that suites send.

    The first has a system turn, words of several lines in every role, pictures between words, and grows; an answer follows a
    thought. The later ones have a picture before words, and one after them: some templates sort the parts of such messages.

    Args:
        pictures: How many may stand in one prompt; a probe holds three at most.
    """
    first, second, third = ((BlankPicture(),) if number < pictures else () for number in range(3))
    system = Message("system", ("First probe, line one.\nFirst probe's line two.\n\nLine four.",))
    grown = (
        system,
        Message("user", ("Second probe.", *first, "Third probe.", *second, "Fourth probe.")),
        Message("assistant", ("Fifth probe.\n\nFifth probe's end.",), "Fourth probe's thought."),
        Message("user", (*third, "Sixth probe.\n\nSixth probe's end.")),
    )
    if not pictures:
        return (grown,)
    before = (system, Message("user", (BlankPicture(), "Seventh probe.")))
    after = (system, Message("user", ("Eighth probe.", BlankPicture())))
    return grown, before, after


def find_picture_mark(prompt: str, pictures: int) -> re.Pattern[str] | None:
    """What a picture is in a rendered probe chat, as a pattern: numbers in it may differ from picture to picture.

    Raises:
        WrongPromptError: no picture stands where it should.
    """
    if not pictures:
        return None
    first = _between(prompt, "Second probe.", "Third probe.")
    if not first:
        raise WrongPromptError("pictures are moved away from the words that they stand between")
    if re.fullmatch(r"(\S+?)\s*(\1\s*)+", first):
        raise WrongPromptError(f"one picture is written more than once: {first!r:.60}")
    pattern = re.compile(re.sub(r"\d+", r"\\d+", re.escape(first)))
    if _MISTRAL_PICTURE.fullmatch(first):
        pattern = _MISTRAL_PICTURE
    second = _between(prompt, "Third probe.", "Fourth probe.")
    if pictures > 1 and not pattern.fullmatch(second):
        raise WrongPromptError(f"one picture is written {first!r:.60}, the next one {second!r:.60}")
    return pattern


def _between(prompt: str, before: str, after: str) -> str:
    start = prompt.find(before)
    end = prompt.find(after, start)
    if start < 0 or end < 0:
        missing = before if start < 0 else after
        raise WrongPromptError(f"the text {missing!r} is missing")
    return prompt[start + len(before) : end].strip()


def check_prompt(chat: Chat, prompt: str, picture_mark: re.Pattern[str] | None) -> None:
    """Check that the parts of a chat stand in its prompt, each once and in order.

    Args:
        chat: As it was handed to the template.
        prompt: What the template made of it.
        picture_mark: Matches one picture; None for a model that reads text only.

    Raises:
        WrongPromptError: they do not.
    """
    position = 0
    for part in _parts(chat):
        if isinstance(part, str):
            words = part.strip()  # templates may trim
            place = prompt.find(words, position)
            if place < 0:
                raise WrongPromptError(
                    f"the text {words[:60]!r} is missing, or stands before the part that precedes it"
                )
            _check_gap(prompt[position:place], picture_mark)
            position = place + len(words)
        else:
            found = picture_mark.search(prompt, position) if picture_mark else None
            if found is None:
                raise WrongPromptError("a picture is missing, or stands before the part that precedes it")
            position = found.end()
    _check_gap(prompt[position:], picture_mark)


def _parts(chat: Chat) -> Iterator[Part]:
    """All that a prompt must hold, in order; reasoning that is kept stands before what was said."""
    for message in chat:
        if message.reasoning:
            yield message.reasoning
        yield from message.parts


def _check_gap(gap: str, picture_mark: re.Pattern[str] | None) -> None:
    """What stands between two parts is the template's own: no picture, and no list that was written out as text."""
    if picture_mark is not None and picture_mark.search(gap):
        raise WrongPromptError("a picture occurs twice, or in another place")
    if "'type': 'text'" in gap:
        raise WrongPromptError("the parts of a message are written out as a list")


def choose_arrangement(
    render: Callable[[Chat, Arrangement], str],
    pictures: int,
    tried: Sequence[Arrangement],
    marks: Marks = THINKING_MARKS[0],
) -> tuple[Arrangement, re.Pattern[str] | None]:
    """The first arrangement in which the probe chats are rendered as they were meant, and what a picture is in it.

    Args:
        render: The chat template; it may raise whatever it likes.
        pictures: How many may stand in one prompt; 0 for a model that reads text only.
        tried: In this order.
        marks: Around reasoning that is written as text.

    Raises:
        WrongPromptError: there is none; the message says what is wrong with the first one that can be rendered.
    """
    wrong: list[Exception] = []
    for arrangement in tried:
        chats = [arranged(chat, arrangement, marks) for chat in probe_chats(pictures)]
        try:
            prompts = [render(chat, arrangement) for chat in chats]
            mark = find_picture_mark(prompts[0], pictures)
            for chat, prompt in zip(chats, prompts, strict=True):
                check_prompt(chat, prompt, mark)
                _check_once(chat, prompt)
        except Exception as error:  # templates reject a chat with arbitrary exceptions
            wrong.append(error)
            continue
        return arrangement, mark
    rendered = (error for error in wrong if isinstance(error, WrongPromptError))
    raise WrongPromptError(str(next(rendered, wrong[0])))


def _check_once(chat: Chat, prompt: str) -> None:
    """No text of the probe may occur twice; in other chats the same words may stand in two messages."""
    for part in _parts(chat):
        if isinstance(part, str) and prompt.count(part.strip()) != 1:
            raise WrongPromptError(f"the text {part[:60]!r} occurs {prompt.count(part.strip())} times")
