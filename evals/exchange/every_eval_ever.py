"""Every Eval Ever, schema 0.3.0: an aggregate JSON for each suite and player, with a line of JSON for each episode beside it.

The layout is that of their datastore: ``data/COLLECTION/DEVELOPER/MODEL/UUID.json`` and ``UUID_samples.jsonl``.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.exchange.carried import NAME, carry_episode, carry_source, row_json
from evals.exchange.scores import ANYTIME_VALID, CONFIDENCE, MAIN, METHOD, Score, known, scores_of
from evals.exchange.source import (
    COMMON_LOSS,
    PROJECT,
    Said,
    Source,
    as_text,
    game_key,
    json_line,
    messages_of,
    safe_name,
    told_apart,
    write_json,
)

SCHEMA = "0.3.0"
LOSS = (
    COMMON_LOSS,
    "Pictures stand in messages as [picture HASH]; their descriptions, which render again, are in metadata.raycade.",
    "One record for each episode, linked to the result `success`; scores of cells and other measures have no records.",
)
SAMPLES = "_samples.jsonl"


def export_every_eval_ever(source: Source, folder: Path) -> list[Path]:
    """Write a suite as one player played it; nothing if no episode was played."""
    scores = scores_of(source)
    if not scores:
        return []
    developer, model = source.model_id.split("/", 1)
    identity = str(uuid.UUID(hex=source.key, version=4))
    home = Path("data") / safe_name(f"{PROJECT}_{source.suite.name}") / safe_name(developer) / safe_name(model)
    samples = home / f"{identity}{SAMPLES}"
    evaluation = f"{PROJECT}_{source.suite.name}/{source.model_id}/{int(source.moment.timestamp())}"
    (folder / home).mkdir(parents=True, exist_ok=True)
    digest, count = hashlib.sha256(), 0
    with (folder / samples).open("wb") as file:
        for row in source.rows():
            line = json_line(_sample(source, row, evaluation))
            digest.update(line)
            count += 1
            file.write(line)
    log = _log(source, scores, evaluation)
    log["detailed_evaluation_results"] = {
        "format": "jsonl",
        "file_path": samples.as_posix(),
        "hash_algorithm": "sha256",
        "checksum": digest.hexdigest(),
        "total_rows": count,
    }
    write_json(folder / home / f"{identity}.json", log)
    return [home / f"{identity}.json", samples]


def _log(source: Source, scores: list[Score], evaluation: str) -> dict[str, Any]:
    began = str(int(source.moment.timestamp()))
    return {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation,
        "evaluation_timestamp": began,
        "retrieved_timestamp": began,
        "source_metadata": {
            "source_name": PROJECT,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": {
                "planned": str(len(source.plan)),
                "license": source.suite.license or "unknown",
                "credits": source.suite.credits or "none",
                "left_out": " ".join((*LOSS, *_withheld(source))),
                NAME: row_json(carry_source(source)),
            },
        },
        "eval_library": {
            "name": PROJECT,
            "version": source.versions.get(PROJECT, "unknown"),
            "additional_details": dict(source.versions),
        },
        "model_info": _model_info(source),
        "evaluation_results": _results(source, scores),
    }


def _withheld(source: Source) -> list[str]:
    return [f"Settings that did not leave: {', '.join(source.withheld)}."] if source.withheld else []


def _model_info(source: Source) -> dict[str, Any]:
    engine = source.model.get("engine", {})
    info = {"name": source.player, "id": source.model_id, "developer": source.model_id.split("/", 1)[0]}
    if not engine:
        details = _details(source, "self_deployed", "unknown")
        return info | {"additional_details": details | {"kind": "a built-in player, not a model"}}
    # of an API nobody here knows whether the weights are open
    deployment, availability = "externally_managed", "unknown"
    if engine.get("type") == "vllm":
        deployment = "self_deployed"
        if not source.model_id.startswith(f"{PROJECT}/"):
            availability = "open_weights"
    details = _details(source, deployment, availability)
    details |= {name: str(value) for name, value in engine.items() if name not in ("type", "model")}
    kind = str(engine.get("type"))
    version = source.versions.get(kind, source.versions.get(f"{kind}-cpu", "unknown"))
    return info | {"inference_engine": {"name": kind, "version": version}, "additional_details": details}


def _details(source: Source, deployment: str, availability: str) -> dict[str, str]:
    return {"deployment_type": deployment, "model_availability": availability, "player": source.player}


def _results(source: Source, scores: Sequence[Score]) -> list[dict[str, Any]]:
    """One result for each score; two that would have one name or id, since their cells join alike, are told apart."""
    names = {(score.metric, *score.cell): score.name for score in scores}
    ids = told_apart({key: _result_id(source, name) for key, name in names.items()})
    names = told_apart(names)
    results = []
    for score in scores:
        key = (score.metric, *score.cell)
        results.append(_result(source, score, names[key], ids[key]))
    return results


def _result(source: Source, score: Score, name: str, identity: str) -> dict[str, Any]:
    low, high = score.bounds
    estimate = score.estimate
    uncertainty: dict[str, Any] = {"num_samples": estimate.n}
    if known(score.error) is not None:
        uncertainty["standard_error"] = {"value": score.error, "method": "analytic, clustered by game"}
    if estimate.has_interval:
        interval = {"lower": estimate.low, "upper": estimate.high, "confidence_level": CONFIDENCE}
        uncertainty["confidence_interval"] = {**interval, "method": ANYTIME_VALID if source.run.stopping else METHOD}
    cell = dict(zip(score.dimensions, score.cell, strict=False))
    arguments = {
        name: source.model.get("sampling", {}).get(name) for name in ("temperature", "top_p", "top_k", "max_tokens")
    }
    return {
        "evaluation_result_id": identity,
        "evaluation_name": f"{source.title}: {name}",
        "source_data": {
            "dataset_name": f"{PROJECT} {source.suite.name}",
            "source_type": "other",
            "additional_details": {"suite": json.dumps(source.section), "suite_version": str(source.suite.version)},
        },
        "evaluation_timestamp": str(int(source.moment.timestamp())),
        "metric_config": {
            "metric_id": f"{PROJECT}.{source.suite.name}.{score.metric}".replace(" ", "_"),
            "metric_name": score.metric,
            "metric_kind": "accuracy" if score.metric == MAIN else score.metric,
            "metric_unit": "proportion" if score.bounds == (0, 1) else "points",
            "lower_is_better": not score.higher_is_better,
            "score_type": "continuous",
            "min_score": low if low == 0 else "-Infinity",
            "max_score": high if high == 1 else "Infinity",
            "additional_details": {"level": "cell" if score.cell else "overall", **cell},
        },
        "score_details": {"score": estimate.mean, "uncertainty": uncertainty},
        "generation_config": {
            "generation_args": {name: value for name, value in arguments.items() if value is not None},
            "additional_details": {"decoding": source.decoding or "unknown"},
        },
    }


def _result_id(source: Source, score: str) -> str:
    return safe_name(f"{source.suite.name}.{source.player}.{score}".replace(" ", "."))


def _sample(source: Source, row: Mapping[str, Any], evaluation: str) -> dict[str, Any]:
    turns = row["turns"]
    said = list(messages_of(turns))
    asked = "\n".join(as_text(each.parts) for each in said if each.turn == 0 and each.reply is None)
    single = len(turns) == 1
    sample: dict[str, Any] = {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation,
        "model_id": source.model_id,
        "evaluation_name": f"{source.title}: {MAIN}",
        "evaluation_result_id": _result_id(source, MAIN),
        "sample_id": f"{game_key(row)}/{row['repeat']}",
        "sample_hash": hashlib.sha256(
            json.dumps({"raw": asked, "reference": []}, sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest(),
        "interaction_type": "single_turn" if single else "multi_turn",
        # a game has no reference answer: what perfect play does depends on what was done before
        "input": {"raw": asked, "reference": []},
        "answer_attribution": _attributions(said, len(turns)),
        "evaluation": {"score": row["score"] or 0.0, "is_correct": bool(row["success"])},
        "token_usage": {
            "input_tokens": row["prompt_tokens"] or 0,
            "output_tokens": row["completion_tokens"] or 0,
            "total_tokens": (row["prompt_tokens"] or 0) + (row["completion_tokens"] or 0),
            "input_tokens_cache_read": row["cached_tokens"] or 0,
            "reasoning_tokens": row["reasoning_tokens"] or 0,
        },
        "performance": {"latency_ms": 1000 * (row["seconds"] or 0.0)},
        "error": row["error"] or None,
        "metadata": {
            **{name: str(row[name]) for name in ("suite", "task", "level", "mode", "index", "repeat", "seed")},
            "episode_id": row["episode_id"],
            NAME: row_json(carry_episode(source, row)),
        },
    }
    if turns:
        sample["evaluation"]["num_turns"] = len(turns)
    if single:
        sample["output"] = {"raw": [turns[0]["reply"]]}
        if turns[0]["reasoning"]:
            sample["output"]["reasoning_trace"] = [turns[0]["reasoning"]]
    else:
        sample["messages"] = [_message(each, place) for place, each in enumerate(said)]
    return sample


def _attributions(said: Sequence[Said], turns: int) -> list[dict[str, Any]]:
    """What was read in each reply, and where it stands: in the output of a game of one turn, else in its messages."""
    found = []
    for place, each in enumerate(said):
        if each.reply is None:
            continue
        where = {"turn_idx": place, "source": "messages[turn_idx].content"}
        if turns == 1:
            where = {"turn_idx": 0, "source": "output.raw"}
        read = {"extracted_value": each.reply["action"] or "", "extraction_method": each.reply["rule"] or "none"}
        found.append({**where, **read, "is_terminal": each.turn == turns - 1})
    return found


def _message(said: Said, place: int) -> dict[str, Any]:
    reasoning = None
    if said.reply is not None:
        reasoning = said.reply["reasoning"] or None
    return {"turn_idx": place, "role": said.role, "content": as_text(said.parts), "reasoning_trace": reasoning}
