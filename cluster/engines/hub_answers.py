"""What the model hub answers instead of a model's files: whether it is only busy, and when to ask again.

The libraries above it do not say: transformers has "couldn't connect", and vLLM, which then looks into the cache alone, passes
on huggingface_hub's "outgoing traffic has been disabled".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cluster.engines.api_errors import asked_seconds
from cluster.engines.base import HubBusyError

BUSY = frozenset({408, 425, 429, *range(500, 600)})
"""Statuses of a hub that may answer in a while."""
LONGEST_ASKED = 120.0
"""Seconds: if a hub asks to wait longer, the request is retried after this time all the same."""
WEIGHTS = ["*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack", "*.onnx", "*.ot", "original/*"]
"""Files of a model that are large."""
ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")
GAVE_UP = re.compile(r"HTTP Error (\d{3}) thrown while requesting (\S+ \S+)")
TRIES_AGAIN = re.compile(r"Retrying in |Rate limited\. Waiting ")
"""What the hub's client prints of a refused request, and after that if it will ask again."""


@dataclass(frozen=True)
class HubAnswer:
    """The answer of a hub, or of another server that has files, that led to an error."""

    text: str
    """In its own words."""
    busy: bool
    retry_after: float = 0.0
    """Seconds that it asks to wait, at most ``LONGEST_ASKED``; 0 where it does not say."""


def hub_answer(error: BaseException, printed: Sequence[str] = ()) -> HubAnswer | None:
    """What a server answered that led to an error; None if none did.

    Args:
        error: As a library raised it: the answer is among its causes.
        printed: Lines that the engine's processes have printed: an error of another process has no causes here.
    """
    cause: BaseException | None = error
    for _ in range(20):  # a chain of errors may be a ring
        if cause is None:
            break
        answer = _answer_of(cause)
        if answer is not None:
            return answer
        cause = cause.__cause__ or cause.__context__
    return _printed_answer(printed)


def _answer_of(error: BaseException) -> HubAnswer | None:
    text = " ".join(str(error).split())[:400]
    if not text:
        text = type(error).__name__
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int):
        sent = dict(getattr(response, "headers", {}))
        headers = {name.lower(): value for name, value in sent.items()}
        return HubAnswer(text, status in BUSY, min(asked_seconds(headers), LONGEST_ASKED))
    # Of the HTTP client that huggingface_hub uses, whose name changes with its version.
    kind = type(error)
    of_client = kind.__module__.startswith("httpx")
    if of_client and "Timeout" in kind.__name__:
        return HubAnswer(f"no answer in time: {text}", busy=True)
    return None


def _printed_answer(printed: Sequence[str]) -> HubAnswer | None:
    """The last request of which the hub's client says that it was refused, unless the client retried it."""
    last = None
    for line in printed:
        refused = GAVE_UP.search(line)
        if refused:
            last = refused
        elif TRIES_AGAIN.search(line):
            last = None
    return None if last is None else HubAnswer(f"{last[1]} for {last[2]}", int(last[1]) in BUSY)


def fetch_small_files(model: str, revision: str | None) -> None:
    """Have a hub model's configuration, tokenizer and templates in the cache before an engine reads them one by one.

    If the hub is busy, vLLM goes on without a file that it takes for optional, such as the one with further end tokens.

    Args:
        model: A name on the hub; nothing is done for others.
        revision: Branch, tag or commit; the main branch if None.

    Raises:
        HubBusyError: the hub is busy, and the cache lacks them.
    """
    if not ON_HUB.fullmatch(model):
        return
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(model, revision=revision, ignore_patterns=WEIGHTS)
    except Exception as error:  # of several libraries; vLLM itself names all others than a busy hub
        answer = hub_answer(error)
        if answer is not None and answer.busy:
            raise HubBusyError(
                f"the hub is busy ({answer.text}): {model} cannot be read", answer.retry_after
            ) from error
