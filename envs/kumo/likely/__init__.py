"""KUMO with evidence in place of rule-outs: outcomes make truths likelier or less likely (the paper's Discussion).

``stream_likely`` makes games, and ``BayesSearch`` plays them perfectly.
"""

from envs.kumo.likely.generate import ENOUGH, certainties, stream_likely
from envs.kumo.likely.search import BayesSearch
from envs.kumo.likely.task import CASES, LikelyTask, LikelyTest

__all__ = ["CASES", "ENOUGH", "BayesSearch", "LikelyTask", "LikelyTest", "certainties", "stream_likely"]
