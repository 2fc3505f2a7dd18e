"""``python -m evals.kumo`` brings ``optima.json`` up to date with the default suite; see ``evals.kumo.optima``."""

from evals.kumo import KumoSuite
from evals.kumo.optima import update

if __name__ == "__main__":
    update(puzzle.task for puzzle in KumoSuite().puzzles())
