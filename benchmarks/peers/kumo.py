"""The optimal search of a checkout of KUMO."""

import importlib.util
import resource
import signal
import sys
import time
from pathlib import Path

from protocol import serve

spec = importlib.util.spec_from_file_location("published_engine", Path(sys.argv[1], "env", "engine.py"))
engine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(engine)


class LateError(Exception):
    """The search has had its time."""


def give_up(*_):
    raise LateError


signal.signal(signal.SIGPROF, give_up)


def measure(truths, actions, outcomes, cap):
    """CPU seconds of the search's first step, which computes the value of all later ones; at most ``cap``."""
    states = {
        name: {
            "type": "str" if isinstance(listed[0]["state"], str) else "float",
            "states": {_state(each["state"]): set(each["rules_out"]) for each in listed},
        }
        for name, listed in outcomes.items()
    }
    search = engine.OracleSearchEngine(truths, actions, states)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, cap)
    try:
        value, _ = search._calculate_expected_stpes(search.truth_space, search.action_space)
    except LateError:
        value = None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {
        "expected_steps": value,
        "seconds": time.process_time() - start,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _state(value):
    return value if isinstance(value, str) else tuple(value)


serve(measure)
