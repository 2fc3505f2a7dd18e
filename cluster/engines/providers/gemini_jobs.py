"""Batch jobs as Google's client reads them, which refuses a whole job where it cannot read one of its answers."""

from __future__ import annotations

import copy
import json
from typing import Any


def readable(content: bytes) -> bytes:
    """What Google told of jobs, with an empty answer in place of each that the client cannot read."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return content
    for answers in _answers_of_jobs(told):
        answers[:] = [_readable(answer) for answer in answers]
    return json.dumps(told).encode()


def _answers_of_jobs(told: Any) -> list[list[Any]]:
    """The answers of each job that is told of: one, or a list of them."""
    listed = _within(told, "operations")
    jobs = [told, *listed] if isinstance(listed, list) else [told]
    found = [_within(job, "metadata", "output", "inlinedResponses", "inlinedResponses") for job in jobs]
    return [answers for answers in found if isinstance(answers, list)]


def _within(value: Any, *keys: str) -> Any:
    """What lies below these keys; None where there is no such thing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _readable(answer: Any) -> dict[str, Any]:
    """An answer as it is, or only the turn that it belongs to, if that can be read."""
    without_details = copy.deepcopy(answer)
    # The client takes the details of an error for texts; they are mappings.
    error = _within(without_details, "error")
    if isinstance(error, dict):
        error.pop("details", None)
    if _is_read(without_details):
        return dict(without_details)
    turn_alone = {"metadata": _within(answer, "metadata")}
    return turn_alone if _is_read(turn_alone) else {}


def _is_read(answer: Any) -> bool:
    """Whether the client reads a job that has this answer alone."""
    from google.genai import batches, types

    output = {"inlinedResponses": {"inlinedResponses": [copy.deepcopy(answer)]}}
    try:
        form = batches._BatchJob_from_mldev({"metadata": {"output": output}})
        job = types.BatchJob._from_response(response=form, kwargs={})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False
    return bool(job.dest and job.dest.inlined_responses)
