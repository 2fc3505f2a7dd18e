"""Shortcuts that are found instead of listed: what a cell needs, by the best players that lack a sense.

For each cell of a suite a fixed learner (``learner``) learns to play from what a feature class (``classes``) lets a player
know of each option (``Turn.features``), on seeds for training; it is then measured on others (``search``). Where a player
without a sense wins as often as one with all of them, the cell does not need that sense.
"""
