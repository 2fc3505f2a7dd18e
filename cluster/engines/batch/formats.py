"""Batch jobs in the formats of OpenAI, Anthropic and Gemini, through their clients."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from cluster.engines.api_errors import EndpointError, error_from
from cluster.engines.providers.base import ProviderEngine
from cluster.engines.providers.connection import plain
from cluster.engines.providers.errors import STREAMED
from cluster.engines.providers.gemini import typed
from envs.files import Bounds, parse_json

EXPIRED: Mapping[str, Any] = {"error": "the batch ended before it came to this turn", "status": 0}
UNREADABLE: Mapping[str, Any] = {"data": None}
"""An answer without a reply and without a sensible number of tokens; it counts with the most that it may cost."""
PAGES_OF_JOBS = 20
"""Lists of the account's jobs that are looked through for one of ours."""
CLOCKS_APART = 86400.0
"""Seconds by which this machine's clock and the provider's may differ: one that is not found is sent again, and paid again."""

Answers = dict[str, Mapping[str, Any]]
"""By turn: ``{"data": ...}``, or ``{"error": ..., "status": ...}``, perhaps with the ``param`` that the error names; under
``NOBODY`` what may answer any turn."""
DIGITS_OF_KEY = 16
"""Of a job's key, in the ids of its turns where jobs have no names; an id has at most 64 characters."""
NOBODY = ""
"""In place of a turn's id: an answer does not tell to which turn it belongs."""
_NO_SUCH_FORM = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
"""What is raised by reading a line that is not of the form that the provider documents."""


class Format(Protocol):
    """One provider's batch jobs."""

    most_turns: int
    most_bytes: int
    """Of one job; the providers' own limits are a little higher."""

    async def create(self, key: str, bodies: Mapping[str, Mapping[str, Any]]) -> str:
        """Send a job; returns the provider's id."""
        ...

    async def candidates(self, key: str, turns: Sequence[str], since: float) -> list[str]:
        """Ids of jobs that may be the one of this key; the provider may know it by less than its key."""
        ...

    async def has_ended(self, batch: str) -> bool:
        """Whether a job will do no more."""
        ...

    async def answers(self, batch: str, key: str) -> Answers:
        """What an ended job of this key has answered; turns that it did not come to are missing."""
        ...


class JobFailedError(EndpointError):
    """The provider took a job and failed it as a whole, as for a model that it does not have: no turn was played."""

    def __init__(self, why: str, status: int) -> None:
        """In what the provider says of it, and with the status that a single request would have met."""
        said = why[:300] or "the provider does not say why"
        super().__init__(f"the batch failed: {said}", status)


class OpenAIBatches:
    """A file of lines is uploaded, then a job created with it; two files come back."""

    most_turns = 50_000
    most_bytes = 180 * 2**20

    def __init__(self, engine: ProviderEngine) -> None:
        """Jobs of the engine's endpoint: responses, or chat completions."""
        self._client = engine._client
        self._endpoint = "/v1/responses" if getattr(engine, "api", "") == "responses" else "/v1/chat/completions"

    async def create(self, key: str, bodies: Mapping[str, Mapping[str, Any]]) -> str:
        """As ``Format.create``."""
        lines = [
            json.dumps({"custom_id": turn, "method": "POST", "url": self._endpoint, "body": body})
            for turn, body in bodies.items()
        ]
        content = io.BytesIO("\n".join(lines).encode())
        file = await self._client.files.create(file=(f"{key}.jsonl", content), purpose="batch")
        made = await self._client.batches.create(
            input_file_id=file.id, endpoint=self._endpoint, completion_window="24h", metadata={"raycade_job": key}
        )
        return _id_of(made.id)

    async def candidates(self, key: str, turns: Sequence[str], since: float) -> list[str]:
        """As ``Format.candidates``: jobs carry our key."""
        found, seen = [], 0
        async for job in self._client.batches.list(limit=100):
            seen += 1
            if (job.metadata or {}).get("raycade_job") == key:
                found.append(str(job.id))
            if seen >= 100 * PAGES_OF_JOBS or job.created_at < since - CLOCKS_APART:
                break
        return found

    async def has_ended(self, batch: str) -> bool:
        """As ``Format.has_ended``."""
        return (await self._client.batches.retrieve(batch)).status in ("completed", "expired", "cancelled", "failed")

    async def answers(self, batch: str, key: str) -> Answers:
        """As ``Format.answers``."""
        from openai import NotFoundError

        job = await self._client.batches.retrieve(batch)
        if job.status == "failed":
            raise _openai_failure(job)
        found: Answers = {}
        # Answers and refusals come in a file each, of which one may be missing.
        files = [file for file in (job.output_file_id, job.error_file_id) if file is not None]
        gone: NotFoundError | None = None
        for file in files:
            try:
                content = await self._client.files.content(file)
            except NotFoundError as error:
                gone = error
                continue
            for line in _lines(content.content):
                _note(found, *_openai_answer(line))
        if gone is not None:
            if not found:
                raise gone
            found[NOBODY] = UNREADABLE  # it may have held what the turns without an answer cost
        return found


def _note(found: Answers, turn: str, answer: Mapping[str, Any]) -> None:
    """Keep what a line answers to a turn; two lines that contradict one another answer nothing that can be believed."""
    is_believed = found.get(turn, answer) == answer
    found[turn] = answer if is_believed else UNREADABLE


def _id_of(given: Any) -> str:
    """The provider's id of a job that it has taken.

    Raises:
        EndpointError: it tells none; the job is looked for by its name.
    """
    if not isinstance(given, str) or not given:
        raise EndpointError("the provider has taken a batch without telling its id", unreadable=True)
    return given


def _lines(content: bytes) -> Iterator[bytes]:
    """The lines of a file of JSON; they end with a line feed alone, since other line ends may stand within JSON."""
    return filter(bytes.strip, content.split(b"\n"))


_OPENAI_FAILURES: Mapping[str, int] = {"token_limit_exceeded": 429, "rate_limit_exceeded": 429, "internal_error": 500}
"""Statuses of a job's failures that may pass, by OpenAI's codes: too many requests wait already, or an error of its own."""


def _openai_failure(job: Any) -> JobFailedError:
    """What OpenAI says of a job that failed; it may say nothing."""
    errors: list[Any] = []
    if job.errors:
        errors = job.errors.data or []
    said = []
    status = 400
    for error in errors:
        code = str(getattr(error, "code", None) or "")
        said.append(f"{error.message} {code}".strip())
        status = _OPENAI_FAILURES.get(code, status)
    return JobFailedError("; ".join(said), status)


def _openai_answer(text: bytes) -> tuple[str, Mapping[str, Any]]:
    """The turn that a line answers, and how."""
    turn = NOBODY
    try:
        line = parse_json(text, "a line", Bounds())
        turn = str(line["custom_id"])
        error = line.get("error")
        if error:
            return turn, EXPIRED if error.get("code") == "batch_expired" else _error(500, text.decode())
        response = line["response"]
        if response["status_code"] != 200:
            return turn, _error(int(response["status_code"]), json.dumps(response["body"]))
        return turn, {"data": response["body"]}
    except _NO_SUCH_FORM:
        return turn, UNREADABLE


class AnthropicBatches:
    """A job is created with its requests; a stream of lines comes back."""

    most_turns = 100_000
    most_bytes = 240 * 2**20

    def __init__(self, engine: ProviderEngine) -> None:
        """Jobs of messages."""
        self._batches = engine._client.messages.batches
        self._host = urlsplit(engine.address).netloc
        self._further = dict(engine.extra_body or {})

    async def create(self, key: str, bodies: Mapping[str, Mapping[str, Any]]) -> str:
        """As ``Format.create``."""
        prefix = _prefix_of(key)
        requests = [{"custom_id": prefix + turn, "params": {**body, **self._further}} for turn, body in bodies.items()]
        return _id_of((await self._batches.create(requests=requests)).id)

    async def candidates(self, key: str, turns: Sequence[str], since: float) -> list[str]:
        """As ``Format.candidates``: jobs have no names, so those of that time with as many requests."""
        found, seen = [], 0
        async for job in self._batches.list(limit=100):
            seen += 1
            if seen > 100 * PAGES_OF_JOBS or job.created_at.timestamp() < since - CLOCKS_APART:
                break
            if sum(job.request_counts.model_dump().values()) == len(turns):
                found.append(str(job.id))
        return found

    async def has_ended(self, batch: str) -> bool:
        """As ``Format.has_ended``."""
        return bool((await self._batches.retrieve(batch)).processing_status == "ended")

    async def answers(self, batch: str, key: str) -> Answers:
        """As ``Format.answers``."""
        url = (await self._batches.retrieve(batch)).results_url
        # Results are kept for 29 days.
        if not url:
            return {NOBODY: UNREADABLE}
        if urlsplit(url).netloc != self._host:  # the client would send the key there
            raise EndpointError("the batch's results lie at another address than the endpoint's", 403)
        content = await self._batches.with_raw_response.results(batch)
        found: Answers = {}
        prefix = _prefix_of(key)
        for line in _lines(await content.read()):
            id_within, answer = _anthropic_answer(line)
            _note(found, id_within.removeprefix(prefix), answer)
        return found


def _prefix_of(key: str) -> str:
    """What stands before a turn's id in a job: jobs have no names, and their answers must tell whose they are."""
    return f"{key[-DIGITS_OF_KEY:]}-"


def _anthropic_answer(text: bytes) -> tuple[str, Mapping[str, Any]]:
    """The turn that a line answers, and how."""
    from anthropic.types.messages import MessageBatchIndividualResponse

    turn = NOBODY
    try:
        line = parse_json(text, "a line", Bounds())
        turn = str(line["custom_id"])
        result = MessageBatchIndividualResponse.construct(**line).result
        if result.type == "succeeded":
            return turn, {"data": plain(result.message)}
        if result.type == "errored":
            error = result.error.error
            return turn, _error(STREAMED.get(error.type, 500), plain_text(error))
        return turn, EXPIRED
    except (*_NO_SUCH_FORM, EndpointError):
        return turn, UNREADABLE


class GeminiBatches:
    """A job is created with its requests, each with our id as metadata; its description holds the replies."""

    most_turns = 10_000
    most_bytes = 18 * 2**20

    def __init__(self, engine: ProviderEngine) -> None:
        """Jobs of the engine's model."""
        self._batches = engine._client.aio.batches
        self._model = engine.model

    async def create(self, key: str, bodies: Mapping[str, Mapping[str, Any]]) -> str:
        """As ``Format.create``."""
        from google.genai import types

        requests = []
        for turn, body in bodies.items():
            contents, config = typed(body)
            requests.append(types.InlinedRequest(contents=contents, config=config, metadata={"key": turn}))
        made = await self._batches.create(model=self._model, src=requests, config={"display_name": key})
        return _id_of(made.name)

    async def candidates(self, key: str, turns: Sequence[str], since: float) -> list[str]:
        """As ``Format.candidates``: jobs carry our key as their name."""
        found, seen = [], 0
        oldest = datetime.datetime.fromtimestamp(since - CLOCKS_APART, datetime.UTC)
        async for job in await self._batches.list(config={"page_size": 100}):
            seen += 1
            if job.display_name == key:
                found.append(str(job.name))
            if seen >= 100 * PAGES_OF_JOBS or (job.create_time and job.create_time < oldest):
                break
        return found

    async def has_ended(self, batch: str) -> bool:
        """As ``Format.has_ended``."""
        state = (await self._batches.get(name=batch)).state.name.removeprefix("JOB_STATE_")
        return state in ("SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")

    async def answers(self, batch: str, key: str) -> Answers:
        """As ``Format.answers``."""
        job = await self._batches.get(name=batch)
        found: Answers = {}
        responses: list[Any] = []
        if job.dest:
            responses = job.dest.inlined_responses or []
        for each in responses:
            _note(found, *_gemini_answer(each))
        has_failed = job.error is not None or job.state.name == "JOB_STATE_FAILED"
        if has_failed and not found:
            raise _gemini_failure(job.error)
        return found


def _gemini_answer(given: Any) -> tuple[str, Mapping[str, Any]]:
    """The turn that an answer belongs to, and what it says."""
    turn = (given.metadata or {}).get("key", NOBODY)
    try:
        if given.response is not None:
            return turn, {"data": plain(given.response)}
        if given.error is not None:
            return turn, _error(_gemini_status(given.error), plain_text(given.error))
        return turn, UNREADABLE
    except _NO_SUCH_FORM:
        return turn, UNREADABLE


_GEMINI_FAILURES: Mapping[int, int] = {3: 400, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 12: 400, 16: 401}
"""Statuses of HTTP by gRPC's codes (https://grpc.io/docs/guides/status-codes/); all others may pass."""


def _gemini_failure(error: Any) -> JobFailedError:
    """What Google says of a job that failed; it may say nothing."""
    if not error:
        return JobFailedError("", 500)
    has_code = getattr(error, "code", None)
    status = _gemini_status(error) if has_code else 400
    return JobFailedError(str(error.message or ""), status)


def plain_text(error: Any) -> str:
    """A client's error object as the JSON of an endpoint's error."""
    return json.dumps({"error": plain(error)}) if hasattr(error, "model_dump") else "{}"


def _gemini_status(error: Any) -> int:
    """HTTP's status of an error, whose code may be one of gRPC; 500 where it has none."""
    code: int = getattr(error, "code", None) or 500
    other = 500 if code < 400 else code
    return _GEMINI_FAILURES.get(code, other)


def _error(status: int, body: str) -> Mapping[str, Any]:
    """A turn's error; its words are cleaned again, with the secrets, where they are read."""
    error = error_from(status, {}, body, ())
    named = {"param": error.param} if error.param else {}
    return {"error": error.words, "status": status, **named}
