"""Writes the live log of a run, and shows it in the terminal; ``evals.live`` says what it is.

A listener follows some of a runner's episodes. The driver's writer notes what listeners have heard: on a thread of its own,
bounded, never in the way of the run. ``terminal`` is ``raycade status RUN --live``.
"""

from cluster.live.listener import Listener
from cluster.live.writer import LiveWriter

__all__ = ["Listener", "LiveWriter"]
