"""The words of KidGym's prompts: text files with ``$fields``, which a user's folder may replace one by one.

A file ``printed.txt`` holds the whole prompt as the paper prints it (``evals.suites.kidgym.printed``). Two more files may stand
in the folder: ``words.yaml`` (goals, action texts, reasons, the list's format; see ``evals.suites.kidgym.wording``) and
``chat.yaml``, the messages of a question, which then replace the built-in chat altogether:

    - {role: system, text: "$rules"}
    - {role: user, each: frame, text: "<Image $number>: $frame"}      # one message for each picture that is shown
    - {role: user, text: "$example$goal Choose: $actions. $answer"}
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, Final, Literal

from envs.files import read_text, read_yaml, shown_files
from envs.picture import Picture
from evals.presentation import Value, check_fields, filled
from evals.suites.kidgym.printed import templates_of
from evals.suites.kidgym.wording import BUILT_IN, Wording, wording_of
from evals.types import Chat, Part, message, stable_hash

FIELDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    name: (frozenset(required.split()), frozenset(optional.split()))
    for name, required, optional in (
        # The system message; ``view`` is one of the next two.
        ("rules", "view", ""),
        ("view", "", ""),
        ("view_memory", "", ""),
        # A question; ``answer`` is one of the two after.
        ("step", "goal frame actions answer", "step budget"),
        ("answer", "", "letters"),
        ("answer_cot", "", "letters"),
        # In the chat of a memory task: a step without choice, and a past answer.
        ("forced", "goal frame", "action step budget"),
        ("answered", "letter", ""),
        # The worked example of in-context learning; ``frame`` is the last picture, ``steps`` are the example's steps.
        ("example", "goal steps frame", ""),
        ("example_step", "frame actions reason letter", "step"),
    )
}
"""For each template ``NAME.txt`` the fields that it must have and those that it may have besides."""

PRINTED: Final = "printed"

CHAT_FIELDS: Final = frozenset({"rules", "example", "goal", "frame", "frames", "actions", "answer", "step", "budget"})
"""Fields of ``chat.yaml``; ``$number`` counts the pictures of a message that is repeated for each."""


@dataclass(frozen=True)
class ChatMessage:
    """One message of a user's ``chat.yaml``."""

    role: Literal["system", "user", "assistant"]
    text: str
    each: bool = False
    """Whether it is repeated for each picture."""


@dataclass(frozen=True)
class Templates:
    """The texts of all templates, checked, in the order of ``FIELDS``, and what a user has put in place of other words."""

    texts: tuple[tuple[str, str], ...]
    wording: Wording = BUILT_IN
    chat: tuple[ChatMessage, ...] = ()
    """The messages of a question, where a user's folder says which."""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the texts: part of every episode's fingerprint."""
        return stable_hash(
            self.texts, dataclasses.asdict(self.wording), [dataclasses.astuple(one) for one in self.chat]
        )

    def without(self, said: str) -> Templates:
        """The same templates without a text that some of them have."""
        texts = tuple((name, text.replace(said, "")) for name, text in self.texts)
        return dataclasses.replace(self, texts=texts)

    def asked_afresh(self, fields: Mapping[str, Value], frames: Sequence[Picture]) -> Chat:
        """The chat of a question in the user's own form.

        Args:
            fields: ``CHAT_FIELDS`` without ``frames``.
            frames: What the player sees: the present picture, in memory tasks behind all earlier ones.
        """
        values = {**fields, "frames": tuple(frames)}
        chat = []
        for one in self.chat:
            # Once; a message that stands for each frame once a frame, with that frame's fields.
            fillings = [values]
            if one.each:
                fillings = []
                for number, frame in enumerate(frames, 1):
                    fillings.append({**values, "frame": frame, "number": str(number)})
            for each in fillings:
                parts = filled(one.text, each)
                if parts:
                    chat.append(message(one.role, *parts))
        return tuple(chat)

    def fill(self, name: str, **values: Value) -> tuple[Part, ...]:
        """A template with its fields filled in: texts, and pictures where a field's value holds some."""
        return filled(dict(self.texts)[name], values)

    def text(self, name: str, **values: str) -> str:
        """A template without pictures, filled in."""
        (text,) = self.fill(name, **values)
        assert isinstance(text, str)
        return text


@functools.lru_cache(maxsize=16)
def load_templates(folder: str = "") -> Templates:
    """The built-in templates, those replaced that a folder holds under the same name.

    Raises:
        ValueError: there is no such folder, a file in it is no template, or a template lacks a field or has one that
            nothing fills; the message names file and field.
    """
    texts = _built_in_texts()
    if not folder:
        return Templates(tuple(texts.items()))
    home = Path(folder)
    if not home.is_dir():
        raise ValueError(f"{folder!r} is not a folder")
    own = {path.stem: path for path in shown_files(home, "*.txt")}
    own_words = _yaml(home / "words.yaml")
    own_chat = _yaml(home / "chat.yaml")
    if not own and own_words is None and own_chat is None:
        raise ValueError(f"folder {folder!r} holds no template; it may have {_names()}")
    texts |= _own_texts(own)
    wording = BUILT_IN
    if own_words is not None:
        wording = wording_of(own_words)
    chat: tuple[ChatMessage, ...] = ()
    if own_chat is not None:
        chat = _chat_of(own_chat)
    return Templates(tuple(texts.items()), wording, chat)


def _own_texts(files: Mapping[str, Path]) -> dict[str, str]:
    """The user's templates; a file of its own comes before what the whole printed prompt makes."""
    texts = _taken_apart(files[PRINTED]) if PRINTED in files else {}
    for name, path in files.items():
        if name != PRINTED:
            texts[name] = _text_of(name, path)
    return texts


def _text_of(name: str, path: Path) -> str:
    """One of the user's templates, checked."""
    if name not in FIELDS:
        raise ValueError(f"{path} is no template of KidGym: there are {_names()}")
    text = read_text(path).strip()
    required, optional = FIELDS[name]
    check_fields(str(path), text, required, optional)
    return text


def _built_in_texts() -> dict[str, str]:
    """The texts that come with raycade, in the order of ``FIELDS``."""
    home = resources.files(__package__).joinpath("templates")
    return {name: home.joinpath(f"{name}.txt").read_text(encoding="utf-8").strip() for name in FIELDS}


def _taken_apart(path: Path) -> dict[str, str]:
    """The templates of a whole prompt as the paper prints it."""
    try:
        texts = templates_of(read_text(path))
    except ValueError as error:
        raise ValueError(f"template {path}: {error}") from error
    for name, text in texts.items():
        check_fields(f"{path} ({name})", text, *FIELDS[name])
    return texts


def _names() -> str:
    return ", ".join([*(f"{name}.txt" for name in (*FIELDS, PRINTED)), "words.yaml", "chat.yaml"])


def _yaml(path: Path) -> Any:
    """What a file says; None where there is none."""
    if not path.exists():
        return None
    data = read_yaml(path)
    return {} if data is None else data


def _chat_of(data: Any) -> tuple[ChatMessage, ...]:
    """The messages of ``chat.yaml``."""
    if not isinstance(data, list) or not data:
        raise ValueError("chat.yaml must be a list of messages, each with role and text")
    chat = []
    named: set[str] = set()
    for number, entry in enumerate(data, 1):
        one = _message_of(f"chat.yaml, message {number}", entry)
        chat.append(one)
        named.update(Template(one.text).get_identifiers())
    _check_named(named)
    return tuple(chat)


def _check_named(named: Set[str]) -> None:
    """See that a player is told what to do, what it may do, and what it sees."""
    for needed in ({"goal"}, {"actions"}, {"frame", "frames"}):
        if needed.isdisjoint(named):
            fields = " or ".join(f"${name}" for name in sorted(needed))
            raise ValueError(f"chat.yaml lacks the field {fields}")


def _message_of(where: str, entry: Any) -> ChatMessage:
    """One message of ``chat.yaml``, checked; ``where`` names it in errors."""
    keys = set(entry) if isinstance(entry, dict) else set()
    if not {"role", "text"} <= keys <= {"role", "text", "each"}:
        raise ValueError(f"{where} must have role and text, and may have each, but nothing else")
    odd_value = ValueError(f"{where}: role is system, user or assistant, and each, where it stands, frame")
    if entry["role"] not in ("system", "user", "assistant"):
        raise odd_value
    if entry.get("each", "frame") != "frame":
        raise odd_value
    if not isinstance(entry["text"], str):
        raise ValueError(f"{where}: text must be a text, not {entry['text']!r:.60}")
    repeated = "each" in entry
    fields = CHAT_FIELDS | {"number"} if repeated else CHAT_FIELDS
    check_fields(where, entry["text"], frozenset(), fields)
    return ChatMessage(entry["role"], entry["text"], repeated)
