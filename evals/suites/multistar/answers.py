"""What the ledger holds of every question, with its MSEval in the convention asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from evals.ledger.records import plan_from_table
from evals.suites.multistar.mseval import Asked, Convention, Score, Sweep, complete, mseval, option_probabilities
from evals.suites.multistar.puzzles import puzzle_of
from evals.suites.multistar.questions import QUESTION_ATTRIBUTES, Question
from evals.types import Episode

STAGES = ("1P-B", "1P-C", "1P", "2P", "1R", "2R", "final")

Node = Mapping[str, Any]
"""One entry of the ledger's ``nodes`` (``evals.suites.multistar.play.NODE``)."""

LOW_MASS = 0.5
"""Where all labels together have less than this probability, the model did not take the question as meant."""

LEDGER_COLUMNS = ("episode_id", "status", "n_questions", "n_calls", "n_planned_calls", "nodes")


@dataclass(frozen=True)
class Answered:
    """One question of one episode that has been played."""

    player: str
    mode: str
    """``style/prior``, or the style alone for direct questions."""
    configuration: str
    puzzle: int
    node: str
    stage: str
    attribute: str
    """``puzzle`` for the final question."""
    part: str
    failed: bool
    """The episode failed: the question counts as answered wrong."""
    options: int
    counts: bool
    """Whether it counts in accuracy; a link of the chain does not."""
    right: bool = False
    answer: int | None = None
    argmax_is_label: bool | None = None
    mass: float | None = None
    parents: tuple[str, ...] = ()
    parent_options: tuple[int, ...] = ()
    score: Score | None = None
    """None where a probability is not exact, or the question was not swept."""
    inexact: bool = False
    """Whether it has no MSEval for lack of exact probabilities."""
    cut_off: bool = False
    """Whether the token limit or a content filter ended the written reply."""
    names_absent: bool = False
    """Whether the written reply names an object that is not in the picture."""

    @property
    def style(self) -> str:
        """Of the prompt."""
        return self.mode.partition("/")[0]

    @property
    def prior(self) -> str:
        """``none``, ``model`` or ``truth``."""
        return self.mode.partition("/")[2] or "none"

    @property
    def cluster(self) -> tuple[str, int]:
        """The puzzle, whose questions are not independent."""
        return self.configuration, self.puzzle

    @property
    def asked(self) -> tuple[str, int, str]:
        """The question, whoever answers it and whatever it is told."""
        return self.configuration, self.puzzle, self.node

    @property
    def valid(self) -> bool:
        """Whether the model took the question as meant: it answered, most likely with a label."""
        low = self.mass is not None and self.mass < LOW_MASS
        return self.answer is not None and self.argmax_is_label is not False and not low


@dataclass(frozen=True)
class Played:
    """One planned episode and its row of the ledger, if there is one."""

    episode: Episode
    row: Mapping[str, Any] | None

    @property
    def failed(self) -> bool:
        """Whether it was played and has no outcome."""
        return self.row is not None and self.row["status"] == "failed"


def join(plan: pa.Table, ledger: pa.Table) -> list[Played]:
    """Every planned episode in the order of the plan; rows that are not planned do not count."""
    names = [name for name in LEDGER_COLUMNS if name in ledger.column_names]
    absent = dict.fromkeys(LEDGER_COLUMNS)
    rows = {row["episode_id"]: absent | row for row in ledger.select(names).to_pylist()}
    return [Played(episode, rows.get(episode.id)) for episode in plan_from_table(plan)]


def answers_of(
    played: Sequence[Played],
    lost_questions: Callable[[Episode], Sequence[Question]],
    convention: Convention,
    absent: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[Answered]:
    """All questions of all episodes that were played, failed ones included.

    Args:
        played: As ``join`` gives them.
        lost_questions: What a failed episode would have asked; empty where that is unknown.
        convention: How CMI is computed.
        absent: By episode, the nodes whose replies name objects that are not in the picture.
    """
    found: list[Answered] = []
    for item in played:
        if item.failed:
            found += (_lost(item.episode, question) for question in lost_questions(item.episode))
        elif item.row is not None:
            found += _answered(item.episode, item.row["nodes"] or (), convention, absent.get(item.episode.id, ()))
    return found


def _lost(episode: Episode, question: Question) -> Answered:
    return Answered(
        *_place(episode),
        question.node,
        question.stage,
        question.attribute or "puzzle",
        question.part or "",
        True,
        len(question.options),
        question.counts,
    )


def _place(episode: Episode) -> tuple[str, str, str, int]:
    return episode.player, episode.mode, episode.task, puzzle_of(episode)


def _answered(
    episode: Episode, nodes: Sequence[Node], convention: Convention, absent: Collection[str]
) -> Iterator[Answered]:
    by_name = {node["node"]: node for node in nodes}
    scores, exact = scores_of(nodes, convention), _exactly_asked(nodes)
    for node in nodes:
        parents = tuple(node["parents"])
        yield Answered(
            *_place(episode),
            node["node"],
            node["stage"],
            node["attribute"] or "puzzle",
            node["part"] or "",
            failed=False,
            options=len(node["options"]),
            counts=node["counts"],
            right=node["answer"] == node["key"],
            answer=node["answer"],
            argmax_is_label=node["argmax_is_label"],
            mass=node["mass"],
            parents=parents,
            parent_options=tuple(len(by_name[name]["options"]) for name in parents),
            score=scores.get(node["node"]),
            inexact=_inexact(node, exact),
            cut_off=bool(node["cut_off"]),
            names_absent=node["node"] in absent,
        )


def scores_of(nodes: Sequence[Node], convention: Convention) -> dict[str, Score]:
    """MSEval by node; without those that lack an exact probability or a sweep."""
    exact = _exactly_asked(nodes)
    scores = {
        node["node"]: _score(node, node["parents"], exact, convention) for node in nodes if not _inexact(node, exact)
    }
    return {name: score for name, score in scores.items() if score}


def _exactly_asked(nodes: Sequence[Node]) -> dict[str, Asked]:
    return {node["node"]: Asked(option_probabilities(node["logprobs"]), node["key"]) for node in nodes if _exact(node)}


def _inexact(node: Node, exact: Mapping[str, Asked]) -> bool:
    return any(name not in exact for name in (node["node"], *node["parents"])) or not all(map(_exact, node["sweep"]))


def _score(node: Node, parents: Sequence[str], exact: Mapping[str, Asked], convention: Convention) -> Score | None:
    sweeps = []
    for name in parents:
        swept = sorted((each for each in node["sweep"] if each["parent"] == name), key=lambda each: each["option"])
        if len(swept) < len(exact[name].probabilities):
            return None
        distributions = tuple(option_probabilities(each["logprobs"]) for each in swept)
        sweeps.append(Sweep(exact[name], tuple(each["answer"] for each in swept), distributions))
    return mseval(exact[node["node"]], sweeps, convention)


def _exact(reply: Mapping[str, Any]) -> bool:
    """Whether a node, or one reply of its sweep, has exact probabilities; early ledgers do not say so of a sweep."""
    return bool(reply.get("exact", True) and reply["answer"] is not None and complete(reply["logprobs"]))


def groups_of(
    answers: Iterable[Answered], key: Callable[[Answered], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Answered]]:
    """Answers by key, in the order of first appearance."""
    groups: dict[tuple[str, ...], list[Answered]] = {}
    for answer in answers:
        groups.setdefault(key(answer), []).append(answer)
    return groups


_RANKS = {name: rank for rank, name in enumerate((*STAGES, *QUESTION_ATTRIBUTES))}


def in_order(keys: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Keys of player, mode and more: stages and attributes in their own order, all else by first appearance."""
    found = list(keys)
    seen = {head: rank for rank, head in enumerate(dict.fromkeys(key[:2] for key in found))}
    return sorted(found, key=lambda key: (seen[key[:2]], *(_RANKS.get(part, len(_RANKS)) for part in key[2:])))
