"""What a suite is made of (docs/new_suite.md)."""

from envs.picture import Picture
from envs.settings import Count, Index, NotNegative, Positive, Seconds, Several, Share
from evals.conversation import Conversation, PlayedTurn
from evals.figures import Figure, Series
from evals.ledger.run_data import RunData
from evals.questions import Question, QuestionSuite
from evals.stats.intervals import Estimate, mean_estimate, proportion_estimate
from evals.suite import Column, Needs, Suite
from evals.summary.cells import success_figure, success_table
from evals.tables import Section, Table
from evals.types import (
    CannotPlayNow,
    Chat,
    Episode,
    Message,
    Outcome,
    PlayerError,
    Reply,
    Turn,
    message,
    reworded,
    stable_hash,
    stable_seed,
)
from evals.view import EpisodeView, StepView, default_view

__all__ = [
    "CannotPlayNow",
    "Chat",
    "Column",
    "Conversation",
    "Count",
    "Episode",
    "EpisodeView",
    "Estimate",
    "Figure",
    "Index",
    "Message",
    "Needs",
    "NotNegative",
    "Outcome",
    "Picture",
    "PlayedTurn",
    "PlayerError",
    "Positive",
    "Question",
    "QuestionSuite",
    "Reply",
    "RunData",
    "Seconds",
    "Section",
    "Series",
    "Several",
    "Share",
    "StepView",
    "Suite",
    "Table",
    "Turn",
    "default_view",
    "mean_estimate",
    "message",
    "proportion_estimate",
    "reworded",
    "stable_hash",
    "stable_seed",
    "success_figure",
    "success_table",
]
