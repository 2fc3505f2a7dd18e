"""A static leaderboard of many runs: an index, a page for each suite, each model, and the games of each model to look at.

Runs are read one after the other; of each only scores, counts and tables are kept (``evals.results.entries``).
"""
