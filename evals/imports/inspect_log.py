"""inspect_ai's ``.eval``, of whichever compression its version uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from envs.files import Bounds, FileError, parse_json
from envs.files.archive import MOST_MEMBER_BYTES, Archive
from evals.exchange.carried import NAME
from evals.exchange.inspect_log import ATTACHMENT, VERSION
from evals.exchange.public import public_error
from evals.imports.reading import Shape, Tokens, read_as, texts_of
from evals.imports.transcripts import GameKey, Transcript
from evals.types import Finish

_SAMPLE_BOUNDS = Bounds(MOST_MEMBER_BYTES)


class _Dataset(Shape):
    samples: int | None = None


class _Spec(Shape):
    task: str
    model: str
    dataset: _Dataset
    metadata: dict[str, Any] | None = None


class _Header(Shape):
    version: int
    eval: _Spec


class _Message(Shape):
    role: str
    content: str | list[dict[str, Any]]


class _Usage(Shape):
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    input_tokens_cache_read: Tokens | None = None
    input_tokens_cache_write: Tokens | None = None
    total_cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class _Error(Shape):
    message: str


class _Choice(Shape):
    stop_reason: str | None = None


class _Output(Shape):
    choices: list[_Choice] = Field(default_factory=list)


class _Sample(Shape):
    epoch: int
    messages: list[_Message]
    metadata: dict[str, Any] = Field(default_factory=dict)
    store: dict[str, Any] = Field(default_factory=dict)
    model_usage: dict[str, _Usage] = Field(default_factory=dict)
    attachments: dict[str, str] = Field(default_factory=dict)
    error: _Error | None = None
    output: _Output | None = None


_FINISH: Mapping[str, Finish] = {"max_tokens": "length", "model_length": "length", "content_filter": "content_filter"}
"""By Inspect's reasons to stop; all others are ends that the model chose."""


def read_inspect(path: Path) -> tuple[object, Iterator[Transcript]]:
    """A log: what it carries of the run, if raycade wrote it, and its samples.

    Raises:
        FileError: it is none.
    """
    archive = Archive(path)
    if "header.json" not in archive.names:
        raise FileError(path, "has no header.json: no finished log of inspect_ai in its .eval format")
    header = read_as(_Header, parse_json(archive.read("header.json"), f"{path}, header.json", _SAMPLE_BOUNDS), path)
    if header.version != VERSION:
        raise FileError(path, f"has version {header.version} of the format; this version of raycade reads {VERSION}")
    return (header.eval.metadata or {}).get(NAME), _transcripts(archive, header.eval.model)


def _transcripts(archive: Archive, model: str) -> Iterator[Transcript]:
    for name in archive.names:
        if name.startswith("samples/") and name.endswith(".json"):
            yield _transcript(archive.read(name), f"{archive.path}, {name}", model)
    archive.close()


def _transcript(content: bytes, place: str, model: str) -> Transcript:
    sample = read_as(_Sample, parse_json(content, place, _SAMPLE_BOUNDS), place)
    # A judge, or another model that a solver asked, is named beside the player.
    used = list(sample.model_usage.values())
    if model in sample.model_usage:
        used = [sample.model_usage[model]]
    # Tokens that a cache served or took in are no input tokens there.
    cached = sum((each.input_tokens_cache_read or 0) + (each.input_tokens_cache_write or 0) for each in used)
    key = {"repeat": sample.epoch - 1, **sample.metadata}
    return Transcript(
        place=place,
        key=read_as(GameKey, key, f"{place}, metadata"),
        player=model,
        carried=sample.store.get(NAME),
        messages=_messages(sample, place),
        prompt_tokens=cached + sum(each.input_tokens for each in used),
        completion_tokens=sum(each.output_tokens for each in used),
        cost=sum(each.total_cost or 0.0 for each in used),
        error=public_error(sample.error.message) if sample.error else "",
        finish=_finish(sample.output),
        size=len(content),
    )


def _finish(output: _Output | None) -> Finish:
    """How the last reply ended; a log that does not say it tells of no cut."""
    choices = output.choices if output else []
    reason = choices[0].stop_reason if choices else None
    return _FINISH.get(reason or "", "stop")


def _messages(sample: _Sample, place: str) -> list[tuple[str, str, str]]:
    """Role, text and reasoning of each; long texts lie among the attachments.

    Raises:
        FileError: attachments that stand in many places make the sample larger than any may be.
    """
    found = []
    characters = 0
    for message in sample.messages:
        whole = texts_of(message.content)
        lines = [sample.attachments.get(line.removeprefix(ATTACHMENT), line) for line in whole.split("\n")]
        characters += sum(map(len, lines))
        if characters > MOST_MEMBER_BYTES:
            raise FileError(place, f"has more than {MOST_MEMBER_BYTES:,} characters with its attachments")
        found.append((message.role, "\n".join(lines), _reasoning(message.content)))
    return found


def _reasoning(content: str | list[dict[str, Any]]) -> str:
    """The reasoning among the parts of a message; a message of one text has none."""
    if not isinstance(content, list):
        return ""
    return "\n".join(str(part.get("reasoning") or "") for part in content if part.get("type") == "reasoning")
