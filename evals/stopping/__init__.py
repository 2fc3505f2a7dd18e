"""When to stop: a balanced order of games, rules over the outcomes by game, and what a stopped run shows.

Pure functions of a plan and the outcomes of its games; they know no suite and no cluster.
"""
