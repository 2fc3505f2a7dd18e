"""One episode of MultiStAR as plain data: the graph of its questions, and what each turn asked, answered and weighed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from evals.suites.multistar.answers import scores_of
from evals.suites.multistar.mseval import Convention, Score
from evals.suites.multistar.prompts import option_labels
from evals.view import EpisodeView, Facts, Question, StepView, default_view

Node = Mapping[str, Any]


def episode_view(row: Mapping[str, Any], convention: Convention) -> EpisodeView:
    """The episode with its graph, and every turn with the question and the label probabilities it had.

    Args:
        row: A ledger row; ``nodes`` under its short name.
        convention: How the weights are computed.
    """
    plain = default_view(row)
    nodes: list[Node] = row.get("nodes") or []
    scores = scores_of(nodes, convention)
    asked: dict[int, Facts] = {}
    for node in nodes:
        asked.update(_turns(node))
    steps = []
    for number, (step, turn) in enumerate(zip(plain.steps, row["turns"], strict=True)):
        steps.append(_step(step, asked.get(number, {}), _probabilities(turn)))
    graph = tuple(_question(node, scores.get(node["node"])) for node in nodes)
    return EpisodeView(tuple(steps), plain.facts, regret_unit="nats", graph=graph)


def _step(step: StepView, facts: Facts, probabilities: Mapping[str, float]) -> StepView:
    """A turn with its key, and what it lost in log score: perfect play gives the key probability 1."""
    key = facts.get("key")
    likely = probabilities.get(key, 0.0) if key else 0.0
    regret = -math.log(likely) if likely else None
    return dataclasses.replace(step, facts=facts, best=key, regret=regret, probabilities=probabilities)


def _question(node: Node, score: Score | None) -> Question:
    """A question in the graph: its answer and key as they were labeled, and what its parents weigh."""
    labels = option_labels(node["stage"], node["options"])
    answer = node["answer"]
    return Question(
        name=node["node"],
        stage=node["stage"],
        answer=None if answer is None else labels[answer],
        key=labels[node["key"]],
        parents=tuple(node["parents"]),
        weights=() if score is None else score.weights,
        turn=node["turn"],
        counts=node["counts"],
        score=None if score is None else score.share,
    )


def _turns(node: Node) -> list[tuple[int, Facts]]:
    """The turns that asked a question: as it stands, or with another answer to one of its parents."""
    key = option_labels(node["stage"], node["options"])[node["key"]]
    swept = [
        (each["turn"], {"question": node["node"], "key": key, "instead": [each["parent"], each["option"]]})
        for each in node["sweep"]
    ]
    return [*swept, (node["turn"], {"question": node["node"], "key": key})]


def _probabilities(turn: Mapping[str, Any]) -> Mapping[str, float]:
    """Of the labels, among all tokens; none for written replies."""
    labels = turn.get("labels") or []
    return {each["label"]: math.exp(each["logprob"]) for each in labels if not math.isnan(each["logprob"])}
