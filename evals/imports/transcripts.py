"""Episodes that another harness played: its replies read through the suite's own rules, as long as it asked what we ask."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from envs.files import FileError
from evals.conversation import Record, cause_of
from evals.suite import Suite, play_episode
from evals.types import Chat, Episode, Finish, Message, PlayerError, Reply, Turn

Key = tuple[str, str, str, str, int, int]
"""Suite, task, level, mode, index and repeat of an episode."""


WHOLE_PROMPT = "prompt"
"""Role of a text that stands for all messages of a turn, in formats that join them."""


class GameKey(BaseModel):
    """What a sample's metadata must say, so that its game can be planned here."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    suite: str
    task: str
    level: str
    mode: str
    index: int
    repeat: int = 0
    seed: int | None = None


@dataclass(frozen=True)
class Transcript:
    """One episode as a foreign file tells it."""

    place: str
    """Where it is, for errors."""
    player: str
    key: GameKey
    messages: Sequence[tuple[str, str, str]]
    """All messages in their order: role, text, reasoning."""
    carried: object = None
    """What ``carry_episode`` made of it, where raycade wrote the file."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """As the file tells it, in its currency."""
    error: str = ""
    finish: Finish = "stop"
    """How the last reply ended: files say it of no other one."""
    size: int = 0
    """Of its sample in the file: bytes or characters."""


@dataclass
class TranscriptPlayer:
    """Answers the turns of one episode with the replies of a transcript."""

    transcript: Transcript
    obstacle: str = ""
    """Why the transcript is not one of this game as it is asked here; empty as long as it is."""
    _next: int = 0
    """Of the transcript's messages."""
    _before: Chat = field(default=())

    async def reply(self, turn: Turn) -> Reply:
        """The reply that the transcript gives to a turn.

        Raises:
            PlayerError: the transcript asks otherwise, or ends here.
        """
        if turn.labels:
            raise self._refusal("asks for probabilities of labels, which no transcript holds")
        asked = self._asked(turn.chat)
        self._before = turn.chat
        for expected_role, expected_text in asked:
            role, text, _ = self._take(turn.number)
            given = (role, _plain(text))
            expected = (expected_role, _plain(expected_text))
            if given != expected:
                raise self._refusal(f"asks turn {turn.number} otherwise than the suite does here")
        role, text, reasoning = self._take(turn.number)
        if role != "assistant":
            raise self._refusal(f"has no reply to turn {turn.number}")
        finish: Finish = self.transcript.finish if self.at_end else "stop"
        return Reply(text, finish, reasoning=reasoning)

    @property
    def at_end(self) -> bool:
        """Whether all messages have been taken."""
        return self._next == len(self.transcript.messages)

    def _asked(self, chat: Chat) -> list[tuple[str, str]]:
        """Role and text of what a turn asks, in as many messages as the transcript has for it."""
        asked: list[tuple[str, str]] = [(message.role, _text_of(message)) for message in self._added(chat)]
        if self.at_end:
            return asked
        role, *_ = self.transcript.messages[self._next]
        if role == WHOLE_PROMPT:
            return [(WHOLE_PROMPT, "".join(text for _, text in asked))]
        return asked

    def _added(self, chat: Chat) -> Sequence[Message]:
        """What a turn adds to the chat, without the reply to the turn before."""
        kept = 0
        while kept < min(len(self._before), len(chat)) and self._before[kept] == chat[kept]:
            kept += 1
        added = chat[kept:]
        is_reply_before = bool(self._before) and kept == len(self._before) and added and added[0].role == "assistant"
        return added[1:] if is_reply_before else added

    def _take(self, number: int) -> tuple[str, str, str]:
        """The next message."""
        if self.at_end and self.transcript.error:
            raise PlayerError(self.transcript.error, "endpoint")
        if self.at_end:
            raise self._refusal(f"ends before turn {number} is answered, and names no error")
        self._next += 1
        return self.transcript.messages[self._next - 1]

    def _refusal(self, reason: str) -> PlayerError:
        self.obstacle = self.obstacle or reason
        return PlayerError(self.obstacle)


def replay(suite: Suite, episode: Episode, transcript: Transcript) -> Record:
    """Play an episode with a transcript's replies; one that names an error has failed, also where its game has ended.

    The sums of tokens and cost stand on its last turn: transcripts say them of the whole.

    Raises:
        FileError: the transcript is not one of this game as it is asked here.
    """
    player = TranscriptPlayer(transcript)
    record = asyncio.run(play_episode(suite, episode, player))
    if not player.obstacle and not player.at_end and record.done:
        player.obstacle = "goes on after the game has ended"
    if player.obstacle:
        raise FileError(transcript.place, player.obstacle)
    if record.turns:
        *first, last = record.turns
        counted = dataclasses.replace(
            last.reply,
            prompt_tokens=transcript.prompt_tokens,
            completion_tokens=transcript.completion_tokens,
            cost=transcript.cost,
        )
        record = dataclasses.replace(record, turns=(*first, dataclasses.replace(last, reply=counted)))
    if record.done and transcript.error:
        failure = PlayerError(transcript.error, "endpoint")
        record = dataclasses.replace(record, outcome=None, error=cause_of(failure), error_kind=failure.kind)
    return record


def planned_for(transcript: Transcript, plan: Mapping[Key, Episode]) -> Episode:
    """The planned episode that a transcript is of.

    Raises:
        FileError: there is none, or it has another seed.
    """
    key = transcript.key
    episode = plan.get(key_of(key))
    named = f"{key.suite}, {key.task}, level {key.level}, {key.mode}, game {key.index}, repeat {key.repeat}"
    if episode is None:
        raise FileError(transcript.place, f"{named} is not in the plan of these settings")
    if key.seed is not None and key.seed != episode.seed:
        raise FileError(transcript.place, f"{named} has seed {key.seed}; here it is {episode.seed}: another game")
    return episode


def plan_by_key(plan: Sequence[Episode]) -> dict[Key, Episode]:
    """Planned episodes by what transcripts call them."""
    return {key_of(each): each for each in plan}


def key_of(game: Episode | GameKey) -> Key:
    """What tells a player's games apart."""
    return game.suite, game.task, game.level, game.mode, game.index, game.repeat


def _text_of(message: Message) -> str:
    return "\n".join(part for part in message.parts if isinstance(part, str))


def _plain(text: str) -> str:
    """Text but for white space, which formats join in their own ways."""
    return "".join(text.split())
