"""A person as a player: in the terminal or in the browser, through the same play loop as any model."""

from evals.human.player import HumanPlayer, Interface, Question, QuitError, human_name, is_human

__all__ = ["HumanPlayer", "Interface", "Question", "QuitError", "human_name", "is_human"]
