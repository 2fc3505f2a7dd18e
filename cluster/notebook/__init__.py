"""Runs in a notebook: ``raycade.run(PATH)``, ``raycade.runs(FOLDER)``; rows as data frames, and what shows itself."""

from cluster.notebook.runs import EpisodeOfRun, NotebookRun, NotebookRuns, run, runs

__all__ = ["EpisodeOfRun", "NotebookRun", "NotebookRuns", "run", "runs"]
