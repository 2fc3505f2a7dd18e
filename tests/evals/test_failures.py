"""Causes of failure: messages that say the same are one cause, and each names the episodes that it ended."""

import random

from evals.summary.failures import EPISODES_KEPT, Causes, failures_to_json


def test_the_order_of_the_ledger_does_not_matter():
    failed = [(f"died after {number} s", f"{number:04}") for number in range(3 * EPISODES_KEPT)]
    told = []
    for _ in range(3):
        random.Random(len(told)).shuffle(failed)
        causes = Causes()
        for error, episode in failed:
            causes.add(error, episode, "engine")
        told.append(failures_to_json({("p", "s"): causes.most_common()}))
    assert told[0] == told[1] == told[2]
    [entry] = told[0]
    assert entry["count"] == 60 and entry["cause"] == "died after # s"
    assert entry["episodes"] == [f"{number:04}" for number in range(EPISODES_KEPT)]
