"""One episode of MultiStAR as plain data: the graph of its questions, and what each turn asked, answered and weighed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from evals.multistar.answers import scores_of
from evals.multistar.mseval import Convention, Score
from evals.multistar.prompts import option_labels
from evals.view import EpisodeView, Facts, default_view

Node = Mapping[str, Any]


def episode_view(row: Mapping[str, Any], convention: Convention) -> EpisodeView:
    """The episode with its graph as a fact, and every turn with the question and the label probabilities it had.

    Args:
        row: A ledger row; ``nodes`` under its short name.
        convention: How the weights are computed.
    """
    plain = default_view(row)
    nodes: list[Node] = row.get("nodes") or []
    scores = scores_of(nodes, convention)
    asked = {turn: facts for node in nodes for turn, facts in _turns(node)}
    steps = tuple(
        dataclasses.replace(step, facts={**asked.get(number, {}), **_probabilities(turn)})
        for number, (step, turn) in enumerate(zip(plain.steps, row["turns"], strict=True))
    )
    graph = [_graph_node(node, scores.get(node["node"])) for node in nodes]
    return EpisodeView(steps, {**plain.facts, "graph": graph} if graph else plain.facts)


def _graph_node(node: Node, score: Score | None) -> Facts:
    """A question in the graph: its answer and key as they were labelled, and what its parents weigh."""
    labels = option_labels(node["stage"], node["options"])
    answer = node["answer"]
    return {
        "node": node["node"],
        "stage": node["stage"],
        "answer": None if answer is None else labels[answer],
        "key": labels[node["key"]],
        "right": answer == node["key"],
        "counts": node["counts"],
        "turn": node["turn"],
        "parents": list(node["parents"]),
        "weights": None if score is None else list(score.weights),
        "MSEval": None if score is None else score.value,
        "MSEval of perfect": None if score is None else score.share,
    }


def _turns(node: Node) -> list[tuple[int, Facts]]:
    """The turns that asked a question: as it stands, or with another answer to one of its parents."""
    key = option_labels(node["stage"], node["options"])[node["key"]]
    swept = [
        (each["turn"], {"question": node["node"], "key": key, "instead": [each["parent"], each["option"]]})
        for each in node["sweep"]
    ]
    return [*swept, (node["turn"], {"question": node["node"], "key": key})]


def _probabilities(turn: Mapping[str, Any]) -> Facts:
    """Of the labels, among all tokens; none for written replies."""
    labels = turn.get("labels") or []
    known = {each["label"]: math.exp(each["logprob"]) for each in labels if not math.isnan(each["logprob"])}
    return {"probabilities": known} if known else {}
