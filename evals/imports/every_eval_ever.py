"""Every Eval Ever, schema 0.3: an aggregate file with its samples beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envs.files import FileError, parse_json, read_json, read_lines
from evals.exchange.carried import NAME
from evals.exchange.every_eval_ever import SAMPLES
from evals.exchange.public import public_error
from evals.imports.reading import Shape, Tokens, read_as
from evals.imports.transcripts import WHOLE_PROMPT, GameKey, Transcript


class _Details(Shape):
    additional_details: dict[str, str] | None = None


class _ModelInfo(Shape):
    id: str


class _Log(Shape):
    schema_version: str
    model_info: _ModelInfo
    source_metadata: _Details


class _Text(Shape):
    raw: str


class _Output(Shape):
    raw: list[str]
    reasoning_trace: list[str] | None = None


class _Message(Shape):
    role: str
    content: str | None = None
    reasoning_trace: str | None = None


class _Usage(Shape):
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0


class _Sample(Shape):
    input: _Text
    output: _Output | None = None
    messages: list[_Message] | None = None
    token_usage: _Usage | None = None
    error: str | None = None
    metadata: dict[str, Any]


def read_every_eval_ever(path: Path) -> tuple[object, Iterator[Transcript]]:
    """An aggregate file with its samples: what it carries of the run, if raycade wrote it, and its episodes.

    Raises:
        FileError: it is none, or its samples are missing.
    """
    value = read_json(path)
    if not isinstance(value, dict) or "schema_version" not in value:
        raise FileError(
            path,
            "is no aggregate file of Every Eval Ever (it has no schema_version); only files of every_eval_ever "
            "and inspect can be imported",
        )
    log = read_as(_Log, value, path)
    if not log.schema_version.startswith("0.3."):
        raise FileError(path, f"has schema {log.schema_version[:20]}; this version of raycade reads 0.3")
    samples = path.with_name(f"{path.stem}{SAMPLES}")
    if not samples.exists():
        raise FileError(path, f"has no samples beside it ({samples.name}): scores alone are no episodes")
    carried = (log.source_metadata.additional_details or {}).get(NAME)
    run = None if carried is None else parse_json(carried, f"{path}, source_metadata")
    return run, _transcripts(samples, log.model_info.id)


def _transcripts(path: Path, model: str) -> Iterator[Transcript]:
    for number, line in read_lines(path):
        place = f"{path}, line {number}"
        value = parse_json(line, place)
        sample = read_as(_Sample, value, place)
        carried = sample.metadata.get(NAME)
        usage = sample.token_usage or _Usage()
        yield Transcript(
            place=place,
            key=read_as(GameKey, sample.metadata, f"{place}, metadata"),
            player=model,
            carried=parse_json(carried, place) if isinstance(carried, str) else None,
            messages=_messages(sample),
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            error=public_error(sample.error or ""),
            size=len(line),
        )


def _messages(sample: _Sample) -> list[tuple[str, str, str]]:
    if sample.output is None:
        said = sample.messages or []
        return [(each.role, _PICTURE.sub("", each.content or ""), each.reasoning_trace or "") for each in said]
    thought = "\n".join(sample.output.reasoning_trace or [])
    return [
        (WHOLE_PROMPT, _PICTURE.sub("", sample.input.raw), ""),
        ("assistant", "\n".join(sample.output.raw), thought),
    ]


_PICTURE = re.compile(r"\[picture [0-9a-f]{32}\]")
"""What stands for a picture (``evals.exchange.source.as_text``)."""
