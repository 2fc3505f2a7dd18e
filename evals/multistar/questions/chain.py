"""The logical chain of a problem."""

from __future__ import annotations

from envs.raven import Problem, puzzle
from evals.multistar.questions.graph import chain_nodes
from evals.multistar.questions.question import Question
from evals.multistar.questions.words import SETTINGS


def chain_questions(problem: Problem, seed: int) -> tuple[Question, ...]:
    """The questions of the chain, parents before children: 36 where panels have one part, 71 where they have two."""
    setting = SETTINGS[problem.configuration.structure]
    return tuple(
        Question(
            node.name,
            node.stage,
            node.attribute,
            node.part,
            puzzle(problem),
            setting,
            node.name,
            ("first", "second", "third", "fourth"),
            0,
            node.parents,
        )
        for node in chain_nodes(problem.configuration)
    )
