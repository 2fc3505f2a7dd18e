"""lm-evaluation-harness: ``results_DATE.json`` and ``samples_TASK_DATE.jsonl``, as it writes them with --log_samples.

One task for each suite; its cells are tasks of their own in the results, below the suite's group.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.exchange.scores import MAIN, Score, known, scores_of
from evals.exchange.source import (
    COMMON_LOSS,
    PROJECT,
    Source,
    as_text,
    game_key,
    json_line,
    safe_name,
    told_apart,
    write_json,
)

LOSS = (
    COMMON_LOSS,
    "One request for each turn, with the chat as text; pictures stand as [picture HASH].",
    "Tokens, times and label probabilities are left out.",
)
FILTER = "none"
"""The name of the filter that all metrics are reported under."""


def export_lm_eval(source: Source, folder: Path) -> list[Path]:
    """Write a suite as one player played it; nothing if no episode was played."""
    scores = scores_of(source)
    if not scores:
        return []
    # their reader takes the time from the name, and tells files apart by it
    date = source.moment.strftime("%Y-%m-%dT%H-%M-%S.%f")
    home = Path(safe_name(source.model_id.replace("/", "__")))
    task = safe_name(f"{PROJECT}_{source.suite.name}").replace("-", "_")
    (folder / home).mkdir(parents=True, exist_ok=True)
    samples = home / f"samples_{task}_{date}.jsonl"
    hashes, count = hashlib.sha256(), 0
    with (folder / samples).open("wb") as file:
        for row in source.rows():
            sample = _sample(source, row, count)
            hashes.update((sample["doc_hash"] + sample["prompt_hash"] + sample["target_hash"]).encode())
            file.write(json_line(sample))
            count += 1
    results = home / f"results_{task}_{date}.json"
    write_json(folder / results, _results(source, scores, task, count, hashes.hexdigest()))
    return [results, samples]


def _results(source: Source, scores: list[Score], task: str, count: int, task_hash: str) -> dict[str, Any]:
    """What `lm_eval` puts into its file of results."""
    by_task: dict[str, dict[str, Any]] = {task: {"alias": source.title, "sample_len": count}}
    higher: dict[str, dict[str, bool]] = {}
    cells = {score.cell: f"{task}_{safe_name('_'.join(score.cell))}" for score in scores if score.cell}
    names = {(): task, **told_apart(cells)}
    for score in scores:
        name = names[score.cell]
        alias = {"alias": " ".join(score.cell), "sample_len": score.estimate.n}
        metric = score.metric.replace(",", " ")
        error = known(score.error)
        by_task.setdefault(name, alias)[f"{metric},{FILTER}"] = score.estimate.mean
        by_task[name][f"{metric}_stderr,{FILTER}"] = "N/A" if error is None else error
        higher.setdefault(name, {})[metric] = score.higher_is_better
    engine = source.model.get("engine", {})
    sampling = {name: value for name, value in source.model.get("sampling", {}).items() if value is not None}
    config = {"task": task, "output_type": "generate_until", "generation_kwargs": sampling, "num_fewshot": 0}
    counted = {
        name: {"original": values["sample_len"], "effective": values["sample_len"]} for name, values in by_task.items()
    }
    return {
        "results": by_task,
        "group_subtasks": {task: [name for name in by_task if name != task]},
        "configs": {name: {**config, "task": name, "metadata": {"version": source.suite.version}} for name in by_task},
        "versions": dict.fromkeys(by_task, source.suite.version),
        "n-shot": dict.fromkeys(by_task, 0),
        "higher_is_better": higher,
        "n-samples": counted,
        "config": {
            "model": str(engine.get("type") or PROJECT),
            "model_args": {"pretrained": source.model_id},
            "gen_kwargs": sampling,
            "bootstrap_iters": 0,
            "limit": None,
        },
        "date": source.moment.timestamp(),
        "git_hash": source.versions.get("git_commit"),
        "model_source": str(engine.get("type") or PROJECT),
        "model_name": source.model_id,
        "model_name_sanitized": source.model_id.replace("/", "__"),
        "task_hashes": {task: task_hash},
        "total_evaluation_time_seconds": "unknown",
        PROJECT: {
            "left_out": list(LOSS),
            "license": source.suite.license or "unknown",
            "suite": dict(source.section),
            "versions": dict(source.versions),
            "intervals": [_interval(score) for score in scores],
        },
    }


def _interval(score: Score) -> dict[str, Any]:
    estimate = score.estimate
    return {"metric": score.name, "low": known(estimate.low), "high": known(estimate.high), "n": estimate.n}


def _sample(source: Source, row: Mapping[str, Any], number: int) -> dict[str, Any]:
    names = ("suite", "task", "level", "mode", "index", "repeat", "seed", "status", "error", "steps", "budget")
    doc = {"id": game_key(row), "episode_id": row["episode_id"], **{name: row[name] for name in names}}
    settings = dict(source.model.get("sampling", {}))
    arguments = {
        f"gen_args_{number}": {"arg_0": prompt, "arg_1": settings}
        for number, prompt in enumerate(_prompts(row["turns"]))
    }
    first = arguments["gen_args_0"]["arg_0"] if arguments else ""
    metrics = {MAIN: float(bool(row["success"])), "score": row["score"] or 0.0}
    return {
        "doc_id": number,
        "doc": doc,
        "target": "",
        "arguments": arguments,
        "resps": [[turn["reply"]] for turn in row["turns"]],
        "filtered_resps": [turn["action"] or "" for turn in row["turns"]],
        "filter": FILTER,
        "metrics": list(metrics),
        "doc_hash": _hash(json.dumps(doc, indent=2)),
        "prompt_hash": _hash(str(first)),
        "target_hash": _hash(""),
        **metrics,
    }


def _prompts(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The whole chat of each turn as text."""
    chat: list[str] = []
    for turn in turns:
        added = [f"{message['role']}: {as_text(message['parts'])}" for message in turn["prompt"]]
        chat = [*chat[: turn["kept"]], *added]
        yield "\n".join(chat)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
