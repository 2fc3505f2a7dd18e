"""Checkpoints of a training that is under way: each is found when it is complete, played, and added to a curve."""
