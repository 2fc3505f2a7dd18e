"""``python -m evals.suites.kumo`` brings ``optima.json`` up to date; see ``evals.suites.kumo.optima``."""

from evals.suites.kumo import KumoSuite
from evals.suites.kumo.optima import update

if __name__ == "__main__":
    update(puzzle.task for puzzle in KumoSuite().puzzles())
