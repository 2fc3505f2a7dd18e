"""Random play in a checkout of KidGym: a rendered frame at each reset and step."""

import os
import random
import sys
import time

from protocol import serve

CHECKOUT = sys.argv[1]
os.environ["SDL_VIDEODRIVER"] = "dummy"
os.chdir(CHECKOUT)
sys.path.insert(0, CHECKOUT)

import gymnasium  # noqa: E402
import tasks  # noqa: E402, F401 - registers the environments

made = {}


def measure(cell, seconds):
    """Steps and CPU seconds, resets included in the time; no steps of a task whose files the checkout lacks."""
    task = made.setdefault(cell, gymnasium.make(cell).unwrapped)
    start, steps = time.process_time(), 0
    while time.process_time() - start < seconds:
        try:
            task.reset()
        except FileNotFoundError:
            return {"count": 0, "seconds": 0.0}
        over = False
        while not over:
            _, _, terminated, truncated, _ = task.step(random.randrange(len(task.actions)))
            over = terminated or truncated
            steps += 1
    return {"count": steps, "seconds": time.process_time() - start}


serve(measure)
