"""KidGym: twelve grid tasks for vision-language models, at three levels each."""

from envs.kidgym.frame import Frame, Hint, Item

__all__ = ["Frame", "Hint", "Item"]
