"""The timings of a run's sessions: a file of lines, one for each."""

import json

import pytest

from cluster.observe.performance import note_session
from cluster.observe.run_statistics import RunStatistics
from cluster.storage.stored_run import TIMINGS, Run


@pytest.mark.parametrize("before", [None, b"", b'{"seconds": 1.0}\n', b'{"seconds": 1.0}\n{"seco', b'{"seconds": 1.0}'])
def test_a_session_begins_a_line_of_its_own(before, tmp_path):
    path = tmp_path / TIMINGS
    if before is not None:
        path.write_bytes(before)
    note_session(Run(tmp_path), RunStatistics())
    lines = path.read_bytes().split(b"\n")
    assert lines[:-2] == [line for line in (before or b"").split(b"\n") if line]
    assert "playing_seconds" in json.loads(lines[-2]) and lines[-1] == b""
