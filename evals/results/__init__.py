"""What runs scored, as plain data: each player's scores, boards of equal games, and the tables and comparisons of pages.

Runs are read one after the other; of each only scores, counts and tables are kept (``evals.results.entries``).
"""
