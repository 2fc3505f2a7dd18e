"""Published code beside ours: the process that runs it, and what benchmarks make of its answers."""

import sys

import pyarrow as pa
import pytest

from benchmarks import peer as module
from benchmarks.peer import Peer
from benchmarks.saturation import longest_game
from cluster.engines.simulated import Speed

SCRIPT = """
import sys
sys.path.insert(0, {protocol!r})
from protocol import serve

def measure(seconds):
    print("what the published code says")
    if seconds < 0:
        raise ValueError("broken")
    return {{"count": 3, "seconds": seconds, "checkout": sys.argv[1]}}

serve(measure)
"""


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    (tmp_path / "double.py").write_text(SCRIPT.format(protocol=str(module.SCRIPTS)))
    monkeypatch.setattr(module, "SCRIPTS", tmp_path)
    return tmp_path


def test_a_peer_answers_one_measurement_after_the_other_and_its_prints_do_not_disturb(scripts):
    peer = Peer("double", scripts, sys.executable)
    assert [peer.measure(seconds=each)["seconds"] for each in (0.5, 1.5)] == [0.5, 1.5]
    assert peer.measure(seconds=1)["checkout"] == str(scripts)
    peer.close()


def test_a_peer_that_fails_ends_the_benchmark(scripts, capfd):
    peer = Peer("double", scripts, sys.executable)
    with pytest.raises(SystemExit, match="published code failed"):
        peer.measure(seconds=-1)
    assert "broken" in capfd.readouterr().err
    with pytest.raises(SystemExit, match="no such folder"):
        Peer("double", scripts / "gone", sys.executable)


def test_the_longest_game_alone_bounds_the_makespan():
    columns = {"prompt_tokens": [1000, 4000], "cached_tokens": [0, 3900], "completion_tokens": [100, 300]}
    speed = Speed(step_seconds=0.01, step_seconds_per_seq=0.001, prefill_tokens_per_second=1000.0)
    assert longest_game(pa.table(columns), speed) == pytest.approx(0.1 + 300 * 0.011)
