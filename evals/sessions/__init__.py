"""Episodes that are played from outside: a program is asked a turn, answers it, and is asked the next.

A suite's ``play`` asks its player. Environments for training, and servers for agents, need it the other way round: they are
called for each step. ``session.Session`` turns one into the other, for any suite, so that a game that is played from outside
has the same turns and the same record as one that a model plays in a run.
"""
