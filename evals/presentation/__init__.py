"""How a game is told to its player: in pictures or words, with how much of what came before, with what feedback.

The game stays the same under all of it, so that runs are paired. A suite offers the fields of ``Presentation`` that make sense
for it as settings of its own and says what its defaults are; whatever differs from these is part of an episode's id.
"""

from evals.presentation.fields import Value, check_fields, filled
from evals.presentation.history import History, windowed
from evals.presentation.order import shuffled
from evals.presentation.parts import joined
from evals.presentation.pictures import Modality, told
from evals.presentation.settings import Feedback, OptionOrder, PastPictures, PastReasoning, Presentation

__all__ = [
    "Feedback",
    "History",
    "Modality",
    "OptionOrder",
    "PastPictures",
    "PastReasoning",
    "Presentation",
    "Value",
    "check_fields",
    "filled",
    "joined",
    "shuffled",
    "told",
    "windowed",
]
