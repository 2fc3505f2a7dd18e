"""inspect_ai's ``.eval``: a zip archive of JSON files, one for each sample; `inspect view` opens it.

The files are written here, one sample at a time: inspect_ai's own writer takes a whole log in memory, and its pinned packages
would have to be installed beside ours. Its reader validates what is written (``benchmarks/exchange.py``).
"""

from __future__ import annotations

import base64
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.exchange.carried import NAME, carry_episode, carry_source
from evals.exchange.scores import Score, known, scores_of
from evals.exchange.source import (
    COMMON_LOSS,
    PROJECT,
    Said,
    Source,
    as_text,
    game_key,
    messages_of,
    picture_key,
    safe_name,
)

VERSION = 2
"""Of inspect_ai's log format."""
LOSS = (
    COMMON_LOSS,
    "Samples hold messages and no events; a message's metadata says its turn, what was decoded and by which rule.",
    "Where turns are separate conversations, their messages stand one after another.",
)
_STOP_REASONS = {"stop": "stop", "length": "max_tokens"}
_SHOWN = 2_000
"""Characters of a sample's first prompt in lists."""
ATTACHMENT = "attachment://"


def export_inspect(source: Source, folder: Path) -> list[Path]:
    """Write a suite as one player played it; nothing if no episode was played."""
    scores = scores_of(source)
    if not scores:
        return []
    moment = source.moment.isoformat(timespec="seconds").replace(":", "-").replace("+", "-")
    task = safe_name(f"{PROJECT}-{source.suite.name}-{source.player}").replace("_", "-")
    path = folder / f"{moment}_{task}_{source.key[:22]}.eval"
    folder.mkdir(parents=True, exist_ok=True)
    summaries, usage = [], _usage({})
    with zipfile.ZipFile(path, "w") as archive:
        for row in source.rows():
            sample = _sample(source, row)
            _write(archive, f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
            summaries.append(_summary(sample))
            own = sample["model_usage"][source.model_id]
            usage = {name: usage[name] + own[name] for name in usage}
        header = _header(source, scores, summaries, usage)
        _write(archive, "_journal/start.json", {name: header[name] for name in ("version", "eval", "plan")})
        _write(archive, "summaries.json", summaries)
        _write(archive, "header.json", header)
    return [path.relative_to(folder)]


def _write(archive: zipfile.ZipFile, name: str, value: object) -> None:
    member = zipfile.ZipInfo(name)  # without the time of writing, so that equal runs make equal files
    member.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(member, json.dumps(value, allow_nan=False))


def _header(
    source: Source, scores: Sequence[Score], summaries: Sequence[Mapping[str, Any]], usage: Mapping[str, Any]
) -> dict[str, Any]:
    moment = source.moment.isoformat(timespec="seconds")
    ids = list(dict.fromkeys(each["id"] for each in summaries))
    sampling = source.model.get("sampling", {})
    names = ("temperature", "top_p", "top_k", "max_tokens", "seed")
    settings = {name: sampling[name] for name in names if sampling.get(name) is not None}
    spec = {
        "eval_id": source.key[:22],
        "run_id": source.key[:22],
        "created": moment,
        "task": f"{PROJECT}_{source.suite.name}",
        "task_id": source.key[:22],
        "task_version": source.suite.version,
        "task_display_name": source.title,
        "task_args": dict(source.section),
        "dataset": {"name": source.suite.name, "samples": len(ids), "sample_ids": ids, "shuffled": False},
        "model": source.model_id,
        "model_generate_config": settings,
        "config": {"epochs": max(each["epoch"] for each in summaries)},
        "packages": dict(source.versions),
        "scorers": [{"name": each.metric, "metrics": [{"name": "mean"}]} for each in scores if not each.cell],
        "metadata": {
            "license": source.suite.license or "unknown",
            "credits": source.suite.credits,
            "left_out": list(LOSS),
            NAME: carry_source(source),
        },
    }
    completed = sum(each.get("error") is None for each in summaries)
    results = {
        "total_samples": len(source.plan),
        "completed_samples": completed,
        "scores": [_eval_score(each) for each in scores if not each.cell],
        "metadata": {"cells": [_cell(each) for each in scores if each.cell]},
    }
    return {
        "version": VERSION,
        "status": "success",
        "eval": spec,
        "plan": {"name": source.suite.name, "steps": [], "config": settings},
        "results": results,
        "stats": {"started_at": moment, "completed_at": moment, "model_usage": {source.model_id: usage}},
    }


def _eval_score(score: Score) -> dict[str, Any]:
    estimate = score.estimate
    values = {"mean": estimate.mean, "stderr": score.error, "ci_low": estimate.low, "ci_high": estimate.high}
    metrics = {name: {"name": name, "value": value} for name, value in values.items() if known(value) is not None}
    return {"name": score.metric, "scorer": score.metric, "scored_samples": estimate.n, "metrics": metrics}


def _cell(score: Score) -> dict[str, Any]:
    estimate = score.estimate
    where = dict(zip(score.dimensions, score.cell, strict=False))
    ends = {"mean": known(estimate.mean), "ci_low": known(estimate.low), "ci_high": known(estimate.high)}
    return {"metric": score.metric, **where, "n": estimate.n, **ends}


def _sample(source: Source, row: Mapping[str, Any]) -> dict[str, Any]:
    attachments: dict[str, str] = {}
    said = list(messages_of(row["turns"]))
    messages = [_message(source, each, row["episode_id"], place, attachments) for place, each in enumerate(said)]
    usage = {source.model_id: _usage(row)}
    output: dict[str, Any] = {"model": source.model_id, "choices": []}
    if row["turns"]:
        reason = _STOP_REASONS.get(row["turns"][-1]["finish"], "content_filter")
        output |= {"choices": [{"message": messages[-1], "stop_reason": reason}], "usage": usage[source.model_id]}
    names = ("suite", "task", "level", "mode", "index", "repeat", "seed", "episode_id", "player", "status", "steps")
    explanation = f"failed, which counts as no success: {row['error']}" if row["error"] else None
    decided = row["turns"][-1]["action"] if row["turns"] else None
    sample: dict[str, Any] = {
        "id": game_key(row),
        "epoch": row["repeat"] + 1,
        "input": _first_prompt(said),
        "target": "",
        "messages": messages,
        "output": output,
        "scores": {
            "success": {"value": "C" if row["success"] else "I", "answer": decided, "explanation": explanation},
            "score": {"value": row["score"] or 0.0},
        },
        "metadata": {**{name: row[name] for name in names}, "budget": row["budget"], **_own_columns(source, row)},
        "store": {NAME: carry_episode(source, row)},
        "events": [],
        "model_usage": usage,
        "total_time": row["seconds"] or 0.0,
        "working_time": row["seconds"] or 0.0,
        "uuid": row["episode_id"],
        "attachments": attachments,
        "turn_count": len(row["turns"]),
    }
    if row["error"]:
        sample["error"] = {"message": row["error"], "traceback": "", "traceback_ansi": ""}
    return sample


def _own_columns(source: Source, row: Mapping[str, Any]) -> dict[str, Any]:
    """The suite's own columns that are texts, truth values or numbers that JSON knows."""
    found = {}
    for name in source.suite.columns:
        value = row[name]
        is_number_of_json = not isinstance(value, float) or math.isfinite(value)
        if isinstance(value, str | int | float | bool) and is_number_of_json:
            found[name] = value
    return found


def _first_prompt(said: Sequence[Said]) -> str:
    return "\n".join(as_text(each.parts) for each in said if each.turn == 0 and each.reply is None)[:_SHOWN]


def _message(source: Source, said: Said, episode: str, place: int, attachments: dict[str, str]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    turn = said.reply
    if turn is not None and turn["reasoning"]:
        content.append({"type": "reasoning", "reasoning": turn["reasoning"]})
    content += [_content(source, part, attachments) for part in said.parts]
    message = {"id": f"{episode[:16]}-{place}", "role": said.role, "content": content, "source": "input"}
    if turn is None:
        return {**message, "metadata": {"turn": said.turn}}
    facts = {"turn": said.turn, **_facts(turn)}
    return {**message, "source": "generate", "model": source.model_id, "metadata": facts}


def _facts(turn: Mapping[str, Any]) -> dict[str, Any]:
    """What was read in a reply, what it took, and how it ended."""
    names = ("action", "rule", "finish", "prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")
    facts = {name: turn[name] for name in names}
    facts["seconds"] = known(turn["seconds"] or 0.0)
    return facts


def _content(source: Source, part: Mapping[str, Any], attachments: dict[str, str]) -> dict[str, Any]:
    if part["picture"] is None:
        return {"type": "text", "text": part["text"]}
    key = picture_key(part["picture"])
    if key not in attachments:
        picture = source.png(part["picture"])
        if picture is None:
            return {"type": "text", "text": f"[a picture that can no longer be rendered: {key}]"}
        attachments[key] = "data:image/png;base64," + base64.b64encode(picture).decode()
    return {"type": "image", "image": ATTACHMENT + key}


def _usage(row: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens as inspect_ai counts them: those that a cache served are no input tokens."""
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
    prompt, completion, cached, reasoning = (row.get(name) or 0 for name in names)
    return {
        "input_tokens": max(prompt - cached, 0),
        "output_tokens": completion,
        "total_tokens": prompt + completion,
        "input_tokens_cache_read": cached,
        "reasoning_tokens": reasoning,
        "total_cost": row.get("cost") or 0.0,
    }


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "epoch", "target", "scores", "metadata", "model_usage", "total_time", "working_time", "uuid")
    summary = {name: sample[name] for name in (*names, "turn_count")}
    summary |= {"input": sample["input"][:200], "completed": True, "message_count": len(sample["messages"])}
    if "error" in sample:
        summary["error"] = sample["error"]["message"]
    return summary
