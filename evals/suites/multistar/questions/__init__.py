"""MultiStAR's questions in our own words: the direct set and the logical chain of a RAVEN problem.

direct_questions(problem, seed)     # up to 26 questions, 39 where panels have two parts; every one stands for itself
chain_questions(problem, seed)      # 36 or 71, in an order in which parents come first
question.options[question.key]      # the one true option

Every option is a statement with a definite truth value on the picture that is shown (docs/multistar_questions.md); an option
that happens to be true as well is never offered beside the key, and none is offered more often than it is the key.
"""

from evals.suites.multistar.questions.chain import chain_questions
from evals.suites.multistar.questions.direct import direct_nodes, direct_questions
from evals.suites.multistar.questions.options import Drawing
from evals.suites.multistar.questions.question import (
    QUESTION_ATTRIBUTES,
    VERSION,
    Part,
    Question,
    QuestionAttribute,
    Stage,
)

__all__ = [
    "QUESTION_ATTRIBUTES",
    "VERSION",
    "Drawing",
    "Part",
    "Question",
    "QuestionAttribute",
    "Stage",
    "chain_questions",
    "direct_nodes",
    "direct_questions",
]
