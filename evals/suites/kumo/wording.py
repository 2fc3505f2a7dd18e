"""What a player is told in a game: in our words, or in those of the published benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from envs.kumo import Domain, Task
from envs.kumo.published import PublishedDomain, PublishedTask
from envs.kumo.published.templates import fill
from evals.presentation import Presentation
from evals.suites.kumo import prompts
from evals.suites.kumo.presentation import DEFAULT
from evals.types import Chat, Message, message

PromptStyle = Literal["own", "published"]
PUBLISHED_ROLES = 1
"""Part of the ids of episodes with published prompts; raise it when ``PublishedWording.chat_for`` changes."""


@dataclass(frozen=True)
class Said:
    """Messages as they are sent, and as they stay in the chat: the published agent asks in the last message only."""

    sent: Chat
    kept: Chat


class Wording(Protocol):
    """What is said in one game."""

    def opening(self) -> Said:
        """The first turn's chat."""
        ...

    def outcome(self, test: str, observation: str, feedback: str = "") -> Said:
        """What a test showed, with feedback on it, and the next question."""
        ...

    def chat_for(self, player: str, chat: Chat) -> Chat:
        """The chat in the roles that a player is sent."""
        ...


@dataclass(frozen=True)
class OwnWording:
    """Our prompts: a chat that is only ever appended to."""

    task: Task
    domain: Domain
    book: str
    limit: int
    """Rounds that the game may take."""
    presentation: Presentation = DEFAULT
    note: str = ""
    """Stands after the book."""

    def opening(self) -> Said:
        """The rules, and the first question."""
        chat = prompts.opening(self.task, self.domain, self.book, self.limit, self.presentation, self.note)
        return Said(chat, chat)

    def outcome(self, test: str, observation: str, feedback: str = "") -> Said:
        """What a test showed, with feedback on it, and the next question."""
        said = (prompts.outcome(self.task, self.domain, test, observation, feedback),)
        return Said(said, said)

    def chat_for(self, player: str, chat: Chat) -> Chat:
        """The chat as it is: an engine whose template has no system role sees to that itself."""
        return chat


@dataclass(frozen=True)
class PublishedWording:
    """The published prompts, from the templates of an imported benchmark."""

    task: PublishedTask
    domain: PublishedDomain
    book: str

    def opening(self) -> Said:
        """System prompt and instruction; a short text stands in its place from the second turn on."""
        system = message("system", self.domain.system_prompt(self.task.task, self.book))
        return Said((system, message("user", self._instruction)), (system, message("user", self.domain.turns.begin)))

    def outcome(self, test: str, observation: str, feedback: str = "") -> Said:
        """What a test showed, in Python's notation, and once more the instruction; there is no feedback."""
        shown = repr({"action": test, "observation": self.task.shown[test]})
        text = fill(self.domain.turns.outcome, {"observation": shown})
        return Said((_user(f"{text}{self.domain.turns.joint}{self._instruction}"),), (_user(text),))

    def chat_for(self, player: str, chat: Chat) -> Chat:
        """The chat in the roles of the published code (its ``llm/base_llm.py``), which go by the model's name.

        Gemma, Claude, o1-mini and o1-preview were sent the system text as a user's. Gemma was sent all messages as one.
        """
        name = player.lower()
        if "gemma" in name:
            texts = [str(part) for each in chat for part in each.parts]
            return (_user("\n".join(texts)),)
        if "claude" in name or name in ("o1-mini", "o1-preview"):
            return tuple(_without_system(each) for each in chat)
        return chat

    @property
    def _instruction(self) -> str:
        task = self.task.task
        names = {"truths": repr(list(task.truths)), "actions": repr(list(task.action_names))}
        return fill(self.domain.turns.instruction, names)


def _user(text: str) -> Message:
    return message("user", text)


def _without_system(said: Message) -> Message:
    return message("user", *said.parts) if said.role == "system" else said
